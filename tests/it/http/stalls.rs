//! The disk stalls: each fdatasync takes half a second, injected by `strace`. A client that posts
//! with `?wait=none` is not blocked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::process::Process;
use crate::support::count;
use crate::syscalls::has_strace;

const STALL: Duration = Duration::from_millis(500);
const PACE: Duration = Duration::from_millis(2);

/// Kills the process under `strace`, which would otherwise outlive it.
struct Traced(String);

impl Traced {
    fn of(process: &Process) -> Traced {
        let id = process.kid.0.id();
        let children = format!("/proc/{id}/task/{id}/children");
        Traced(std::fs::read_to_string(children).unwrap().trim().to_owned())
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.0]).status();
    }
}

#[test]
fn a_stalled_disk_holds_up_no_inference() {
    if !has_strace("a_stalled_disk_holds_up_no_inference") {
        return;
    }
    let posts = count("DECKLOG_STALLED_POSTS", 1_000) as usize;
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "--seccomp-bpf", "-e", "signal=none"])
        .args(["-e", "trace=fdatasync"])
        .args([
            "-e",
            &format!("inject=fdatasync:delay_enter={}", STALL.as_micros()),
        ])
        .arg("-o")
        .arg(dir.path().join("trace"))
        .arg(env!("CARGO_BIN_EXE_decklog"));
    let process = Process::start_by(command, &dir.path().join("log"), 0);
    let _traced = Traced::of(&process);
    let client = process.client();
    let begun = client
        .post("/conversations", &json!({"client": "api"}))
        .expect(201);
    let path = format!("/conversations/{}/messages", begun["id"].as_str().unwrap());
    let is_over = AtomicBool::new(false);
    let (mut times, stalled) = std::thread::scope(|scope| {
        let (client, path, is_over) = (&client, &path, &is_over);
        // So that there is always data to sync.
        let waits = scope.spawn(move || {
            let mut times = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let started = Instant::now();
                let message = json!({"role": "user", "content": "on disk"});
                client
                    .post(&format!("{path}?wait=disk"), &message)
                    .expect(201);
                times.push(started.elapsed());
            }
            times
        });
        let body = json!({"role": "user", "content": "x".repeat(1_000)}).to_string();
        let request = format!(
            "POST {path}?wait=none HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = client.connect();
        stream.set_nodelay(true).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        let mut times = Vec::with_capacity(posts);
        for _ in 0..posts {
            let started = Instant::now();
            stream.write_all(request.as_bytes()).unwrap();
            let (mut line, mut length) = (String::new(), 0);
            answers.read_line(&mut line).unwrap();
            assert!(line.starts_with("HTTP/1.1 202 "), "{line}");
            while line != "\r\n" {
                line.clear();
                answers.read_line(&mut line).unwrap();
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
            }
            answers.read_exact(&mut vec![0; length]).unwrap();
            times.push(started.elapsed());
            std::thread::sleep(PACE);
        }
        is_over.store(true, Ordering::Relaxed);
        (times, waits.join().unwrap())
    });
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{posts} posts while each fdatasync takes {STALL:?}: p50 {:?}, p99 {:?}, max {:?}",
        at(50),
        at(99),
        at(100)
    );
    // The disk did stall.
    assert!(stalled.iter().all(|took| *took >= STALL), "{stalled:?}");
    // Far below the stall, even for a debug build on a busy machine.
    assert!(at(99) < STALL / 10, "{:?}", at(99));
}
