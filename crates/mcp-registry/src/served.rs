//! Under which name an entity is served: clients only know names with a namespace.
//!
//! An entity without one is served under the namespace of the registry, unless that name was given
//! to another owner, by itself or with its namespace: then it is not served. If both `docs` and
//! `NAMESPACE/docs` are registered, the name belongs to the one that was registered first.

use std::{borrow::Cow, fmt, str::FromStr};

use registry_core::{catalog::Catalog, chain::Revision, kind::Kind, name::Name};

/// Longest namespace: with `/` and the longest name of an entity, 200 characters.
const LONGEST: usize = 71;

/// The namespace under which entities without one are served: `com.example`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(String);

/// A text that is not a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a namespace: write a domain of yours backwards, like com.example, with at most \
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
    /// The name by which clients know an entity; nothing if they cannot.
    pub fn served<'a>(&self, name: &'a Name) -> Option<Cow<'a, str>> {
        let text = name.as_str();
        if !text.contains('/') {
            return Some(format!("{self}/{text}").into());
        }
        misfit(name).is_none().then_some(Cow::Borrowed(text))
    }

    /// The entity's name that is served by this name: of two, the one that was registered first.
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

    /// Whether another entity has the name that this one would be served by.
    pub(super) fn is_hidden(&self, catalog: &Catalog, name: &Name, served: &str) -> bool {
        let is_contested = served.strip_prefix(&self.0).is_some_and(|rest| rest.starts_with('/'));
        is_contested && self.entity(catalog, served).as_ref() != Some(name)
    }
}

/// Whether the name by which an entity is served was given to nobody but its owner.
fn may_be_called(catalog: &Catalog, name: &Name, served: &str) -> bool {
    if name.as_str() == served {
        return true;
    }
    // What is served may be longer than a name, and is in its namespace all the same.
    let settings = catalog.settings();
    let full = Name::parse(Kind::Server, served).ok();
    let given = full.and_then(|full| settings.owner_by_name(Kind::Server, &full));
    let given = given.or_else(|| settings.owner_of_namespace(served));
    given.is_none_or(|to| catalog.owner(Kind::Server, name).as_deref() == Some(to))
}

/// The revision in which a name was first registered.
fn first(catalog: &Catalog, name: &Name) -> Option<Revision> {
    catalog.versions(Kind::Server, name).map(|(_, record)| record.registered).min()
}

/// The reason why the name of a server entity is invalid in the format.
pub(super) fn misfit(name: &Name) -> Option<String> {
    let text = name.as_str();
    let Some((namespace, _)) = text.split_once('/') else {
        return Some(format!("the name `{text}` has no namespace"));
    };
    namespace
        .contains('_')
        .then(|| format!("`_` is not allowed in the namespace of the name `{text}`"))
}
