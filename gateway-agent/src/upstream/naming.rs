//! Under which names callers know what an upstream has besides its tools.
//!
//! Every target has a prefix that depends on nothing but its own configuration, so that names stay
//! when targets come and go; one target may do without. `prefix/name` is a prompt,
//! `prefix+scheme:…` a resource. What a target without prefix has is escaped where it could be taken
//! for another's. Deliberately absent: tools, whose names are registered, and tasks, whose ids are
//! sealed.

use std::{borrow::Cow, sync::Arc};

/// Separates the prefix of a prompt.
const PROMPT: char = '/';
/// Separates the prefix of a URI: a scheme may have a plus.
const URI: char = '+';

/// The prefix of one target; empty for a target that does without.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// Reads a prefix: letters, digits, dots and hyphens, a letter first, or nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let is_good = text.is_empty()
            || (text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-')));
        is_good.then(|| Self(text.into()))
    }

    /// The usual prefix of a registered server: its name, with what a scheme may not have replaced.
    pub fn of_server(name: &str) -> Self {
        let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let mut text: String = name.chars().map(|c| if c == '.' { c } else { fit(c) }).collect();
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            text.insert_str(0, "s-");
        }
        Self(text.into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether names stay as they are, most of them.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A prompt's name, as callers know it.
    pub fn prompt(&self, name: &str) -> String {
        if self.0.is_empty() && !name.contains(PROMPT) {
            return name.to_owned();
        }
        format!("{}{PROMPT}{name}", self.0)
    }

    /// A URI, or the template of one, as callers know it; `None` where it would be ambiguous.
    pub fn uri<'a>(&self, uri: &'a str) -> Option<Cow<'a, str>> {
        if !self.0.is_empty() {
            return Some(format!("{}{URI}{uri}", self.0).into());
        }
        let scheme = uri.split(':').next().unwrap_or(uri);
        (!scheme.contains(URI)).then_some(Cow::Borrowed(uri))
    }
}

/// Whose prompt a name means, and how that target calls it.
pub fn prompt(known: &str) -> (&str, &str) {
    known.split_once(PROMPT).unwrap_or(("", known))
}

/// Whose resource a URI means, and how that target calls it.
pub fn uri(known: &str) -> (&str, &str) {
    let scheme = known.find(':').unwrap_or(known.len());
    match known[..scheme].find(URI) {
        Some(end) => (&known[..end], &known[end + 1..]),
        None => ("", known),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_say_whose_they_are() {
        let docs = Prefix::parse("docs").unwrap();
        assert_eq!(docs.prompt("review"), "docs/review");
        assert_eq!(docs.uri("file:///a+b").unwrap(), "docs+file:///a+b");
        let none = Prefix::parse("").unwrap();
        assert_eq!((none.prompt("review"), none.prompt("a/b")), ("review".into(), "/a/b".into()));
        assert_eq!(none.uri("git+ssh://x"), None);
        assert_eq!(none.uri("test://a+b").unwrap(), "test://a+b");
        assert_eq!(Prefix::of_server("team/9_docs.v2").as_str(), "team-9-docs.v2");
        assert_eq!(Prefix::of_server("9").as_str(), "s-9");
        for bad in ["a b", "9a", "a+b", "a/b", "ä"] {
            assert_eq!(Prefix::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_name_leads_back(prefix in "([a-z][a-z0-9.-]{0,5})?", name in ".{0,12}", uri in "[a-z]{1,5}:.{0,8}") {
            let own = Prefix::parse(&prefix).unwrap();
            let prompt = own.prompt(&name);
            let known = own.uri(&uri).unwrap();
            prop_assert_eq!(super::prompt(&prompt), (prefix.as_str(), name.as_str()));
            prop_assert_eq!(super::uri(&known), (prefix.as_str(), uri.as_str()));
        }
    }
}
