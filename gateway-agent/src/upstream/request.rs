//! What a caller asks of an upstream, in parts that no longer depend on how it came.
//!
//! Deliberately absent: writing it for an era (`message.rs`), and who may ask (`permit`).

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;

use super::{Capabilities, Side};
use crate::{
    buffers::Buffered,
    identity::SubjectToken,
    shares::{Exhausted, Principal},
    trace::context::TraceContext,
};

/// What callers may ask of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `tools/call`.
    CallTool,
    /// `SendMessage` of A2A, to an agent: the arguments are its text, or its data.
    SendMessage {
        /// Whether they are an object with one member, `text`.
        takes_text: bool,
        /// Whether text of the answer is left as it is, though it may look like JSON.
        gives_text: bool,
    },
    /// `prompts/get`.
    GetPrompt,
    /// `resources/read`.
    ReadResource,
    /// `resources/subscribe`, before 2026-07-28.
    Subscribe,
    /// `resources/unsubscribe`, before 2026-07-28.
    Unsubscribe,
    /// `completion/complete`.
    Complete,
    /// `logging/setLevel`, before 2026-07-28.
    SetLevel,
    /// `tasks/get` of the tasks extension, or of 2025-11-25.
    GetTask,
    /// `tasks/result` of 2025-11-25.
    TaskResult,
    /// `tasks/update` of the tasks extension.
    UpdateTask,
    /// `tasks/cancel` of the tasks extension, or of 2025-11-25.
    CancelTask,
}

impl Method {
    /// Its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CallTool => "tools/call",
            Self::SendMessage { .. } => "SendMessage",
            Self::GetPrompt => "prompts/get",
            Self::ReadResource => "resources/read",
            Self::Subscribe => "resources/subscribe",
            Self::Unsubscribe => "resources/unsubscribe",
            Self::Complete => "completion/complete",
            Self::SetLevel => "logging/setLevel",
            Self::GetTask => "tasks/get",
            Self::TaskResult => "tasks/result",
            Self::UpdateTask => "tasks/update",
            Self::CancelTask => "tasks/cancel",
        }
    }

    /// The parameter that says what is asked for; in the modern era `Mcp-Name` repeats most.
    pub fn subject(self) -> Option<&'static str> {
        match self {
            Self::CallTool | Self::GetPrompt => Some("name"),
            Self::ReadResource | Self::Subscribe | Self::Unsubscribe => Some("uri"),
            Self::GetTask | Self::TaskResult | Self::UpdateTask | Self::CancelTask => {
                Some("taskId")
            }
            Self::SendMessage { .. } | Self::Complete | Self::SetLevel => None,
        }
    }

    /// Whether it changes nothing, whatever it is about.
    pub fn only_reads(self) -> bool {
        matches!(
            self,
            Self::GetPrompt
                | Self::ReadResource
                | Self::Complete
                | Self::GetTask
                | Self::TaskResult
        )
    }

    /// Whether it is about a task.
    pub fn is_of_task(self) -> bool {
        matches!(self, Self::GetTask | Self::TaskResult | Self::UpdateTask | Self::CancelTask)
    }

    /// Whether its answer may be that more input is needed (basic/patterns/mrtr).
    pub fn may_need_input(self) -> bool {
        matches!(self, Self::CallTool | Self::GetPrompt | Self::ReadResource)
    }
}

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

/// One parameter.
#[derive(Debug, Clone)]
pub struct Param {
    /// Its name.
    pub name: Box<str>,
    /// Its value, raw.
    pub value: Box<RawValue>,
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

/// The severities of log messages, the least first (server/utilities/logging).
pub const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The parameter of 2025-11-25 that makes a call a task.
pub const TASK_PARAM: &str = "task";

/// The key in `_meta` that names the task of a message, in 2025-11-25.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The extension of long-running calls.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
