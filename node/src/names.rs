//! Names of fields and keys, which JavaScript gives by number once they are known.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use napi_derive::napi;

/// Maximum number of names that are kept.
const NAMES_MAX: usize = 4_096;
/// Maximum length of such a name, in bytes.
const NAME_BYTES_MAX: usize = 128;

static NAMES: LazyLock<RwLock<Names>> = LazyLock::new(RwLock::default);

#[derive(Default)]
struct Names {
    all: Arc<Vec<&'static str>>,
    numbers: HashMap<&'static str, u32>,
}

/// The number of a name; -1 if there is no room for it.
#[napi]
pub fn name_number(name: String) -> i64 {
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    let Names { all, numbers } = &mut *names;
    if let Some(number) = numbers.get(&*name) {
        return i64::from(*number);
    }
    let Ok(number) = u32::try_from(all.len()) else {
        return -1;
    };
    if all.len() >= NAMES_MAX || name.len() > NAME_BYTES_MAX {
        return -1;
    }
    // Kept for the life of the process, so that values may borrow it.
    let name: &'static str = Box::leak(name.into_boxed_str());
    Arc::make_mut(all).push(name);
    numbers.insert(name, number);
    i64::from(number)
}

/// The names so far, by number.
pub(crate) fn all() -> Arc<Vec<&'static str>> {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(&names.all)
}
