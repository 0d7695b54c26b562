//! A pseudo-terminal with a program in it. Also used by the unit tests of `decklog top`.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Enough for the slowest machine. It only elapses if a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program in a terminal of its own.
pub struct Pty {
    pub child: Child,
    input: File,
    terminal: OwnedFd,
    before: Modes,
    shown: Arc<Mutex<Vec<u8>>>,
}

/// The modes of a terminal.
type Modes = [u64; 4];

fn modes(terminal: &OwnedFd) -> Modes {
    let of: Termios = tcgetattr(terminal).unwrap();
    [
        u64::from(of.input_modes.bits()),
        u64::from(of.output_modes.bits()),
        u64::from(of.control_modes.bits()),
        u64::from(of.local_modes.bits()),
    ]
}

impl Pty {
    /// Starts a command in a terminal of this size. `setsid` of util-linux makes it the terminal's
    /// own session.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Pty {
        let input = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&input).unwrap();
        unlockpt(&input).unwrap();
        let name = ptsname(&input, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let terminal = rustix::fs::open(&*name, flags, Mode::empty()).unwrap();
        let mut started = Command::new("setsid");
        started.arg("--ctty").arg(command.get_program());
        started.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => started.env(name, value),
                None => started.env_remove(name),
            };
        }
        let end = || Stdio::from(terminal.try_clone().unwrap());
        started.stdin(end()).stdout(end()).stderr(end());
        started.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let input = File::from(input);
        let mut pty = Pty {
            before: modes(&terminal),
            shown: Arc::default(),
            child: {
                resize(&terminal, columns, rows);
                started.spawn().expect("setsid of util-linux")
            },
            terminal,
            input,
        };
        pty.read_on();
        pty
    }

    /// Reads what the program writes, in a thread.
    fn read_on(&mut self) {
        let shown = Arc::clone(&self.shown);
        let mut from = self.input.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                shown.lock().unwrap().extend(&bytes[..count]);
            }
        });
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        resize(&self.terminal, columns, rows);
    }

    pub fn send(&mut self, keys: &[u8]) {
        self.input.write_all(keys).unwrap();
    }

    /// Everything that the program wrote so far.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until the program wrote this text, after `from` bytes.
    pub fn wait_for(&self, text: &str, from: usize) {
        self.wait(
            |shown| shown.get(from..).is_some_and(|it| it.contains(text)),
            text,
        );
    }

    fn wait(&self, is_there: impl Fn(&str) -> bool, what: &str) {
        let started = Instant::now();
        while !is_there(&self.shown()) {
            let shown = self.shown();
            assert!(started.elapsed() < PATIENCE, "no {what:?} in {shown:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the program ended.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            let shown = self.shown();
            assert!(started.elapsed() < PATIENCE, "it did not end: {shown:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the modes of the terminal are those that it had before.
    pub fn is_as_before(&self) -> bool {
        modes(&self.terminal) == self.before
    }

    /// Waits until the program ended, and checks that the terminal is as it was.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.wait_for_end();
        // What it wrote last may still be on its way.
        self.wait(
            |shown| shown.contains("\u{1b}[?1049h") && shown.contains("\u{1b}[?25h"),
            "end of the drawing",
        );
        let shown = self.shown();
        let place = |text: &str| shown.rfind(text).unwrap_or_else(|| panic!("{shown:?}"));
        assert!(place("\u{1b}[?1049h") < place("\u{1b}[?1049l"), "{shown:?}");
        assert!(place("\u{1b}[?25l") < place("\u{1b}[?25h"), "{shown:?}");
        assert!(self.is_as_before(), "{shown:?}");
        (status, shown)
    }
}

fn resize(terminal: &OwnedFd, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}
