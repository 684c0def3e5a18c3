//! Calls with their answers, and the possible origins of each commit.

use std::collections::{BTreeMap, HashMap};

use crate::{
    event::{Answer, Event, Line, Request, RequestedAction, RequestedChange},
    log::{Commit, Log},
};

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) line: u64,
    pub(crate) server: usize,
    pub(crate) request: Request,
    /// The line of the answer, and the answer.
    pub(crate) answer: Option<(u64, Answer)>,
}

/// All calls.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) calls: Vec<Call>,
    /// The calls that could have made each commit, by revision.
    pub(crate) makers: BTreeMap<u64, Vec<usize>>,
}

impl Requests {
    pub(crate) fn new(lines: &[Line], log: &Log) -> Self {
        let (mut calls, mut by_op) = (Vec::new(), HashMap::new());
        for line in lines {
            match &line.event {
                Event::Call { op, server, request } => {
                    by_op.insert(*op, calls.len());
                    let (server, request) = (*server, request.clone());
                    calls.push(Call { line: line.n, server, request, answer: None });
                }
                Event::Answer { op, answer } => {
                    if let Some(index) = by_op.get(op) {
                        calls[*index].answer = Some((line.n, answer.clone()));
                    }
                }
                _ => {}
            }
        }
        let makers = makers(&calls, log);
        Self { calls, makers }
    }

    /// The earliest line of the commit: the first matching request. `None` if no request matches.
    pub(crate) fn earliest(&self, revision: u64) -> Option<u64> {
        let makers = self.makers.get(&revision)?;
        makers.iter().map(|index| self.calls[*index].line).min()
    }
}

fn makers(calls: &[Call], log: &Log) -> BTreeMap<u64, Vec<usize>> {
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut without: Vec<usize> = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        match &call.request {
            Request::Apply { id: Some(id), .. } => by_id.entry(id).or_default().push(index),
            Request::Apply { id: None, .. } => without.push(index),
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    for commit in &log.commits {
        let candidates = match commit.value["requestId"].as_str() {
            Some(id) => by_id.get(id).cloned().unwrap_or_default(),
            None => without.clone(),
        };
        let fits = |index: &usize| asks_for(&calls[*index].request, commit);
        let makers: Vec<usize> = candidates.into_iter().filter(fits).collect();
        if !makers.is_empty() {
            found.insert(commit.revision, makers);
        }
    }
    found
}

/// Whether a commit contains exactly the requested changes, in order.
pub(crate) fn asks_for(request: &Request, commit: &Commit) -> bool {
    let Request::Apply { wanted, settings, author, .. } = request else { return false };
    let mut open = wanted.iter();
    let changes = commit.value["changes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut set = settings.iter();
    let sets = commit.value["settings"].as_array().map_or(&[][..], Vec::as_slice);
    commit.value["author"] == author.as_str()
        && changes.iter().all(|change| open.any(|wanted| is_of(change, wanted)))
        && sets.iter().all(|change| set.any(|wanted| wanted == change))
}

fn is_of(change: &serde_json::Value, wanted: &RequestedChange) -> bool {
    let Ok(key) = crate::state::key_of(change) else { return false };
    let action = change["action"].as_str().unwrap_or_default();
    key == wanted.key
        && match &wanted.change {
            RequestedAction::Register(digest) => {
                action == "register" && change["digest"] == digest.as_str()
            }
            RequestedAction::State(state) => {
                action != "register" && crate::state::state_after(action) == Ok(state.as_str())
            }
        }
}
