//! Progress says the truth, and by it a quiet follower resumes without being sent anything.

use super::Violation;
use crate::{
    event::{Event, Message},
    held::Moment,
    history::History,
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
                    wrong(&[moment.line], format!("progress to {revision}, which is nowhere"));
                }
                let before = moment.before.as_ref();
                let passes = before.filter(|b| b.scope.is_empty() && b.revision != *revision);
                if let Some(before) = passes {
                    let what = format!("progress passes over {} to {revision}", before.revision);
                    wrong(&[moment.line], what);
                }
                if before.is_none() {
                    wrong(&[moment.line], "progress, but nothing is held".to_owned());
                }
            }
            if let Some(hello) = hello.filter(|hello| is_sent_again(history, hello, moment)) {
                let what = "what it holds has not changed, and is sent again".to_owned();
                wrong(&[hello.line, moment.line], what);
            }
        }
    }
    found
}

/// Whether the first message to a follower of a scope, which said what it has, brings the same.
fn is_sent_again(history: &History, hello: &Moment, moment: &Moment) -> bool {
    let Event::Hello { scope, content: true, .. } = &hello.event else { return false };
    let (Some(held), Some(after)) = (&hello.after, &moment.after) else { return false };
    let is_progress = matches!(&moment.event, Event::Took { message: Message::Progress { .. } });
    let is_first = moment.taken == 0 && moment.asked.len() == 1;
    let is_same = || history.log.part(after.revision, scope).as_ref() == Some(&held.state.entities);
    is_first && !is_progress && held.scope == *scope && is_same()
}
