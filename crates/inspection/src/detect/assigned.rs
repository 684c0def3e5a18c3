//! Secrets next to the name of a secret: `password=…`, `"apiKey": "…"`.

use std::ops::Range;

use registry_core::entity::policy::DataClass;

use super::randomness;
use crate::{
    context::{Text, is_word_byte},
    detector::Detector,
    scan::Scan,
};

pub(crate) static ASSIGNED_SECRET: Detector = Detector::new(
    "assigned-secret",
    DataClass::Credential,
    "random values that are assigned to a name such as `api_key`, `token` or `password`",
);

const NAME_BYTES: usize = 48;
const VALUE_BYTES: usize = 512;
/// The shortest key that follows its name without a separator.
const BARE_BYTES: usize = 24;
/// Bytes of a clause before its value.
const CLAUSE_BYTES: usize = 40;
/// Maximum white space before a value in the next line.
const INDENT_BYTES: usize = 16;
/// The shortest password.
const MIN_BYTES: usize = 6;

/// The kind of secret that a name promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secret {
    /// Chosen by a person.
    Password,
    /// A UUID is an identifier as often as a token.
    Token,
    Key,
}

/// `contraseña` has two runs of ASCII letters.
const PASSWORDS: [&str; 10] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "passwords",
    "passwort",
    "kennwort",
    "contrasena",
    "contrase",
];
const TOKENS: [&str; 3] = ["token", "authtoken", "accesstoken"];
const SECRETS: [&str; 11] = [
    "secret",
    "secrets",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "accountkey",
    "signingkey",
    "masterkey",
    "encryptionkey",
    "clientsecret",
];
/// Words before `key` in the name of a secret.
const KEYS: [&str; 12] = [
    "api",
    "access",
    "secret",
    "private",
    "account",
    "signing",
    "master",
    "encryption",
    "shared",
    "auth",
    "service",
    "license",
];
/// Last words of names that describe a secret.
const DESCRIPTIONS: [&str; 45] = [
    "count",
    "type",
    "id",
    "ids",
    "url",
    "uri",
    "name",
    "names",
    "limit",
    "limits",
    "expires",
    "expiry",
    "expiration",
    "endpoint",
    "policy",
    "length",
    "len",
    "usage",
    "budget",
    "field",
    "label",
    "hint",
    "hash",
    "digest",
    "ref",
    "file",
    "path",
    "provider",
    "class",
    "manager",
    "service",
    "ttl",
    "rotation",
    "version",
    "store",
    "header",
    "issuer",
    "size",
    "rate",
    "index",
    "format",
    "algorithm",
    "arn",
    "status",
    "fingerprint",
];
/// Words of names that are no secrets: `nextPageToken`, `max_tokens`, `public_key`.
const OTHER: [&str; 17] = [
    "max",
    "min",
    "num",
    "total",
    "next",
    "page",
    "prev",
    "previous",
    "continuation",
    "cursor",
    "sync",
    "pagination",
    "public",
    "hashed",
    "cancellation",
    "resume",
    "change",
];

/// The secret that a name promises.
fn promised(name: &str) -> Option<Secret> {
    let words = words(name);
    let last = words.last()?;
    if is_one_of(last, &DESCRIPTIONS) || words.iter().any(|word| is_one_of(word, &OTHER)) {
        return None;
    }
    // `PGPASSWORD` and `MYSQLPWD` are one word.
    let is_password = |word: &&str| {
        let word = word.to_ascii_lowercase();
        PASSWORDS.iter().any(|password| word.ends_with(password))
    };
    if words.iter().any(is_password) {
        return Some(Secret::Password);
    }
    let is_key = |pair: &[&str]| is_one_of(pair[0], &KEYS) && is_one_of(pair[1], &["key"]);
    if words.iter().any(|word| is_one_of(word, &SECRETS)) || words.windows(2).any(is_key) {
        return Some(Secret::Key);
    }
    words.iter().any(|word| is_one_of(word, &TOKENS)).then_some(Secret::Token)
}

/// Whether a name contains a part of each name that promises a secret.
fn may_promise(name: &str) -> bool {
    let is_part = |part: &[u8]| {
        let [a, b, c] = part else { return false };
        let lower = [a, b, c].map(u8::to_ascii_lowercase);
        matches!(&lower, b"pas" | b"pwd" | b"sec" | b"tok" | b"key" | b"ken" | b"ntr")
    };
    name.as_bytes().windows(3).any(is_part)
}

fn words(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in name.split(|char: char| !char.is_ascii_alphabetic()) {
        let mut rest = part;
        while !rest.is_empty() {
            let pairs = rest.as_bytes().windows(2);
            let is_break =
                |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
            let (word, tail) =
                rest.split_at(pairs.clone().position(is_break).map_or(rest.len(), |i| i + 1));
            words.push(word);
            rest = tail;
        }
    }
    words
}

fn is_one_of(word: &str, wanted: &[&str]) -> bool {
    wanted.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn is_secret(kind: Secret, value: &str) -> bool {
    match kind {
        Secret::Password => randomness::is_password(value),
        Secret::Token => randomness::is_random(value),
        Secret::Key => randomness::is_random(value) || randomness::is_uuid(value),
    }
}

/// Validates a whole value by the name of its JSON member.
pub(crate) fn find_keyed(scan: &mut Scan<'_>) {
    let text = scan.text;
    let is_possible = (MIN_BYTES..=VALUE_BYTES).contains(&text.len());
    if text.key.is_empty() || text.key.len() > NAME_BYTES || !is_possible {
        return;
    }
    if !may_promise(text.key) {
        return;
    }
    if promised(text.key).is_some_and(|kind| is_secret(kind, text.text)) {
        scan.add(&ASSIGNED_SECRET, 0..text.len());
    }
}

/// Validates the value after a name, from a part of the name.
pub(crate) fn find(scan: &mut Scan<'_>, start: usize, end: usize) {
    let text = scan.text;
    if scan.is_deep_in_assigned(start) {
        return;
    }
    let is_name = |byte: u8| is_word_byte(byte) || byte == b'-';
    let name_end = text.run_end(end, NAME_BYTES, is_name);
    let name_start = text.run_start(start, NAME_BYTES, is_name);
    let name = name_start..name_end;
    let Some(Assigned { value, is_bare, is_below }) = assigned(text, &name) else { return };
    scan.enter_assigned(&value);
    let least = if is_bare { BARE_BYTES } else { MIN_BYTES };
    if value.len() < least {
        return;
    }
    let kind =
        promised(text.slice(name.clone())).or_else(|| promised(&with_word_before(text, &name)));
    let kind = kind.filter(|kind| *kind != Secret::Password || !is_bare && !is_below);
    if kind.is_some_and(|kind| is_secret(kind, text.slice(value.clone()))) {
        scan.add(&ASSIGNED_SECRET, value);
    }
}

/// The name with the word before, as in `API key`.
fn with_word_before(text: Text<'_>, name: &Range<usize>) -> String {
    if text.byte_before(name.start) != Some(b' ') {
        return String::new();
    }
    let start = text.run_start(name.start - 1, NAME_BYTES, |byte| byte.is_ascii_alphabetic());
    text.slice(start..name.end).to_ascii_lowercase()
}

struct Assigned {
    value: Range<usize>,
    /// Only a space is between the name and the value.
    is_bare: bool,
    /// The value is in the next line.
    is_below: bool,
}

/// The length of `is `, or of words with `is ` at their end, as in `token for the demo is …`.
fn verb(text: Text<'_>, at: usize) -> Option<usize> {
    let end = text.run_end(at, CLAUSE_BYTES, |byte| byte.is_ascii_alphabetic() || byte == b' ');
    let clause = text.slice(at..end);
    if clause.starts_with("is ") { Some(3) } else { Some(clause.find(" is ")? + 4) }
}

/// The value that is assigned to a name.
fn assigned(text: Text<'_>, name: &Range<usize>) -> Option<Assigned> {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t');
    let quote_end = text.run_end(name.end, 3, |byte| b"\"'`]\\".contains(&byte));
    let space_end = text.run_end(quote_end, 3, is_space);
    let rest = text.bytes().get(space_end..)?;
    let is_option = text.slice(name.start..name.end).starts_with("--");
    let is_element = text.byte_before(name.start) == Some(b'<') && rest.first() == Some(&b'>');
    let is_apart = space_end > quote_end;
    let clause = if is_apart { verb(text, space_end) } else { None };
    let separator = match rest {
        // A path, as in `Secret::Key`.
        [b':', b':', ..] => return None,
        [b':' | b'=', b'=' | b'>', ..] => 2,
        [b':' | b'=', ..] => 1,
        [b'|', ..] if is_apart && is_cell(text, name.start) => 1,
        _ if is_element => 1,
        _ if is_apart => clause.unwrap_or_default(),
        _ => return None,
    };
    let start = text.run_end(space_end + separator, 3, is_space);
    let is_below = separator == 1 && matches!(text.byte(start), Some(b'\n' | b'\r'));
    let start = if is_below {
        text.run_end(start, INDENT_BYTES, |byte| byte.is_ascii_whitespace())
    } else {
        start
    };
    let is_escaped = text.byte(start) == Some(b'\\');
    let start = start + usize::from(is_escaped);
    let quote = text.byte(start).filter(|byte| b"\"'`".contains(byte));
    let start = start + usize::from(quote.is_some());
    let end = match quote {
        Some(quote) => {
            let belongs = |byte: u8| byte.is_ascii_graphic() && byte != quote && byte != b'\\';
            let end = text.run_end(start, VALUE_BYTES, belongs);
            // A value with a space is a sentence, unless it is a whole string of a document.
            text.byte(end).filter(|byte| *byte == quote || *byte == b'\\').map(|_| end)?
        }
        None => unquoted_end(text, start),
    };
    let is_bare = is_apart && separator == 0 && !is_option;
    // Another name may be in the next line.
    let is_name = is_below && text.byte(end) == Some(b':');
    (end > start && !is_name).then_some(Assigned { value: start..end, is_bare, is_below })
}

/// Whether a name is the start of a cell in a table: `| api_key | … |`.
fn is_cell(text: Text<'_>, name: usize) -> bool {
    let start = text.run_start(name, 3, |byte| matches!(byte, b' ' | b'`'));
    text.byte_before(start) == Some(b'|')
}

/// The end of a value without quotes. A sentence may end after it.
fn unquoted_end(text: Text<'_>, start: usize) -> usize {
    let belongs = |byte: u8| byte.is_ascii_graphic() && !b"\"'`<>,;&|)}]\\".contains(&byte);
    let end = text.run_end(start, VALUE_BYTES, belongs);
    start + text.slice(start..end).trim_end_matches(['.', ':']).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_promise_secrets() {
        for (name, expected) in [
            ("db_password", Some(Secret::Password)),
            ("API_KEY", Some(Secret::Key)),
            ("clientSecret", Some(Secret::Key)),
            ("aws_secret_access_key", Some(Secret::Key)),
            ("x-auth-token", Some(Secret::Token)),
            ("max_tokens", None),
            ("nextPageToken", None),
            ("token_type", None),
            ("primary_key", None),
            ("monkey", None),
            ("passwordHash", None),
            ("public_key", None),
        ] {
            assert_eq!(promised(name), expected, "{name}");
            assert!(expected.is_none() || may_promise(name), "{name}");
        }
        for name in PASSWORDS.iter().chain(&TOKENS).chain(&SECRETS).chain(&["api_KEY"]) {
            assert!(may_promise(name) && may_promise(&name.to_uppercase()), "{name}");
        }
        assert!(!may_promise("payload") && !may_promise("pa"));
    }
}
