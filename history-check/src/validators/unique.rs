//! No follower receives a commit twice, and no request makes two commits.
//!
//! A step to the follower's current state has no effect, and is no violation if the network may
//! repeat data.

use super::Violation;
use crate::{
    event::{Event, Message},
    history::History,
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let repeating = |line: &&crate::Line| matches!(line.event, Event::Fault { repeats: true, .. });
    let repeating = history.lines.iter().find(repeating).map_or(u64::MAX, |line| line.n);
    for following in &history.followers {
        for (moment, message, _) in following.taken() {
            let Some(before) = &moment.before else { continue };
            match message {
                Message::Delta { revision, .. } if *revision <= before.revision => {
                    let who = &following.who;
                    let what = format!("{who} received revision {revision} twice");
                    found.push(Violation::new([moment.line], what));
                }
                Message::Step { put, .. } => {
                    let is_held = |key: &str| before.state.entities.get(key);
                    let again = put.iter().find(|e| is_held(&e.key).is_some_and(|h| **h == **e));
                    let is_networks = moment.line > repeating && moment.after == moment.before;
                    if let Some(entity) = again.filter(|_| !is_networks) {
                        let what = format!("{} received {} again", following.who, entity.key);
                        found.push(Violation::new([moment.line], what));
                    }
                }
                _ => {}
            }
        }
    }
    for (id, commits) in history.log.by_request_id() {
        if commits.len() > 1 {
            let lines = commits.iter().map(|commit| commit.line);
            found.push(Violation::new(lines, format!("the request {id} committed twice")));
        }
    }
    found
}
