//! No commit is skipped, and after the faults all followers have all commits.
//!
//! The validator has no time limit: the recorder waits, and reports when it gives up.

use std::collections::HashMap;

use super::Violation;
use crate::{
    event::{Answer, Event, Message},
    history::History,
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for following in &history.followers {
        for (moment, message, _) in following.taken() {
            let Message::Delta { revision, .. } = message else { continue };
            let held = moment.before.as_ref().map(|before| before.revision);
            if held.is_none_or(|held| held + 1 < *revision) {
                let after = held.map_or("nothing".to_owned(), |held| format!("revision {held}"));
                let what = format!("{}: revision {revision} follows {after}", following.who);
                found.push(Violation::new([moment.line], what));
            }
        }
    }
    match history.settled() {
        Some(settled) => found.extend(at_the_end(history, settled)),
        None => found.push(Violation::new([], "not all participants caught up in time")),
    }
    found
}

fn at_the_end(history: &History, settled: u64) -> Vec<Violation> {
    let head = history.log.last();
    let mut found = Vec::new();
    for following in &history.followers {
        let last = following.moments.iter().rev().find(|moment| moment.line < settled);
        let at = last.and_then(|last| last.after.as_ref()).map(|held| held.revision);
        if at != Some(head) {
            let what = format!("{} ends at {at:?}, not {head}", following.who);
            found.push(Violation::new(last.map(|last| last.line), what));
        }
    }
    let mut served: HashMap<&str, (u64, u64)> = HashMap::new();
    for line in history.lines.iter().filter(|line| line.n < settled) {
        if let Event::Serves { revision } = line.event {
            served.insert(&line.who, (line.n, revision));
        }
    }
    for (who, (line, revision)) in served {
        if revision != head {
            let what = format!("{who} ends at revision {revision}, not {head}");
            found.push(Violation::new([line], what));
        }
    }
    for call in history.requests.calls.iter().filter(|call| call.line > settled) {
        let is_at_head = |answer: &Answer| matches!(answer, Answer::Listed { revision, .. } if *revision == head);
        if !call.answer.as_ref().is_some_and(|(_, answer)| is_at_head(answer)) {
            let what = format!("server {} never shows revision {head}", call.server);
            found.push(Violation::new([call.line], what));
        }
    }
    found
}
