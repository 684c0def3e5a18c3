//! A stream resumes from the state of its follower.

use super::Violation;
use crate::{
    event::{Event, Message},
    history::History,
    replica::{FollowerEvent, Replica},
};

/// Reasons that reject a follower with another past.
const OTHER_PAST: [&str; 2] = ["CHAIN_MISMATCH", "REGISTRY_MISMATCH"];

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for following in &history.followers {
        let mut hello = None;
        for moment in &following.moments {
            match &moment.event {
                Event::Hello { .. } => hello = Some(moment),
                Event::Ended { reason } if OTHER_PAST.iter().any(|past| reason.contains(past)) => {
                    let what = format!("{} was not allowed to resume: {reason}", following.who);
                    found.push(Violation::new(
                        hello.map(|h| h.line).into_iter().chain([moment.line]),
                        what,
                    ));
                }
                Event::Took { message } if moment.taken == 0 => {
                    let problem = hello.and_then(|hello| first(hello, message));
                    if let Some(problem) = problem {
                        let what = format!("{}: {problem}", following.who);
                        let hello = hello.map(|hello| hello.line);
                        found.push(Violation::new(hello.into_iter().chain([moment.line]), what));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// A defect of the first message after a hello.
fn first(hello: &FollowerEvent, message: &Message) -> Option<String> {
    let Event::Hello { scope, position, .. } = &hello.event else { return None };
    let Some(position) = position else {
        let is_snapshot = matches!(message, Message::Snapshot { .. });
        return (!is_snapshot).then(|| "it has no state, and got no snapshot".to_owned());
    };
    let held: &Replica = hello.after.as_ref()?;
    if held.revision != *position {
        return Some(format!("it reported revision {position}, and has {}", held.revision));
    }
    match message {
        Message::Delta { revision, .. } if *revision != position + 1 => {
            Some(format!("it has revision {position}, and the stream continued with {revision}"))
        }
        Message::Snapshot { revision, .. } if scope.is_empty() && revision == position => {
            Some(format!("it has revision {position}, and received it again"))
        }
        Message::Snapshot { oldest: Some(oldest), .. } if position + 1 >= *oldest => {
            Some(format!("it has revision {position}, and did not receive {oldest} and later ones"))
        }
        _ => None,
    }
}
