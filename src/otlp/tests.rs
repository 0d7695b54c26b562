//! What instrumentations send, compared with what was sent to the model, and what nobody should
//! send.

#![allow(clippy::unwrap_used)]

mod erased;
mod exchanges;
mod hostile;
mod joined;
mod json;
mod order;
mod round_trip;
mod sent;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use prost::Message;
use prost::encoding::encode_varint;
use uuid::Uuid;

use super::proto::{LogRecord, Span};
use super::receive::{Outcome, Receiver};
use super::request::{Encoding, Request, Signal};
use crate::collections::{CallQuery, ConversationQuery, MessageQuery, TurnQuery};
use crate::record::{
    Conversation, ConversationMessage, ConversationStats, ConversationTurn, Role, ToolCall,
};
use crate::store::Store;

/// A body that an exporter sent.
#[derive(Clone)]
struct Body {
    signal: Signal,
    encoding: Encoding,
    bytes: Vec<u8>,
}

impl Body {
    fn traces(bytes: Vec<u8>) -> Body {
        Body {
            signal: Signal::Traces,
            encoding: Encoding::Protobuf,
            bytes,
        }
    }

    fn json(signal: Signal, text: &str) -> Body {
        Body {
            signal,
            encoding: Encoding::Json,
            bytes: text.as_bytes().to_vec(),
        }
    }
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/otlp")
}

/// The names of all recordings. `ONLY` limits them to one.
fn fixtures() -> Vec<String> {
    let entries = std::fs::read_dir(data()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<String> = paths
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .filter(|name| {
            std::env::var("ONLY").is_ok_and(|only| only == *name) || std::env::var("ONLY").is_err()
        })
        .collect();
    found.sort();
    found
}

/// The bodies of a recording, in the order in which they came.
fn bodies(fixture: &str) -> Vec<Body> {
    let entries = std::fs::read_dir(data().join(fixture)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let signal = match name.split('.').nth(1).unwrap() {
            "traces" => Signal::Traces,
            "logs" => Signal::Logs,
            "metrics" => Signal::Metrics,
            _ => continue,
        };
        let encoding = if name.contains(".pb") {
            Encoding::Protobuf
        } else {
            Encoding::Json
        };
        let mut bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "gz") {
            let packed = std::mem::take(&mut bytes);
            let mut unpacked = flate2::read::GzDecoder::new(&*packed);
            unpacked.read_to_end(&mut bytes).unwrap();
        }
        found.push(Body {
            signal,
            encoding,
            bytes,
        });
    }
    assert!(!found.is_empty(), "{fixture}");
    found
}

/// A store of its own, and a receiver that writes to it.
struct Target {
    dir: tempfile::TempDir,
    store: Store,
    receiver: Receiver,
}

impl Target {
    fn new() -> Target {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::options()
            .upkeep(false)
            .open(dir.path().join("log"))
            .unwrap();
        let receiver = Receiver::new(store.clone());
        Target {
            dir,
            store,
            receiver,
        }
    }

    /// A store that has received these bodies.
    fn of(bodies: &[Body]) -> Target {
        let target = Target::new();
        for body in bodies {
            target.accept(body);
        }
        target
    }

    /// Receives a body of which nothing may be rejected.
    #[track_caller]
    fn accept(&self, body: &Body) -> Outcome {
        let outcome = self.receive(body);
        assert_eq!(outcome.rejected, 0, "{outcome:?}");
        outcome
    }

    #[track_caller]
    fn receive(&self, body: &Body) -> Outcome {
        self.try_receive(body).unwrap()
    }

    fn try_receive(&self, body: &Body) -> Result<Outcome, String> {
        let received = self
            .receiver
            .receive(body.encoding, body.signal, &body.bytes);
        received.map_err(|refusal| format!("{refusal:?}"))
    }

    /// The number of the last line.
    fn last(&self) -> u64 {
        self.store
            .last_lines(1)
            .unwrap()
            .first()
            .map_or(0, |line| line.seq)
    }

    fn log(&self) -> Log {
        Log::read(&self.store)
    }
}

/// What a log has.
struct Log {
    talks: Vec<Talk>,
    calls: Vec<ToolCall>,
    turns: Vec<ConversationTurn>,
}

struct Talk {
    conversation: Conversation,
    stats: ConversationStats,
    messages: Vec<ConversationMessage>,
}

impl Log {
    fn read(store: &Store) -> Log {
        let limit = usize::MAX;
        let query = ConversationQuery {
            limit,
            ..ConversationQuery::default()
        };
        let talks = store.conversations(&query).unwrap().items.into_iter();
        let talks = talks.map(|(conversation, stats)| {
            let query = MessageQuery {
                limit,
                ..MessageQuery::default()
            };
            let messages = store.messages(conversation.id, &query).unwrap().items;
            Talk {
                conversation,
                stats,
                messages,
            }
        });
        let calls = CallQuery {
            limit,
            ..CallQuery::default()
        };
        let turns = TurnQuery {
            limit,
            ..TurnQuery::default()
        };
        Log {
            talks: talks.collect(),
            calls: store.tool_calls(&calls).unwrap().items,
            turns: store.turns(&turns).unwrap().items,
        }
    }

    fn messages(&self) -> impl Iterator<Item = &ConversationMessage> {
        self.talks.iter().flat_map(|talk| &talk.messages)
    }
}

/// What may not depend on the order in which items come.
///
/// These do depend on it: the order of messages; the words of an error and the outcome of a call,
/// since of two reports the first one stands; the ids of the turns of a second report; and the
/// parent of a message's turn, which is the first request that has the message in its history.
#[derive(Debug, PartialEq)]
struct Summary {
    /// Session, agent and whether there is a user, and the totals of tokens, cost and errors.
    talks: BTreeMap<Uuid, String>,
    /// Conversation, role and text.
    messages: BTreeMap<(Uuid, &'static str, String), &'static str>,
    /// By the id: the kind of the parent, what was called and how it ended.
    calls: BTreeMap<(Uuid, String), String>,
    /// Of the spans, by the id: the parent.
    turns: BTreeMap<Uuid, Option<Uuid>>,
}

impl Summary {
    fn of(log: &Log) -> Summary {
        let talks = log.talks.iter().map(|talk| {
            let it = &talk.conversation;
            let stats = &talk.stats;
            let totals = Tokens::of(&talk.messages);
            // The user's name is replaced with a hash that each log has of its own.
            let user = it.user_id.is_some();
            let cost = stats.total_cost_usd;
            let cost = cost.map(|cost| format!("{cost:.9}"));
            let about = format!(
                "{:?} {user} {:?} {totals:?} {cost:?} errors {}",
                it.session_id, it.agent, stats.error_count
            );
            (it.id, about)
        });
        let messages = log.messages().filter(|it| it.error.is_none());
        let messages = messages.filter_map(|message| {
            let text = text_of(message);
            (!text.is_empty()).then(|| {
                (
                    (message.conversation_id, message.role.as_str(), text),
                    "said",
                )
            })
        });
        let kinds: BTreeMap<Uuid, String> = log
            .turns
            .iter()
            .map(|it| (it.id, format!("{:?}", it.kind)))
            .collect();
        let calls = log.calls.iter().map(|(req, done)| {
            let args: Option<serde_json::Value> = req
                .arguments_json
                .as_deref()
                .and_then(|args| serde_json::from_str(args).ok());
            let kind = kinds.get(&req.parent_id);
            let status = done.as_ref().map(|done| done.status);
            let about = format!("under {kind:?} {args:?} {status:?}");
            ((req.request_id, req.call_id.clone()), about)
        });
        let of_messages: BTreeSet<Uuid> = log.messages().map(|it| it.id).collect();
        let turns = log.turns.iter();
        let turns = turns.filter(|it| !of_messages.contains(&it.id));
        Summary {
            talks: talks.collect(),
            messages: messages.collect(),
            calls: calls.collect(),
            turns: turns.map(|it| (it.id, it.parent_id)).collect(),
        }
    }

    /// What differs: the kind of record, and words for it.
    fn differences(&self, other: &Summary) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        compare("conversation", &self.talks, &other.talks, &mut found);
        compare("message", &self.messages, &other.messages, &mut found);
        compare("call", &self.calls, &other.calls, &mut found);
        let both = |one: &Summary, other: &Summary| -> BTreeMap<Uuid, Option<Uuid>> {
            let turns = one.turns.iter();
            let turns = turns.filter(|(id, _)| other.turns.contains_key(id));
            turns.map(|(id, parent)| (*id, *parent)).collect()
        };
        compare("turn", &both(self, other), &both(other, self), &mut found);
        found
    }
}

fn compare<K, V>(
    what: &'static str,
    one: &BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
    to: &mut Vec<(&'static str, String)>,
) where
    K: Ord + std::fmt::Debug,
    V: PartialEq + std::fmt::Debug,
{
    let keys: BTreeSet<&K> = one.keys().chain(other.keys()).collect();
    for key in keys {
        let (one, other) = (one.get(key), other.get(key));
        if one != other {
            to.push((what, format!("{key:?}: {one:?} and {other:?}")));
        }
    }
}

/// The content of a message, its tool result or its error.
fn text_of(message: &ConversationMessage) -> String {
    let texts = [&message.tool_result, &message.error];
    let other = texts.into_iter().flatten().next();
    if message.content.is_empty() {
        other.cloned().unwrap_or_default()
    } else {
        message.content.clone()
    }
}

/// Sums of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tokens {
    input: i64,
    output: i64,
    cache_read: i64,
    cache_write: i64,
    reasoning: i64,
}

impl Tokens {
    const NONE: Tokens = Tokens {
        input: 0,
        output: 0,
        cache_read: 0,
        cache_write: 0,
        reasoning: 0,
    };

    fn of<'a>(messages: impl IntoIterator<Item = &'a ConversationMessage>) -> Tokens {
        let mut sum = Tokens::default();
        for message in messages {
            let count = |count: Option<i64>| count.unwrap_or(0);
            sum.add(Tokens {
                input: count(message.tokens_in),
                output: count(message.tokens_out),
                cache_read: count(message.tokens_cache_read),
                cache_write: count(message.tokens_cache_write),
                reasoning: count(message.tokens_reasoning),
            });
        }
        sum
    }

    fn add(&mut self, other: Tokens) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.reasoning += other.reasoning;
    }
}

/// A field of a message in protobuf.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    encode_varint(bytes.len() as u64, &mut out);
    out.extend(bytes);
    out
}

/// A request with these items.
fn request<T: Message>(resource: &[u8], scope: &[u8], items: &[T]) -> Vec<u8> {
    let mut of_scope = field(1, scope);
    for item in items {
        of_scope.extend(field(2, &item.encode_to_vec()));
    }
    field(1, &[field(1, resource), field(2, &of_scope)].concat())
}

/// A request with these spans and no resource.
fn spans(spans: &[Span]) -> Body {
    Body::traces(request(&[], &[], spans))
}

/// Each item of a body in a request of its own.
fn singles(body: &Body) -> Vec<Body> {
    fn each<T: super::request::Item>(body: &Body) -> Vec<Body> {
        let read = Request::read(body.encoding, body.signal, &body.bytes).unwrap();
        let mut found = Vec::new();
        for group in read.groups::<T>() {
            let group = group.unwrap();
            let resource = group.resource.encode_to_vec();
            let scope = group.scope.encode_to_vec();
            found.extend(group.map(|item| Body {
                signal: body.signal,
                encoding: Encoding::Protobuf,
                bytes: request(&resource, &scope, &[item.unwrap()]),
            }));
        }
        found
    }
    match body.signal {
        Signal::Traces => each::<Span>(body),
        Signal::Logs => each::<LogRecord>(body),
        Signal::Metrics => Vec::new(),
    }
}

/// `SplitMix64`.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
        items
    }
}
