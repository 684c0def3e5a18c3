//! Queries and results.

use std::{fmt, str::FromStr, sync::Arc};

use registry_core::{
    catalog::Record,
    kind::Kind,
    lifecycle::LifecycleState,
    name::Name,
    reference::{InvalidKey, Key},
    version::Version,
};

use crate::Highlight;

/// A query: words, and filters that must all be satisfied.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The words; if empty, all entities that satisfy the filters, by name.
    pub text: String,
    /// Only these kinds; empty for all.
    pub kinds: Vec<Kind>,
    /// Only entities of this owner.
    pub owner: Option<String>,
    /// Only entities with all these tags, ignoring case.
    pub tags: Vec<String>,
    /// Only these lifecycle states; empty for active and deprecated.
    pub lifecycle: Vec<LifecycleState>,
    /// Only servers that provide this tool.
    pub provides: Option<Target>,
    /// Only entities that refer directly to this one.
    pub depends_on: Option<Target>,
    /// Only entities that this one refers to directly.
    pub used_by: Option<Target>,
    /// The versions of a name to return.
    pub versions: Versions,
}

impl Query {
    /// Whether each version is a result. Relations are those of versions: the newest version of a
    /// name need not have the relation that an earlier one has.
    pub(crate) fn lists_versions(&self) -> bool {
        let Self { provides, depends_on, used_by, versions, .. } = self;
        let has_relation = provides.is_some() || depends_on.is_some() || used_by.is_some();
        has_relation || *versions == Versions::All
    }
}

/// The versions of a name to return. Filters on relations imply all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Versions {
    /// The newest version in the best requested state: active, then deprecated, then retired.
    #[default]
    Newest,
    /// Each version separately.
    All,
}

/// One version of a name, or all of them: `tool/fetch@1.2.3` or `tool/fetch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The kind of entity.
    pub kind: Kind,
    /// The name of the entity.
    pub name: Name,
    /// The version; `None` for all.
    pub version: Option<Version>,
}

/// The text is not a target.
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

/// A position in the order of results, after which the next page starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The bits of the score.
    pub score: u32,
    /// The number of the entity.
    pub doc: u32,
}

/// The number of matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// The exact number.
    Exactly(usize),
    /// A lower bound.
    AtLeast(usize),
}

/// A page of results.
#[derive(Debug)]
pub struct ResultPage {
    /// The results, best first, and equal scores by latest registration. Without words: by name,
    /// kind and descending version.
    pub hits: Vec<Hit>,
    /// The number of matches on all pages. For a later page of a list without words, the number
    /// from that page on.
    pub total: Total,
    /// The cursor of the next page, if there is one.
    pub next: Option<Cursor>,
}

/// One result.
#[derive(Debug)]
pub struct Hit {
    /// The matching entity.
    pub record: Arc<Record>,
    /// The score; higher is better. Scores are comparable only within one query.
    pub score: f32,
    /// The position among the results.
    pub place: Cursor,
    /// The matching texts, most significant fields first, at most one per field.
    pub highlights: Vec<Highlight>,
}
