//! Messages, one per line, over standard input and output. A request that does not parse is answered
//! too, since its sender waits. While a client does not read its answers, few of its messages are
//! read.

use std::fmt;
use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::capacity::{Capacity, Full};
use super::hangup::Streams;

/// The longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// The prefix of methods of notifications.
const NOTIFICATIONS: &str = "notifications/";
const BOM: &[u8] = b"\xef\xbb\xbf";

pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    /// The current line, unless it is too long.
    line: Vec<u8>,
    is_too_long: bool,
    /// A message that waits for capacity, and its length.
    next: Option<(RxJsonRpcMessage<RoleServer>, usize)>,
    capacity: Capacity,
    /// `None` when it is closed.
    output: Arc<Mutex<Option<W>>>,
    /// The last answer from here that is being sent.
    refusal: Option<JoinHandle<()>>,
    streams: Streams,
    /// Whether the client has closed its side.
    is_over: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin + Send + 'static> Lines<R, W> {
    pub(super) fn new(input: R, output: W) -> Lines<R, W> {
        Lines {
            input: BufReader::new(input),
            line: Vec::new(),
            is_too_long: false,
            next: None,
            capacity: Capacity::new(),
            output: Arc::new(Mutex::new(Some(output))),
            refusal: None,
            streams: Streams::default(),
            is_over: false,
        }
    }

    /// Reads a line; `None` at the end. Cancel-safe.
    async fn read(&mut self) -> Option<Result<(), Refused>> {
        loop {
            let some = self.input.fill_buf().await.ok()?;
            if some.is_empty() {
                return None;
            }
            let end = memchr::memchr(b'\n', some);
            let part = &some[..end.unwrap_or(some.len())];
            if self.line.len() + part.len() > MESSAGE_BYTES_MAX {
                self.is_too_long = true;
                self.line = Vec::new();
            } else if !self.is_too_long {
                self.line.extend_from_slice(part);
            }
            let used = end.map_or(some.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                let is_too_long = std::mem::take(&mut self.is_too_long);
                return Some(if is_too_long {
                    Err(Refused::too_long())
                } else {
                    Ok(())
                });
            }
        }
    }

    /// Waits until enough answers are written, or the client has closed its side.
    async fn answers_written(&mut self) {
        let input = &mut self.input;
        let end = async {
            if input.fill_buf().await.is_ok_and(|some| !some.is_empty()) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = self.capacity.answers_written() => {}
            () = end => {}
        }
    }

    /// Reads up to the next message, which is then in `next`, or to an invalid line. `None` at the
    /// end.
    async fn advance(&mut self) -> Option<Result<(), Refused>> {
        self.answers_written().await;
        let read = self.read().await?;
        let message = read.and_then(|()| message(&self.line));
        let bytes = self.line.len();
        self.line.clear();
        Some(message.map(|message| self.next = message.map(|message| (message, bytes))))
    }

    /// The next valid message, with capacity to answer it. Cancel-safe: it may be dropped at each
    /// await.
    async fn next_message(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                let _ = refusal.await;
                self.refusal = None;
            }
            if let Some((message, bytes)) = &mut self.next {
                let entered = self.capacity.enter(message, *bytes).await;
                let (message, _) = self.next.take()?;
                match (entered, &message) {
                    (Err(Full), JsonRpcMessage::Request(request)) => {
                        self.refuse(Refused::full(&request.id));
                    }
                    _ => return Some(message),
                }
            } else if let Err(refused) = self.advance().await? {
                self.refuse(refused);
            }
        }
    }

    /// Answers an invalid message, in a task of its own that is not dropped in the middle of a line.
    fn refuse(&mut self, refused: Refused) {
        let Refused { id, code, message } = refused;
        let error = json!({ "code": code, "message": message });
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        let output = Arc::clone(&self.output);
        self.refusal = Some(tokio::spawn(async move {
            let line = format!("{answer}\n");
            // A closed client needs no answer.
            let _ = write(&output, line.as_bytes()).await;
        }));
    }
}

async fn write<W: AsyncWrite + Unpin>(output: &Mutex<Option<W>>, line: &[u8]) -> io::Result<()> {
    let mut output = output.lock().await;
    let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    output.write_all(line).await?;
    output.flush().await
}

/// Why a line is not a valid message, for its sender.
#[derive(Debug, PartialEq)]
struct Refused {
    id: Value,
    code: i32,
    message: String,
}

impl Refused {
    fn too_long() -> Refused {
        Refused {
            id: Value::Null,
            code: -32600,
            message: format!(
                "Invalid Request: the message is longer than {MESSAGE_BYTES_MAX} bytes"
            ),
        }
    }

    fn full(id: &RequestId) -> Refused {
        Refused {
            id: json!(id),
            code: -32603,
            message: "the maximum number of streams is reached: end one first".to_owned(),
        }
    }
}

/// The message of a line; `None` for an empty line, and for a notification that does not parse.
fn message(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Refused> {
    let line = line.strip_prefix(BOM).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let error = match serde_json::from_slice(line) {
        Ok(JsonRpcMessage::Notification(_)) if Seen::of(line).has_id => {
            "an id must be a text or a number".to_owned()
        }
        Ok(message) => return Ok(Some(message)),
        Err(error) => error.to_string(),
    };
    let seen = Seen::of(line);
    let is_json = serde_json::from_slice::<Value>(line);
    let is_notification = match is_json {
        Ok(_) => seen.method.is_some(),
        // The id may be in the missing part.
        Err(_) => seen.method.is_some_and(|it| it.starts_with(NOTIFICATIONS)),
    };
    if is_notification && !seen.has_id {
        tracing::warn!(error, "an invalid notification was ignored");
        return Ok(None);
    }
    let id = seen.id.unwrap_or_default();
    let (code, message) = match is_json {
        Ok(_) => (
            -32600,
            format!("Invalid Request: not an MCP message: {error}"),
        ),
        Err(error) => (-32700, format!("Parse error: {error}")),
    };
    Err(Refused { id, code, message })
}

/// The readable parts of an invalid message.
#[derive(Default)]
struct Seen {
    has_id: bool,
    /// If it is one.
    id: Option<Value>,
    method: Option<String>,
}

impl Seen {
    fn of(line: &[u8]) -> Seen {
        let mut seen = Seen::default();
        // As far as it parses.
        let _ = serde_json::Deserializer::from_slice(line).deserialize_map(&mut seen);
        seen
    }
}

impl<'de> Visitor<'de> for &mut Seen {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match &*name {
                "id" => {
                    self.has_id = true;
                    let id: Value = map.next_value()?;
                    let is_one = id.is_string() || id.is_number();
                    self.id = is_one.then_some(id);
                }
                "method" => {
                    let method: Value = map.next_value()?;
                    self.method = method.as_str().map(str::to_owned);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.streams.note_answer(&message);
        let output = Arc::clone(&self.output);
        // At once, as it is counted by its length.
        let line = serde_json::to_vec(&message).map(|mut line| {
            line.push(b'\n');
            let waiting = self.capacity.wait(line.len());
            (line, waiting)
        });
        async move {
            let (line, _waiting) = line?;
            write(&output, &line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        if !self.is_over {
            if let Some(message) = self.next_message().await {
                self.streams.note_request(&message);
                return Some(message);
            }
            self.is_over = true;
        }
        self.streams.cancel_one()
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_answered() {
        for (line, id, code) in [
            (
                r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"x":"\ud83c y"}}"#,
                json!(5),
                -32700,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"a","method":"m","params":1e400}"#,
                json!("a"),
                -32700,
            ),
            (
                r#"{"jsonrpc":"2.0","id":6,"method":"m","params":NaN}"#,
                json!(6),
                -32700,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"x"}"#,
                json!(7),
                -32600,
            ),
            (
                r#"{"jsonrpc":"1.0","id":8,"method":"ping"}"#,
                json!(8),
                -32600,
            ),
            (r#"["a"]"#, json!(null), -32600),
            ("7", json!(null), -32600),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                json!(null),
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#,
                json!(null),
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"tools/list","id":[1]}"#,
                json!(null),
                -32600,
            ),
            ("hello", json!(null), -32700),
            ("{", json!(null), -32700),
            (
                r#"{"jsonrpc":"2.0","method":"ping","params":{"#,
                json!(null),
                -32700,
            ),
            (&"[".repeat(1_000_000), json!(null), -32700),
        ] {
            let refused = message(line.as_bytes()).unwrap_err();
            assert_eq!((&refused.id, refused.code), (&id, code), "{line}");
            assert!(!refused.message.is_empty());
        }
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"m","params":{}{}}}"#,
            "[".repeat(200),
            "]".repeat(200)
        );
        assert_eq!(message(deep.as_bytes()).unwrap_err().id, 9);
        let not_utf8 =
            b"{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}";
        assert_eq!(message(not_utf8).unwrap_err().id, 10);
    }

    #[test]
    fn who_does_not_is_not() {
        for line in [
            "",
            " \r",
            r#"{"method":"notifications/x","params":7"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":7}"#,
        ] {
            assert!(matches!(message(line.as_bytes()), Ok(None)), "{line}");
        }
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#;
        assert!(matches!(message(error.as_bytes()), Ok(Some(_))));
        let ping = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r";
        assert!(matches!(message(ping.as_bytes()), Ok(Some(_))));
    }
}
