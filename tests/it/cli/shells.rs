//! Completions, manual pages, the groups of the help, and colours of the service's log.

use super::open::has;
use super::*;

#[test]
fn each_shell_accepts_its_completions() {
    let dir = tempfile::tempdir().unwrap();
    for (shell, words) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef decklog"),
        ("fish", "complete -c decklog"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion"),
    ] {
        let output = decklog(&["completions", shell]).output().unwrap();
        assert_eq!((code(&output), err(&output)), (OK, String::new()));
        let script = out(&output);
        assert!(script.contains(words) || shell == "bash", "{shell}");
        let file = dir.path().join(shell);
        std::fs::write(&file, script).unwrap();
        // Those of PowerShell and elvish are not tried: neither is a package of Debian.
        if !["bash", "zsh", "fish"].contains(&shell) || !has(shell, "--version") {
            continue;
        }
        let checked = Command::new(shell).arg("-n").arg(&file).output().unwrap();
        assert!(checked.status.success(), "{shell}: {}", err(&checked));
    }
    // What a shell offers.
    let path = dir.path().to_str().unwrap();
    if has("bash", "--version") {
        let script = format!(
            "source {path}/bash; COMP_WORDS=(decklog exp); COMP_CWORD=1; _decklog decklog exp decklog; echo \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!(out(&output).trim(), "export", "{}", err(&output));
    }
    if has("fish", "--version") {
        let script = format!("source {path}/fish; complete -C 'decklog export csv --spread'");
        let output = Command::new("fish")
            .args(["-N", "-c", &script])
            .output()
            .unwrap();
        assert!(
            out(&output).starts_with("--spreadsheet"),
            "{}",
            out(&output)
        );
    }
}

#[test]
fn manual_pages_render() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man1");
    let output = decklog(&["man", man.to_str().unwrap(), "--json"])
        .output()
        .unwrap();
    assert_eq!((code(&output), err(&output)), (OK, String::new()));
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    let mut pages: Vec<PathBuf> = std::fs::read_dir(&man)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    pages.sort();
    assert_eq!(report["pages"], pages.len());
    let printed = decklog(&["man"]).output().unwrap();
    let page = std::fs::read_to_string(man.join("decklog.1")).unwrap();
    assert_eq!(out(&printed), page);
    assert!(page.contains(".SH EXIT CODES"), "{page}");
    // Pages name only pages that are there.
    for path in &pages {
        let text = std::fs::read_to_string(path).unwrap();
        for line in text
            .lines()
            .filter(|line| line.starts_with("decklog\\-") && line.ends_with("(1)"))
        {
            let name = line.replace('\\', "").replace("(1)", ".1");
            assert!(man.join(&name).exists(), "{name}");
        }
    }
    if has("mandoc", "--version") {
        let output = Command::new("mandoc")
            .args(["-Tlint", "-Werror"])
            .args(&pages)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", out(&output));
    }
    if has("man", "--version") && has("groff", "--version") {
        let mut command = Command::new("man");
        command
            .args(["-l", "--warnings"])
            .arg(man.join("decklog-open.1"));
        let output = command
            .env("MANWIDTH", "80")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        assert_eq!(
            (output.status.success(), err(&output)),
            (true, String::new())
        );
        let text = out(&output);
        let example = "decklog open jq tool_calls -- -r 'select(.op == \"failed\").error_msg'";
        assert!(text.contains(example), "{text}");
    }
}

#[test]
fn the_help_lists_every_command_in_a_group() {
    let output = decklog(&["--help"]).env("COLUMNS", "60").output().unwrap();
    assert_eq!((code(&output), err(&output)), (OK, String::new()));
    let help = out(&output);
    let (commands, options) = help.split_once("Options of every command:").unwrap();
    let first = commands.split("First steps:\n").nth(1).unwrap();
    let first: Vec<&str> = first
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .collect();
    assert!(
        first[0].starts_with("  demo") && first[1].starts_with("  import"),
        "{help}"
    );
    assert!(
        commands.lines().all(|line| line.chars().count() <= 90),
        "{help}"
    );
    let lists = commands.split("First steps:").nth(1).unwrap();
    assert!(
        lists.lines().all(|line| line.chars().count() <= 60),
        "{help}"
    );
    assert!(
        options.contains("--store") && options.contains("Exit codes:"),
        "{help}"
    );
    for heading in ["Read", "Write", "Reports", "Integrity", "Upkeep"] {
        assert!(commands.contains(&format!("\n{heading}:\n  ")), "{help}");
    }
    // Each command is there once, and describes itself in both ways.
    let man = decklog(&["man"]).output().unwrap();
    let man = out(&man);
    let names = man
        .lines()
        .filter_map(|line| line.strip_prefix("decklog\\-")?.strip_suffix("(1)"));
    let names: Vec<String> = names.map(|name| name.replace('\\', "")).collect();
    assert!(names.len() > 30, "{man}");
    for name in names {
        let listed = lists.lines().filter(|line| {
            line.strip_prefix("  ")
                .and_then(|line| line.split(' ').next())
                == Some(&name)
        });
        assert_eq!(listed.count(), 1, "{name}: {help}");
        let helped = out(&decklog(&["help", &name]).output().unwrap());
        assert_eq!(out(&decklog(&[&name, "--help"]).output().unwrap()), helped);
    }
    let version = decklog(&["--version"]).output().unwrap();
    assert_eq!(
        out(&version),
        concat!("decklog ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

/// What the service writes on a terminal, or on a pipe, when it logs a request.
#[cfg(all(feature = "http", target_os = "linux"))]
fn logged(variable: &str, is_on_terminal: bool) -> String {
    let log = Log::new();
    let program = env!("CARGO_BIN_EXE_decklog");
    let serve =
        format!("echo pid=$$ >&2; exec env {variable} {program} serve --port 0 --access-log");
    let mut command = if is_on_terminal {
        let mut command = Command::new("script");
        command.args(["-qefc", &serve, "/dev/null"]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{{ {serve}; }} 2>&1")]);
        command
    };
    command
        .env_remove("NO_COLOR")
        .env("DECKLOG_STORE", log.path());
    // `script` itself needs a shell for its command.
    command.env("SHELL", "/bin/sh").env("TERM", "xterm");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = lines_of(child.stdout.take().unwrap());
    let until = |words: &str| {
        let mut line = std::iter::repeat_with(&line);
        line.find(|line| line.contains(words)).unwrap()
    };
    let pid = until("pid=").trim().trim_start_matches("pid=").to_owned();
    let serving = until("serving at http://");
    let (_, addr) = serving.trim().split_once("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(addr.trim()).unwrap();
    let request =
        format!("GET /conversations HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    let logged = until("answered");
    let killed = Command::new("kill").arg(&pid).status().unwrap();
    assert!(killed.success());
    child.wait().unwrap();
    logged
}

#[test]
#[cfg(all(feature = "http", target_os = "linux"))]
fn the_log_has_colours_only_on_a_terminal() {
    const ESCAPE: char = '\u{1b}';
    assert!(!logged("A=b", false).contains(ESCAPE));
    if !has("script", "--version") {
        return;
    }
    assert!(logged("A=b", true).contains(ESCAPE));
    for variable in ["NO_COLOR=1", "TERM=dumb"] {
        assert!(!logged(variable, true).contains(ESCAPE), "{variable}");
    }
}
