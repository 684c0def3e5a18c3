//! Names of an upstream's prompts and resources for callers.
//!
//! The prefix of a target depends only on its own configuration, so names do not change when other
//! targets are added or removed. One target may have an empty prefix. A prompt is named
//! `prefix/name`, a resource `prefix+scheme:…`. Names of the target with the empty prefix are
//! escaped if they could be mistaken for another target's.
//!
//! Hosts of MCP Apps recognize an interface by its scheme, and interfaces reference each other by
//! constant URIs. So a `ui://` resource keeps its URI as long as one target has it
//! ([`Interfaces`]). Otherwise it is named `ui://prefix+…`, which always resolves.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// Separates the prefix of a prompt.
const PROMPT: char = '/';
/// Separates the prefix of a URI: a scheme may have a plus.
const URI: char = '+';
/// The scheme of interfaces of MCP Apps.
const INTERFACE: &str = "ui://";

/// The prefix of one target. At most one target has an empty prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// Parses a prefix: empty, or a letter followed by letters, digits, dots and hyphens.
    pub fn parse(text: &str) -> Option<Self> {
        let is_good = text.is_empty()
            || (text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-')));
        is_good.then(|| Self(text.into()))
    }

    /// The default prefix of a registered server: its name, with characters replaced that a URI
    /// scheme does not allow.
    pub fn of_server(name: &str) -> Self {
        let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let mut text: String = name.chars().map(|c| if c == '.' { c } else { fit(c) }).collect();
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            text.insert_str(0, "s-");
        }
        Self(text.into())
    }

    /// The prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the prefix is empty; most names are then unchanged.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of a prompt for callers.
    pub fn prompt(&self, name: &str) -> String {
        if self.0.is_empty() && !name.contains(PROMPT) {
            return name.to_owned();
        }
        format!("{}{PROMPT}{name}", self.0)
    }

    /// The URI or URI template of a resource for callers. `None`: the name would be ambiguous.
    pub fn uri<'a>(&self, uri: &'a str) -> Option<Cow<'a, str>> {
        let place = Place::parse(uri);
        if !self.0.is_empty() {
            return Some(format!("{}{}{URI}{}", place.before, self.0, place.rest).into());
        }
        (!place.marked().contains(URI)).then_some(Cow::Borrowed(uri))
    }
}

/// Whether a URI names an interface of an MCP App.
pub fn is_interface(uri: &str) -> bool {
    uri.starts_with(INTERFACE)
}

/// Splits a caller's name of a prompt into the prefix and the target's own name.
pub fn prompt(known: &str) -> (&str, &str) {
    known.split_once(PROMPT).unwrap_or(("", known))
}

/// Splits a caller's URI into the prefix and the target's own URI.
pub fn uri(known: &str) -> (&str, Cow<'_, str>) {
    let place = Place::parse(known);
    match place.marked().find(URI) {
        Some(end) => {
            let own = &place.rest[end + 1..];
            let own = match place.before {
                "" => Cow::Borrowed(own),
                before => Cow::Owned(format!("{before}{own}")),
            };
            (&place.rest[..end], own)
        }
        None => ("", Cow::Borrowed(known)),
    }
}

/// The position of the prefix in a URI: before the scheme, or before the authority of an interface.
struct Place<'a> {
    before: &'static str,
    rest: &'a str,
}

impl<'a> Place<'a> {
    fn parse(uri: &'a str) -> Self {
        match uri.strip_prefix(INTERFACE) {
            Some(rest) => Self { before: INTERFACE, rest },
            None => Self { before: "", rest: uri },
        }
    }

    /// The part that can contain a prefix.
    fn marked(&self) -> &'a str {
        let end = if self.before.is_empty() { ':' } else { '/' };
        self.rest.split(end).next().unwrap_or(self.rest)
    }
}

/// The interfaces of MCP Apps that keep their URIs: those of exactly one prefix.
#[derive(Debug, Default, PartialEq)]
pub struct Interfaces(BTreeMap<Box<str>, Option<Prefix>>);

impl Interfaces {
    /// Creates the set from the interfaces of all targets. Versions of one server share a prefix.
    pub fn new<'a>(all: impl IntoIterator<Item = (&'a Prefix, &'a str)>) -> Self {
        let mut owners: BTreeMap<Box<str>, Option<Prefix>> = BTreeMap::new();
        for (prefix, uri) in all {
            // Such a URI would be mistaken for one with a prefix.
            if Place::parse(uri).marked().contains(URI) {
                continue;
            }
            owners
                .entry(uri.into())
                .and_modify(|owner| *owner = owner.take().filter(|owner| owner == prefix))
                .or_insert_with(|| Some(prefix.clone()));
        }
        Self(owners)
    }

    /// A caller's URI for a resource of the target with this prefix. `None`: it would be ambiguous.
    pub fn known<'a>(&self, prefix: &Prefix, own: &'a str) -> Option<Cow<'a, str>> {
        if self.0.get(own).and_then(Option::as_ref) == Some(prefix) {
            return Some(Cow::Borrowed(own));
        }
        prefix.uri(own)
    }

    /// Splits a caller's URI into the prefix and the target's own URI.
    pub fn resolve<'a>(&'a self, known: &'a str) -> (&'a str, Cow<'a, str>) {
        match self.0.get(known).and_then(Option::as_ref) {
            Some(owner) => (owner.as_str(), Cow::Borrowed(known)),
            None => uri(known),
        }
    }
}

/// The resource names of one target.
#[derive(Debug, Clone)]
pub struct ResourceNames {
    /// The target's prefix.
    pub prefix: Prefix,
    /// The interfaces of all targets.
    pub interfaces: Arc<Interfaces>,
}

impl ResourceNames {
    /// A caller's URI for a resource of the target. `None`: it would be ambiguous.
    pub fn known<'a>(&self, own: &'a str) -> Option<Cow<'a, str>> {
        self.interfaces.known(&self.prefix, own)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_contain_the_prefix() {
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

    #[test]
    fn interfaces_keep_their_uri_unless_shared() {
        let [a, b, none] = ["a", "b", ""].map(|text| Prefix::parse(text).unwrap());
        let all = [
            (&a, "ui://own/x"),
            (&a, "ui://own/x"),
            (&a, "ui://both/x"),
            (&b, "ui://both/x"),
            (&a, "ui://plus+s/x"),
            (&none, "ui://plain/x"),
        ];
        let interfaces = Interfaces::new(all);
        for (prefix, own, known) in [
            (&a, "ui://own/x", "ui://own/x"),
            (&b, "ui://own/x", "ui://b+own/x"),
            (&a, "ui://both/x", "ui://a+both/x"),
            (&b, "ui://both/x", "ui://b+both/x"),
            (&a, "ui://plus+s/x", "ui://a+plus+s/x"),
            (&a, "ui://unlisted/a+b", "ui://a+unlisted/a+b"),
            (&none, "ui://plain/x", "ui://plain/x"),
            (&a, "file:///x", "a+file:///x"),
        ] {
            assert_eq!(interfaces.known(prefix, own).as_deref(), Some(known));
            assert_eq!(interfaces.resolve(known), (prefix.as_str(), Cow::Borrowed(own)));
        }
        assert_eq!(interfaces.known(&none, "ui://a+b/x"), None);
        // A URI of two targets resolves to neither.
        assert_eq!(interfaces.resolve("ui://both/x").0, "");
    }

    proptest! {
        #[test]
        fn every_name_resolves_to_its_target(prefix in "([a-z][a-z0-9.-]{0,5})?", name in ".{0,12}", uri in "([a-z]{1,5}:|ui://).{0,8}") {
            let own = Prefix::parse(&prefix).unwrap();
            let prompt = own.prompt(&name);
            let Some(known) = own.uri(&uri) else { return Ok(()) };
            prop_assert_eq!(super::prompt(&prompt), (prefix.as_str(), name.as_str()));
            prop_assert_eq!(super::uri(&known), (prefix.as_str(), Cow::Borrowed(uri.as_str())));
        }
    }
}
