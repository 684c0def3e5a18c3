//! The calls in a history with approvals, with the decisions of people and the executions of tools.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use crate::{
    approval_event::{ApprovalEvent, Reply},
    event::{Event, Line},
};

/// A call and its answer.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) line: u64,
    pub(crate) agent: &'a str,
    pub(crate) arguments: &'a Value,
    pub(crate) reply: Option<&'a Reply>,
}

/// An execution of a call.
#[derive(Debug)]
pub(crate) struct Execution<'a> {
    pub(crate) line: u64,
    pub(crate) call: &'a str,
    pub(crate) arguments: &'a Value,
    /// The question that it answers. `None`: it is the first round.
    pub(crate) question: Option<Question<'a>>,
}

/// A question of a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) state: &'a str,
    /// The call of the round that asked.
    pub(crate) call: &'a str,
}

/// The decision of a person.
#[derive(Debug)]
pub(crate) struct Decision<'a> {
    pub(crate) line: u64,
    pub(crate) agent: &'a str,
    pub(crate) arguments: &'a Value,
    pub(crate) approves: bool,
}

impl Decision<'_> {
    /// Whether it approves a call of this agent, which is executed at this line.
    pub(crate) fn allows(&self, agent: &str, arguments: &Value, line: u64) -> bool {
        self.approves && self.line < line && self.agent == agent && self.arguments == arguments
    }
}

/// The calls in a history.
#[derive(Debug, Default)]
pub(crate) struct ApprovedCalls<'a> {
    pub(crate) calls: BTreeMap<&'a str, Call<'a>>,
    pub(crate) executions: Vec<Execution<'a>>,
    /// By request.
    pub(crate) decisions: BTreeMap<&'a str, Decision<'a>>,
    /// The requests of calls, by the audit logs. A killed gateway logs no calls in flight.
    requests: BTreeMap<&'a str, &'a str>,
    /// The line and the state of each request at the end.
    pub(crate) ended: BTreeMap<&'a str, (u64, &'a str)>,
    /// By state.
    questions: BTreeMap<&'a str, Question<'a>>,
}

impl<'a> ApprovedCalls<'a> {
    pub(crate) fn new(lines: &'a [Line]) -> Self {
        let mut calls = Self::default();
        for line in lines {
            if let Event::Approval { approval } = &line.event {
                calls.add(line.n, approval);
            }
        }
        calls
    }

    fn add(&mut self, line: u64, event: &'a ApprovalEvent) {
        match event {
            ApprovalEvent::Called { call, agent, arguments, .. } => {
                self.calls.insert(call, Call { line, agent, arguments, reply: None });
            }
            ApprovalEvent::Answered { call, reply } => {
                if let Some(known) = self.calls.get_mut(call.as_str()) {
                    known.reply = Some(reply);
                }
            }
            ApprovalEvent::Executed { call, arguments, state, asks } => {
                // A state that the tool does not know starts a call.
                let question = state.as_deref().and_then(|state| self.questions.get(state));
                let question = question.copied();
                self.executions.push(Execution { line, call, arguments, question });
                if let Some(state) = asks {
                    self.questions.insert(state, Question { state, call });
                }
            }
            ApprovalEvent::Decided { request, agent, arguments, approves } => {
                let decision = Decision { line, agent, arguments, approves: *approves };
                self.decisions.entry(request).or_insert(decision);
            }
            ApprovalEvent::Used { call, request } => {
                self.requests.insert(call, request);
            }
            ApprovalEvent::Ended { request, state } => {
                self.ended.insert(request, (line, state));
            }
        }
    }

    /// The executions that start a call.
    pub(crate) fn first_rounds(&self) -> impl Iterator<Item = &Execution<'a>> {
        self.executions.iter().filter(|execution| execution.question.is_none())
    }

    /// The request that an executed call used, if its gateway logged it.
    pub(crate) fn request_of(&self, execution: &Execution<'_>) -> Option<&'a str> {
        self.requests.get(execution.call).copied()
    }

    pub(crate) fn summary(&self) -> ApprovalSummary {
        let started = self.first_rounds().count();
        let is_rejected = |call: &&Call<'_>| matches!(call.reply, Some(Reply::Rejected { .. }));
        ApprovalSummary {
            calls: self.calls.len(),
            rejected: self.calls.values().filter(is_rejected).count(),
            approved: self.decisions.values().filter(|decision| decision.approves).count(),
            started,
            continued: self.executions.len() - started,
        }
    }
}

/// The numbers of a history with approvals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApprovalSummary {
    /// Calls, with those that bring input.
    pub calls: usize,
    /// Rejected calls.
    pub rejected: usize,
    /// Approved requests.
    pub approved: usize,
    /// Executions that start a call.
    pub started: usize,
    /// Executions that continue a call with input.
    pub continued: usize,
}

impl fmt::Display for ApprovalSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, rejected, approved, started, continued } = self;
        write!(f, "{calls} calls, {rejected} rejected; {approved} requests approved")?;
        write!(f, ", {started} calls executed, {continued} continued")
    }
}
