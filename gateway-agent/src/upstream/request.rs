//! What a caller asks of an upstream, in parts that no longer depend on how it came.
//!
//! Deliberately absent: writing it for an era (`message.rs`), and who may ask (`permit`).

use std::{sync::Arc, time::Duration};

use gateway_policy::{Buffered, Exhausted, Principal, SubjectToken};
use gateway_protocol::{
    mcp::{Capabilities, Method, Param, TASK_PARAM, TASKS},
    trace_context::TraceContext,
};
use serde_json::value::RawValue;

use super::Side;

/// One request of a caller. What exactly it is about, the permit says.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What is asked.
    pub method: Method,
    /// The arguments of a tool: an object; none is sent as an empty one.
    pub arguments: Option<&'a RawValue>,
    /// All other parameters but the subject and `_meta`.
    pub params: &'a [Param],
    /// What else belongs to it.
    pub context: &'a Context,
    /// Whether it may be made twice without harm, as its registration says.
    pub is_repeatable: bool,
    /// How long it may take, where that is otherwise than for most.
    pub timeout: Option<Duration>,
    /// Whose trace it belongs to: the gateway's own span, or its caller's.
    pub trace: &'a TraceContext,
    /// The way back to the caller while the request is under way.
    pub side: Option<&'a Side>,
    /// Against whose share it counts.
    pub principal: &'a Principal,
}

impl<'a> Request<'a> {
    /// Whether it asks for a task as in 2025-11-25.
    pub(super) fn begins_task(&self) -> bool {
        self.method == Method::CallTool
            && self.params.iter().any(|param| &*param.name == TASK_PARAM)
    }

    /// One of the gateway's own.
    pub(super) fn plain(method: Method, params: &'a [Param], context: &'a Context) -> Self {
        let trace = &context.trace;
        let (arguments, is_repeatable, side, timeout) = (None, false, None, None);
        let principal = &None;
        Self { method, arguments, params, context, is_repeatable, timeout, trace, side, principal }
    }
}

/// What a request says about its caller.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// What the caller can be asked.
    pub capabilities: Capabilities,
    /// The least severity of log messages that it wants, as a JSON string.
    pub log_level: Option<Box<RawValue>>,
    /// Whether it wants to hear of progress.
    pub wants_progress: bool,
    /// Whose trace it belongs to.
    pub trace: TraceContext,
    /// What else its `_meta` has that is not the protocol's own.
    pub meta: Vec<Param>,
    /// The caller's own session, where it has one: a server with sessions gets one for each.
    pub session: Option<Arc<str>>,
    /// Who it is, where it is told apart from others: a child process may be for it alone.
    pub caller: Option<Arc<str>>,
    /// The token that it showed, for servers that are called with the rights of callers.
    pub subject: Option<Arc<SubjectToken>>,
    /// The memory reserved for the request and its results; none for the gateway's own requests.
    pub(crate) buffered: Option<Arc<Buffered>>,
}

impl Context {
    /// Reserves memory for a part of a result.
    pub(crate) fn buffer(&self, bytes: usize) -> Result<(), Exhausted> {
        self.buffered.as_ref().map_or(Ok(()), |buffered| buffered.grow(bytes))
    }

    /// The same for a step of a composition: memory for its result is released when the step ends.
    pub(crate) fn of_step(&self) -> Self {
        let buffered = self.buffered.as_ref().map(|buffered| buffered.part());
        Self { buffered, ..self.clone() }
    }

    /// The caller whose share of the gateway's memory and threads the request uses.
    pub(crate) fn payer(&self) -> &Principal {
        self.buffered.as_ref().map_or(&None, |buffered| buffered.principal())
    }

    /// The same for a caller that takes no tasks: their results would come past what makes something
    /// else of them.
    pub(crate) fn without_tasks(&self) -> Self {
        Self { capabilities: self.capabilities.without(TASKS), ..self.clone() }
    }
}
