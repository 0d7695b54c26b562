//! `decklog hook --install`: the command in the settings of Claude Code.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf, absolute};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::context::Context;
use super::escape::{one_line, shell_word};
use super::exit::{Exit, Failure};
use super::service;

/// The hooks of Claude Code, and whether they are for tools.
const EVENTS: [(&str, bool); 9] = [
    ("PreToolUse", true),
    ("PostToolUse", true),
    ("UserPromptSubmit", false),
    ("Stop", false),
    ("SubagentStop", false),
    ("SessionStart", false),
    ("SessionEnd", false),
    ("Notification", false),
    ("PreCompact", false),
];
/// After this many seconds, Claude Code ends a hook.
const TIMEOUT_S: u64 = 10;

/// A JSON object that keeps the order of its members. Unchanged members keep their bytes.
#[derive(Default)]
struct Object(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        from.deserialize_map(Members)
    }
}

impl Object {
    fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// Sets a member; `None` removes the member.
    fn set(&mut self, name: &str, value: Option<Box<RawValue>>) {
        let at = self.0.iter().rposition(|(known, _)| known == name);
        match (at, value) {
            (Some(at), Some(value)) => self.0[at].1 = value,
            (Some(at), None) => drop(self.0.remove(at)),
            (None, Some(value)) => self.0.push((name.to_owned(), value)),
            (None, None) => {}
        }
    }

    /// Its text, indented by this many spaces.
    fn text(&self, indent: usize) -> Result<String, serde_json::Error> {
        if self.0.is_empty() {
            return Ok("{}".to_owned());
        }
        let (inner, outer) = (" ".repeat(indent + 2), " ".repeat(indent));
        let members = self.0.iter().map(|(name, value)| {
            let name = serde_json::to_string(name)?;
            Ok(format!("{inner}{name}: {}", value.get()))
        });
        let members: Result<Vec<String>, serde_json::Error> = members.collect();
        Ok(format!("{{\n{}\n{outer}}}", members?.join(",\n")))
    }
}

/// The settings with the command in all hooks, or in none.
fn changed(text: &str, command: Option<&str>) -> Result<String, serde_json::Error> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut settings: Object = serde_json::from_str(text)?;
    let hooks = settings.get("hooks").map_or("{}", RawValue::get);
    let mut hooks: Object = serde_json::from_str(hooks)?;
    let known = hooks.0.iter().map(|(name, _)| name.clone());
    let mut names: Vec<String> = known.collect();
    for (name, _) in EVENTS {
        if !names.iter().any(|it| it == name) {
            names.push(name.to_owned());
        }
    }
    let mut is_changed = false;
    for name in names {
        let before = match hooks.get(&name) {
            Some(raw) => serde_json::from_str::<Vec<Value>>(raw.get())?,
            None => Vec::new(),
        };
        let mut entries: Vec<Value> = before.iter().filter_map(without_ours).collect();
        let event = EVENTS.iter().find(|(known, _)| *known == name);
        if let (Some(command), Some((_, is_for_tools))) = (command, event) {
            let hook = json!({"type": "command", "command": command, "timeout": TIMEOUT_S});
            entries.push(if *is_for_tools {
                json!({"matcher": "*", "hooks": [hook]})
            } else {
                json!({"hooks": [hook]})
            });
        }
        if entries == before {
            continue;
        }
        is_changed = true;
        let value = (!entries.is_empty())
            .then(|| indented(&json!(entries), 4))
            .transpose()?;
        hooks.set(&name, value);
    }
    if !is_changed {
        return Ok(text.to_owned());
    }
    let hooks = (!hooks.0.is_empty()).then(|| RawValue::from_string(hooks.text(2)?));
    settings.set("hooks", hooks.transpose()?);
    Ok(settings.text(0)? + "\n")
}

fn indented(value: &Value, indent: usize) -> Result<Box<RawValue>, serde_json::Error> {
    let text = serde_json::to_string_pretty(value)?;
    let line_break = format!("\n{}", " ".repeat(indent));
    RawValue::from_string(text.replace('\n', &line_break))
}

/// An entry without this program's commands; `None` if nothing is left.
fn without_ours(entry: &Value) -> Option<Value> {
    let Some(hooks) = entry.get("hooks").and_then(Value::as_array) else {
        return Some(entry.clone());
    };
    let is_ours = |hook: &&Value| {
        let command = hook.get("command").and_then(Value::as_str);
        command.is_some_and(is_ours)
    };
    let kept: Vec<Value> = hooks
        .iter()
        .filter(|hook| !is_ours(hook))
        .cloned()
        .collect();
    if kept.len() == hooks.len() {
        return Some(entry.clone());
    }
    if kept.is_empty() {
        return None;
    }
    let mut entry = entry.clone();
    entry["hooks"] = json!(kept);
    Some(entry)
}

/// Whether a command is `decklog hook`, with any path, or that of this program under another name.
fn is_ours(command: &str) -> bool {
    let (program, rest) = match command.chars().next() {
        Some(mark @ ('\'' | '"')) => {
            let end = command[1..].find(&format!("{mark} "));
            let Some(end) = end else { return false };
            (&command[1..=end], &command[end + 2..])
        }
        _ => command.split_once(' ').unwrap_or((command, "")),
    };
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.strip_suffix(".exe").unwrap_or(name);
    let own = std::env::current_exe();
    let is_own = || own.is_ok_and(|own| own.file_stem().is_some_and(|stem| stem == name));
    rest.split_whitespace().next() == Some("hook") && (name == "decklog" || is_own())
}

/// The settings file of Claude Code, behind any links.
fn file() -> Result<PathBuf, Failure> {
    let given = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty());
    let dir = given.map(PathBuf::from);
    let dir = dir.or_else(|| Some(dirs::home_dir()?.join(".claude")));
    let dir = dir.ok_or_else(|| Failure::usage("there is no home directory for the settings"))?;
    let file = dir.join("settings.json");
    Ok(fs::canonicalize(&file).unwrap_or(file))
}

/// The command that hooks run.
fn command(context: &Context) -> Result<String, Failure> {
    let failed =
        |e: io::Error| Failure::store(format!("cannot find the path of this program: {e}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut words = vec![program, "hook".into()];
    if context.has_store() {
        words.push("--store".into());
        words.push(absolute(context.store_path()?).map_err(failed)?);
    }
    let words = words
        .iter()
        .map(|word| shell_word(word.as_os_str().as_encoded_bytes()));
    let words: Vec<u8> = words.collect::<Vec<_>>().join(&b' ');
    String::from_utf8(words).map_err(|_| Failure::usage("a path is not UTF-8"))
}

pub fn install(context: &mut Context) -> Result<Exit, Failure> {
    let command = command(context)?;
    let file = change(Some(&command))?;
    let shown = file.display().to_string();
    context.out.line(&format!(
        "hooks of Claude Code in {}: {}",
        one_line(&shown),
        one_line(&command)
    ))?;
    Ok(Exit::Ok)
}

pub fn uninstall(context: &mut Context) -> Result<Exit, Failure> {
    let file = change(None)?;
    let shown = file.display().to_string();
    context
        .out
        .line(&format!("no hook in {} runs decklog", one_line(&shown)))?;
    Ok(Exit::Ok)
}

/// Changes the settings file.
fn change(command: Option<&str>) -> Result<PathBuf, Failure> {
    let file = file()?;
    let shown = file.display().to_string();
    let before = match fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::usage(format!("cannot read {shown}: {error}"))),
    };
    if before.is_none() && command.is_none() {
        return Ok(file);
    }
    let text = before.as_deref().unwrap_or_default();
    let after = changed(text, command)
        .map_err(|e| Failure::usage(format!("{shown} was not changed, as it is not valid: {e}")))?;
    if before.as_ref() == Some(&after) {
        return Ok(file);
    }
    let write = || {
        if let Some(before) = &before {
            keep(before, &file)?;
        }
        service::replace(&file, &after)
    };
    write().map_err(|e| Failure::store(format!("cannot write {shown}: {e}")))?;
    Ok(file)
}

/// Saves a copy of the settings before the first change.
fn keep(before: &str, file: &Path) -> io::Result<()> {
    let copy = file.with_extension("json.bak");
    if copy.exists() {
        return Ok(());
    }
    fs::write(&copy, before)?;
    fs::set_permissions(&copy, fs::metadata(file)?.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = r#"{
  "model": "opus",
  "env": {"B": 1,   "A": 2.50},
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "notify-send done"}]}],
    "Other": [ 1 ]
  },
  "z": null
}
"#;

    #[test]
    fn other_settings_keep_their_order_and_bytes() {
        let added = changed(SETTINGS, Some("/b/decklog hook")).unwrap();
        assert!(
            added.starts_with("{\n  \"model\": \"opus\",\n  \"env\": {\"B\": 1,   \"A\": 2.50},")
        );
        assert!(added.ends_with("  \"z\": null\n}\n"));
        assert!(added.contains("\"Other\": [ 1 ]"));
        let value: Value = serde_json::from_str(&added).unwrap();
        assert_eq!(
            value["hooks"]["Stop"][0]["hooks"][0]["command"],
            "notify-send done"
        );
        for (name, is_for_tools) in EVENTS {
            let entries = value["hooks"][name].as_array().unwrap();
            let ours = entries.last().unwrap();
            assert_eq!(ours["hooks"][0]["command"], "/b/decklog hook");
            assert_eq!(ours.get("matcher").is_some(), is_for_tools);
        }
        assert_eq!(changed(&added, Some("/b/decklog hook")).unwrap(), added);
        let moved = changed(&added, Some("'/a b/decklog' hook --store /s")).unwrap();
        assert!(!moved.contains("/b/decklog"), "{moved}");
        let removed = changed(&moved, None).unwrap();
        let before: Value = serde_json::from_str(SETTINGS).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&removed).unwrap(), before);
        assert_eq!(changed(SETTINGS, None).unwrap(), SETTINGS);
    }

    #[test]
    fn empty_settings_are_empty_again() {
        let added = changed("", Some("decklog hook")).unwrap();
        assert_eq!(changed(&added, None).unwrap(), "{}\n");
        for bad in ["[]", "{", "{\"hooks\": 5}", "{\"hooks\": {\"Stop\": {}}}"] {
            assert!(changed(bad, Some("decklog hook")).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_is_known_by_its_program() {
        for ours in [
            "decklog hook",
            "/b/decklog hook --store x",
            "'/a b/decklog' hook",
            "\"C:\\d\\decklog.exe\" hook",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "",
            "'",
            "decklog",
            "decklog record",
            "mydecklog hook",
            "echo decklog hook",
            "'x",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
