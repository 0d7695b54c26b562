//! Messages, one a line, over standard input and output. A request that does not read is answered all
//! the same: whoever sent it waits.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// The longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
const BOM: &[u8] = b"\xef\xbb\xbf";

pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    /// The line that is being read, unless it is too long.
    line: Vec<u8>,
    is_too_long: bool,
    /// `None` once it is closed.
    output: Arc<Mutex<Option<W>>>,
    /// The last answer that was given here, on its way.
    refusal: Option<JoinHandle<()>>,
}

enum Read {
    Line,
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin + Send + 'static> Lines<R, W> {
    pub(super) fn new(input: R, output: W) -> Lines<R, W> {
        Lines {
            input: BufReader::new(input),
            line: Vec::new(),
            is_too_long: false,
            output: Arc::new(Mutex::new(Some(output))),
            refusal: None,
        }
    }

    /// Reads a line. Dropped in between, it goes on where it was.
    async fn read(&mut self) -> Read {
        loop {
            let Ok(some) = self.input.fill_buf().await else {
                return Read::End;
            };
            if some.is_empty() {
                return Read::End;
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
                return if is_too_long {
                    Read::TooLong
                } else {
                    Read::Line
                };
            }
        }
    }

    /// Answers what is no message; in a task, which nobody drops in the middle of a line.
    fn refuse(&mut self, refused: &Refused) {
        let Refused { id, code, message } = refused;
        let error = json!({ "code": code, "message": message });
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        let output = Arc::clone(&self.output);
        self.refusal = Some(tokio::spawn(async move {
            let line = format!("{answer}\n");
            // Who has gone needs no answer.
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

/// Why a line is no message, for who sent it.
#[derive(Debug, PartialEq)]
struct Refused {
    id: Value,
    code: i32,
    message: String,
}

/// The message of a line; `None` for a line that nobody waits for an answer to.
fn message(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Refused> {
    let line = line.strip_prefix(BOM).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let error = match serde_json::from_slice(line) {
        Ok(message) => return Ok(Some(message)),
        Err(error) => error,
    };
    let seen = Seen::of(line);
    let is_json = serde_json::from_slice::<Value>(line);
    let id = match (seen.id, &is_json) {
        (Some(id), _) => id,
        (None, Ok(_)) if !seen.has_method => Value::Null,
        _ => {
            tracing::warn!(%error, "a line of the client's was passed over");
            return Ok(None);
        }
    };
    let (code, message) = match is_json {
        Ok(_) => (
            -32600,
            format!("Invalid Request: no message of MCP: {error}"),
        ),
        Err(error) => (-32700, format!("Parse error: {error}")),
    };
    Err(Refused { id, code, message })
}

/// What can be read of a message that is none.
#[derive(Default)]
struct Seen {
    id: Option<Value>,
    has_method: bool,
}

impl Seen {
    fn of(line: &[u8]) -> Seen {
        struct Members<'a>(&'a RefCell<Seen>);
        impl<'de> Visitor<'de> for Members<'_> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
                while let Some(name) = map.next_key::<String>()? {
                    if name == "id" {
                        let id: Value = map.next_value()?;
                        let is_one = id.is_string() || id.is_number();
                        self.0.borrow_mut().id = is_one.then_some(id);
                    } else {
                        self.0.borrow_mut().has_method |= name == "method";
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(())
            }
        }
        let seen = RefCell::default();
        // As far as it reads.
        let _ = serde_json::Deserializer::from_slice(line).deserialize_map(Members(&seen));
        seen.into_inner()
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
        let output = Arc::clone(&self.output);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            write(&output, &line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                let _ = refusal.await;
                self.refusal = None;
            }
            let refused = match self.read().await {
                Read::End => return None,
                Read::Line => {
                    let message = message(&self.line);
                    self.line.clear();
                    match message {
                        Ok(Some(message)) => return Some(message),
                        Ok(None) => continue,
                        Err(refused) => refused,
                    }
                }
                Read::TooLong => {
                    self.line.clear();
                    Refused {
                        id: Value::Null,
                        code: -32600,
                        message: format!(
                            "Invalid Request: the message is longer than {MESSAGE_BYTES_MAX} bytes"
                        ),
                    }
                }
            };
            self.refuse(&refused);
        }
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
            "hello",
            "{",
            r#"{"method":"notifications/x","params":7"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#,
        ] {
            assert!(matches!(message(line.as_bytes()), Ok(None)), "{line}");
        }
        let ping = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r";
        assert!(matches!(message(ping.as_bytes()), Ok(Some(_))));
    }
}
