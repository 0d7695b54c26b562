//! The files of the bindings that are generated from the declarations of the records.

mod python;

use std::path::Path;

/// Compares a file with what is generated, or writes it.
fn check(path: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, generated).unwrap();
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == generated,
        "{} is stale: run UPDATE_SNAPSHOTS=1 cargo test --all-features --test generated",
        path.display()
    );
}

/// A text in lines of at most this length, each after a prefix.
fn wrapped(text: &str, prefix: &str, width: usize) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && prefix.len() + line.len() + 1 + word.len() > width {
            out += &format!("{prefix}{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    if !line.is_empty() {
        out += &format!("{prefix}{line}\n");
    }
    out
}
