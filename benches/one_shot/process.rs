//! Processes that are timed: commands, and children that are this program itself.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use decklog::Store;
use decklog::query::SearchQuery;

/// The first argument of a child.
pub const FLAG: &str = "--child";
pub const OPEN: &str = "open";
pub const SEARCH: &str = "search";
pub const HOLD: &str = "hold";

/// A command, what it reads, and a text that its output must have.
pub struct Run {
    pub program: String,
    pub args: Vec<String>,
    pub input: String,
    pub expected: String,
}

impl Run {
    pub fn new<const N: usize>(program: &str, args: [&str; N]) -> Run {
        Run {
            program: program.into(),
            args: args.map(str::to_owned).to_vec(),
            input: String::new(),
            expected: String::new(),
        }
    }

    /// A command of decklog on a store.
    pub fn decklog<const N: usize>(store: &Path, args: [&str; N]) -> Run {
        let mut run = Run::new(env!("CARGO_BIN_EXE_decklog"), args);
        let store = store.to_str().expect("a path in UTF-8");
        run.args.extend(["--store".into(), store.into()]);
        run
    }

    /// A statement for `sqlite3`.
    pub fn sqlite(database: &Path, sql: &str) -> Run {
        Run::new(
            "sqlite3",
            [database.to_str().expect("a path in UTF-8"), sql],
        )
    }

    pub fn input(mut self, input: &str) -> Run {
        self.input = input.into();
        self
    }

    pub fn expect(mut self, text: &str) -> Run {
        self.expected = text.into();
        self
    }

    pub fn is_installed(&self) -> bool {
        // `env` gives a variable to a program.
        let program = self.args.get(1).filter(|_| self.program == "env");
        is_installed(program.unwrap_or(&self.program))
    }

    /// Milliseconds from the start of the process to its end.
    pub fn millis(&self) -> f64 {
        self.millis_of(Command::new(&self.program).args(&self.args))
    }

    /// Maximum resident set, in MB, if GNU time is there to tell.
    pub fn max_rss_mb(&self) -> Option<f64> {
        if !is_installed("/usr/bin/time") {
            return None;
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut command = Command::new("/usr/bin/time");
        command.args(["-f", "%M", "-o"]).arg(file.path());
        self.millis_of(command.arg(&self.program).args(&self.args));
        let kibibytes = std::fs::read_to_string(file.path()).ok()?;
        Some(kibibytes.trim().parse::<f64>().ok()? / 1024.0)
    }

    fn millis_of(&self, command: &mut Command) -> f64 {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = Instant::now();
        let mut process = command.spawn().expect("it starts");
        let mut stdin = process.stdin.take().expect("its input");
        // A program that does not read may have ended.
        let _ = stdin.write_all(self.input.as_bytes());
        drop(stdin);
        let output = process.wait_with_output().expect("it ends");
        let millis = began.elapsed().as_secs_f64() * 1e3;
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains(&self.expected),
            "{} {:?} failed: {}",
            self.program,
            self.args,
            String::from_utf8_lossy(&output.stderr)
        );
        millis
    }
}

/// Whether a program is installed and runs.
pub fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// This program as a child in a role.
fn child(role: &str, args: &[&str]) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args([FLAG, role]).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("a child")
}

/// What a child measured.
pub fn figure(role: &str, args: &[&str]) -> f64 {
    let output = child(role, args).wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().expect("a figure")
}

/// The sum of the shares of memory (`Pss`) of processes that hold a log, in MB. `None` where the
/// system does not tell.
pub fn shares_mb(count: usize, args: &[&str]) -> Option<f64> {
    let mut children: Vec<Child> = (0..count).map(|_| child(HOLD, args)).collect();
    for process in &mut children {
        let mut output = BufReader::new(process.stdout.take().expect("its output"));
        output.read_line(&mut String::new()).expect("it is ready");
    }
    let shares: Option<Vec<f64>> = children
        .iter()
        .map(|process| share_kb(process.id()))
        .collect();
    for mut process in children {
        drop(process.stdin.take());
        process.wait().expect("it ends");
    }
    Some(shares?.iter().sum::<f64>() / 1024.0)
}

fn share_kb(process: u32) -> Option<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// The life of a child: a role, a store, and what is asked of it.
pub fn run_child(args: &[String]) {
    let [role, store, rest @ ..] = args else {
        panic!("a child needs a role and a store");
    };
    let open = || {
        Store::options()
            .read_only(true)
            .open(store)
            .expect("a store")
    };
    let began = Instant::now();
    let store = open();
    if role == SEARCH {
        let query = SearchQuery {
            text: rest[0].clone(),
            limit: usize::MAX,
            ..SearchQuery::default()
        };
        let began = Instant::now();
        let found = store.search(&query).expect("searched");
        let millis = began.elapsed().as_secs_f64() * 1e3;
        assert!(!found.matches.is_empty(), "nothing was found");
        println!("{millis}");
        return;
    }
    let request = rest[0].parse().expect("an id");
    let call = store.get_tool_call(request, &rest[1]).expect("read");
    assert!(call.is_some(), "the call is not there");
    if role == HOLD {
        println!("ready");
        // Until the parent has looked.
        let _ = std::io::stdin().read_line(&mut String::new());
    } else {
        println!("{}", began.elapsed().as_secs_f64() * 1e3);
    }
}
