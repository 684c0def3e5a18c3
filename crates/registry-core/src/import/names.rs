//! Names and versions as others write them, brought to our rules.
//!
//! Deliberately absent: whether a name is free.

use serde_json::Value;

use super::{Repairs, repair::quoted};
use crate::{decode::describe, name::Name, reference::Kind, version::Version};

const LONGEST: usize = 128;

/// The name that comes closest to this text; `None` where nothing of it can be kept.
pub fn name_of(kind: Kind, text: &str) -> Option<Name> {
    if let Ok(name) = Name::parse(kind, text) {
        return Some(name);
    }
    let text = text.trim_start_matches('@');
    let name = match text.split_once('/') {
        Some((namespace, rest)) if kind.has_namespaces() => {
            let (namespace, rest) = (part(kind, namespace), part(kind, rest));
            let joined = [namespace, rest].into_iter().filter(|part| !part.is_empty());
            joined.collect::<Vec<_>>().join("/")
        }
        _ => part(kind, text),
    };
    Name::parse(kind, name.get(..LONGEST).unwrap_or(&name)).ok()
}

/// What is wrong with a name of which nothing can be kept.
pub(super) fn no_name(said: Option<&Value>, whose: &str) -> String {
    match said {
        None | Some(Value::Null) => "the name is missing".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "the name is empty".to_owned(),
        Some(Value::String(text)) => format!("{} cannot be made {whose} name", quoted(text)),
        Some(other) => format!("the name is {}, not a text", describe(other)),
    }
}

/// One part of a name: each run of other characters is one separator.
fn part(kind: Kind, text: &str) -> String {
    let separator = if kind == Kind::Tool { '_' } else { '-' };
    let mut part = String::new();
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-') {
            part.push(character);
        } else if !part.is_empty() && !part.ends_with(separator) {
            part.push(separator);
        }
    }
    part.trim_end_matches(separator).to_owned()
}

/// The exact version that a text stands for: `v1.2` is `1.2.0`, `2026.01.05` is `2026.1.5`.
pub fn version_of(text: &str) -> Option<Version> {
    let text = text.trim();
    if let Ok(version) = Version::parse(text) {
        return Some(version);
    }
    let text = text.strip_prefix(['v', 'V', '=']).unwrap_or(text).trim();
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at(end);
    let mut numbers = Vec::new();
    for number in core.split('.').take(4) {
        numbers.push(number.parse::<u32>().ok()?);
    }
    if numbers.len() > 3 {
        return None;
    }
    numbers.resize(3, 0);
    let core: Vec<_> = numbers.iter().map(u32::to_string).collect();
    Version::parse(&format!("{}{rest}", core.join("."))).ok()
}

/// A version as a text, also where it is written as a number.
pub(super) fn version_text(said: &Value) -> String {
    said.as_str().map_or_else(|| said.to_string(), str::to_owned)
}

/// The exact version that is said, or this one instead; what was not exact is reported.
pub(super) fn exact_version(
    repairs: &mut Repairs,
    said: &Value,
    at: &str,
    instead: &str,
) -> String {
    let text = version_text(said);
    let (exact, is_version) = match version_of(&text) {
        Some(version) => (version.to_string(), true),
        None => (instead.to_owned(), false),
    };
    let (text, how) = (quoted(&text), format!("{exact} is written"));
    if said.is_f64() && is_version {
        let what = format!("{text} is a number, not an exact version");
        repairs.needed(at, what, format!("{how}; 1.10 is the number 1.1, so look what it was"));
    } else if !is_version {
        repairs.needed(at, format!("{text} is not an exact version"), how);
    } else if *said != *exact {
        repairs.made(at, format!("{text} is not an exact version"), how);
    }
    exact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_or_brought_to_the_rules() {
        let name = |kind, text| name_of(kind, text).map(|name| name.to_string());
        assert_eq!(name(Kind::Tool, "read_file").as_deref(), Some("read_file"));
        assert_eq!(name(Kind::Tool, "files/read file!").as_deref(), Some("files_read_file"));
        assert_eq!(name(Kind::Server, "My Server (beta)").as_deref(), Some("My-Server-beta"));
        assert_eq!(name(Kind::Server, "@acme/docs/x").as_deref(), Some("acme/docs-x"));
        assert_eq!(name(Kind::Server, "größe/").as_deref(), Some("gr-e"));
        assert_eq!(name(Kind::Tool, "検索"), None);
        assert_eq!(name(Kind::Tool, ""), None);
        assert_eq!(name(Kind::Tool, ".."), None);
        assert_eq!(name(Kind::Tool, &"x ".repeat(500)).unwrap().len(), 128);
    }

    #[test]
    fn versions_are_exact_or_made_so() {
        let version = |text: &str| version_of(text).map(|version| version.to_string());
        for (text, expected) in [
            ("1.2.3", "1.2.3"),
            ("v1.2.3-rc.1", "1.2.3-rc.1"),
            ("1.2", "1.2.0"),
            ("3", "3.0.0"),
            (" 2026.01.05 ", "2026.1.5"),
        ] {
            assert_eq!(version(text).as_deref(), Some(expected), "{text}");
        }
        for bad in ["", "latest", "1.2.3.4", "one", "1..2", "99999999999"] {
            assert_eq!(version(bad), None, "{bad}");
        }
    }
}
