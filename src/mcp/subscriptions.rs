//! Subscriptions: a client is told which of the resources it named have changed, once for all that
//! came since it was last told. Nothing here outlives the connection.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};
use serde::Deserialize;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::answer::Fault;
use super::uri::{Subject, Uri};
use crate::error::Result;
use crate::face::feed::{Feed, Listener};
use crate::record::{Day, Kind};
use crate::store::{LinesSince, LogLine, Store};

/// Uris that a connection may be subscribed to, or a stream be asked for, at a time.
const URIS_MAX: usize = 256;
/// Connections and streams that are told of changes at the same time.
pub(super) const STREAMS_MAX: usize = 1_024;
/// Pages of lines that are looked through before what they concern is told.
const PAGES_AT_ONCE: usize = 64;
/// Parents of events that are kept in memory.
const PARENTS_MAX: usize = 1 << 16;
/// Before the log is looked at again after that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// What a client wants to be told of: its names for each.
#[derive(Debug, Clone, Default)]
struct Wanted(BTreeMap<Subject, BTreeSet<String>>);

impl Wanted {
    fn add(&mut self, uri: &str) -> Result<(), Fault> {
        let Uri { subject, .. } = Uri::parse(uri)?;
        let is_known = self.has(&subject, uri);
        let count: usize = self.0.values().map(BTreeSet::len).sum();
        if !is_known && count >= URIS_MAX {
            let message = format!(
                "there are {URIS_MAX} subscriptions, as many as may be: unsubscribe from some first"
            );
            return Err(Fault::invalid(message).with_uri(uri));
        }
        self.0.entry(subject).or_default().insert(uri.to_owned());
        Ok(())
    }

    fn remove(&mut self, uri: &str) -> Result<(), Fault> {
        let Uri { subject, .. } = Uri::parse(uri)?;
        if let Some(uris) = self.0.get_mut(&subject) {
            uris.remove(uri);
            if uris.is_empty() {
                self.0.remove(&subject);
            }
        }
        Ok(())
    }

    fn has(&self, subject: &Subject, uri: &str) -> bool {
        self.0.get(subject).is_some_and(|uris| uris.contains(uri))
    }

    fn has_trees(&self) -> bool {
        self.0.keys().any(|it| matches!(it, Subject::Tree(_)))
    }
}

/// What one connection subscribed to by `resources/subscribe`, and who tells it.
#[derive(Default)]
pub(super) struct Connection {
    wanted: Arc<Mutex<Wanted>>,
    teller: Mutex<Option<JoinHandle<()>>>,
    asked: Mutex<Asked>,
}

/// Streams that were asked for and have not begun: how many, and where the log ended when the first
/// of them was.
#[derive(Default)]
struct Asked {
    streams: usize,
    last_seq: u64,
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

fn full() -> Fault {
    let message = "as many clients as may be are told of changes: try again later";
    Fault::new("TOO_MANY", message)
}

impl Connection {
    /// Has the client be told of what changes from now on.
    pub(super) async fn subscribe(
        &self,
        feed: &Arc<Feed>,
        store: &Store,
        uri: &str,
        peer: Peer<RoleServer>,
    ) -> Result<(), Fault> {
        let begun = store.clone();
        let lines = tokio::task::spawn_blocking(move || begun.last_seq());
        let last_seq = lines.await.map_err(|_| Fault::internal())??;
        let mut teller = lock(&self.teller);
        lock(&self.wanted).add(uri)?;
        if teller.as_ref().is_some_and(|task| !task.is_finished()) {
            return Ok(());
        }
        let Some(listener) = feed.listen() else {
            lock(&self.wanted).remove(uri)?;
            return Err(full());
        };
        let telling = Telling {
            watcher: Watcher::new(store, last_seq),
            listener,
            wanted: Arc::clone(&self.wanted),
            client: Client::Peer(peer),
        };
        *teller = Some(tokio::spawn(telling.run()));
        Ok(())
    }

    /// Has it not be told of one any more, and of nothing at all if that was the last one.
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

    /// What of a filter can be met. That is promised before the stream begins, so that what comes
    /// meanwhile must be told, too.
    pub(super) fn accept(&self, store: &Store, asked: &SubscriptionFilter) -> SubscriptionFilter {
        let uris = asked.resource_subscriptions.iter().flatten();
        let mut wanted = Wanted::default();
        let uris: Vec<String> = uris
            .filter(|uri| wanted.add(uri).is_ok())
            .cloned()
            .collect();
        let mut accepted = SubscriptionFilter::new();
        if !uris.is_empty() {
            accepted.resource_subscriptions = Some(uris);
        }
        let mut asked = lock(&self.asked);
        if asked.streams == 0 {
            // Where that cannot be told, it is what comes from the beginning of the stream on.
            asked.last_seq = store.last_seq().unwrap_or(u64::MAX);
        }
        asked.streams += 1;
        accepted
    }

    /// Tells of what changes until the client has enough.
    pub(super) async fn listen(
        &self,
        feed: &Arc<Feed>,
        store: &Store,
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
            watcher: Watcher::new(store, last_seq),
            listener: feed.listen().ok_or_else(full)?,
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

/// Where a client is told.
enum Client {
    /// Up to the protocol of 2025-11-25.
    Peer(Peer<RoleServer>),
    /// From that of 2026-07-28 on.
    Stream(SubscriptionSink),
}

impl Client {
    /// Whether it is still there.
    async fn tell(&self, uri: String) -> bool {
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
    /// Runs until the client has gone, or whoever runs it has enough. A slow client is told less
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
                    tracing::warn!(%error, "what changed cannot be told, as the log cannot be read");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            for subject in std::mem::take(&mut self.watcher.changed) {
                let uris = lock(&self.wanted).0.get(&subject).cloned();
                for uri in uris.unwrap_or_default() {
                    // It may have unsubscribed while it was told of another.
                    let is_wanted = lock(&self.wanted).has(&subject, &uri);
                    if is_wanted && !self.client.tell(uri).await {
                        return;
                    }
                }
            }
            if is_all {
                self.listener.changed().await;
            }
        }
    }
}

/// Finds out what new lines change.
struct Watcher {
    store: Store,
    lines: LinesSince,
    /// What changed and was not told yet.
    changed: BTreeSet<Subject>,
    /// The parents of events that were looked up.
    parents: HashMap<i64, Option<i64>>,
}

#[derive(Deserialize)]
struct OfConversation {
    id: Option<Uuid>,
    conversation_id: Option<Uuid>,
}

#[derive(Deserialize)]
struct OfEvent {
    id: i64,
    parent_id: Option<i64>,
}

#[derive(Deserialize)]
struct OfTask {
    task_id: String,
}

impl Watcher {
    /// Of what comes after a line.
    fn new(store: &Store, last_seq: u64) -> Watcher {
        Watcher {
            store: store.clone(),
            lines: store.lines_since(last_seq),
            changed: BTreeSet::new(),
            parents: HashMap::new(),
        }
    }

    /// Notes what of the wanted changed; whether that is all.
    fn look(&mut self, wanted: &Wanted) -> Result<bool> {
        let has_trees = wanted.has_trees();
        let mut seen = HashSet::new();
        for _ in 0..PAGES_AT_ONCE {
            let page = self.lines.page()?;
            if page.is_empty() {
                return Ok(true);
            }
            for line in &page {
                let of = [day(line), conversation(line), task(line)];
                let of = of.into_iter().flatten();
                self.changed
                    .extend(of.filter(|subject| wanted.0.contains_key(subject)));
                if has_trees && line.kind == Kind::Events {
                    self.note_trees(line, wanted, &mut seen);
                }
            }
        }
        Ok(false)
    }

    /// Goes up from an event to the root of its tree, or to what was seen already.
    fn note_trees(&mut self, line: &LogLine, wanted: &Wanted, seen: &mut HashSet<i64>) {
        let Ok(event) = serde_json::from_str::<OfEvent>(&line.text) else {
            return;
        };
        if self.parents.len() >= PARENTS_MAX {
            self.parents.clear();
        }
        self.parents.insert(event.id, event.parent_id);
        let mut next = Some(event.id);
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            let tree = Subject::Tree(id);
            if wanted.0.contains_key(&tree) {
                self.changed.insert(tree);
            }
            next = self.parent(id);
        }
    }

    fn parent(&mut self, id: i64) -> Option<i64> {
        if let Some(parent) = self.parents.get(&id) {
            return *parent;
        }
        // One that was removed, or is damaged, ends the way up.
        let parent = self.store.get_event(id).ok().flatten()?.parent_id;
        self.parents.insert(id, parent);
        parent
    }
}

fn day(line: &LogLine) -> Option<Subject> {
    let (day, _) = line.file.split_once('/')?;
    let day: Day = day.parse().ok()?;
    Some(Subject::Day(day, line.kind))
}

fn conversation(line: &LogLine) -> Option<Subject> {
    let of: fn(OfConversation) -> Option<Uuid> = match line.kind {
        Kind::Conversations => |of| of.id,
        Kind::Messages => |of| of.conversation_id,
        _ => return None,
    };
    let ids = serde_json::from_str(&line.text).ok()?;
    of(ids).map(Subject::Conversation)
}

fn task(line: &LogLine) -> Option<Subject> {
    if line.kind != Kind::ThoughtRecords {
        return None;
    }
    let OfTask { task_id } = serde_json::from_str(&line.text).ok()?;
    Some(Subject::Thoughts(task_id))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rmcp::service::serve_server;
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
    use tokio::io::{Lines, ReadHalf, WriteHalf};

    use super::*;

    /// A connection to a server in this process.
    struct Wire {
        out: WriteHalf<DuplexStream>,
        lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    }

    impl Wire {
        async fn send(&mut self, message: Value) {
            let line = format!("{message}\n");
            self.out.write_all(line.as_bytes()).await.unwrap();
        }

        /// The next message that has a member with this value.
        async fn next(&mut self, member: &str, value: Value) -> Value {
            loop {
                let line = self.lines.next_line().await.unwrap().expect("a message");
                let message: Value = serde_json::from_str(&line).unwrap();
                if message[member] == value {
                    return message;
                }
            }
        }
    }

    fn connect(feed: &Arc<Feed>, store: &Store) -> (Wire, JoinHandle<()>) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = crate::mcp::Server::sharing(
            store.clone(),
            store.analytics(),
            Arc::clone(feed),
            crate::mcp::Tools::new(),
        );
        let serving = tokio::spawn(async move {
            let serving = serve_server(server, tokio::io::split(far)).await;
            let _ = serving.unwrap().waiting().await;
        });
        let (read, out) = tokio::io::split(near);
        let lines = BufReader::new(read).lines();
        (Wire { out, lines }, serving)
    }

    async fn until(feed: &Feed, streams: usize) {
        let begun = Instant::now();
        while feed.streams() != streams {
            let is_long = begun.elapsed() > Duration::from_secs(20);
            assert!(!is_long, "{} streams are left", feed.streams());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn legacy(feed: &Arc<Feed>, store: &Store) {
        let (mut wire, serving) = connect(feed, store);
        wire.send(
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "t", "version": "1" } } }),
        )
        .await;
        wire.next("id", json!(0)).await;
        let ask = |id: u64, verb: &str, uri: &str| json!({ "jsonrpc": "2.0", "id": id, "method": format!("resources/{verb}"), "params": { "uri": uri } });
        let uris = ["decklog://thoughts/a", "decklog://events/1/tree"];
        for (id, uri) in (1..).zip(uris) {
            wire.send(ask(id, "subscribe", uri)).await;
            wire.next("id", json!(id)).await;
        }
        until(feed, 1).await;
        for (id, uri) in (3..).zip(uris) {
            wire.send(ask(id, "unsubscribe", uri)).await;
            wire.next("id", json!(id)).await;
        }
        until(feed, 0).await;
        wire.send(ask(5, "subscribe", uris[0])).await;
        wire.next("id", json!(5)).await;
        until(feed, 1).await;
        // It goes without a word.
        drop(wire);
        serving.await.unwrap();
        until(feed, 0).await;
    }

    async fn modern(feed: &Arc<Feed>, store: &Store) {
        let (mut wire, serving) = connect(feed, store);
        wire.send(
            json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
            "notifications": { "resourceSubscriptions": ["decklog://thoughts/a", "no uri"] },
            "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {} } } }),
        )
        .await;
        let method = "notifications/subscriptions/acknowledged";
        let told = wire.next("method", json!(method)).await;
        let accepted = &told["params"]["notifications"]["resourceSubscriptions"];
        assert_eq!(*accepted, json!(["decklog://thoughts/a"]));
        until(feed, 1).await;
        wire.send(
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": 1 } }),
        )
        .await;
        until(feed, 0).await;
        drop(wire);
        serving.await.unwrap();
    }

    #[test]
    fn nothing_is_left_of_a_connection_that_ended() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let feed = Arc::new(Feed::new(store.clone(), 2));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            legacy(&feed, &store).await;
            modern(&feed, &store).await;
        });
        // Nor of the thread that watched for them, or it would have kept the runtime from ending.
        assert_eq!(Arc::strong_count(&feed), 1);
    }

    #[test]
    fn what_is_wanted_is_bounded() {
        let mut wanted = Wanted::default();
        let uri = |n: usize| format!("decklog://events/{n}/tree");
        for n in 0..URIS_MAX {
            wanted.add(&uri(n)).unwrap();
        }
        wanted.add(&uri(7)).unwrap();
        assert!(wanted.add(&uri(URIS_MAX)).is_err());
        // Another name of the same thing counts, too.
        assert!(wanted.add("decklog://events/%37/tree").is_err());
        wanted.remove(&uri(7)).unwrap();
        wanted.remove(&uri(7)).unwrap();
        wanted.add("decklog://events/%37/tree").unwrap();
        assert!(wanted.has(&Subject::Tree(7), "decklog://events/%37/tree"));
        assert!(wanted.add("decklog://events/x/tree").is_err());
    }
}
