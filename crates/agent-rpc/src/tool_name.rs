//! Names of tools for model providers, which allow 64 of `[A-Za-z0-9_-]` that begin with a letter or
//! `_`. The strictest rules of the providers together.
//!
//! A dot becomes `_dot_`. Other names end with a digest. Each name has one form, and [`find`] finds
//! the tool of a form among the names of a caller.

use std::borrow::Cow;

use registry_core::Digest;

/// Maximum characters.
const CHARACTERS: usize = 64;
const DOT: &str = "_dot_";
/// The end of a name with a digest: `_h` and hexadecimal digits.
const MARK: &str = "_h";
const DIGITS: usize = 16;

/// The name for model providers.
pub fn provider_name(name: &str) -> Cow<'_, str> {
    let is_plain = is_allowed(name) && !name.contains(DOT) && !has_digest(name);
    if is_plain {
        return Cow::Borrowed(name);
    }
    let dotted = name.replace('.', DOT);
    if is_allowed(&dotted) && dotted.replace(DOT, ".") == name && !has_digest(&dotted) {
        return Cow::Owned(dotted);
    }
    let digest = Digest::compute(name.as_bytes()).to_string();
    let digits = digest.split_once(':').map_or("", |(_, digits)| &digits[..DIGITS]);
    let mut short = String::with_capacity(CHARACTERS);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        short.push('_');
    }
    let safe = name.chars().map(|c| if is_character(c) { c } else { '_' });
    let room = CHARACTERS - MARK.len() - DIGITS - short.len();
    short.extend(safe.take(room));
    short.push_str(MARK);
    short.push_str(digits);
    Cow::Owned(short)
}

/// Whether a name can be the form of another one. Each other name is only its own form.
pub fn is_form(name: &str) -> bool {
    name.contains(DOT) || has_digest(name)
}

/// The result of [`find`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// One tool.
    One(&'a str),
    /// No tool.
    None,
    /// A name that is also the form of another one. Neither is chosen.
    Ambiguous,
}

/// Finds the tool with this name, or with this name for model providers.
pub fn find<'a>(asked: &str, names: impl IntoIterator<Item = &'a str>) -> Found<'a> {
    let mut found = Found::None;
    for name in names {
        if name == asked || provider_name(name) == asked {
            match found {
                Found::None => found = Found::One(name),
                Found::One(other) if other == name => {}
                _ => return Found::Ambiguous,
            }
        }
    }
    found
}

fn is_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

fn is_allowed(name: &str) -> bool {
    (1..=CHARACTERS).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(is_character)
}

fn has_digest(name: &str) -> bool {
    let digits = name.rsplit_once(MARK).map(|(_, digits)| digits);
    digits.is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn readable_names_stay_readable() {
        assert_eq!(provider_name("save_fact"), "save_fact");
        assert_eq!(provider_name("news.fetch"), "news_dot_fetch");
        assert_eq!(provider_name(".fetch"), "_dot_fetch");
        for digested in
            ["news_dot_fetch", "9lives", "größe", &"a".repeat(65), "a_h0123456789abcdef"]
        {
            assert!(has_digest(&provider_name(digested)), "{digested}");
        }
    }

    #[test]
    fn shared_form_is_ambiguous() {
        let form = provider_name("9lives").into_owned();
        let names = ["9lives", "other"];
        assert_eq!(find(&form, names), Found::One("9lives"));
        assert_eq!(find("9lives", names), Found::One("9lives"));
        assert_eq!(find("lives", names), Found::None);
        assert_eq!(find(&form, ["9lives", form.as_str()]), Found::Ambiguous);
        assert_eq!(find("a_dot_b", ["a.b", "a_dot_b"]), Found::Ambiguous);
        assert_eq!(find("a.b", ["a.b", "a_dot_b"]), Found::One("a.b"));
    }

    proptest! {
        #[test]
        fn names_are_allowed_and_reversible(names in proptest::collection::btree_set("([a-c._]|_dot_|_h0123456789abcdef|-|é){1,70}|.{1,8}", 1..20)) {
            for name in &names {
                let form = provider_name(name);
                prop_assert!(is_allowed(&form), "{}", form);
                let forms = names.iter().filter(|other| provider_name(other) == form);
                prop_assert_eq!(forms.count(), 1);
                prop_assert!(form == *name || is_form(&form));
                let has_double = names.iter().any(|other| other != name && *other == form);
                let expected = if has_double { Found::Ambiguous } else { Found::One(name) };
                prop_assert_eq!(find(&form, names.iter().map(String::as_str)), expected);
            }
        }
    }
}
