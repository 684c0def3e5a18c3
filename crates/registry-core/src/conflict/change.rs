//! The effect of a new version on users of an earlier one, which determines the semver increment.

use schema_compat::compatibility::Budget;

use crate::{
    compatibility::{Direction, Outcome, Resolve, compare},
    entity::{Entity, Server},
    version::Change,
};

/// The kind of change between two versions. An undecided comparison counts as breaking.
pub(super) fn between<'a>(
    old: &'a Entity,
    new: &'a Entity,
    resolve: Resolve<'a>,
    budget: &mut Budget,
) -> Change {
    if let (Entity::Server(before), Entity::Server(after)) = (old, new) {
        return offers(before, after);
    }
    match compare(old, new, Direction::Backward, resolve, budget).outcome() {
        Outcome::Identical => return Change::Words,
        Outcome::Breaking | Outcome::Undecided => return Change::Breaking,
        Outcome::Compatible => {}
    }
    match compare(old, new, Direction::Forward, resolve, budget).outcome() {
        Outcome::Identical | Outcome::Compatible => Change::Words,
        Outcome::Breaking | Outcome::Undecided => Change::Compatible,
    }
}

/// A server promises the tools it provides, in any version.
fn offers(before: &Server, after: &Server) -> Change {
    let keeps = |old: &Server, new: &Server| {
        old.provides.iter().all(|p| new.provides.iter().any(|other| other.tool == p.tool))
    };
    match (keeps(before, after), keeps(after, before)) {
        (false, _) => Change::Breaking,
        (true, false) => Change::Compatible,
        (true, true) => Change::Words,
    }
}
