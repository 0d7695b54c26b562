//! TLS connections with a certificate created for the test.

use std::path::Path;
use std::process::{Command, Output};

use decklog::http::{Options, Server, Tls};

use super::Service;
use crate::support::still;

/// A certificate for localhost and its key; `None` if no tool can create one.
fn certificate(dir: &Path) -> Option<Tls> {
    let tls = Tls {
        certificates: dir.join("cert.pem"),
        key: dir.join("key.pem"),
    };
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext"])
        .args(["subjectAltName=DNS:localhost", "-keyout"])
        .arg(&tls.key)
        .arg("-out")
        .arg(&tls.certificates)
        .output();
    let is_made = made.is_ok_and(|made| made.status.success());
    let has_client = Command::new("curl").arg("--version").output().is_ok();
    if !is_made || !has_client {
        println!("not run: it takes openssl and curl");
        return None;
    }
    Some(tls)
}

fn curl(service: &Service, tls: &Tls, path: &str) -> Output {
    Command::new("curl")
        .args(["-s", "-i", "--max-time", "20", "--cacert"])
        .arg(&tls.certificates)
        .arg(format!("https://localhost:{}{path}", service.addr.port()))
        .output()
        .unwrap()
}

#[test]
fn what_is_said_is_encrypted_where_a_certificate_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let Some(tls) = certificate(dir.path()) else {
        return;
    };
    let mut options = Options::default();
    options.tls = Some(tls.clone());
    let service = Service::with(&options);
    let told = curl(&service, &tls, "/healthz");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(
        told.starts_with("HTTP/1.1 200 ") && told.ends_with(r#"{"status":"ok"}"#),
        "{told}"
    );
    // A client without TLS gets nothing, and others are still served.
    let mut stream = service.client().connect();
    std::io::Write::write_all(
        &mut stream,
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )
    .unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    // A browser sends its session cookie only over TLS.
    let (code, _) = service
        .store
        .add_login_code(decklog::privacy::AccessRole::Developer)
        .unwrap();
    let told = curl(&service, &tls, &format!("/login?code={}", code.as_str()));
    let told = String::from_utf8_lossy(&told.stdout).to_ascii_lowercase();
    let cookie = told.lines().find(|line| line.starts_with("set-cookie:"));
    let cookie = cookie.unwrap_or_else(|| panic!("no cookie: {told}"));
    for attribute in ["; secure", "; httponly", "; samesite=strict"] {
        assert!(cookie.contains(attribute), "{attribute}: {cookie}");
    }
}

#[test]
fn files_that_hold_no_certificate_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let Some(sound) = certificate(dir.path()) else {
        return;
    };
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let missing = dir.path().join("missing.pem");
    for (certificates, key, named) in [
        (&missing, &sound.key, "missing.pem"),
        (&empty, &sound.key, "empty.pem"),
        (&sound.certificates, &missing, "missing.pem"),
        (&sound.certificates, &empty, "empty.pem"),
        // The files are swapped.
        (&sound.key, &sound.certificates, "key.pem"),
    ] {
        let mut options = Options::default();
        options.tls = Some(Tls {
            certificates: certificates.clone(),
            key: key.clone(),
        });
        let store = still().open(dir.path().join("log")).unwrap();
        let refused = Server::bind(store, "127.0.0.1:0".parse().unwrap(), &options);
        let error = refused.map(drop).unwrap_err().to_string();
        assert!(error.contains(named), "{named}: {error}");
    }
}

#[cfg(unix)]
#[test]
fn a_hangup_reloads_the_certificate_and_the_settings() {
    use super::process::Process;
    use std::time::{Duration, Instant};

    let dir = tempfile::tempdir().unwrap();
    let Some(tls) = certificate(dir.path()) else {
        return;
    };
    let log = dir.path().join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    command.arg("--allow-network-fs");
    let mut server = Process::start_with(command, &log, 0, |command| {
        command.arg("--tls-cert").arg(&tls.certificates);
        command.arg("--tls-key").arg(&tls.key);
    });
    let pinned = |certificate: &Path, args: &[&str]| {
        Command::new("curl")
            .args(["-s", "--max-time", "20", "--cacert"])
            .arg(certificate)
            .args(args)
            .arg(format!("https://localhost:{}/history", server.addr.port()))
            .output()
            .unwrap()
    };
    let first = dir.path().join("first.pem");
    std::fs::copy(&tls.certificates, &first).unwrap();
    assert!(pinned(&first, &[]).status.success());

    // Invalid files change nothing.
    std::fs::write(&tls.certificates, "no certificate").unwrap();
    server.kid.signal("HUP");
    std::thread::sleep(Duration::from_millis(500));
    assert!(pinned(&first, &[]).status.success());

    certificate(dir.path()).unwrap();
    let manifest = log.join("decklog.json");
    let edited = std::fs::read_to_string(&manifest).unwrap();
    let edited = edited.replace(r#""store_content":true"#, r#""store_content":false"#);
    std::fs::write(&manifest, edited).unwrap();
    server.kid.signal("HUP");
    let started = Instant::now();
    while !pinned(&tls.certificates, &[]).status.success() {
        assert!(started.elapsed() < Duration::from_secs(30), "not reloaded");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The settings are read after the certificate.
    std::thread::sleep(Duration::from_millis(500));
    let body = r#"{"chat_id": 1, "role": "user", "text": "a secret plan"}"#;
    let post = ["-H", "Content-Type: application/json", "-d", body];
    let posted = pinned(&tls.certificates, &post);
    let text = String::from_utf8_lossy(&posted.stdout).into_owned();
    assert!(posted.status.success() && !text.contains("code"), "{text}");
    server.kid.signal("TERM");
    assert!(server.kid.0.wait().unwrap().success());
    let store = still().read_only(true).open(&log).unwrap();
    let kept = store.history(1, 1).unwrap();
    assert!(kept[0].text.starts_with("[CONTENT:"), "{kept:?}");
}
