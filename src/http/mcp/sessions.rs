//! The sessions of clients with MCP before 2026-07-28, with a limit: a new session evicts the one that
//! was idle for longest. Its client gets an error for an unknown session, and starts another.

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

use super::calls::{Calls, events};
use crate::http::access::Shower;

/// Maximum number of sessions.
pub(in crate::http) const SESSIONS_MAX: usize = 256;
/// The transport reports only messages, no codes.
pub(super) const ID_IN_USE: &str = "a request of this session with the same id is being answered";
/// Idle timeout of a session: an agent may think, or wait for a person, for a long time.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// Interval of checks for idle sessions.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct Sessions {
    all: LocalSessionManager,
    uses: Mutex<HashMap<SessionId, Use>>,
    /// Prevents two new sessions from taking the same slot.
    making: tokio::sync::Mutex<()>,
}

/// The use of a session.
struct Use {
    /// Running requests.
    open: usize,
    last: Instant,
    /// The owner. Until it is set, no other client knows the id.
    owner: Option<Shower>,
    calls: Calls,
}

/// A request within a session; the session is not idle meanwhile.
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
        // The transport counts notifications of subscriptions as use, even if no client reads them.
        all.session_config.keep_alive = None;
        // Only cancelled requests would be kept, and these are never requested again.
        all.session_config.completed_cache_ttl = Duration::ZERO;
        Sessions {
            all,
            uses: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Use>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds a new session to its owner.
    pub(super) fn own(&self, id: &str, owner: Shower) {
        if let Some(it) = self.lock().get_mut(id) {
            it.owner = Some(owner);
        }
    }

    /// A request within a session; `None` if the session is unknown or has another owner.
    pub(super) fn enter(self: &Arc<Self>, id: &str, who: Shower) -> Option<InUse> {
        let mut uses = self.lock();
        let id = uses.get_key_value(id)?.0.clone();
        let it = uses.get_mut(&id).filter(|it| it.owner == Some(who))?;
        it.open += 1;
        drop(uses);
        Some(InUse {
            sessions: Arc::clone(self),
            id,
        })
    }

    /// Whether all sessions are in use.
    pub(super) fn are_all_in_use(&self) -> bool {
        let uses = self.lock();
        uses.len() >= SESSIONS_MAX && uses.values().all(|it| it.open > 0)
    }

    /// Evicts the session that was idle for longest, if the limit is reached.
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
        self.end(&idle).await;
        Ok(())
    }

    async fn end(&self, id: &SessionId) {
        let handle = self.all.sessions.write().await.remove(id);
        if let Some(handle) = handle {
            // It may be busy: do not wait for it.
            tokio::spawn(async move { handle.close().await });
        }
    }

    /// Ends idle sessions, in an endless loop.
    pub(super) async fn end_idle(&self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let is_kept = |it: &Use| it.open > 0 || it.last.elapsed() < IDLE_MAX;
            let idle: Vec<SessionId> = {
                let mut uses = self.lock();
                let idle = uses.extract_if(|_, it| !is_kept(it));
                idle.map(|(id, _)| id).collect()
            };
            for id in &idle {
                self.end(id).await;
            }
        }
    }
}

/// The reason of a refusal.
#[derive(Debug)]
pub(super) enum Refused {
    AllInUse,
    IdInUse,
    Failed(LocalSessionManagerError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::AllInUse => f.write_str("the maximum number of sessions are in use"),
            Refused::IdInUse => f.write_str(ID_IN_USE),
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
            owner: None,
            calls: Calls::default(),
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
        let calls = self.lock().get(id).map(|it| it.calls.clone());
        let call = match (calls, &message) {
            (Some(calls), ClientJsonRpcMessage::Request(request)) => {
                let call = calls.begin(request.id.clone());
                Some(call.ok_or(Refused::IdInUse)?)
            }
            _ => None,
        };
        let messages = self.all.create_stream(id, message).await?;
        Ok(events(messages, call))
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
