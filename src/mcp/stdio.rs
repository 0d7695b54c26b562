//! The server for the process that started it, over its standard input and output.

use rmcp::service::{ServerInitializeError, serve_server};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;

use super::Server;
use crate::error::{Error, Result};

/// Calls that are run at the same time.
const CALLS_MAX: usize = 16;
/// The longest message of a client, in bytes: longer ones are passed over.
const MESSAGE_BYTES_MAX: usize = 32 << 20;

impl Server {
    /// Serves whoever started this process, over standard input and output, until they close it.
    /// Then everything is on disk.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if what was written could not be synced.
    pub fn serve_stdio(self) -> Result<()> {
        let store = self.store().clone();
        let io = |doing| {
            let path = store.path().to_path_buf();
            move |e| Error::io(doing, &path, e)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(CALLS_MAX)
            .build()
            .map_err(io("start the threads that serve"))?;
        runtime.block_on(async {
            let (input, output) = stdio_pipes();
            let transport =
                AsyncRwTransport::new_server(input, output).with_max_line_length(MESSAGE_BYTES_MAX);
            match serve_server(self, transport).await {
                Ok(running) => {
                    let _ = running.waiting().await;
                }
                // They closed it before they said anything.
                Err(ServerInitializeError::ConnectionClosed(_)) => {}
                Err(error) => tracing::error!(%error, "the client did not begin as MCP has it"),
            }
        });
        drop(runtime);
        store.sync()
    }
}
