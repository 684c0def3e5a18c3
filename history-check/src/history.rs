//! A parsed history: its lines, log, requests, and follower states.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    approved_calls::{ApprovalSummary, ApprovedCalls},
    event::{Event, FORMAT, Line, Workload},
    log::{Log, RECORDER},
    replica::FollowerHistory,
    requests::Requests,
    spending::{Spending, SpendingSummary},
};

/// A recorded history.
#[derive(Debug)]
pub struct History {
    /// The lines.
    pub lines: Vec<Line>,
    /// The log at its end.
    pub log: Log,
    /// The logs of relays by name.
    pub copies: BTreeMap<String, Log>,
    pub(crate) requests: Requests,
    pub(crate) followers: Vec<FollowerHistory>,
}

/// The reason that a text is not a valid history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(pub String);

impl History {
    /// Reads the lines of a history.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut lines = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let read: Line = serde_json::from_str(line)
                .map_err(|e| ParseError(format!("line {}: {e}", i + 1)))?;
            lines.push(read);
        }
        match lines.first().map(|line| &line.event) {
            Some(Event::Begin { format: FORMAT, .. }) => Ok(Self::new(lines)),
            Some(Event::Begin { format, .. }) => {
                Err(ParseError(format!("unsupported format {format}, expected {FORMAT}")))
            }
            _ => Err(ParseError("the first event is not `begin`".to_owned())),
        }
    }

    /// Builds a history from lines.
    pub fn new(lines: Vec<Line>) -> Self {
        let log = Log::new(&lines, RECORDER);
        let relays = lines.iter().map(|line| &line.who).filter(|who| who.starts_with("relay-"));
        let relays: BTreeSet<&String> = relays.collect();
        let copies = relays.into_iter().map(|who| (who.clone(), Log::new(&lines, who))).collect();
        let requests = Requests::new(&lines, &log);
        let followers = FollowerHistory::all(&lines, &log.registry);
        Self { lines, log, copies, requests, followers }
    }

    /// The spending and its exceptions; `None` without budgets.
    pub fn spending(&self) -> Option<SpendingSummary> {
        (self.workload() == Workload::Budgets).then(|| Spending::new(&self.lines).summary())
    }

    /// The numbers of calls and approvals; `None` without approvals.
    pub fn approvals(&self) -> Option<ApprovalSummary> {
        let has_approvals = self.workload() == Workload::Approvals;
        has_approvals.then(|| ApprovedCalls::new(&self.lines).summary())
    }

    /// The result of a history with budgets or approvals as text.
    pub fn summary(&self) -> Option<String> {
        let spending = self.spending().map(|spending| spending.to_string());
        spending.or_else(|| Some(self.approvals()?.to_string()))
    }

    pub(crate) fn workload(&self) -> Workload {
        let workload = |line: &Line| match line.event {
            Event::Begin { workload, .. } => Some(workload),
            _ => None,
        };
        self.lines.first().and_then(workload).unwrap_or_default()
    }

    /// The line of the event `settled`.
    pub(crate) fn settled(&self) -> Option<u64> {
        let settled = |line: &&Line| line.event == Event::Settled {};
        Some(self.lines.iter().find(settled)?.n)
    }
}
