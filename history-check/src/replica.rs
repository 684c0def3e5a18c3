//! The state of each follower after each message, computed from the messages alone.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    event::{Event, Line, Message},
    log::genesis,
    state::{Entities, SettingState, State},
};

/// The state of a follower.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Replica {
    pub(crate) revision: u64,
    pub(crate) chain: String,
    /// The roots of the scope; empty for everything.
    pub(crate) scope: Vec<String>,
    pub(crate) state: Arc<State>,
    /// The reason that the last message could not be applied.
    pub(crate) broken: Option<String>,
}

/// An event of a follower with the states before and after.
#[derive(Debug, Clone)]
pub(crate) struct FollowerEvent {
    pub(crate) line: u64,
    pub(crate) event: Event,
    /// The state before, if any.
    pub(crate) before: Option<Replica>,
    /// The state after.
    pub(crate) after: Option<Replica>,
    /// The number of earlier messages on this stream.
    pub(crate) taken: usize,
    /// The scopes requested on this stream so far.
    pub(crate) asked: Vec<Vec<String>>,
}

/// The events of one follower.
#[derive(Debug, Clone)]
pub(crate) struct FollowerHistory {
    pub(crate) who: String,
    pub(crate) moments: Vec<FollowerEvent>,
}

impl FollowerHistory {
    /// All followers of a history.
    pub(crate) fn all(lines: &[Line], registry: &str) -> Vec<Self> {
        let mut found: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
        for line in lines.iter().filter(|line| is_of_follower(&line.event)) {
            found.entry(&line.who).or_default().push(line);
        }
        let of = |(who, lines): (&str, Vec<&Line>)| Self {
            who: who.to_owned(),
            moments: moments(&lines, registry),
        };
        found.into_iter().map(of).collect()
    }

    /// Applied messages, each with its event and the state after it.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (&FollowerEvent, &Message, &Replica)> {
        self.moments.iter().filter_map(|moment| match (&moment.event, &moment.after) {
            (Event::Took { message }, Some(after)) => Some((moment, message, after)),
            _ => None,
        })
    }
}

fn is_of_follower(event: &Event) -> bool {
    matches!(
        event,
        Event::Hello { .. }
            | Event::Rescope { .. }
            | Event::Took { .. }
            | Event::Refused { .. }
            | Event::Ended { .. }
    )
}

fn moments(lines: &[&Line], registry: &str) -> Vec<FollowerEvent> {
    let mut by_line: HashMap<u64, Replica> = HashMap::new();
    let (mut held, mut taken, mut asked) = (None, 0, Vec::new());
    let mut found = Vec::new();
    for line in lines {
        let before: Option<Replica> = held.clone();
        let so_far = taken;
        match &line.event {
            Event::Hello { scope, resumes, .. } => {
                held = resumes.and_then(|line| by_line.get(&line).cloned());
                (taken, asked) = (0, vec![scope.clone()]);
            }
            Event::Rescope { scope } => asked.push(scope.clone()),
            Event::Took { message } => {
                let next = after(before.as_ref(), message, registry);
                by_line.insert(line.n, next.clone());
                held = Some(next);
                taken += 1;
            }
            _ => {}
        }
        found.push(FollowerEvent {
            line: line.n,
            event: line.event.clone(),
            before,
            after: held.clone(),
            taken: so_far,
            asked: asked.clone(),
        });
    }
    found
}

fn after(held: Option<&Replica>, message: &Message, registry: &str) -> Replica {
    let nothing = || Replica { chain: genesis(registry), ..Replica::default() };
    let held = held.cloned().unwrap_or_else(nothing);
    match message.clone() {
        Message::Snapshot { revision, chain, scope, oldest: _, entities, settings } => {
            let entities: Entities =
                entities.into_iter().map(|entity| (entity.key.clone(), Arc::new(entity))).collect();
            let settings: BTreeMap<String, SettingState> =
                settings.into_iter().map(|set| (set.target.clone(), set)).collect();
            let state = Arc::new(State { entities, settings });
            Replica { revision, chain, scope, state, broken: None }
        }
        Message::Delta { revision, chain, canonical, documents: _ } => {
            let commit: Value = serde_json::from_str(&canonical).unwrap_or_default();
            match held.state.after(&commit) {
                Ok(state) => {
                    Replica { revision, chain, state: Arc::new(state), broken: None, ..held }
                }
                Err(reason) => Replica { revision, chain, broken: Some(reason), ..held },
            }
        }
        Message::Step { revision, chain, scope, put, removed, settings, removed_settings } => {
            let mut state = (*held.state).clone();
            let mut broken = None;
            for target in &removed_settings {
                if state.settings.remove(target).is_none() {
                    broken = Some(format!("it removes settings of {target}, which has none"));
                }
            }
            state.settings.extend(settings.into_iter().map(|set| (set.target.clone(), set)));
            for key in &removed {
                if state.entities.remove(key).is_none() {
                    broken = Some(format!("it removes {key}, which is not in the state"));
                }
            }
            for entity in put {
                state.entities.insert(entity.key.clone(), Arc::new(entity));
            }
            Replica { revision, chain, scope, state: Arc::new(state), broken }
        }
        Message::Progress { revision, chain } => Replica { revision, chain, broken: None, ..held },
    }
}
