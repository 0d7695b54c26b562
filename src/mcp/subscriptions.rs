//! Subscriptions: a client is notified of changed resources, once for all changes since the last
//! notification. Nothing here outlives the connection.

mod changes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};
use tokio::task::JoinHandle;

use self::changes::{Wanted, Watcher};
use super::answer::Fault;
use super::log::Log;
use super::reach::Reach;
use super::uri::Uri;
use crate::store::Store;
use crate::wire::feed::Listener;

/// Maximum number of connections and streams that are notified of changes.
pub(super) const STREAMS_MAX: usize = 1_024;
/// Delay before a retry after an error.
const PAUSE: Duration = Duration::from_secs(1);

/// The subscriptions of a connection by `resources/subscribe`, and the task that notifies it.
#[derive(Default)]
pub(super) struct Connection {
    wanted: Arc<Mutex<Wanted>>,
    teller: Mutex<Option<JoinHandle<()>>>,
    asked: Mutex<Asked>,
}

/// Requested streams that have not begun: their number, and the end of the log at the first request.
#[derive(Default)]
struct Asked {
    streams: usize,
    last_seq: u64,
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

fn full() -> Fault {
    let message = "the maximum number of clients with subscriptions is reached: try again later";
    Fault::new("TOO_MANY", message)
}

impl Connection {
    /// Notifies the client of changes from now on.
    pub(super) async fn subscribe(
        &self,
        log: &Log,
        reach: Reach,
        uri: &str,
        peer: Peer<RoleServer>,
    ) -> Result<(), Fault> {
        Uri::parse_within(uri, reach)?;
        let begun = log.store.clone();
        let lines = tokio::task::spawn_blocking(move || begun.last_seq());
        let last_seq = lines.await.map_err(|_| Fault::internal())??;
        let mut teller = lock(&self.teller);
        lock(&self.wanted).add(uri)?;
        if teller.as_ref().is_some_and(|task| !task.is_finished()) {
            return Ok(());
        }
        let Some(listener) = log.feed.listen() else {
            lock(&self.wanted).remove(uri)?;
            return Err(full());
        };
        let telling = Telling {
            watcher: Watcher::new(&log.store, last_seq),
            listener,
            wanted: Arc::clone(&self.wanted),
            client: Client::Peer(peer),
        };
        *teller = Some(tokio::spawn(telling.run()));
        Ok(())
    }

    /// Ends one subscription, and all notifications if it was the last one.
    pub(super) fn unsubscribe(&self, uri: &str) -> Result<(), Fault> {
        let mut teller = lock(&self.teller);
        let mut wanted = lock(&self.wanted);
        wanted.remove(uri)?;
        if wanted.0.is_empty()
            && let Some(task) = teller.take()
        {
            task.abort();
        }
        Ok(())
    }

    /// The supported part of a filter. It is acknowledged before the stream begins, so changes in
    /// between must be notified too.
    pub(super) fn accept(
        &self,
        store: &Store,
        reach: Reach,
        asked: &SubscriptionFilter,
    ) -> SubscriptionFilter {
        let uris = asked.resource_subscriptions.iter().flatten();
        let mut wanted = Wanted::default();
        let uris: Vec<String> = uris
            .filter(|uri| Uri::parse_within(uri, reach).is_ok() && wanted.add(uri).is_ok())
            .cloned()
            .collect();
        let mut accepted = SubscriptionFilter::new();
        if !uris.is_empty() {
            accepted.resource_subscriptions = Some(uris);
        }
        let mut asked = lock(&self.asked);
        if asked.streams == 0 {
            // If that is unknown, changes from the beginning of the stream on.
            asked.last_seq = store.last_seq().unwrap_or(u64::MAX);
        }
        asked.streams += 1;
        accepted
    }

    /// Notifies of changes until the client ends the stream.
    pub(super) async fn listen(
        &self,
        log: &Log,
        stream: SubscriptionContext,
    ) -> Result<(), ErrorData> {
        let last_seq = {
            let mut asked = lock(&self.asked);
            asked.streams = asked.streams.saturating_sub(1);
            asked.last_seq
        };
        let mut wanted = Wanted::default();
        for uri in stream.accepted().resource_subscriptions.iter().flatten() {
            wanted.add(uri)?;
        }
        if wanted.0.is_empty() {
            stream.cancelled().await;
            return Ok(());
        }
        let telling = Telling {
            watcher: Watcher::new(&log.store, last_seq),
            listener: log.feed.listen().ok_or_else(full)?,
            wanted: Arc::new(Mutex::new(wanted)),
            client: Client::Stream(stream.sink().clone()),
        };
        tokio::select! {
            () = telling.run() => {}
            () = stream.cancelled() => {}
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.teller).take() {
            task.abort();
        }
    }
}

/// The form of notifications.
enum Client {
    /// Up to the protocol of 2025-11-25.
    Peer(Peer<RoleServer>),
    /// From the protocol of 2026-07-28 on.
    Stream(SubscriptionSink),
}

impl Client {
    /// Whether the client is still connected.
    async fn notify(&self, uri: String) -> bool {
        match self {
            Client::Peer(peer) => {
                let changed = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(changed).await.is_ok()
            }
            Client::Stream(stream) => stream.notify_resource_updated(uri).await.is_ok(),
        }
    }
}

struct Telling {
    watcher: Watcher,
    listener: Listener,
    wanted: Arc<Mutex<Wanted>>,
    client: Client,
}

impl Telling {
    /// Runs until the client disconnects or the task is cancelled. A slow client is notified less
    /// often.
    async fn run(mut self) {
        loop {
            self.listener.look();
            let wanted = lock(&self.wanted).clone();
            let mut watcher = self.watcher;
            let looked = tokio::task::spawn_blocking(move || {
                let is_all = watcher.look(&wanted);
                (watcher, is_all)
            });
            // The server ends.
            let Ok((back, is_all)) = looked.await else {
                return;
            };
            self.watcher = back;
            let is_all = match is_all {
                Ok(is_all) => is_all,
                Err(error) => {
                    tracing::warn!(%error, "clients are not notified of changes: the log cannot be read");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let changed = std::mem::take(&mut self.watcher.changed);
            let mut told = lock(&self.wanted).0.clone();
            told.retain(|(subject, _)| changed.contains(subject));
            for wanted in told {
                // It may have unsubscribed meanwhile.
                let is_wanted = lock(&self.wanted).0.contains(&wanted);
                if is_wanted && !self.client.notify(wanted.1).await {
                    return;
                }
            }
            if is_all {
                self.listener.changed().await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
