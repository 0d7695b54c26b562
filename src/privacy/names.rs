//! Classifies names by what they hold: `db_password_2` holds a password, `next_page_token` does
//! not.

use super::bytes::{ends_in, is_alnum, is_digit};

/// The kind of value that a name denotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Password,
    Secret,
    /// A key. `is_access`: the name says that the key grants access, as `api_key` and `secret_key`
    /// do.
    Key {
        is_access: bool,
    },
    /// A token. `is_qualified`: the name says what the token is for.
    Token {
        is_qualified: bool,
    },
    Authorization,
    /// A user and a password in base64, the format of Docker and npm.
    Pair,
}

impl Holds {
    /// The name in a placeholder.
    pub(super) fn name(self) -> &'static str {
        match self {
            Holds::Password => "password",
            Holds::Secret => "secret",
            Holds::Key { .. } => "api_key",
            Holds::Token { .. } => "token",
            Holds::Authorization | Holds::Pair => "authorization",
        }
    }
}

/// What a word says about the name that it is part of.
#[derive(PartialEq, Eq)]
enum Says {
    /// It may follow without changing the kind.
    Qualifier,
    /// The words after it, such as `token` or `secret`, do not denote a secret.
    Innocent,
}

fn says(word: &str) -> Option<Says> {
    Some(match word {
        "prod" | "production" | "dev" | "development" | "staging" | "stage" | "test" | "live"
        | "sandbox" | "value" | "plain" | "plaintext" | "text" | "raw" | "base64" | "b64"
        | "env" | "new" | "old" | "current" | "default" | "main" | "master" | "primary"
        | "secondary" | "root" | "admin" | "user" | "db" | "str" | "string" | "base" => {
            Says::Qualifier
        }
        "page" | "next" | "previous" | "prev" | "continuation" | "cursor" | "sync" | "special"
        | "eos" | "bos" | "pad" | "max" | "min" | "num" | "total" | "public" | "cancellation"
        | "cancel" | "sep" | "mask" | "unk" | "stop" | "design" | "syntax" | "first" | "last"
        | "idempotency" | "no" | "invalid" | "missing" | "wrong" | "encrypted" | "hashed"
        | "sealed" | "change" | "pagination" | "resume" | "ident" | "lookahead" => Says::Innocent,
        _ => return None,
    })
}

/// Whether a key grants access, by the word before `key`. `None`: the key is not a secret.
fn grants_access(of: &str) -> Option<bool> {
    match of {
        "api" | "access" | "secret" => Some(true),
        "private" | "auth" | "encryption" | "signing" | "account" | "master" | "service"
        | "admin" | "subscription" | "storage" | "license" | "deploy" | "webhook" | "shared"
        | "hmac" | "jwt" | "session" | "cookie" | "encrypt" | "sign" | "app" | "consumer"
        | "client" | "ingestion" => Some(false),
        _ => None,
    }
}

/// Words for password in other languages, with non-ASCII letters.
const FOREIGN: [&str; 11] = [
    "contraseña",
    "contraseÑa",
    "contraseÑA",
    "hasło",
    "hasŁo",
    "пароль",
    "Пароль",
    "ПАРОЛЬ",
    "密码",
    "密碼",
    "パスワード",
];

/// Words for password in other languages, in ASCII.
const TRANSLATED: [&str; 4] = ["kennwort", "contrasena", "wachtwoord", "senha"];

/// Whether a name is the word for password in another language. Its value is likely in that
/// language too.
pub(super) fn is_foreign(name: &[u8]) -> bool {
    let ends = |word: &&str| ends_in(name, word.as_bytes());
    let words = || words(name);
    FOREIGN.iter().any(ends)
        || TRANSLATED.iter().any(ends) && !ends(&"desenha")
        || ends(&"passe") && words().ends_with(&["mot", "de", "passe"].map(str::to_owned))
}

/// What a token in one word is for: `authtoken`.
const TOKENS: &[&str] = &[
    "auth", "access", "refresh", "api", "bot", "session", "bearer", "id", "identity", "registry",
];

/// The kind of value that a name denotes; `None` if it is not a secret.
pub(super) fn holds(name: &[u8]) -> Option<Holds> {
    if is_foreign(name) {
        return Some(Holds::Password);
    }
    let words = words(name);
    let is_number = |word: &str| word.bytes().all(is_digit);
    let trailing = words
        .iter()
        .rev()
        .take_while(|word| is_number(word) || says(word) == Some(Says::Qualifier));
    let kept = &words[..words.len() - trailing.count()];
    let (last, before) = kept.split_last()?;
    if before.iter().any(|word| says(word) == Some(Says::Innocent)) {
        return None;
    }
    let ends = |ends: &[&str], kind: &str| {
        let of = last.strip_suffix(kind);
        of.is_some_and(|of| ends.iter().any(|end| of.ends_with(end)))
    };
    let is_qualified = !before.is_empty() || last.len() > "token".len();
    match last.as_str() {
        "authorization" => Some(Holds::Authorization),
        "auth" if before.is_empty() => Some(Holds::Pair),
        "pass" | "pwd" | "psk" | "requirepass" => Some(Holds::Password),
        // In lower case it is the command.
        "sshpass" if !name.iter().any(u8::is_ascii_lowercase) => Some(Holds::Password),
        "key" => {
            let is_access = grants_access(before.last()?)?;
            Some(Holds::Key { is_access })
        }
        "token" => Some(Holds::Token { is_qualified }),
        _ if ends(
            &["password", "passwd", "passphrase", "passcode", "passwort"],
            "",
        ) || ends(&["store", "key", "db"], "pass")
            || ends(&["user", "db"], "pwd") =>
        {
            Some(Holds::Password)
        }
        _ if ends(&["api", "access", "secret"], "key") => Some(Holds::Key { is_access: true }),
        _ if ends(
            &["auth", "private", "signing", "encryption", "account"],
            "key",
        ) =>
        {
            Some(Holds::Key { is_access: false })
        }
        _ if last.ends_with("secret") => Some(Holds::Secret),
        _ if ends(TOKENS, "token") => Some(Holds::Token { is_qualified: true }),
        _ => None,
    }
}

/// The words of a name, in lower case: `dbPassword_2` is `db`, `password` and `2`.
pub(super) fn words(name: &[u8]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = b'_';
    for (at, byte) in name.iter().copied().enumerate() {
        let next_is_lower = name.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        let is_hump = byte.is_ascii_uppercase()
            && (!before.is_ascii_uppercase() || next_is_lower && before.is_ascii_uppercase());
        let is_digits = byte.is_ascii_digit() != before.is_ascii_digit();
        let starts = !is_alnum(before) || is_hump || is_digits;
        if is_alnum(byte) {
            match words.last_mut().filter(|_| !starts) {
                Some(word) => word.push(char::from(byte.to_ascii_lowercase())),
                None => words.push(char::from(byte.to_ascii_lowercase()).to_string()),
            }
        }
        before = byte;
    }
    words
}
