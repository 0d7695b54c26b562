//! The server for the process that started it, over its standard input and output.

use std::io;

use rmcp::ServerHandler;
use rmcp::service::{ServerInitializeError, serve_server};
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Server;
use super::lines::Lines;
use crate::error::{Error, Result};

/// One thread that reads and answers, and one that takes over while the first runs a call.
const WORKERS: usize = 2;
/// Maximum number of calls at the same time.
const CALLS_MAX: usize = 64;

impl Server {
    /// Serves the process that started this one, over standard input and output, until they are
    /// closed. Then syncs everything to disk.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the sync failed.
    pub fn serve_stdio(self) -> Result<()> {
        let last = self.clone();
        let path = self.log().store.path().to_path_buf();
        serve_stdio(self).map_err(|e| Error::io("start to serve", &path, e))?;
        last.log().store.sync()
    }
}

/// Serves the process that started this one, over standard input and output, until they are closed.
/// For servers that wrap a [`Server`]; a plain one has [`Server::serve_stdio`]. Nothing else may
/// write to standard output meanwhile.
///
/// # Errors
/// The system's error if it cannot create threads.
pub fn serve_stdio(server: impl ServerHandler) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .max_blocking_threads(CALLS_MAX)
        .build()?;
    runtime.block_on(async {
        let (input, output) = ends();
        match serve_server(server, Lines::new(input, output)).await {
            Ok(running) => {
                let _ = running.waiting().await;
            }
            // Closed before the first message.
            Err(ServerInitializeError::ConnectionClosed(_)) => {}
            Err(error) => tracing::error!(%error, "the client did not initialize as MCP requires"),
        }
    });
    Ok(())
}

/// Standard input and output. Most clients use pipes, and those on Node sockets: both are read
/// without threads, since calls may use all of them. Anything else takes two threads.
fn ends() -> (
    Box<dyn AsyncRead + Send + Unpin>,
    Box<dyn AsyncWrite + Send + Unpin>,
) {
    #[cfg(unix)]
    if let Some((input, output)) = sockets::ends() {
        return (Box::new(input), Box::new(output));
    }
    let (input, output) = stdio_pipes();
    (Box::new(input), Box::new(output))
}

#[cfg(unix)]
mod sockets {
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net;

    use tokio::net::UnixStream;

    /// Standard input and output, if both are sockets.
    pub fn ends() -> Option<(UnixStream, UnixStream)> {
        let input = socket(io::stdin().as_fd())?;
        let output = socket(io::stdout().as_fd())?;
        Some((without_waiting(input)?, without_waiting(output)?))
    }

    fn socket(of: BorrowedFd<'_>) -> Option<net::UnixStream> {
        let file = File::from(of.try_clone_to_owned().ok()?);
        let is_socket = file.metadata().ok()?.file_type().is_socket();
        is_socket.then(|| OwnedFd::from(file).into())
    }

    fn without_waiting(socket: net::UnixStream) -> Option<UnixStream> {
        socket.set_nonblocking(true).ok()?;
        UnixStream::from_std(socket).ok()
    }
}
