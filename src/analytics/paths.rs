//! Paths that agents gave, of any operating system. Nothing is looked up on this machine.

/// Whether a path is absolute on Unix or on Windows.
pub(super) fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    match bytes {
        [b'/' | b'\\' | b'~', ..] => true,
        [drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

/// A file: its absolute path if that is known, and how it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePath {
    /// Absolute if the path or the workspace is.
    pub whole: String,
    /// Relative to the workspace if it is below it, else `whole`.
    pub shown: String,
}

impl FilePath {
    /// The file for a path that an agent gave in a workspace.
    pub(super) fn new(path: &str, workspace: Option<&str>) -> FilePath {
        let path = path.trim();
        let workspace = workspace.filter(|it| is_absolute(it)).map(plain);
        let whole = match &workspace {
            Some(workspace) if !is_absolute(path) => plain(&format!("{workspace}/{path}")),
            _ => plain(path),
        };
        let below = workspace.as_ref().and_then(|it| below(it, &whole));
        let shown = below.filter(|rest| !rest.is_empty()).unwrap_or(&whole);
        FilePath {
            shown: shown.to_owned(),
            whole,
        }
    }

    /// Whether the path, whole or as shown, is this one, is below it, or matches it with `*`, `**`
    /// and `?`.
    pub(super) fn is_selected_by(&self, wanted: &str) -> bool {
        let is_pattern = wanted.contains(['*', '?']);
        let wanted = plain(wanted);
        [&self.whole, &self.shown].into_iter().any(|path| {
            if is_pattern {
                matches(wanted.as_bytes(), path.as_bytes())
            } else {
                below(&wanted, path).is_some()
            }
        })
    }

    /// Whether a path without patterns names exactly this file.
    pub(super) fn is(&self, wanted: &str) -> bool {
        let wanted = plain(wanted);
        wanted == self.whole || wanted == self.shown
    }
}

/// The rest of a path below a directory; empty if it is the directory itself.
fn below<'p>(directory: &str, path: &'p str) -> Option<&'p str> {
    if directory == "." {
        return Some(path).filter(|path| !is_absolute(path));
    }
    let rest = path.strip_prefix(directory)?;
    if directory.ends_with('/') || rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('/')
}

/// A path with `/` between its parts and with `.` and `..` resolved in its text. A `\` separates
/// parts only in Windows paths.
fn plain(path: &str) -> String {
    let is_of_windows = path.as_bytes().get(1) == Some(&b':') || path.starts_with("\\\\");
    let path = if is_of_windows {
        path.replace('\\', "/")
    } else {
        path.to_owned()
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    match (root, parts.is_empty()) {
        ("", true) => ".".to_owned(),
        _ => format!("{root}{}", parts.join("/")),
    }
}

/// Whether a path matches a pattern: `?` is any character but `/`, `*` any number of them, and `**`
/// any number of any characters.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    // For each number of characters of the path, whether the pattern so far matches them.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let [sign, more @ ..] = rest {
        let mut next = vec![false; path.len() + 1];
        match (*sign, more) {
            (b'*', [b'*', more @ ..]) => {
                let first = reached.iter().position(|is| *is);
                next.iter_mut()
                    .skip(first.unwrap_or(usize::MAX))
                    .for_each(|is| *is = true);
                // `**/` also matches no directory at all.
                if let [b'/', after @ ..] = more {
                    let mut slash = reached.clone();
                    for place in 0..path.len() {
                        slash[place + 1] |= next[place] && path[place] == b'/';
                    }
                    (next, rest) = (slash, after);
                } else {
                    rest = more;
                }
            }
            (b'*', more) => {
                next.clone_from(&reached);
                for place in 0..path.len() {
                    next[place + 1] |= next[place] && path[place] != b'/';
                }
                rest = more;
            }
            (sign, more) => {
                for place in 0..path.len() {
                    let is_it = path[place] == sign || (sign == b'?' && path[place] != b'/');
                    next[place + 1] = reached[place] && is_it;
                }
                rest = more;
            }
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_below_its_workspace() {
        let shown = |path: &str| FilePath::new(path, Some("/w/app/")).shown;
        assert_eq!(shown("/w/app/src/./a.rs"), "src/a.rs");
        assert_eq!(shown("src/../b.rs"), "b.rs");
        assert_eq!(shown("../c.rs"), "/w/c.rs");
        assert_eq!(shown("/w/application/d.rs"), "/w/application/d.rs");
        assert_eq!(shown("/w/app"), "/w/app");
        assert_eq!(shown("/../../x"), "/x");
        assert_eq!(FilePath::new("a/b", None).shown, "a/b");
        let windows = FilePath::new("C:\\w\\app\\src\\a.rs", Some("C:\\w\\app"));
        assert_eq!(
            (&*windows.whole, &*windows.shown),
            ("C:/w/app/src/a.rs", "src/a.rs")
        );
        assert_eq!(FilePath::new("", Some("/w")).shown, "/w");
    }

    #[test]
    fn files_are_selected_by_directories_and_patterns() {
        let file = FilePath::new("src/cli/a.rs", Some("/w/app"));
        for wanted in [
            "src",
            "src/cli/",
            "./src",
            "/w/app",
            "/w/app/src/cli/a.rs",
            "src/cli/a.rs",
            ".",
            "/",
            "src/**",
            "**/a.rs",
            "src/*/a.rs",
            "src/cli/?.rs",
            "/w/**/a.rs",
            "**/src/**",
        ] {
            assert!(file.is_selected_by(wanted), "{wanted}");
        }
        for wanted in [
            "sr",
            "cli",
            "*.rs",
            "src/*.rs",
            "/w/ap",
            "src/cli/a.r",
            "src?cli/a.rs",
        ] {
            assert!(!file.is_selected_by(wanted), "{wanted}");
        }
        assert!(file.is("src/cli/./a.rs") && file.is("/w/app/src/cli/a.rs") && !file.is("src"));
    }
}
