//! A client that sends exactly the given bytes, including requests that no library would send.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// One request per connection.
#[derive(Debug, Clone)]
pub struct Client {
    addr: SocketAddr,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Header names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn new(addr: SocketAddr) -> Client {
        Client {
            addr,
            headers: Vec::new(),
        }
    }

    /// The same client with an additional header in each request.
    pub fn with(&self, name: &str, value: &str) -> Client {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, b"")
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.json("POST", path, body.to_string().as_bytes())
    }

    pub fn patch(&self, path: &str, body: &Value) -> Answer {
        self.json("PATCH", path, body.to_string().as_bytes())
    }

    /// Sends bytes with the JSON content type.
    pub fn json(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let client = self.with("Content-Type", "application/json");
        client.send(method, path, body)
    }

    /// Sends a request; `Host` and `Content-Length` are correct unless given.
    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let head = self.head(method, path, body);
        self.raw(&[head.as_bytes(), body].concat())
    }

    /// A request's head, up to the body.
    pub fn head(&self, method: &str, path: &str, body: &[u8]) -> String {
        let given = |name: &str| {
            self.headers
                .iter()
                .any(|(it, _)| it.eq_ignore_ascii_case(name))
        };
        let mut lines = vec![
            format!("{method} {path} HTTP/1.1"),
            "Connection: close".to_owned(),
        ];
        if !given("Host") {
            lines.push(format!("Host: {}", self.addr));
        }
        if !given("Content-Length") && !given("Transfer-Encoding") && method != "GET" {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        for (name, value) in &self.headers {
            lines.push(format!("{name}: {value}"));
        }
        lines.join("\r\n") + "\r\n\r\n"
    }

    /// Sends bytes, and reads until the server closes the connection.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses early stops reading.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::read(&answer)
    }

    pub fn connect(&self) -> TcpStream {
        self.try_connect().unwrap()
    }

    pub fn try_connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.addr)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(stream)
    }

    /// Sends a request to a server that may not run, or stop.
    pub fn try_send(&self, request: &[u8]) -> io::Result<Answer> {
        let mut stream = self.try_connect()?;
        stream.write_all(request)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Answer::try_read(&answer).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Answer {
    fn read(bytes: &[u8]) -> Answer {
        let answer = Answer::try_read(bytes);
        answer.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)))
    }

    /// `None` if it is incomplete.
    fn try_read(bytes: &[u8]) -> Option<Answer> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap();
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        let answer = Answer {
            status,
            headers: headers.collect(),
            body: bytes[end + 4..].to_vec(),
        };
        // Without a body there is none. The answer to HEAD has only the length.
        let length = answer.header("content-length").unwrap_or("0");
        let is_whole = answer.body.len() >= length.parse().ok()? || answer.body.is_empty();
        is_whole.then_some(answer)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| &**value)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// The body of an answer, which must have this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(
            self.status,
            status,
            "{}",
            String::from_utf8_lossy(&self.body)
        );
        self.value()
    }

    /// Asserts a problem with this status and code and, if given, field.
    #[track_caller]
    pub fn expect_problem(&self, status: u16, code: &str, field: Option<&str>) {
        let problem = self.expect(status);
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["field"].as_str(), field, "{problem}");
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|detail| !detail.is_empty())
        );
    }
}
