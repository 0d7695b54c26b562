//! What is shown once: 32 random bytes as text.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::privacy::is_secret;
use crate::record::hex;

/// How every token begins, so that people and scanners know one where they see it.
const PREFIX: &str = "dl_";

/// A token, session or code as its bearer shows it: `dl_` and 64 hex digits. It is kept nowhere,
/// and not told by `{:?}`.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A new one, which redaction knows for a secret wherever it is logged.
    pub(super) fn random() -> Result<Secret> {
        loop {
            let text = PREFIX.to_owned() + &hex(&random_bytes::<32>()?);
            // One in ten thousand has digits in a row, as an example would.
            if is_secret(&text) {
                return Ok(Secret(text));
            }
        }
    }

    /// The text. Show it to its bearer and to no one else.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({PREFIX}…)")
    }
}

/// From the system's source of random bytes.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| {
        let message = format!("the system gives no random bytes ({e}): try again");
        Error::new(ErrorKind::Io, message)
    })?;
    Ok(bytes)
}
