//! What each follower held after each of its messages, worked out from the messages alone.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    event::{Event, Line, Message},
    log::genesis,
    state::{Entities, Set, State},
};

/// What a follower holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Held {
    pub(crate) revision: u64,
    pub(crate) chain: String,
    /// The roots of the scope that this is of; none: everything.
    pub(crate) scope: Vec<String>,
    pub(crate) state: Arc<State>,
    /// Why the last message does not lead anywhere, if so.
    pub(crate) broken: Option<String>,
}

/// One thing that happened to a follower.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) line: u64,
    pub(crate) event: Event,
    /// What it held before; `None`: nothing.
    pub(crate) before: Option<Held>,
    /// And after.
    pub(crate) after: Option<Held>,
    /// How many messages it took on this stream before.
    pub(crate) taken: usize,
    /// The scopes that it asked for on this stream so far.
    pub(crate) asked: Vec<Vec<String>>,
}

/// What happened to one follower.
#[derive(Debug, Clone)]
pub(crate) struct Following {
    pub(crate) who: String,
    pub(crate) moments: Vec<Moment>,
}

impl Following {
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

    /// The moments of messages: with the message, and what was held afterwards.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (&Moment, &Message, &Held)> {
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

fn moments(lines: &[&Line], registry: &str) -> Vec<Moment> {
    let mut by_line: HashMap<u64, Held> = HashMap::new();
    let (mut held, mut taken, mut asked) = (None, 0, Vec::new());
    let mut found = Vec::new();
    for line in lines {
        let before: Option<Held> = held.clone();
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
        found.push(Moment {
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

fn after(held: Option<&Held>, message: &Message, registry: &str) -> Held {
    let nothing = || Held { chain: genesis(registry), ..Held::default() };
    let held = held.cloned().unwrap_or_else(nothing);
    match message.clone() {
        Message::Snapshot { revision, chain, scope, oldest: _, entities, settings } => {
            let entities: Entities =
                entities.into_iter().map(|entity| (entity.key.clone(), Arc::new(entity))).collect();
            let settings: BTreeMap<String, Set> =
                settings.into_iter().map(|set| (set.on.clone(), set)).collect();
            let state = Arc::new(State { entities, settings });
            Held { revision, chain, scope, state, broken: None }
        }
        Message::Delta { revision, chain, canonical, documents: _ } => {
            let commit: Value = serde_json::from_str(&canonical).unwrap_or_default();
            match held.state.after(&commit) {
                Ok(state) => Held { revision, chain, state: Arc::new(state), broken: None, ..held },
                Err(reason) => Held { revision, chain, broken: Some(reason), ..held },
            }
        }
        Message::Step { revision, chain, scope, put, removed } => {
            let mut state = State { settings: BTreeMap::new(), ..(*held.state).clone() };
            let mut broken = None;
            for key in &removed {
                if state.entities.remove(key).is_none() {
                    broken = Some(format!("it removes {key}, which is not held"));
                }
            }
            for entity in put {
                state.entities.insert(entity.key.clone(), Arc::new(entity));
            }
            Held { revision, chain, scope, state: Arc::new(state), broken }
        }
        Message::Progress { revision, chain } => Held { revision, chain, broken: None, ..held },
    }
}
