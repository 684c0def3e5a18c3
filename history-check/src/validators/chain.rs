//! The hashes of the log, recomputed from its bytes, and the logs of relays, which must be equal.

use super::Violation;
use crate::{
    history::History,
    log::{Commit, append, genesis},
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let log = &history.log;
    let mut found = Vec::new();
    if log.registry.is_empty() {
        found.push(Violation::new([], "the history has no log"));
    }
    let mut chain = genesis(&log.registry);
    for (i, commit) in log.commits.iter().enumerate() {
        let mut wrong = |what: String| found.push(Violation::new([commit.line], what));
        let (expected, at) = (i as u64 + 1, commit.revision);
        if at != expected || commit.value["revision"] != expected {
            wrong(format!("expected revision {expected}, the log has {at}"));
        }
        match append(&chain, &commit.canonical) {
            Some(sealed) if sealed == commit.chain => {}
            _ => wrong(format!("the chain hash of revision {at} does not match its commit")),
        }
        chain.clone_from(&commit.chain);
        if registered(commit) != commit.documents {
            wrong(format!("the documents of revision {at} do not match its digests"));
        }
    }
    let (line, revision, head) = &log.head;
    if *revision != log.last() || *head != chain {
        found.push(Violation::new([*line], "the head is not the last commit"));
    }
    found.extend(copies(history));
    found.extend(log.unfit.iter().map(|(line, why)| Violation::new([*line], why.as_str())));
    found
}

/// Compares the logs of relays byte by byte.
fn copies(history: &History) -> Vec<Violation> {
    let log = &history.log;
    let mut found = Vec::new();
    for (relay, copy) in &history.copies {
        let (line, revision, chain) = &copy.head;
        let mut wrong =
            |line: u64, what: String| found.push(Violation::new([line], format!("{relay} {what}")));
        if copy.registry != log.registry {
            wrong(*line, format!("has a log of registry `{}`", copy.registry));
        }
        if (revision, chain) != (&log.head.1, &log.head.2) || copy.last() != log.last() {
            wrong(
                *line,
                format!("ends at revision {revision} with {} commits, unlike the log", copy.last()),
            );
        }
        for (copied, commit) in copy.commits.iter().zip(&log.commits) {
            let what = |commit: &'_ Commit| {
                let Commit { revision, chain, canonical, documents, .. } = commit.clone();
                (revision, chain, canonical, documents)
            };
            if what(copied) != what(commit) {
                wrong(
                    copied.line,
                    format!("has a commit {} that differs from the log", commit.revision),
                );
            }
        }
    }
    found
}

/// The digests that a commit names.
fn registered(commit: &Commit) -> Vec<String> {
    let changes = commit.value["changes"].as_array().into_iter().flatten();
    let registrations = changes.filter(|change| change["action"] == "register");
    registrations.map(|change| change["digest"].as_str().unwrap_or_default().to_owned()).collect()
}
