//! A history that was read: its lines, its log, its requests, and what each follower held when.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    event::{Event, FORMAT, Line},
    held::Following,
    log::{Log, RECORDER},
    requests::Requests,
};

/// A recorded history.
#[derive(Debug)]
pub struct History {
    /// The lines.
    pub lines: Vec<Line>,
    /// The log at its end.
    pub log: Log,
    /// The names of the relays, each with its log.
    pub copies: BTreeMap<String, Log>,
    pub(crate) requests: Requests,
    pub(crate) followers: Vec<Following>,
}

/// Why a text is not a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl History {
    /// Reads the lines of a history.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut lines = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let read: Line = serde_json::from_str(line)
                .map_err(|e| Unreadable(format!("line {}: {e}", i + 1)))?;
            lines.push(read);
        }
        match lines.first().map(|line| &line.event) {
            Some(Event::Begin { format: FORMAT, .. }) => Ok(Self::of(lines)),
            Some(Event::Begin { format, .. }) => {
                Err(Unreadable(format!("it has the format {format}, this program reads {FORMAT}")))
            }
            _ => Err(Unreadable("it does not begin with the event `begin`".to_owned())),
        }
    }

    /// A history of these lines.
    pub fn of(lines: Vec<Line>) -> Self {
        let log = Log::of(&lines, RECORDER);
        let relays = lines.iter().map(|line| &line.who).filter(|who| who.starts_with("relay-"));
        let relays: BTreeSet<&String> = relays.collect();
        let copies = relays.into_iter().map(|who| (who.clone(), Log::of(&lines, who))).collect();
        let requests = Requests::of(&lines, &log);
        let followers = Following::all(&lines, &log.registry);
        Self { lines, log, copies, requests, followers }
    }

    /// The line after which all was well again and had caught up.
    pub(crate) fn settled(&self) -> Option<u64> {
        let settled = |line: &&Line| line.event == Event::Settled {};
        Some(self.lines.iter().find(settled)?.n)
    }
}
