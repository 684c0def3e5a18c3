//! Acknowledged batches are in the log, rejected ones are not, and every commit was requested.
//!
//! A request consists of all calls with its id: one of them can succeed although another one was
//! rejected or never answered.

use std::collections::BTreeMap;

use super::Violation;
use crate::{
    event::{Answer, Event, Request},
    history::History,
    requests::{Call, asks_for},
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for commit in &history.log.commits {
        if !history.requests.makers.contains_key(&commit.revision) {
            let what = format!("no request matches revision {}", commit.revision);
            found.push(Violation::new([commit.line], what));
        }
    }
    let mut by_id: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in &history.requests.calls {
        found.extend(lost(history, call));
        if let Request::Apply { id: Some(id), .. } = &call.request {
            by_id.entry(id).or_default().push(call);
        }
    }
    let committed = history.log.by_request_id();
    let resent = |line: &&crate::Line| matches!(line.event, Event::Fault { resends: true, .. });
    let resent = history.lines.iter().rev().find(resent).map_or(0, |line| line.n);
    for (id, calls) in by_id {
        // Rejections are not stored, so a repeated request can succeed later.
        let is_refused = |call: &&Call| matches!(&call.answer, Some((line, Answer::Refused { .. })) if *line > resent);
        if let Some(commits) = committed.get(id)
            && calls.iter().all(is_refused)
        {
            let lines = calls.iter().map(|call| call.line).chain(commits.iter().map(|c| c.line));
            found.push(Violation::new(lines, format!("the rejected request {id} is in the log")));
        }
        let revisions = calls.iter().filter_map(|call| match &call.answer {
            Some((line, Answer::Applied { revision, committed: true })) => Some((*revision, *line)),
            _ => None,
        });
        let revisions: BTreeMap<u64, u64> = revisions.collect();
        if revisions.len() > 1 {
            let what = format!("the request {id} has several revisions: {:?}", revisions.keys());
            found.push(Violation::new(revisions.into_values(), what));
        }
    }
    found
}

/// An acknowledged commit that is missing at its revision.
fn lost(history: &History, call: &Call) -> Option<Violation> {
    let Some((line, Answer::Applied { revision, committed: true })) = &call.answer else {
        return None;
    };
    let Request::Apply { id, .. } = &call.request else { return None };
    let is_its = |commit: &crate::log::Commit| {
        asks_for(&call.request, commit) && commit.value["requestId"].as_str() == id.as_deref()
    };
    if history.log.commit(*revision).is_some_and(is_its) {
        return None;
    }
    let what = format!("it was acknowledged as revision {revision}, which is missing in the log");
    Some(Violation::new([call.line, *line], what))
}
