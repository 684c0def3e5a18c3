//! Whether a text is random, or a word, a reference or a placeholder.

/// Words of placeholders and examples.
const PLACEHOLDER_WORDS: [&str; 13] = [
    "example",
    "sample",
    "placeholder",
    "your",
    "dummy",
    "fake",
    "changeme",
    "redacted",
    "xxx",
    "xxxx",
    "todo",
    "replace",
    "masked",
];
/// Values of examples. Passwords contain them.
const EXAMPLES: [&str; 7] =
    ["password", "change-me", "change_me", "changeit", "none", "null", "undefined"];
/// Starts of references to values elsewhere, of templates, and of hashes.
const REFERENCES: [&str; 22] = [
    "${",
    "$(",
    "{{",
    "((",
    "[[",
    "<%",
    "%(",
    "process.",
    "os.",
    "env.",
    "env:",
    "ENV[",
    "sha256:",
    "sha1:",
    "sha512:",
    "sha256-",
    "sha512-",
    "arn:",
    "vault:",
    "op://",
    "secret/",
    "[redacted",
];
const BRACKETS: [(char, char); 5] = [('<', '>'), ('[', ']'), ('(', ')'), ('{', '}'), ('%', '%')];
/// The shortest name of a called function.
const FUNCTION_BYTES: usize = 3;

/// Whether a value refers to another one, or shows where one belongs.
pub(super) fn is_placeholder(value: &str) -> bool {
    let mut words = value.split(|char: char| !char.is_ascii_alphabetic());
    let is_known = |word: &str| PLACEHOLDER_WORDS.iter().any(|w| w.eq_ignore_ascii_case(word));
    is_reference(value)
        || words.any(is_known)
        || EXAMPLES.iter().any(|example| value.eq_ignore_ascii_case(example))
        || value.contains("...")
        || value.contains("***")
        || is_repetitive(value)
}

/// Whether a value has the form of a reference. A password may start with the same sign. The end of a
/// value without quotes may be missing: `)`, `]`, `}` and quotes end it.
fn is_reference(value: &str) -> bool {
    let (Some(first), Some(last)) = (value.chars().next(), value.chars().last()) else {
        return false;
    };
    let rest = &value[first.len_utf8()..];
    let is_word = || rest.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_- ".contains(&byte));
    REFERENCES.iter().any(|start| value.starts_with(start))
        || BRACKETS.contains(&(first, last)) && value.len() > 1
        || match first {
            '$' => is_path_of_names(rest) || is_hash(rest),
            '*' | '&' | '{' => is_path_of_names(rest),
            '@' => rest.contains(['.', '/']) || is_word(),
            '<' | '[' | '(' => is_word(),
            _ => is_call(value),
        }
}

/// Whether a text is a name such as `DB_PASSWORD`, `config.password2` or `_ENV["x"]`.
fn is_path_of_names(text: &str) -> bool {
    let names = text.split(['[', '(']).next().unwrap_or_default().trim_end_matches('-');
    let starts = names.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts && names.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:".contains(&byte))
}

/// Whether `$` and this text are a hash such as `$2b$12$…` or `$argon2id$…`.
fn is_hash(text: &str) -> bool {
    let kind = text.split_once('$').map(|(kind, _)| kind).unwrap_or_default();
    !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a text is a call such as `getenv("x")`.
fn is_call(text: &str) -> bool {
    let name = text.split_once('(').map(|(name, _)| name).unwrap_or_default();
    name.len() >= FUNCTION_BYTES && is_path_of_names(name)
}

/// Whether most characters repeat or follow the one before, as in `aaaa` and `12345`.
fn is_repetitive(value: &str) -> bool {
    let pairs = value.as_bytes().windows(2);
    let steps =
        pairs.filter(|pair| matches!(i16::from(pair[1]) - i16::from(pair[0]), 0 | 1)).count();
    steps * 2 > value.len()
}

/// Whether the part of a key after its prefix is not written by hand.
pub(super) fn is_varied(key: &str) -> bool {
    !is_repetitive(key) && entropy(key) >= 2.8
}

/// Whether a password is not a word: of letters and digits, or with a sign.
pub(super) fn is_password(value: &str) -> bool {
    let has = |wanted: fn(u8) -> bool| value.bytes().any(wanted);
    let has_letter = has(|byte| byte.is_ascii_alphabetic());
    let has_digit = has(|byte| byte.is_ascii_digit());
    let has_sign = has(|byte| byte.is_ascii_punctuation() && !b"-_.:/,'\"".contains(&byte));
    (6..=128).contains(&value.len())
        && has_letter
        && (has_digit || has_sign)
        && !is_placeholder(value)
        && !is_path(value)
        && !is_code(value)
}

/// Whether a key or token is random: it has a long part with letters and digits and enough entropy.
pub(super) fn is_random(value: &str) -> bool {
    let parts = value.split(|char: char| !char.is_ascii_alphanumeric() && !"+/".contains(char));
    let longest = parts.max_by_key(|part| part.len()).unwrap_or_default();
    (16..=512).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_graphic())
        && !is_placeholder(value)
        && !is_path(value)
        && is_random_part(longest)
}

fn is_random_part(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    let letters = part.bytes().filter(u8::is_ascii_alphabetic).count();
    let is_hex = part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let entropy = entropy(part);
    let least = if is_hex { 2.8 } else { 3.2 };
    let is_mixed = digits >= 2 && entropy >= least || digits == 1 && entropy >= 4.0;
    part.len() >= 16 && letters >= 2 && is_mixed && !is_name(part)
}

/// Whether a text consists of capitalized words and numbers, as in `Curve25519SeedBin`.
fn is_name(part: &str) -> bool {
    part.as_bytes().windows(2).all(|pair| match pair[0] {
        b'a'..=b'z' => pair[1].is_ascii_alphanumeric(),
        b'A'..=b'Z' => pair[1].is_ascii_lowercase(),
        b'0'..=b'9' => !pair[1].is_ascii_lowercase() && pair[1].is_ascii_alphanumeric(),
        _ => false,
    })
}

fn is_path(value: &str) -> bool {
    let is_base64 = value.ends_with('=');
    value.starts_with(['/', '~']) && !is_base64 || value.starts_with("./") || value.contains("://")
}

/// Whether a value is an expression such as `config.password2`.
fn is_code(value: &str) -> bool {
    let is_name = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    value.contains('.') && value.split('.').all(is_name)
}

/// Whether a value has the form of a UUID.
pub(super) fn is_uuid(value: &str) -> bool {
    let lengths = value.split('-').map(str::len);
    let is_hex = value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_hex && lengths.eq([8, 4, 4, 4, 12])
}

/// Shannon entropy in bits per character.
#[expect(clippy::cast_precision_loss, reason = "counts are below 1,024")]
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let share = |count: &u32| f64::from(*count) / text.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(share);
    shares.map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_texts_are_told_from_words() {
        assert!(is_random("9f8a7c6b5e4d3f2a1b0c9d8e"));
        assert!(is_random("kX9vQ2mT7bLp4WzR8nYc"));
        assert!(is_random("343243fb497306e5cbaeeda177cc540d"));
        for value in [
            "refresh-token-rotation-v2",
            "0123456789abcdef0123",
            "${API_KEY_PRODUCTION_1}",
            "EcPrivateKeyRfc5915Der",
            "your-api-key-goes-here-1234567890",
            "/run/secrets/api-key-2026-v1x",
        ] {
            assert!(!is_random(value), "{value}");
        }
    }

    #[test]
    fn passwords_are_told_from_words() {
        for value in [
            "tr0ub4dor",
            "s3cr3t!x",
            "Kiefer#99",
            "$ecret123!x",
            "@dm1nP4ss99",
            "Password123!",
            "h(unter2X9",
            "change-me-9x",
            "[x9!abc",
        ] {
            assert!(is_password(value), "{value}");
        }
        for value in [
            "required",
            "config.password2",
            "<pass1>",
            "********",
            "123456",
            "not-set",
            "$DB_PASSWORD_2",
            "$_ENV[KEY1",
            "$2b$12$HiAnG5xvsg9NNSZiucsQ3w",
            "${PASS1",
            "%PASS1%",
            "*default_pw1",
            "@secret1.txt",
            "[hidden",
            "getenv(KEY1",
            "your-password-1",
        ] {
            assert!(!is_password(value), "{value}");
        }
    }
}
