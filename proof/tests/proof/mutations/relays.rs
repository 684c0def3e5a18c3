//! Mutations of the answers of servers and relays, and of the logs of relays.

use std::collections::HashMap;

use history_check::{
    Event, Line, Log,
    event::{Answer, Request},
    state::Entity,
};
use serde_json::json;

use super::{Lines, edit_commit, place};

fn is_of_relay(line: &Line) -> bool {
    line.who.starts_with("relay-")
}

fn relays(lines: &Lines) -> Vec<usize> {
    let names = lines.iter().filter_map(|line| line.who.strip_prefix("relay-")?.parse().ok());
    names.collect()
}

/// The answers to reads of relays or servers, each with the number of its server.
fn reads(lines: &Lines, of_relay: bool) -> Vec<(usize, usize)> {
    let relays = relays(lines);
    let calls = lines.iter().filter_map(|line| match &line.event {
        Event::Call { op, server, request: Request::Get { .. } | Request::List {} } => {
            (relays.contains(server) == of_relay).then_some((*op, *server))
        }
        _ => None,
    });
    let calls: HashMap<u64, usize> = calls.collect();
    let answer = |(place, line): (usize, &Line)| match &line.event {
        Event::Answer { op, .. } => Some((place, *calls.get(op)?)),
        _ => None,
    };
    lines.iter().enumerate().filter_map(answer).collect()
}

/// The last list of a relay or server, and its number.
fn last_list(lines: &Lines, of_relay: bool) -> Option<(usize, usize)> {
    let is_list = |(place, _): &(usize, usize)| {
        matches!(lines[*place].event, Event::Answer { answer: Answer::Listed { .. }, .. })
    };
    reads(lines, of_relay).into_iter().rfind(is_list)
}

fn listed(log: &Log, revision: u64) -> Option<Answer> {
    let state = log.state(revision)?.entities.values();
    Some(Answer::Listed { revision, entities: state.map(|entity| Entity::clone(entity)).collect() })
}

/// A server with a later state returns a list of the first revision.
fn hidden(lines: &mut Lines, log: &Log, of_relay: bool) -> Option<()> {
    let (place, server) = last_list(lines, of_relay)?;
    let op = u64::MAX;
    let later = [
        Event::Call { op, server, request: Request::List {} },
        Event::Answer { op, answer: listed(log, 1)? },
    ];
    for event in later.into_iter().rev() {
        let line = Line { event, ..lines[place].clone() };
        lines.insert(place + 1, line);
    }
    lines[place + 1].n += 1;
    lines[place + 2].n += 2;
    Some(())
}

pub(super) fn hidden_by_server(lines: &mut Lines, log: &Log) -> Option<()> {
    hidden(lines, log, false)
}

pub(super) fn hidden_by_relay(lines: &mut Lines, log: &Log) -> Option<()> {
    hidden(lines, log, true)
}

/// At the end, a relay returns the state before the last commit.
pub(super) fn left_behind(lines: &mut Lines, log: &Log) -> Option<()> {
    let (place, _) = last_list(lines, true)?;
    let Event::Answer { answer, .. } = &mut lines[place].event else { return None };
    *answer = listed(log, log.last() - 1)?;
    Some(())
}

pub(super) fn invented_by_relay(lines: &mut Lines, _: &Log) -> Option<()> {
    reads(lines, true).into_iter().find_map(|(place, _)| match &mut lines[place].event {
        Event::Answer { answer: Answer::Found { entity, .. }, .. } => {
            "somebody".clone_into(&mut entity.owner);
            Some(())
        }
        _ => None,
    })
}

/// The line of a relay's last or first commit.
fn copied(lines: &Lines, is_last: bool) -> Option<usize> {
    let is_copied = |line: &Line| is_of_relay(line) && matches!(line.event, Event::Commit { .. });
    if is_last { lines.iter().rposition(is_copied) } else { place(lines, is_copied) }
}

/// A relay's log is correct, but lacks the last commit.
pub(super) fn short_copy(lines: &mut Lines, log: &Log) -> Option<()> {
    let last = copied(lines, true)?;
    let who = lines.remove(last).who;
    lines.iter_mut().find_map(|line| match &mut line.event {
        Event::Log { revision, chain, .. } if line.who == who => {
            (*revision, *chain) = (log.last() - 1, log.chain(log.last() - 1)?);
            Some(())
        }
        _ => None,
    })
}

/// A relay's log lacks only its first commit.
pub(super) fn headless_copy(lines: &mut Lines, _: &Log) -> Option<()> {
    let first = copied(lines, false)?;
    lines.remove(first);
    Some(())
}

pub(super) fn forged_copy(lines: &mut Lines, _: &Log) -> Option<()> {
    let first = copied(lines, false)?;
    edit_commit(&mut lines[first], |commit| commit["author"] = json!("somebody"));
    Some(())
}

pub(super) fn forged_seal(lines: &mut Lines, log: &Log) -> Option<()> {
    let last = copied(lines, true)?;
    let Event::Commit { chain, .. } = &mut lines[last].event else { return None };
    *chain = log.chain(0)?;
    Some(())
}

pub(super) fn copy_of_another(lines: &mut Lines, _: &Log) -> Option<()> {
    lines.iter_mut().filter(|line| is_of_relay(line)).find_map(|line| match &mut line.event {
        Event::Log { registry, .. } => {
            "registry/another".clone_into(registry);
            Some(())
        }
        _ => None,
    })
}

pub(super) fn no_copy(lines: &mut Lines, _: &Log) -> Option<()> {
    let before = lines.len();
    let is_of_log = |event: &Event| matches!(event, Event::Log { .. } | Event::Commit { .. });
    lines.retain(|line| !is_of_relay(line) || !is_of_log(&line.event));
    (lines.len() < before).then_some(())
}
