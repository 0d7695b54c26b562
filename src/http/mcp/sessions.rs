//! The sessions of clients that speak MCP as it was before 2026-07-28, bounded: where there are as
//! many as may be, the one that was idle for longest makes room. Its client is told that it is not
//! there any more, and begins another.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::SessionId;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionManager};
use tokio::time::Instant;
use tokio_stream::Stream;

/// Sessions at the same time.
pub(super) const SESSIONS_MAX: usize = 256;
/// How long a session is kept that nobody uses: an agent may think, or wait for someone, for long.
const IDLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) struct Sessions {
    all: LocalSessionManager,
    uses: Mutex<HashMap<SessionId, Use>>,
    /// So that no two make room for themselves with the same place.
    making: tokio::sync::Mutex<()>,
}

/// How a session is used.
struct Use {
    /// Requests that are being answered.
    open: usize,
    last: Instant,
}

/// A request within a session, which is not idle as long.
pub(super) struct InUse {
    sessions: Arc<Sessions>,
    id: SessionId,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(it) = self.sessions.lock().get_mut(&self.id) {
            it.open -= 1;
            it.last = Instant::now();
        }
    }
}

impl Sessions {
    pub(super) fn new() -> Sessions {
        let mut all = LocalSessionManager::default();
        all.session_config.keep_alive = Some(IDLE_MAX);
        Sessions {
            all,
            uses: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Use>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request within a session; `None` if it is not there.
    pub(super) fn enter(self: &Arc<Self>, id: &str) -> Option<InUse> {
        let mut uses = self.lock();
        let id = uses.get_key_value(id)?.0.clone();
        uses.get_mut(&id)?.open += 1;
        drop(uses);
        Some(InUse {
            sessions: Arc::clone(self),
            id,
        })
    }

    /// Whether there is no room for another, and none that could make any.
    pub(super) fn are_all_in_use(&self) -> bool {
        let uses = self.lock();
        uses.len() >= SESSIONS_MAX && uses.values().all(|it| it.open > 0)
    }

    /// Has the session go that was idle for longest, if there is no room.
    async fn make_room(&self) -> Result<(), Refused> {
        let idle = {
            let mut uses = self.lock();
            if uses.len() < SESSIONS_MAX {
                return Ok(());
            }
            let idle = uses.iter().filter(|(_, it)| it.open == 0);
            let idle = idle.min_by_key(|(_, it)| it.last);
            let id = idle.map(|(id, _)| id.clone()).ok_or(Refused::AllInUse)?;
            uses.remove(&id);
            id
        };
        let handle = self.all.sessions.write().await.remove(&idle);
        if let Some(handle) = handle {
            // It may have its hands full. Who began the other need not wait for that.
            tokio::spawn(async move { handle.close().await });
        }
        Ok(())
    }
}

/// Why something of a session was not done.
#[derive(Debug)]
pub(super) enum Refused {
    AllInUse,
    Failed(LocalSessionManagerError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::AllInUse => f.write_str("as many sessions as may be are in use"),
            Refused::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

impl From<LocalSessionManagerError> for Refused {
    fn from(error: LocalSessionManagerError) -> Refused {
        Refused::Failed(error)
    }
}

impl SessionManager for Sessions {
    type Error = Refused;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Refused> {
        let _making = self.making.lock().await;
        self.make_room().await?;
        let made = self.all.create_session().await?;
        let new = Use {
            open: 0,
            last: Instant::now(),
        };
        self.lock().insert(made.0.clone(), new);
        Ok(made)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Refused> {
        Ok(self.all.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Refused> {
        Ok(self.all.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Refused> {
        self.lock().remove(id);
        Ok(self.all.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Refused> {
        Ok(self.all.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Refused> {
        Ok(self.all.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Refused> {
        Ok(self.all.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Refused> {
        Ok(self.all.resume(id, last_event_id).await?)
    }
}
