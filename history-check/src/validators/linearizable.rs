//! Writes are ordered in real time. Every answer reflects the log at an already requested revision,
//! and each server reads its own earlier answers.
//!
//! Another server may lag. `reliable` checks that all of them converge.

use std::collections::HashMap;

use super::Violation;
use crate::{
    event::{Answer, Request, RequestedAction, RequestedChange},
    history::History,
    requests::Call,
    state::State,
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = real_time(history);
    for (call, line, answer) in answered(history) {
        let problem = match answer {
            Answer::Applied { revision, committed } => {
                applied(history, call, (*revision, *committed))
            }
            Answer::Found { revision, entity } => {
                let state = history.log.state(*revision);
                let is_so = state.is_some_and(|state| {
                    state.entities.get(&entity.key).is_some_and(|held| **held == **entity)
                });
                let is_asked = matches!(&call.request, Request::Get { key } if *key == entity.key);
                let wrong = !is_so || !is_asked;
                wrong.then(|| format!("{} differs from revision {revision}", entity.key))
            }
            _ => None,
        };
        let ahead = revision_of(answer).filter(|revision| {
            *revision > 0 && history.requests.earliest(*revision).is_none_or(|first| first > line)
        });
        let ahead =
            ahead.map(|revision| format!("revision {revision} was read before its request"));
        let problems = problem.into_iter().chain(ahead);
        found.extend(problems.map(|what| Violation::new([call.line, line], what)));
    }
    found.extend(own_answers(history));
    found
}

fn answered(history: &History) -> impl Iterator<Item = (&Call, u64, &Answer)> {
    let answered = |call: &'_ Call| call.answer.is_some();
    history.requests.calls.iter().filter(move |call| answered(call)).filter_map(|call| {
        let (line, answer) = call.answer.as_ref()?;
        Some((call, *line, answer))
    })
}

fn revision_of(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Applied { revision, .. }
        | Answer::Found { revision, .. }
        | Answer::Listed { revision, .. } => Some(*revision),
        Answer::Absent {} | Answer::Refused { .. } | Answer::Unknown { .. } => None,
    }
}

/// A write acknowledged before another one was requested has a lower revision.
fn real_time(history: &History) -> Vec<Violation> {
    let mut known: Vec<(u64, u64)> = answered(history)
        .filter_map(|(_, line, answer)| Some((line, revision_of(answer)?)))
        .collect();
    known.sort_unstable();
    let mut found = Vec::new();
    for revision in 1..=history.log.last() {
        let Some(makers) = history.requests.makers.get(&revision) else { continue };
        let Some(first) = makers.iter().map(|maker| history.requests.calls[*maker].line).min()
        else {
            continue;
        };
        let until = known.partition_point(|(line, _)| *line < first);
        let later = known[..until].iter().find(|(_, known)| *known >= revision);
        if let Some((line, known)) = later {
            let what = format!("revision {known} was known before the request of {revision}");
            found.push(Violation::new([*line, first], what));
        }
    }
    found
}

fn applied(history: &History, call: &Call, (revision, committed): (u64, bool)) -> Option<String> {
    let Request::Apply { base, wanted, .. } = &call.request else {
        return Some("a read has the answer of a write".to_owned());
    };
    let Some(state) = history.log.state(revision) else {
        return Some(format!("the log has no revision {revision}"));
    };
    if let Some(wanted) = wanted.iter().find(|wanted| !holds(state, wanted)) {
        return Some(format!(
            "{} does not match the request after revision {revision}",
            wanted.key
        ));
    }
    let stated = base.filter(|base| committed && base + 1 != revision);
    stated.map(|base| format!("its base was revision {base}, and it became {revision}"))
}

fn holds(state: &State, RequestedChange { key, change }: &RequestedChange) -> bool {
    state.entities.get(key).is_some_and(|held| match change {
        RequestedAction::Register(digest) => held.digest == *digest,
        RequestedAction::State(state) => held.state() == state,
    })
}

/// Each server's answers never go back.
fn own_answers(history: &History) -> Vec<Violation> {
    let mut by_server: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
    for (call, line, answer) in answered(history) {
        if let Some(revision) = revision_of(answer) {
            by_server.entry(call.server).or_default().push((line, revision));
        }
    }
    for answers in by_server.values_mut() {
        answers.sort_unstable();
        answers.iter_mut().fold(0, |highest, (_, revision)| {
            *revision = highest.max(*revision);
            *revision
        });
    }
    let mut found = Vec::new();
    for (call, line, answer) in answered(history) {
        let answers = by_server.get(&call.server).map_or(&[][..], Vec::as_slice);
        let until = answers.partition_point(|(line, _)| *line < call.line);
        let Some((before, known)) = until.checked_sub(1).map(|last| answers[last]) else {
            continue;
        };
        let is_behind = match (&call.request, answer) {
            (Request::Get { key }, Answer::Absent {}) => {
                history.log.state(known).is_some_and(|state| state.entities.contains_key(key))
            }
            // A retry returns the revision of the first attempt.
            (Request::Apply { .. }, Answer::Applied { committed: true, .. }) => false,
            _ => revision_of(answer).is_some_and(|revision| revision < known),
        };
        if is_behind {
            let server = call.server;
            let what =
                format!("server {server} has shown revision {known}, and shows an older one");
            found.push(Violation::new([before, call.line, line], what));
        }
    }
    found
}
