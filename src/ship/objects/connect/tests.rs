//! An S3 server on loopback that gives prepared answers.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use object_store::{ObjectStoreExt as _, PutMode, PutOptions};

use super::*;
use crate::ship::objects::Objects;

/// Answers a request with each of these, and ends its connection. Returns the first lines of the
/// requests.
fn serve(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut first, mut length) = (String::new(), 0);
            reader.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if line.trim().is_empty() {
                    break;
                }
                let line = line.to_ascii_lowercase();
                if let Some(text) = line.strip_prefix("content-length:") {
                    length = text.trim().parse().unwrap();
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            (&stream).write_all(answer.as_bytes()).unwrap();
            requests.push(first.trim().to_owned());
        }
        requests
    });
    (url, served)
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nETag: \"e\"\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn cut(mut answer: String) -> String {
    answer.truncate(answer.len() - 10);
    answer
}

fn objects(endpoint: &str) -> Objects {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_bucket_name("bucket")
        .with_region("us-east-1")
        .with_access_key_id("id")
        .with_secret_access_key("secret");
    let builder = builder.with_retry(retries()).with_http_connector(Connector);
    Objects::new(Arc::new(builder.build().unwrap()), "test".to_owned())
}

#[tokio::test]
async fn every_request_is_repeated_after_every_failure() {
    let list = "<ListBucketResult><Contents><Key>a/b</Key><Size>1</Size>\
        <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>";
    let removed = "<DeleteResult><Deleted><Key>a/b</Key></Deleted></DeleteResult>";
    let slow = "<Error><Code>SlowDown</Code></Error>";
    let (url, served) = serve(vec![
        // The list.
        cut(answer("200 OK", list)),
        String::new(),
        answer("503 Slow Down", slow),
        answer("200 OK", list),
        // What is written under a condition.
        String::new(),
        cut(answer("500 Internal Server Error", slow)),
        answer("200 OK", ""),
        // The removal.
        String::new(),
        cut(answer("200 OK", removed)),
        answer("429 Too Many Requests", slow),
        answer("200 OK", removed),
        // An object is continued where it ended.
        cut(answer("200 OK", "0123456789abcdefghij")),
        answer("206 Partial Content", "abcdefghij")
            .replace("ETag", "Content-Range: bytes 10-19/20\r\nETag"),
    ]);
    let objects = objects(&url);
    assert_eq!(objects.list("a").await.unwrap(), ["a/b"]);
    let location = object_store::path::Path::from("a/b");
    let options = PutOptions::from(PutMode::Create);
    let put = objects.store.put_opts(&location, "text".into(), options);
    put.await.unwrap();
    assert_eq!(objects.remove(vec!["a/b".to_owned()]).await.unwrap(), 1);
    let got = objects.store.get(&location).await.unwrap();
    assert_eq!(got.bytes().await.unwrap(), "0123456789abcdefghij");
    let requests = served.join().unwrap();
    let methods = requests.iter().map(|line| line.split_once(' ').unwrap().0);
    let methods: Vec<&str> = methods.collect();
    let expected = [
        ["GET"; 4].as_slice(),
        &["PUT"; 3],
        &["POST"; 4],
        &["GET"; 2],
    ];
    assert_eq!(methods, expected.concat());
}

#[tokio::test]
async fn an_address_without_a_server_is_given_up_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let began = Instant::now();
    let error = objects(&url).list("a").await.unwrap_err().to_string();
    assert!(began.elapsed() < PERSISTENCE / 4);
    assert!(
        error.contains(&url) && error.contains("onnection refused"),
        "{error}"
    );
}
