//! A stream goes on from what its follower has.

use super::Violation;
use crate::{
    event::{Event, Message},
    held::{Held, Moment},
    history::History,
};

/// With these a server says that the follower's past is not the registry's.
const OTHER_PAST: [&str; 2] = ["CHAIN_MISMATCH", "REGISTRY_MISMATCH"];

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for following in &history.followers {
        let mut hello = None;
        for moment in &following.moments {
            match &moment.event {
                Event::Hello { .. } => hello = Some(moment),
                Event::Ended { reason } if OTHER_PAST.iter().any(|past| reason.contains(past)) => {
                    let what = format!("{} may not resume: {reason}", following.who);
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

/// What is wrong with the first message after a hello.
fn first(hello: &Moment, message: &Message) -> Option<String> {
    let Event::Hello { scope, position, .. } = &hello.event else { return None };
    let Some(position) = position else {
        let is_snapshot = matches!(message, Message::Snapshot { .. });
        return (!is_snapshot).then(|| "it has nothing, and gets no snapshot".to_owned());
    };
    let held: &Held = hello.after.as_ref()?;
    if held.revision != *position {
        return Some(format!("it says that it has {position}, and has {}", held.revision));
    }
    match message {
        Message::Delta { revision, .. } if *revision != position + 1 => {
            Some(format!("it has {position}, and the stream goes on with {revision}"))
        }
        Message::Snapshot { revision, .. } if scope.is_empty() && revision == position => {
            Some(format!("it has {position} already, and gets all of it again"))
        }
        Message::Snapshot { oldest: Some(oldest), .. } if position + 1 >= *oldest => {
            Some(format!("it has {position}, and is refused {oldest} and what follows on it"))
        }
        _ => None,
    }
}
