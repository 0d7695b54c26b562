//! A PostgreSQL server of a test: on a temporary directory and a loopback port.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub struct Postgres {
    dir: TempDir,
    bin: PathBuf,
    port: u16,
    url: String,
}

/// The directory of PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let debian = debian.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = debian.chain(std::env::split_paths(&path)).collect();
    dirs.retain(|dir| dir.join("initdb").exists() && dir.join("postgres").exists());
    dirs.into_iter().next()
}

impl Postgres {
    /// Starts a server. `None` if PostgreSQL is not installed, which fails in continuous
    /// integration.
    pub fn start() -> Option<Postgres> {
        let Some(bin) = programs() else {
            assert!(
                std::env::var_os("CI").is_none(),
                "PostgreSQL is not installed"
            );
            eprintln!("skipped: PostgreSQL is not installed");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let postgres = Postgres {
            dir: tempfile::tempdir().unwrap(),
            bin,
            port,
            url: format!("postgres://decklog@127.0.0.1:{port}/postgres"),
        };
        if is_superuser() {
            // It refuses to run as the superuser.
            let owned = Command::new("chown")
                .arg("postgres")
                .arg(postgres.dir.path())
                .status();
            assert!(owned.unwrap().success());
        }
        let data = postgres.data();
        postgres.server_program(
            "initdb",
            &[
                "-D",
                &data,
                "-A",
                "trust",
                "-U",
                "decklog",
                "-E",
                "UTF8",
                "--no-sync",
            ],
        );
        postgres.control("start");
        Some(postgres)
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Restarts the server without letting transactions end.
    pub fn restart(&self) {
        self.control("restart");
    }

    /// The rows of a query, with columns separated by `|`.
    pub fn query(&self, sql: &str) -> String {
        let output = Command::new(self.bin.join("psql"))
            .args(["-X", "-At", &self.url, "-c", sql])
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{sql}: {error}");
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    fn data(&self) -> String {
        self.dir.path().join("data").to_str().unwrap().to_owned()
    }

    fn control(&self, what: &str) {
        let (data, port) = (self.data(), self.port);
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        );
        let log = self.dir.path().join("log");
        let log = log.to_str().unwrap();
        self.server_program(
            "pg_ctl",
            &[
                "-D",
                &data,
                "-o",
                &options,
                "-l",
                log,
                "-m",
                "immediate",
                "-w",
                what,
            ],
        );
    }

    fn server_program(&self, name: &str, arguments: &[&str]) {
        let program = self.bin.join(name);
        let mut command = if is_superuser() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let status = command
            .args(arguments)
            .current_dir(self.dir.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        assert!(status.unwrap().success(), "{name} {arguments:?}: {log}");
    }
}

fn is_superuser() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(Path::new("/proc/self")).is_ok_and(|found| found.uid() == 0)
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.control("stop");
    }
}
