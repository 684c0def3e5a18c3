//! Progress messages are correct, and a follower resumes from one without a transfer of content.

use super::Violation;
use crate::{
    event::{Event, Message},
    history::History,
    replica::{FollowerEvent, Replica},
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for following in &history.followers {
        let mut hello = None;
        for moment in &following.moments {
            if let Event::Hello { .. } = moment.event {
                hello = Some(moment);
            }
            let Event::Took { message } = &moment.event else { continue };
            let mut wrong = |lines: &[u64], what: String| {
                let what = format!("{}: {what}", following.who);
                found.push(Violation::new(lines.iter().copied(), what));
            };
            if let Message::Progress { revision, chain } = message {
                if history.log.chain(*revision).as_ref() != Some(chain) {
                    wrong(
                        &[moment.line],
                        format!("progress to revision {revision}, which is not in the log"),
                    );
                }
                let before = moment.before.as_ref();
                let passes = before.filter(|b| b.scope.is_empty() && b.revision != *revision);
                if let Some(before) = passes {
                    let what = format!("progress skips from {} to {revision}", before.revision);
                    wrong(&[moment.line], what);
                }
                if before.is_none() {
                    wrong(&[moment.line], "progress without a state".to_owned());
                }
            }
            if let Some(hello) = hello.filter(|hello| is_sent_again(history, hello, moment)) {
                let what = "unchanged content was sent again".to_owned();
                wrong(&[hello.line, moment.line], what);
            }
        }
    }
    found
}

/// Whether the first message repeats content that the follower reported to have.
fn is_sent_again(history: &History, hello: &FollowerEvent, moment: &FollowerEvent) -> bool {
    let Event::Hello { scope, content: true, .. } = &hello.event else { return false };
    let (Some(held), Some(after)) = (&hello.after, &moment.after) else { return false };
    let is_progress = matches!(&moment.event, Event::Took { message: Message::Progress { .. } });
    let is_first = moment.taken == 0 && moment.asked.len() == 1;
    is_first && !is_progress && held.scope == *scope && is_unchanged(history, held, after.revision)
}

/// Whether the part of a follower is the same at this revision.
fn is_unchanged(history: &History, held: &Replica, revision: u64) -> bool {
    let log = &history.log;
    let (Some(entities), Some(state)) = (log.part(revision, &held.scope), log.state(revision))
    else {
        return false;
    };
    let is_whole = held.scope.is_empty();
    let settings = if is_whole { state.settings.clone() } else { state.settings_of(&entities) };
    entities == held.state.entities && settings == held.state.settings
}
