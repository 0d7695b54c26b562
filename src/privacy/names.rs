//! What names say of what they hold: `db_password_2` holds a password, `next_page_token` does not.

/// What a name says of what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Password,
    Secret,
    /// A key; whether the name says that it opens something, as `api_key` and `secret_key` do.
    Key {
        is_access: bool,
    },
    /// A token; whether the name says of what.
    Token {
        is_qualified: bool,
    },
    Authorization,
    /// A user and a password in base64, as Docker and npm keep them.
    Pair,
}

impl Holds {
    /// As placeholders have it.
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

/// Words that follow the word in a name, and leave it what it is.
const QUALIFIERS: &[&str] = &[
    "prod",
    "production",
    "dev",
    "development",
    "staging",
    "stage",
    "test",
    "live",
    "sandbox",
    "value",
    "plain",
    "plaintext",
    "text",
    "raw",
    "base64",
    "b64",
    "env",
    "new",
    "old",
    "current",
    "default",
    "main",
    "master",
    "primary",
    "secondary",
    "root",
    "admin",
    "user",
    "db",
    "str",
    "string",
    "base",
];

/// Words before `token` or `secret` that make it no secret.
const INNOCENT: &[&str] = &[
    "page",
    "next",
    "previous",
    "prev",
    "continuation",
    "cursor",
    "sync",
    "special",
    "eos",
    "bos",
    "pad",
    "max",
    "min",
    "num",
    "total",
    "public",
    "cancellation",
    "cancel",
    "sep",
    "mask",
    "unk",
    "stop",
    "design",
    "syntax",
    "first",
    "last",
    "idempotency",
    "no",
    "invalid",
    "missing",
    "wrong",
    "encrypted",
    "hashed",
    "sealed",
    "change",
    "pagination",
    "resume",
    "ident",
    "lookahead",
];

/// What makes a key one of secrets.
const KEY_OF: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "auth",
    "encryption",
    "signing",
    "account",
    "master",
    "service",
    "admin",
    "subscription",
    "storage",
    "license",
    "deploy",
    "webhook",
    "shared",
    "hmac",
    "jwt",
    "session",
    "cookie",
    "encrypt",
    "sign",
    "app",
    "consumer",
    "client",
    "ingestion",
];

/// What a password is called in languages with other letters.
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

/// The same with letters of ASCII.
const TRANSLATED: [&str; 4] = ["kennwort", "contrasena", "wachtwoord", "senha"];

/// Whether a name says `password` in another language: its values are so, too.
pub(super) fn is_foreign(name: &[u8]) -> bool {
    let ends = |word: &&str| {
        let start = name.len().checked_sub(word.len());
        start.is_some_and(|start| name[start..].eq_ignore_ascii_case(word.as_bytes()))
    };
    let words = || words(name);
    FOREIGN.iter().any(ends)
        || TRANSLATED.iter().any(ends) && !ends(&"desenha")
        || ends(&"passe") && words().ends_with(&["mot", "de", "passe"].map(str::to_owned))
}

/// Ends of words that name a password.
const PASSWORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "passwort",
    "storepass",
    "keypass",
    "userpwd",
    "dbpwd",
    "dbpass",
];
/// Ends of words that name a key.
const KEYS: &[&str] = &[
    "apikey",
    "accesskey",
    "secretkey",
    "authkey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "accountkey",
];
/// Ends of words that name a token.
const TOKENS: &[&str] = &[
    "authtoken",
    "accesstoken",
    "refreshtoken",
    "apitoken",
    "bottoken",
    "sessiontoken",
    "bearertoken",
    "idtoken",
    "identitytoken",
    "registrytoken",
];

/// What a name says it holds; `None` for a name that says no such thing.
pub(super) fn holds(name: &[u8]) -> Option<Holds> {
    if is_foreign(name) {
        return Some(Holds::Password);
    }
    let words = words(name);
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let trailing = words
        .iter()
        .rev()
        .take_while(|word| is_number(word) || QUALIFIERS.contains(&word.as_str()));
    let kept = &words[..words.len() - trailing.count()];
    let (last, before) = kept.split_last()?;
    if before.iter().any(|word| INNOCENT.contains(&word.as_str())) {
        return None;
    }
    let ends = |ends: &[&str]| ends.iter().any(|end| last.ends_with(end));
    let is_qualified = !before.is_empty() || last.len() > "token".len();
    match last.as_str() {
        "authorization" => Some(Holds::Authorization),
        "auth" if before.is_empty() => Some(Holds::Pair),
        "pass" | "pwd" | "psk" | "requirepass" => Some(Holds::Password),
        // The command is lower case.
        "sshpass" if !name.iter().any(u8::is_ascii_lowercase) => Some(Holds::Password),
        "key"
            if before
                .last()
                .is_some_and(|word| KEY_OF.contains(&word.as_str())) =>
        {
            let is_access = before
                .last()
                .is_some_and(|word| ["api", "secret", "access"].contains(&word.as_str()));
            Some(Holds::Key { is_access })
        }
        "token" => Some(Holds::Token { is_qualified }),
        _ if ends(PASSWORDS) => Some(Holds::Password),
        _ if ends(KEYS) => {
            let is_access = ends(&["apikey", "accesskey", "secretkey"]);
            Some(Holds::Key { is_access })
        }
        _ if ends(&["secret"]) => Some(Holds::Secret),
        _ if ends(TOKENS) => Some(Holds::Token { is_qualified: true }),
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
        let starts = !is_of_word(before) || is_hump || is_digits;
        if is_of_word(byte) {
            match words.last_mut().filter(|_| !starts) {
                Some(word) => word.push(char::from(byte.to_ascii_lowercase())),
                None => words.push(char::from(byte.to_ascii_lowercase()).to_string()),
            }
        }
        before = byte;
    }
    words
}

pub(super) fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}
