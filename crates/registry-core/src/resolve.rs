//! Resolution of version constraints to exact versions: `^1.2`, `~1.2.3`, `>=1, <2`, `1.x`,
//! `latest`, or an exact version.
//!
//! Ranges have the semantics of Cargo. The result is the newest matching active version, or the
//! newest matching deprecated one if no active version matches. Retired versions match only
//! exactly. Pre-releases match only constraints that name a pre-release of the same release.

mod unresolved;

use std::{fmt, str::FromStr, sync::Arc};

use semver::VersionReq;

pub use unresolved::{Candidate, MismatchReason, Unresolved};

use crate::{
    catalog::{Catalog, Record},
    kind::{InvalidKind, Kind},
    lifecycle::LifecycleState,
    limits,
    name::{InvalidName, Name},
    reference::Key,
    version::Version,
    visible::escape_invisible,
};

/// A version constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    text: String,
    wanted: Wanted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Latest,
    Exact(Version),
    Range(VersionReq),
}

/// A text is not a version constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a version constraint: {reason}; write an exact version, a range like `^1.2`, \
     `~1.2.3`, `>=1, <2` or `1.x`, or `latest`"
)]
pub struct InvalidConstraint {
    text: String,
    reason: String,
}

impl FromStr for Constraint {
    type Err = InvalidConstraint;

    fn from_str(text: &str) -> Result<Self, InvalidConstraint> {
        if text.len() > limits::CONSTRAINT_BYTES {
            let reason = format!("longer than {} bytes", limits::CONSTRAINT_BYTES);
            return Err(InvalidConstraint { text: text.chars().take(32).collect(), reason });
        }
        let text = text.trim();
        // `=1.2.3` is an exact version, too.
        let version = text.strip_prefix('=').map_or(text, str::trim_start);
        let wanted = match (text, Version::parse(version)) {
            ("latest", _) => Wanted::Latest,
            (_, Ok(version)) => Wanted::Exact(version),
            ("", _) => {
                let reason = "the text is empty".to_owned();
                return Err(InvalidConstraint { text: String::new(), reason });
            }
            (_, Err(_)) => VersionReq::parse(text).map(Wanted::Range).map_err(|e| {
                InvalidConstraint { text: escape_invisible(text), reason: e.to_string() }
            })?,
        };
        Ok(Self { text: text.to_owned(), wanted })
    }
}

impl Constraint {
    /// Exactly this version.
    fn exact(version: Version) -> Self {
        Self { text: version.to_string(), wanted: Wanted::Exact(version) }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Constraint {
    /// The newest version: `latest`.
    pub fn latest() -> Self {
        Self { text: "latest".to_owned(), wanted: Wanted::Latest }
    }

    /// Whether the constraint matches this version, regardless of lifecycle.
    pub fn admits(&self, version: &Version) -> bool {
        match &self.wanted {
            Wanted::Latest => !version.is_prerelease(),
            Wanted::Exact(exact) => exact == version,
            Wanted::Range(range) => range.matches(version.semver()),
        }
    }

    /// Whether the constraint names a pre-release of the release of this version.
    fn names_prerelease_of(&self, version: &Version) -> bool {
        let Wanted::Range(range) = &self.wanted else { return false };
        let version = version.semver();
        range.comparators.iter().any(|named| {
            let release = (Some(version.minor), Some(version.patch));
            !named.pre.is_empty()
                && named.major == version.major
                && (named.minor, named.patch) == release
        })
    }

    /// Whether the constraint matches exactly one version.
    pub fn is_exact(&self) -> bool {
        matches!(self.wanted, Wanted::Exact(_))
    }
}

/// A dependency requirement: a name and a version constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The kind of entity.
    pub kind: Kind,
    /// The name of the entity.
    pub name: Name,
    /// The version constraint.
    pub constraint: Constraint,
}

/// A text is not a requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequirement {
    /// It is not of the form `kind/name@constraint`.
    #[error("`{0}` is not of the form kind/name@constraint, like tool/fetch@^1.2")]
    Form(String),
    /// The kind is invalid.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The constraint is invalid.
    #[error(transparent)]
    Constraint(#[from] InvalidConstraint),
}

impl Requirement {
    /// The requirement of exactly this version.
    pub fn exact(key: &Key) -> Self {
        let Key { kind, name, version } = key.clone();
        Self { kind, name, constraint: Constraint::exact(version) }
    }

    /// Parses the parts of a requirement; an empty constraint means `latest`.
    pub fn parse(kind: Kind, name: &str, constraint: &str) -> Result<Self, InvalidRequirement> {
        let constraint =
            if constraint.is_empty() { Constraint::latest() } else { constraint.parse()? };
        Ok(Self { kind, name: Name::parse(kind, name)?, constraint })
    }
}

impl FromStr for Requirement {
    type Err = InvalidRequirement;

    fn from_str(text: &str) -> Result<Self, InvalidRequirement> {
        let form = || InvalidRequirement::Form(escape_invisible(text));
        let (kind, rest) = text.split_once('/').ok_or_else(form)?;
        match rest.split_once('@') {
            Some((_, "")) => Err(form()),
            Some((name, constraint)) => Self::parse(kind.parse()?, name, constraint),
            None => Self::parse(kind.parse()?, rest, ""),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.kind, self.name, self.constraint)
    }
}

/// Resolves a requirement to the record of an exact version.
pub fn resolve<'a>(
    catalog: &'a Catalog,
    required: &'a Requirement,
) -> Result<&'a Arc<Record>, Box<Unresolved>> {
    let Requirement { kind, name, constraint } = required;
    let (mut active, mut deprecated, mut retired) = (None, None, None);
    // Versions ascend, so the last match of each state is the newest.
    for (_, record) in
        catalog.versions(*kind, name).filter(|(key, _)| constraint.admits(&key.version))
    {
        match record.lifecycle.state {
            LifecycleState::Active => active = Some(record),
            LifecycleState::Deprecated => deprecated = Some(record),
            LifecycleState::Retired => retired = Some(record),
        }
    }
    let retired = retired.filter(|_| constraint.is_exact());
    active
        .or(deprecated)
        .or(retired)
        .ok_or_else(|| Box::new(Unresolved::new(required, catalog.versions(*kind, name))))
}

#[cfg(test)]
mod tests;
