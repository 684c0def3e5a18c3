//! What is asked of the index, and what it answers.

use std::{fmt, str::FromStr, sync::Arc};

use registry_core::{
    catalog::Record,
    kind::Kind,
    lifecycle::LifecycleState,
    name::Name,
    reference::{InvalidKey, Key},
    version::Version,
};

use super::Highlight;

/// A search: words, and filters that must all let an entity through.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The words. Empty: everything that the filters let through, by name.
    pub text: String,
    /// Only these kinds; none: all.
    pub kinds: Vec<Kind>,
    /// Only this owner's.
    pub owner: Option<String>,
    /// Only what has all these tags, whatever their case.
    pub tags: Vec<String>,
    /// Only these states; none: active and deprecated.
    pub lifecycle: Vec<LifecycleState>,
    /// Only servers that provide this tool.
    pub provides: Option<Target>,
    /// Only what refers to this directly: its users.
    pub depends_on: Option<Target>,
    /// Only what this refers to directly: its parts.
    pub used_by: Option<Target>,
    /// Which versions of a name.
    pub versions: Versions,
}

/// Which versions of a name are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Versions {
    /// The newest one in the best of the wanted states: active, then deprecated, then retired.
    #[default]
    Newest,
    /// Each by itself.
    All,
}

/// One version of a name, or all of them: `tool/fetch@1.2.3` or `tool/fetch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: Name,
    /// The version; none: each.
    pub version: Option<Version>,
}

/// Not of the form of a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; write kind/name or kind/name@version")]
pub struct InvalidTarget(InvalidKey);

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let parse = || {
            if text.contains('@') {
                let Key { kind, name, version } = text.parse()?;
                return Ok(Self { kind, name, version: Some(version) });
            }
            let (kind, name) =
                text.split_once('/').ok_or_else(|| InvalidKey::Form(text.to_owned()))?;
            let kind: Kind = kind.parse().map_err(InvalidKey::Kind)?;
            Ok(Self { kind, name: Name::parse(kind, name)?, version: None })
        };
        parse().map_err(InvalidTarget)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)?;
        self.version.iter().try_for_each(|version| write!(f, "@{version}"))
    }
}

/// A place in the order of results, after which the next page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The bits of the score.
    pub score: u32,
    /// The number of the entity.
    pub doc: u32,
}

/// How many match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// So many.
    Exactly(usize),
    /// So many, and perhaps more.
    AtLeast(usize),
}

/// A page of results.
#[derive(Debug)]
pub struct Found {
    /// The best first; equal ones: the latest registered first. Without words: by name, then kind,
    /// newest version first.
    pub hits: Vec<Hit>,
    /// How many there are on all pages; of a page of a list without words that is not the first
    /// one, how many from there on.
    pub total: Total,
    /// Where the next page begins, if there is one.
    pub next: Option<Place>,
}

/// One result.
#[derive(Debug)]
pub struct Hit {
    /// What was found.
    pub record: Arc<Record>,
    /// How well it matches; higher is better, comparable within one search only.
    pub score: f32,
    /// Its place among the results.
    pub place: Place,
    /// Where it matches, the most telling fields first, at most one text a field.
    pub highlights: Vec<Highlight>,
}
