//! Scopes: selections of entities that gateways follow. [`crate::scoped_catalog`] applies them to catalogs.

mod root;

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub use root::{InvalidRoot, Root};

use crate::{kind::Kind, limits, name::Name};

/// The selection of entities that a gateway needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Scope {
    /// The whole catalog.
    #[default]
    Everything,
    /// These roots with all their dependencies. A root that is not registered yet comes into scope
    /// with its registration.
    Roots(BTreeSet<Root>),
}

/// A list of texts is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScope {
    /// The list is empty.
    #[error("the scope has no roots; omit it to follow everything")]
    Empty,
    /// There are too many roots.
    #[error(
        "the scope has {0} roots; the maximum is {limit}; name a namespace or a tag instead",
        limit = limits::SCOPE_ROOTS
    )]
    TooMany(usize),
    /// A root is invalid.
    #[error(transparent)]
    Root(#[from] InvalidRoot),
}

impl Scope {
    /// Parses a scope from the texts of its roots.
    pub fn from_roots<T: AsRef<str>>(texts: &[T]) -> Result<Self, InvalidScope> {
        if texts.is_empty() {
            return Err(InvalidScope::Empty);
        }
        if texts.len() > limits::SCOPE_ROOTS {
            return Err(InvalidScope::TooMany(texts.len()));
        }
        let roots = texts.iter().map(|text| text.as_ref().parse());
        Ok(Self::Roots(roots.collect::<Result<_, InvalidRoot>>()?))
    }

    /// Whether the scope selects every active version of a name.
    pub fn has_all_versions(&self, kind: Kind, name: &Name) -> bool {
        let has_name = |root: &Root| match root {
            Root::Name(of_kind, of_name) => *of_kind == kind && of_name == name,
            Root::Namespace(selector) => selector.covers(kind, name),
            Root::Version(_) | Root::Tag(_) => false,
        };
        *self == Self::Everything || self.roots().any(has_name)
    }

    /// The roots; none for the whole catalog.
    pub fn roots(&self) -> impl Iterator<Item = &Root> {
        let roots = match self {
            Self::Everything => None,
            Self::Roots(roots) => Some(roots),
        };
        roots.into_iter().flatten()
    }
}

/// Serializes as the list of roots, which is empty for the whole catalog.
impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.roots().map(ToString::to_string))
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let roots = Vec::<String>::deserialize(deserializer)?;
        if roots.is_empty() {
            return Ok(Self::Everything);
        }
        Self::from_roots(&roots).map_err(D::Error::custom)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::Everything {
            return f.write_str("*");
        }
        for (i, root) in self.roots().enumerate() {
            write!(f, "{}{root}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
