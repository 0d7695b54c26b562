//! Work that needs a process of its own: this program starts itself again, waits until the child
//! is ready, lets it go, and reads one figure.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdout, Command, Stdio};

/// The first argument of a child.
pub const FLAG: &str = "--child";

/// A child that is ready to go.
pub struct Child {
    process: std::process::Child,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a child in this role and returns once it is ready.
    pub fn start(role: &str, args: &[&str]) -> Child {
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .arg(FLAG)
            .arg(role)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let output = process.stdout.take().expect("its output");
        let mut child = Child {
            process,
            output: BufReader::new(output),
        };
        assert_eq!(child.line(), "ready", "the child could not begin");
        child
    }

    /// Lets it begin.
    pub fn go(&mut self) {
        let input = self.process.stdin.as_mut().expect("its input");
        input.write_all(b"go\n").expect("the child reads");
    }

    /// What it measured, once it has.
    pub fn figure(&mut self) -> f64 {
        self.line().parse().expect("a figure")
    }

    /// Waits until it has ended.
    pub fn end(mut self) {
        let status = self.process.wait().expect("it ends");
        assert!(status.success(), "the child failed");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the child's words");
        line.trim_end().to_owned()
    }
}

/// The life of a child. `begin` makes its work from its role and the arguments.
pub fn run(args: &[String], begin: impl FnOnce(&str, &[&str]) -> Work) {
    let (role, args) = args.split_first().expect("a role");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut work = begin(role, &args);
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the parent");
    println!("{}", work());
    // What it takes to end is nothing that the parent waits for.
    drop(work);
}

/// What a child does when it may begin; returns its figure.
pub type Work = Box<dyn FnMut() -> f64>;
