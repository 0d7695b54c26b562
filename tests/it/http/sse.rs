//! A client of `/stream` that parses server-sent events by their specification.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::client::Client;

/// An item of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Event {
        kind: String,
        id: u64,
        data: String,
    },
    /// An id without data.
    Id(u64),
}

pub struct Events {
    pub status: u16,
    pub head: String,
    from: BufReader<TcpStream>,
    /// Decoded text that was not parsed yet.
    text: String,
    /// The last id, from which a client resumes.
    pub last_id: Option<u64>,
}

impl Events {
    pub fn open(client: &Client, query: &str, last_id: Option<u64>) -> Events {
        Events::try_open(client, query, last_id).unwrap()
    }

    pub fn try_open(client: &Client, query: &str, last_id: Option<u64>) -> io::Result<Events> {
        let mut stream = client.try_connect()?;
        let header = last_id.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let head = format!("GET /stream{query} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
        stream.write_all(head.as_bytes())?;
        let mut from = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if from.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Ok(Events {
            status,
            head: head.to_ascii_lowercase(),
            from,
            text: String::new(),
            last_id,
        })
    }

    pub fn timeout(&self, timeout: Duration) {
        let stream = self.from.get_ref();
        stream.set_read_timeout(Some(timeout)).unwrap();
    }

    /// The next item; an error once the stream has ended or timed out.
    pub fn next(&mut self) -> io::Result<Said> {
        loop {
            if let Some((said, rest)) = self.text.split_once("\n\n") {
                let (said, rest) = (said.to_owned(), rest.to_owned());
                self.text = rest;
                return Ok(self.read(&said));
            }
            let mut size = String::new();
            self.from.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16);
            let size = size.map_err(|_| io::ErrorKind::UnexpectedEof)?;
            let mut chunk = vec![0; size + 2];
            self.from.read_exact(&mut chunk)?;
            assert_eq!(&chunk[size..], b"\r\n");
            if size == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.text
                .push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        }
    }

    fn read(&mut self, said: &str) -> Said {
        let (mut kind, mut id, mut data) = (None, None, None);
        for line in said.split(['\n', '\r']) {
            let (name, value) = line.split_once(": ").unwrap();
            let place = match name {
                "event" => &mut kind,
                "id" => &mut id,
                "data" => &mut data,
                name => panic!("{name} is not expected: {said}"),
            };
            assert!(place.replace(value.to_owned()).is_none(), "{said}");
        }
        let id = id.unwrap().parse().unwrap();
        self.last_id = Some(id);
        match data {
            Some(data) => Said::Event {
                kind: kind.unwrap(),
                id,
                data,
            },
            None => Said::Id(id),
        }
    }

    /// The next event, skipping ids before it.
    pub fn next_event(&mut self) -> io::Result<(String, u64, String)> {
        loop {
            if let Said::Event { kind, id, data } = self.next()? {
                return Ok((kind, id, data));
            }
        }
    }
}
