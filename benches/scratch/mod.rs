//! What benches of a server share: a directory that goes away, and sizes from the environment.

use std::path::Path;

use uuid::Uuid;

/// Calls `measure` with a directory of its own, which is removed afterwards.
pub fn in_scratch_dir(name: &str, measure: impl FnOnce(&Path)) {
    let dir = std::env::temp_dir().join(format!("decklog-{name}-{}", Uuid::new_v4()));
    std::fs::create_dir(&dir).expect("a directory");
    measure(&dir);
    let _ = std::fs::remove_dir_all(&dir);
}

/// The number that an environment variable gives, or the default.
pub fn count(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok();
    given.map_or(default, |text| text.parse().expect(name))
}
