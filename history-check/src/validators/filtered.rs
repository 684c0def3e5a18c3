//! Each message of a scoped stream results in exactly the closure of its scope.

use super::Violation;
use crate::{history::History, replica::Replica, state::Entities};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for following in &history.followers {
        for (moment, _, after) in following.taken() {
            if !moment.asked.contains(&after.scope) {
                let what = format!("{} received a scope that it did not request", following.who);
                found.push(Violation::new([moment.line], what));
            }
            if after.scope.is_empty() {
                continue;
            }
            if let Some(problem) = problem(history, after) {
                let what = format!("{} in scope {:?}: {problem}", following.who, after.scope);
                found.push(Violation::new([moment.line], what));
            }
        }
    }
    found
}

fn problem(history: &History, held: &Replica) -> Option<String> {
    let at = held.revision;
    let Some(expected) = history.log.part(at, &held.scope) else {
        return Some(format!("the log has no revision {at}"));
    };
    let settings = history.log.state(at)?.settings_of(&expected);
    if settings != held.state.settings {
        return Some(format!("the settings of its names differ from those at revision {at}"));
    }
    differs(&expected, &held.state.entities)
        .map(|key| format!("{key} differs from the state at revision {at}"))
}

/// The first key with different entities.
pub(super) fn differs<'a>(left: &'a Entities, right: &'a Entities) -> Option<&'a str> {
    let mut keys = left.keys().chain(right.keys());
    keys.find(|key| left.get(*key) != right.get(*key)).map(String::as_str)
}
