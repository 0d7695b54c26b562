//! Runs `decklog watch` in the background: as a systemd user unit, or a launchd agent on macOS.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, Stdio};

use decklog::import::PLACE_VARIABLES;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output;

const IS_MACOS: bool = cfg!(target_os = "macos");
const UNIT: &str = "decklog-watch.service";
const LABEL: &str = "decklog.watch";
const KEY_VARIABLE: &str = "DECKLOG_USER_ID_KEY";

/// What the service runs.
pub struct Service {
    pub store: PathBuf,
    /// Empty for the default paths.
    pub paths: Vec<PathBuf>,
    pub keeps: bool,
    pub expires: bool,
}

impl Service {
    /// The program and its arguments.
    fn command(&self) -> io::Result<Vec<String>> {
        let mut words = vec![text(&std::env::current_exe()?)?];
        words.extend(["watch", "--quiet", "--store"].map(str::to_owned));
        words.push(text(&absolute(&self.store)?)?);
        let switches = [(self.keeps, "--keep"), (self.expires, "--expire")];
        let switches = switches.into_iter().filter(|(is_set, _)| *is_set);
        words.extend(switches.map(|(_, word)| word.to_owned()));
        if !self.paths.is_empty() {
            words.push("--".to_owned());
        }
        for path in &self.paths {
            words.push(text(&absolute(path)?)?);
        }
        Ok(words)
    }
}

fn text(path: &Path) -> io::Result<String> {
    let text = path
        .to_str()
        .filter(|text| !text.contains(['\n', '\r', '\0']));
    text.map(str::to_owned).ok_or_else(|| {
        let shown = path.display();
        io::Error::other(format!("{shown} cannot be written to a service file"))
    })
}

/// The variables that change what is watched or written. A service does not inherit those of the
/// shell.
fn variables() -> Vec<(String, String)> {
    let of = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
    let set = PLACE_VARIABLES.iter().chain([&KEY_VARIABLE]).filter_map(of);
    set.filter(|(_, value)| !value.is_empty() && !value.contains(['\n', '\r']))
        .collect()
}

/// The service file.
fn file() -> Result<PathBuf, Failure> {
    let home = || Failure::usage("there is no home directory for the service file");
    if IS_MACOS {
        let agents = dirs::home_dir()
            .ok_or_else(home)?
            .join("Library/LaunchAgents");
        return Ok(agents.join(format!("{LABEL}.plist")));
    }
    let units = dirs::config_dir().ok_or_else(home)?.join("systemd/user");
    Ok(units.join(UNIT))
}

pub fn install(service: &Service, context: &mut Context) -> Result<Exit, Failure> {
    let failed = |e: io::Error| Failure::store(format!("cannot install the service: {e}"));
    let command = service.command().map_err(failed)?;
    let write = if IS_MACOS { plist } else { unit };
    let text = write(&command, &variables());
    let file = file()?;
    let is_changed = fs::read_to_string(&file).ok().as_deref() != Some(&text);
    if is_changed {
        replace(&file, &text)
            .map_err(|e| Failure::store(format!("cannot write {}: {e}", file.display())))?;
    }
    let done = if is_changed { "wrote" } else { "unchanged:" };
    context
        .out
        .line(&format!("{done} {}", one_line(&file.display().to_string())))?;
    run_all(
        &starting(&file, is_changed),
        context,
        "the watcher is running, and starts at every login",
    )
}

pub fn uninstall(context: &mut Context) -> Result<Exit, Failure> {
    let file = file()?;
    if !file.exists() {
        context.out.line("the watcher is not installed")?;
        return Ok(Exit::Ok);
    }
    let stopping: Vec<Vec<String>> = if IS_MACOS {
        vec![words([
            "launchctl",
            "bootout",
            &format!("{}/{LABEL}", domain()),
        ])]
    } else {
        vec![words(["systemctl", "--user", "disable", "--now", UNIT])]
    };
    let exit = run_all(&stopping, context, "stopped the watcher")?;
    fs::remove_file(&file)
        .map_err(|e| Failure::store(format!("cannot remove {}: {e}", file.display())))?;
    if !IS_MACOS {
        let _ = run_silently(&words(["systemctl", "--user", "daemon-reload"]));
    }
    context.out.line(&format!(
        "removed {}",
        one_line(&file.display().to_string())
    ))?;
    Ok(exit)
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// The commands that start the service.
fn starting(file: &Path, is_changed: bool) -> Vec<Vec<String>> {
    if IS_MACOS {
        let file = file.display().to_string();
        let mut commands = Vec::new();
        if is_changed {
            commands.push(words([
                "launchctl",
                "bootout",
                &format!("{}/{LABEL}", domain()),
            ]));
        }
        commands.push(words(["launchctl", "bootstrap", &domain(), &file]));
        return commands;
    }
    let mut commands = vec![
        words(["systemctl", "--user", "daemon-reload"]),
        words(["systemctl", "--user", "enable", "--now", UNIT]),
    ];
    if is_changed {
        commands.push(words(["systemctl", "--user", "restart", UNIT]));
    }
    commands
}

/// The domain of this user's launchd agents.
fn domain() -> String {
    #[cfg(unix)]
    let user = rustix::process::getuid().as_raw();
    #[cfg(not(unix))]
    let user = 0;
    format!("gui/{user}")
}

/// Runs commands of the system. Prints the commands that the user must run.
fn run_all(commands: &[Vec<String>], context: &mut Context, done: &str) -> Result<Exit, Failure> {
    for (at, command) in commands.iter().enumerate() {
        // The service may not be running yet.
        let may_fail = command.get(1).is_some_and(|word| word == "bootout");
        let failed = match run_silently(command) {
            Ok(None) => continue,
            Ok(Some(_)) if may_fail => continue,
            Ok(Some(reason)) => Some(reason),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(error.to_string()),
        };
        let is_failed = failed.is_some();
        if let Some(reason) = failed {
            output::say(&format!("{}: {}", command.join(" "), one_line(&reason)));
        }
        context.out.line("Run these commands:")?;
        for command in &commands[at..] {
            let shown = command
                .iter()
                .map(|word| super::escape::shell_word(word.as_bytes()));
            let shown: Vec<u8> = shown.collect::<Vec<_>>().join(&b' ');
            context
                .out
                .line(&format!("  {}", String::from_utf8_lossy(&shown)))?;
        }
        return Ok(Exit::with_findings(is_failed));
    }
    context.out.line(done)?;
    Ok(Exit::Ok)
}

/// Runs a command. Returns its message if it fails.
fn run_silently(command: &[String]) -> io::Result<Option<String>> {
    let [program, arguments @ ..] = command else {
        return Ok(None);
    };
    let ended = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    let message = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    Ok((!ended.status.success()).then_some(message))
}

/// A systemd unit.
fn unit(words: &[String], variables: &[(String, String)]) -> String {
    let words: Vec<String> = words.iter().map(|word| unit_word(word, true)).collect();
    let variables = variables.iter().map(|(name, value)| {
        let assignment = unit_word(&format!("{name}={value}"), false);
        format!("Environment={assignment}\n")
    });
    let variables: String = variables.collect();
    format!(
        "# Written by 'decklog watch --install'.\n\
         [Unit]\n\
         Description=decklog: follows the sessions of agents\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
         {variables}\
         Restart=on-failure\n\
         RestartSec=10\n\
         Nice=10\n\
         IOSchedulingClass=idle\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        words.join(" ")
    )
}

/// A word of a unit: quoted, with specifiers escaped. Only commands expand variables.
fn unit_word(word: &str, is_of_command: bool) -> String {
    let mut quoted = String::from("\"");
    for char in word.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '%' => quoted.push_str("%%"),
            '$' if is_of_command => quoted.push_str("$$"),
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

/// A property list of launchd.
fn plist(words: &[String], variables: &[(String, String)]) -> String {
    let string = |text: &String| format!("    <string>{}</string>\n", xml(text));
    let words: String = words.iter().map(string).collect();
    let pair = |(name, value): &(String, String)| {
        format!("    <key>{}</key>\n{}", xml(name), string(value))
    };
    let variables: String = variables.iter().map(pair).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <!-- Written by 'decklog watch' with its option to install. -->\n\
         <plist version=\"1.0\">\n<dict>\n\
         \x20 <key>Label</key>\n  <string>{LABEL}</string>\n\
         \x20 <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n\
         \x20 <key>EnvironmentVariables</key>\n  <dict>\n{variables}  </dict>\n\
         \x20 <key>RunAtLoad</key>\n  <true/>\n\
         \x20 <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n\
         \x20 <key>Nice</key>\n  <integer>10</integer>\n\
         \x20 <key>LowPriorityIO</key>\n  <true/>\n\
         \x20 <key>ProcessType</key>\n  <string>Background</string>\n\
         </dict>\n</plist>\n"
    )
}

fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// Replaces a file atomically, and keeps its permissions.
pub fn replace(file: &Path, content: &str) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut name = file.file_name().unwrap_or(OsStr::new("file")).to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(name);
    let written = fs::write(&temporary, content).and_then(|()| {
        if let Ok(before) = fs::metadata(file) {
            fs::set_permissions(&temporary, before.permissions())?;
        }
        fs::File::open(&temporary)?.sync_all()?;
        fs::rename(&temporary, file)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Vec<String> {
        [
            "/opt/my tools/decklog",
            "watch",
            "--",
            "/p/100%/\"a\"\\$HOME",
            "/p/<&>",
        ]
        .map(str::to_owned)
        .into()
    }

    #[test]
    fn a_unit_quotes_its_words() {
        let variables = [("CODEX_HOME".to_owned(), "/c $x%".to_owned())];
        let unit = unit(&command(), &variables);
        let expected = r#"
ExecStart="/opt/my tools/decklog" "watch" "--" "/p/100%%/\"a\"\\$$HOME" "/p/<&>"
Environment="CODEX_HOME=/c $x%%"
Restart=on-failure
"#;
        assert!(unit.contains(expected), "{unit}");
    }

    #[test]
    fn a_property_list_escapes_its_texts() {
        let list = plist(&command(), &[("A".to_owned(), "b".to_owned())]);
        for part in [
            "    <string>/opt/my tools/decklog</string>\n",
            "    <string>/p/100%/\"a\"\\$HOME</string>\n",
            "    <string>/p/&lt;&amp;&gt;</string>\n",
            "    <key>A</key>\n    <string>b</string>\n",
        ] {
            assert!(list.contains(part), "{list}");
        }
    }
}
