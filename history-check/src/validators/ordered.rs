//! Nobody who follows goes back, and nobody is anywhere but at a place of the log. The log's own times
//! never go back either, whatever the clocks of its servers do.

use std::collections::HashMap;

use super::Violation;
use crate::{event::Event, history::History, log::Commit};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = gateways(history);
    for two in history.log.commits.windows(2) {
        let [before, after] = two else { continue };
        let time = |commit: &Commit| commit.value["committedAt"].as_str().map(str::to_owned);
        if time(before) > time(after) {
            let what = format!("revision {} is older than the one before it", after.revision);
            found.push(Violation::new([before.line, after.line], what));
        }
    }
    for following in &history.followers {
        for (moment, _, after) in following.taken() {
            let mut wrong = |what| found.push(Violation::new([moment.line], what));
            let at = after.revision;
            if let Some(before) = moment.before.as_ref().filter(|before| before.revision > at) {
                wrong(format!("{} is led from {} back to {at}", following.who, before.revision));
            }
            if history.log.chain(at).as_ref() != Some(&after.chain) {
                wrong(format!("{} is led to {at} with a chain hash of nowhere", following.who));
            }
        }
    }
    found
}

/// What gateways say that they serve.
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
                    let what = format!("{who} goes from {before} back to {revision}");
                    found.push(Violation::new([at, line.n], what));
                }
                if revision > history.log.last() {
                    let what = format!("{who} serves {revision}, which the log does not have");
                    found.push(Violation::new([line.n], what));
                }
            }
            _ => {}
        }
    }
    found
}
