//! Which part of a catalog somebody follows: everything, or what some roots need.
//!
//! A part has no settings: they are for whoever registers. [`Part`] keeps one up to date at a cost
//! in proportion to what changed in it. Deliberately absent: who may follow what, and how a part is
//! brought to a follower.

mod part;
mod root;

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
};

use imbl::OrdSet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub use part::Part;
use root::has_any_tag;
pub use root::{InvalidRoot, Root};

use crate::{
    catalog::{Catalog, Record},
    graph, limits,
    reference::{Key, Kind},
};

/// The part of a catalog that a gateway needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Scope {
    /// The whole catalog.
    #[default]
    Everything,
    /// These roots and everything that they need. What is not registered yet is in scope as soon
    /// as it is.
    Roots(BTreeSet<Root>),
}

/// Why some texts are not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScope {
    /// Nothing at all.
    #[error("a scope has at least one root; leave the scope out to follow everything")]
    Empty,
    /// Too much.
    #[error(
        "the scope has {0} roots, {limit} are allowed; name a namespace or a tag instead",
        limit = limits::SCOPE_ROOTS
    )]
    TooMany(usize),
    /// One of them.
    #[error(transparent)]
    Root(#[from] InvalidRoot),
}

impl Scope {
    /// The scope of these roots.
    pub fn of_roots<T: AsRef<str>>(texts: &[T]) -> Result<Self, InvalidScope> {
        if texts.is_empty() {
            return Err(InvalidScope::Empty);
        }
        if texts.len() > limits::SCOPE_ROOTS {
            return Err(InvalidScope::TooMany(texts.len()));
        }
        let roots = texts.iter().map(|text| text.as_ref().parse());
        Ok(Self::Roots(roots.collect::<Result<_, InvalidRoot>>()?))
    }

    /// The texts of its roots; none: everything.
    pub fn roots(&self) -> impl Iterator<Item = &Root> {
        let roots = match self {
            Self::Everything => None,
            Self::Roots(roots) => Some(roots),
        };
        roots.into_iter().flatten()
    }

    /// The keys in scope.
    pub fn keys(&self, catalog: &Catalog) -> BTreeSet<Key> {
        let named = self.named(catalog);
        match self {
            Self::Everything => named.into_iter().collect(),
            Self::Roots(_) => closure(catalog, &named),
        }
    }

    /// The registered entities that it names. Looks at every entity.
    fn named(&self, catalog: &Catalog) -> OrdSet<Key> {
        self.named_while(catalog, &|| true).unwrap_or_default()
    }

    /// The same. Stops with `None` as soon as `is_wanted` returns false.
    fn named_while(&self, catalog: &Catalog, is_wanted: &dyn Fn() -> bool) -> Option<OrdSet<Key>> {
        let tags: HashSet<&str> = self.roots().filter_map(Root::tag).collect();
        let others: Vec<_> = self.roots().filter(|root| root.tag().is_none()).collect();
        let is_named = |record: &Record| {
            *self == Self::Everything
                || others.iter().any(|root| root.names(record))
                || !tags.is_empty() && has_any_tag(record, &tags)
        };
        let mut named = OrdSet::new();
        for (key, record) in catalog.iter() {
            if !is_wanted() {
                return None;
            }
            if is_named(record) {
                named.insert(key.clone());
            }
        }
        Some(named)
    }

    /// Whether an entity is in scope for itself, and not only because another needs it.
    fn names(&self, record: &Record) -> bool {
        match self {
            Self::Everything => true,
            Self::Roots(roots) => roots.iter().any(|root| root.names(record)),
        }
    }
}

/// Everything that these entities need. A server is followed for the tools that it provides.
fn closure(catalog: &Catalog, named: &OrdSet<Key>) -> BTreeSet<Key> {
    let servers = named.iter().filter(|key| key.kind == Kind::Server);
    let provided = servers.filter_map(|key| catalog.find(key)).flat_map(|r| r.document.edges());
    graph::closure(catalog, named.iter().chain(provided))
}

/// The texts of the roots; everything is none of them.
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
        Self::of_roots(&roots).map_err(D::Error::custom)
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

#[cfg(test)]
mod tests;
