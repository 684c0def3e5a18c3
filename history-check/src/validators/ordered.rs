//! No follower goes back, and each follower's state is a state of the log. The times in the log
//! never decrease, regardless of server clocks.

use std::collections::HashMap;

use super::Violation;
use crate::{event::Event, history::History, log::Commit};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = gateways(history);
    for two in history.log.commits.windows(2) {
        let [before, after] = two else { continue };
        let time = |commit: &Commit| commit.value["committedAt"].as_str().map(str::to_owned);
        if time(before) > time(after) {
            let what = format!(
                "the time of revision {} is before that of its predecessor",
                after.revision
            );
            found.push(Violation::new([before.line, after.line], what));
        }
    }
    for following in &history.followers {
        for (moment, _, after) in following.taken() {
            let mut wrong = |what| found.push(Violation::new([moment.line], what));
            let at = after.revision;
            if let Some(before) = moment.before.as_ref().filter(|before| before.revision > at) {
                wrong(format!("{} went back from {} to {at}", following.who, before.revision));
            }
            if history.log.chain(at).as_ref() != Some(&after.chain) {
                wrong(format!(
                    "{} reached {at} with a chain hash that is not in the log",
                    following.who
                ));
            }
        }
    }
    found
}

/// Checks the revisions that gateways report.
fn gateways(history: &History) -> Vec<Violation> {
    let mut served: HashMap<&str, (u64, u64)> = HashMap::new();
    let mut found = Vec::new();
    for line in &history.lines {
        let who = line.who.as_str();
        match line.event {
            Event::Killed {} => drop(served.remove(who)),
            Event::Serves { revision } => {
                if let Some((at, before)) = served.insert(who, (line.n, revision))
                    && before > revision
                {
                    let what = format!("{who} went back from {before} to {revision}");
                    found.push(Violation::new([at, line.n], what));
                }
                if revision > history.log.last() {
                    let what = format!("{who} serves revision {revision}, which is not in the log");
                    found.push(Violation::new([line.n], what));
                }
            }
            _ => {}
        }
    }
    found
}
