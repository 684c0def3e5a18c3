//! The log's own seals, computed anew from its bytes.
//!
//! Deliberately absent: what followers were told of it.

use super::Violation;
use crate::{
    history::History,
    log::{Commit, genesis, then},
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let log = &history.log;
    let mut found = Vec::new();
    if log.registry.is_empty() {
        found.push(Violation::new([], "the history ends without the log"));
    }
    let mut chain = genesis(&log.registry);
    for (i, commit) in log.commits.iter().enumerate() {
        let mut wrong = |what: String| found.push(Violation::new([commit.line], what));
        let (expected, at) = (i as u64 + 1, commit.revision);
        if at != expected || commit.value["revision"] != expected {
            wrong(format!("revision {expected} was to come, the log has {at}"));
        }
        match then(&chain, &commit.canonical) {
            Some(sealed) if sealed == commit.chain => {}
            _ => wrong(format!("the chain hash of revision {at} is not that of its commit")),
        }
        chain.clone_from(&commit.chain);
        if registered(commit) != commit.documents {
            wrong(format!("the documents of revision {at} are not those that it names"));
        }
    }
    let (line, revision, head) = &log.head;
    if *revision != log.last() || *head != chain {
        found.push(Violation::new([*line], "the head is not the last commit of the log"));
    }
    found.extend(log.unfit.iter().map(|(line, why)| Violation::new([*line], why.as_str())));
    found
}

/// The digests that a commit names.
fn registered(commit: &Commit) -> Vec<String> {
    let changes = commit.value["changes"].as_array().into_iter().flatten();
    let registrations = changes.filter(|change| change["action"] == "register");
    registrations.map(|change| change["digest"].as_str().unwrap_or_default().to_owned()).collect()
}
