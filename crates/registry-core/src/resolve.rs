//! Which exact version a constraint means: `^1.2`, `~1.2.3`, `>=1, <2`, `1.x`, `latest`, or an exact
//! version.
//!
//! Ranges are Cargo's. The newest active version that fits is the answer; a deprecated one only
//! where no active one fits. A retired version is meant only by its exact version, a pre-release
//! only by a constraint that names one of the same release.

mod unresolved;

use std::{fmt, str::FromStr, sync::Arc};

use semver::VersionReq;

pub use unresolved::{Candidate, LeftOut, Unresolved};

use crate::{
    catalog::{Catalog, Record},
    kind::{InvalidKind, Kind},
    lifecycle::LifecycleState,
    limits,
    name::{InvalidName, Name},
    reference::Key,
    version::Version,
};

/// Which versions would do.
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

/// Why a text is not a constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no version constraint: {reason}; write an exact version, a range like `^1.2`, \
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
        // `=1.2.3` is an exact version too.
        let version = text.strip_prefix('=').map_or(text, str::trim_start);
        let wanted = match (text, Version::parse(version)) {
            ("latest", _) => Wanted::Latest,
            (_, Ok(version)) => Wanted::Exact(version),
            ("", _) => {
                let reason = "it is empty".to_owned();
                return Err(InvalidConstraint { text: String::new(), reason });
            }
            (_, Err(_)) => VersionReq::parse(text)
                .map(Wanted::Range)
                .map_err(|e| InvalidConstraint { text: text.to_owned(), reason: e.to_string() })?,
        };
        Ok(Self { text: text.to_owned(), wanted })
    }
}

impl Constraint {
    /// This version and no other.
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
    /// The newest version of all, as `latest` means it.
    pub fn latest() -> Self {
        Self { text: "latest".to_owned(), wanted: Wanted::Latest }
    }

    /// Whether it means this version, lifecycle apart.
    pub fn admits(&self, version: &Version) -> bool {
        match &self.wanted {
            Wanted::Latest => !version.is_prerelease(),
            Wanted::Exact(exact) => exact == version,
            Wanted::Range(range) => range.matches(version.semver()),
        }
    }

    /// Whether it names a pre-release of this version's release, and so means some of them.
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

    /// Whether it means one version and no other.
    pub fn is_exact(&self) -> bool {
        matches!(self.wanted, Wanted::Exact(_))
    }
}

/// What somebody needs: a name, and which versions of it would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
    /// Which versions would do.
    pub constraint: Constraint,
}

/// Why a text is not a requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequirement {
    /// Not of the form `kind/name@constraint`.
    #[error("`{0}` is not of the form kind/name@constraint, like tool/fetch@^1.2")]
    Form(String),
    /// The kind part.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// The name part.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The constraint part.
    #[error(transparent)]
    Constraint(#[from] InvalidConstraint),
}

impl Requirement {
    /// What asks for this version and no other.
    pub fn exactly(key: &Key) -> Self {
        let Key { kind, name, version } = key.clone();
        Self { kind, name, constraint: Constraint::exact(version) }
    }

    /// Parses the parts of a requirement; no constraint is `latest`.
    pub fn parse(kind: Kind, name: &str, constraint: &str) -> Result<Self, InvalidRequirement> {
        let constraint =
            if constraint.is_empty() { Constraint::latest() } else { constraint.parse()? };
        Ok(Self { kind, name: Name::parse(kind, name)?, constraint })
    }
}

impl FromStr for Requirement {
    type Err = InvalidRequirement;

    fn from_str(text: &str) -> Result<Self, InvalidRequirement> {
        let form = || InvalidRequirement::Form(text.to_owned());
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

/// The exact version that a requirement means in this catalog.
pub fn resolve<'a>(
    catalog: &'a Catalog,
    required: &'a Requirement,
) -> Result<&'a Arc<Record>, Box<Unresolved>> {
    let Requirement { kind, name, constraint } = required;
    let (mut active, mut deprecated, mut retired) = (None, None, None);
    // Lowest first, so the last of each is its newest.
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
