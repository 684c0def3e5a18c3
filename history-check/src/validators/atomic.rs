//! Commits are atomic: in messages to followers, in their states, and in the lists of servers.

use super::Violation;
use crate::{
    event::{Answer, Message},
    history::History,
    state::Entity,
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = listings(history);
    for following in &history.followers {
        for (moment, message, after) in following.taken() {
            let mut wrong = |what: String| {
                let what = format!("{}: {what}", following.who);
                found.push(Violation::new([moment.line], what));
            };
            if let Message::Delta { revision, canonical, documents, .. } = message {
                let commit = history.log.commit(*revision);
                let is_same =
                    |c: &crate::log::Commit| c.canonical == *canonical && c.documents == *documents;
                if !commit.is_some_and(is_same) {
                    wrong(format!("the delta of revision {revision} differs from the log"));
                }
            }
            if let Some(reason) = &after.broken {
                wrong(reason.clone());
            }
            let is_whole = || history.log.state(after.revision) == Some(&*after.state);
            if after.scope.is_empty() && !is_whole() {
                wrong(format!("its state differs from revision {}", after.revision));
            }
        }
    }
    found
}

fn listings(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &history.requests.calls {
        let Some((line, Answer::Listed { revision, entities })) = &call.answer else { continue };
        let state = history.log.state(*revision);
        let mut listed: Vec<&Entity> = entities.iter().collect();
        listed.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let is_state = state.is_some_and(|state| {
            state.entities.values().map(|entity| &**entity).eq(listed.iter().copied())
        });
        if !is_state {
            let what = format!("the list differs from revision {revision}");
            found.push(Violation::new([call.line, *line], what));
        }
    }
    found
}
