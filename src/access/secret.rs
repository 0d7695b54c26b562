//! Secrets: 32 random bytes as text, shown once.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::privacy::is_secret;
use crate::record::hex;

/// The prefix of every token, by which people and scanners recognize it.
const PREFIX: &str = "dl_";

/// The secret of a token, session or code: `dl_` and 64 hex digits. It is stored nowhere and hidden
/// in `{:?}`.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A new secret, in a form that redaction recognizes.
    pub(super) fn random() -> Result<Secret> {
        loop {
            let text = PREFIX.to_owned() + &hex(&random_bytes::<32>()?);
            // About one in ten thousand has digits in sequence, like a made-up example. Redaction
            // does not recognize those.
            if is_secret(&text) {
                return Ok(Secret(text));
            }
        }
    }

    /// The text. Show it only to its bearer.
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
        let message = format!("the system returns no random bytes ({e}): try again");
        Error::new(ErrorKind::Io, message)
    })?;
    Ok(bytes)
}
