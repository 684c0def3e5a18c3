//! The names under which entities are served, because clients require a namespace.
//!
//! An entity without a namespace is served under that of the registry, unless the resulting name or
//! its namespace is assigned to another owner. If both `docs` and `NAMESPACE/docs` are registered,
//! the first registration has the name.

use std::{borrow::Cow, fmt, str::FromStr};

use registry_core::{catalog::Catalog, chain::Revision, kind::Kind, name::Name};

/// Maximum length of a namespace: with `/` and the longest entity name, 200 characters.
const LONGEST: usize = 71;

/// The namespace of served entities without one: `com.example`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(String);

/// The text is not a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a namespace: write your domain in reverse order, like com.example, with at most \
     {LONGEST} of A-Z a-z 0-9 . -"
)]
pub struct InvalidNamespace(String);

impl FromStr for Namespace {
    type Err = InvalidNamespace;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        let is_bounded = |text: &str| {
            let ends = [text.bytes().next(), text.bytes().last()];
            ends.into_iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        };
        if text.len() > LONGEST || !text.bytes().all(is_allowed) || !is_bounded(text) {
            return Err(InvalidNamespace(text.chars().take(100).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Namespace {
    /// The served name of an entity; `None` if it cannot be served.
    pub fn served<'a>(&self, name: &'a Name) -> Option<Cow<'a, str>> {
        let text = name.as_str();
        if !text.contains('/') {
            return Some(format!("{self}/{text}").into());
        }
        invalid_reason(name).is_none().then_some(Cow::Borrowed(text))
    }

    /// The name of the entity that is served under this name; of two candidates, the first
    /// registration.
    pub fn entity(&self, catalog: &Catalog, served: &str) -> Option<Name> {
        let bare = served.strip_prefix(&self.0).and_then(|rest| rest.strip_prefix('/'));
        [Some(served), bare]
            .into_iter()
            .flatten()
            .filter_map(|text| Name::parse(Kind::Server, text).ok())
            .filter(|name| self.served(name).as_deref() == Some(served))
            .filter(|name| may_be_called(catalog, name, served))
            .filter_map(|name| Some((first(catalog, &name)?, name)))
            .min()
            .map(|(_, name)| name)
    }

    /// Whether another entity has this served name.
    pub(super) fn is_hidden(&self, catalog: &Catalog, name: &Name, served: &str) -> bool {
        let is_contested = served.strip_prefix(&self.0).is_some_and(|rest| rest.starts_with('/'));
        is_contested && self.entity(catalog, served).as_ref() != Some(name)
    }
}

/// Whether no other owner has the served name.
fn may_be_called(catalog: &Catalog, name: &Name, served: &str) -> bool {
    if name.as_str() == served {
        return true;
    }
    // A served name may exceed the limit for entity names, but still belongs to its namespace.
    let settings = catalog.settings();
    let full = Name::parse(Kind::Server, served).ok();
    let given = full.and_then(|full| settings.owner_by_name(Kind::Server, &full));
    let given = given.or_else(|| settings.owner_of_namespace(served));
    given.is_none_or(|to| catalog.owner(Kind::Server, name).as_deref() == Some(to))
}

/// The revision of the first registration of a name.
fn first(catalog: &Catalog, name: &Name) -> Option<Revision> {
    catalog.versions(Kind::Server, name).map(|(_, record)| record.registered).min()
}

/// The reason why the name of a server entity is invalid in the format.
pub(super) fn invalid_reason(name: &Name) -> Option<String> {
    let text = name.as_str();
    let Some((namespace, _)) = text.split_once('/') else {
        return Some(format!("the name `{text}` has no namespace"));
    };
    namespace
        .contains('_')
        .then(|| format!("`_` is not allowed in the namespace of the name `{text}`"))
}
