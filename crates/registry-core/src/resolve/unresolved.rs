//! Failed resolution: the registered versions of the name and the reason why each does not match.

use std::{fmt, sync::Arc};

use super::{Constraint, Requirement};
use crate::{catalog::Record, lifecycle::LifecycleState, limits, reference::Key, version::Version};

/// The reason why a version does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MismatchReason {
    /// The constraint excludes it.
    Outside,
    /// It is a pre-release, and the constraint names none of the same release.
    Prerelease,
    /// It is retired and not named exactly.
    Retired,
}

impl MismatchReason {
    fn explain(constraint: &Constraint, version: &Version) -> Self {
        if constraint.admits(version) {
            return Self::Retired;
        }
        let names_one = constraint.names_prerelease_of(version);
        if version.is_prerelease() && !names_one && constraint.admits(&version.release()) {
            return Self::Prerelease;
        }
        Self::Outside
    }

    /// The reason as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Outside => "does not match",
            Self::Prerelease => {
                "is a pre-release, and the constraint names no pre-release of this release"
            }
            Self::Retired => "is retired and matches only by its exact version",
        }
    }
}

/// A version that does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The version.
    pub version: Version,
    /// The lifecycle state.
    pub state: LifecycleState,
    /// The reason.
    pub reason: MismatchReason,
}

/// A requirement without a matching version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unresolved {
    /// The requirement.
    pub required: Requirement,
    /// The newest versions of the name, at most 20.
    pub candidates: Vec<Candidate>,
    /// The number of registered versions.
    pub total: usize,
}

impl Unresolved {
    /// `versions` are all versions of the name in ascending order; none of them matches.
    pub(super) fn new<'a>(
        required: &Requirement,
        versions: impl Iterator<Item = (&'a Key, &'a Arc<Record>)>,
    ) -> Self {
        let candidate = |(key, record): &(&Key, &Arc<Record>)| {
            let version = key.version.clone();
            let reason = MismatchReason::explain(&required.constraint, &version);
            Candidate { version, state: record.lifecycle.state, reason }
        };
        let versions: Vec<_> = versions.collect();
        let newest = versions.iter().rev().take(limits::CANDIDATES);
        let candidates = newest.map(candidate).collect();
        Self { required: required.clone(), candidates, total: versions.len() }
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { required: Requirement { kind, name, constraint }, candidates, total } = self;
        if candidates.is_empty() {
            return write!(f, "no version of {kind}/{name} is registered");
        }
        write!(f, "no version of {kind}/{name} matches `{constraint}`: ")?;
        for (i, Candidate { version, reason, .. }) in candidates.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{version} {}", reason.as_str())?;
        }
        match total - candidates.len() {
            0 => Ok(()),
            more => write!(f, ", and {more} older"),
        }
    }
}
