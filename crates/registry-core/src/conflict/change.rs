//! The effect of a new version on users of an earlier one, which determines the semver increment.

use schema_compat::compatibility::Budget;

use crate::{
    compatibility::{CompatibilityDirection, Outcome, Resolve, compare},
    entity::{Entity, Server},
    version::ReleaseChange,
};

/// The kind of change between two versions. An undecided comparison counts as breaking.
pub(super) fn between<'a>(
    old: &'a Entity,
    new: &'a Entity,
    resolve: Resolve<'a>,
    budget: &mut Budget,
) -> ReleaseChange {
    if let (Entity::Server(before), Entity::Server(after)) = (old, new) {
        return offers(before, after);
    }
    match compare(old, new, CompatibilityDirection::Backward, resolve, budget).outcome() {
        Outcome::Identical => return ReleaseChange::Editorial,
        Outcome::Breaking | Outcome::Undecided => return ReleaseChange::Breaking,
        Outcome::Compatible => {}
    }
    match compare(old, new, CompatibilityDirection::Forward, resolve, budget).outcome() {
        Outcome::Identical | Outcome::Compatible => ReleaseChange::Editorial,
        Outcome::Breaking | Outcome::Undecided => ReleaseChange::Compatible,
    }
}

/// A server promises the tools it provides, in any version.
fn offers(before: &Server, after: &Server) -> ReleaseChange {
    let keeps = |old: &Server, new: &Server| {
        old.provides.iter().all(|p| new.provides.iter().any(|other| other.tool == p.tool))
    };
    match (keeps(before, after), keeps(after, before)) {
        (false, _) => ReleaseChange::Breaking,
        (true, false) => ReleaseChange::Compatible,
        (true, true) => ReleaseChange::Editorial,
    }
}
