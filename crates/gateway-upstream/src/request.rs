//! The requests of callers, independent of the surface that received them.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use a2a::{extensions::Extensions, stream::StreamEvent};
use agent_rpc::execute::TASK_ID;
use gateway_policy::{BufferReservation, QuotaExceeded, QuotaKey, SubjectToken};
use gateway_protocol::{
    jsonrpc::read_string,
    mcp::{Capabilities, Method, Param, TASK_PARAM, TASKS},
    trace_context::TraceContext,
};
use serde_json::{Value, value::RawValue};
use tokio::sync::{SetOnce, mpsc};

use super::ClientChannel;

/// Decides whether a request that the upstream may have received is sent again.
pub trait ResendApproval: fmt::Debug + Send + Sync {
    /// Whether the request is sent again. Each sending has a price.
    fn approve(&self) -> bool;
}

/// A skill of an agent that is called as a tool.
#[derive(Debug, Clone, Copy)]
pub struct CalledSkill<'a> {
    /// The id.
    pub name: &'a str,
    /// Whether the skill takes only text.
    pub takes_text: bool,
}

/// A request of a caller. The permit names its subject.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The skill that started the task of the request.
    pub skill: Option<CalledSkill<'a>>,
    /// The arguments of a tool. `None` is sent as an empty object.
    pub arguments: Option<&'a RawValue>,
    /// The other parameters, without the subject and `_meta`.
    pub params: &'a [Param],
    /// The context of the caller.
    pub context: &'a RequestContext,
    /// Whether the request is registered as idempotent.
    pub is_repeatable: bool,
    /// The approval of sending a repeatable request again. `None`: it needs none.
    pub resend: Option<&'a dyn ResendApproval>,
    /// The timeout. `None`: the timeout of all calls.
    pub timeout: Option<Duration>,
    /// The trace context for the upstream.
    pub trace: &'a TraceContext,
    /// Whether the answer is inspected. Messages of the upstream that name no request can have data
    /// of it.
    pub is_inspected: bool,
    /// The channel to the caller during the request.
    pub channel: Option<&'a ClientChannel>,
    /// The key of the quotas that the request uses.
    pub quota_key: &'a QuotaKey,
}

impl<'a> Request<'a> {
    /// Whether the request starts a task of 2025-11-25.
    pub(super) fn begins_task(&self) -> bool {
        self.method == Method::CallTool
            && self.params.iter().any(|param| &*param.name == TASK_PARAM)
    }

    /// Creates a request of the gateway itself.
    pub(super) fn plain(method: Method, params: &'a [Param], context: &'a RequestContext) -> Self {
        let trace = &context.trace;
        let (arguments, is_repeatable, channel, timeout) = (None, false, None, None);
        let quota_key = &None;
        Self {
            method,
            skill: None,
            arguments,
            params,
            context,
            is_repeatable,
            resend: None,
            timeout,
            trace,
            is_inspected: false,
            channel,
            quota_key,
        }
    }
}

/// An operation of a caller at an agent, in the internal form of the crate `a2a` and with the agent's
/// ids.
#[derive(Debug)]
pub struct AgentRequest<'a> {
    /// The operation and its parameters. Sending it limits it to what the permit names.
    pub request: &'a mut a2a::Request,
    /// The requested extensions.
    pub extensions: &'a Extensions,
    /// The context of the caller.
    pub context: &'a RequestContext,
    /// The time limit of a response, and of the time between two events. `None`: the timeout of all
    /// calls.
    pub timeout: Option<Duration>,
    /// The trace context for the agent.
    pub trace: &'a TraceContext,
    /// The key of the quotas that the request uses.
    pub quota_key: &'a QuotaKey,
    /// Receives the events of a streaming operation, also the last one. The agent waits while the
    /// channel is full.
    pub events: Option<&'a mpsc::Sender<StreamedEvent>>,
    /// Set to the time limit if the agent received a message and has not answered by then. The
    /// operation continues for some time, to learn the task. `None`: it ends.
    pub late: Option<&'a SetOnce<Duration>>,
}

/// An event of an agent's stream.
#[derive(Debug)]
pub struct AgentEvent<E = Value> {
    /// The event, by default in its internal form.
    pub event: E,
    /// The memory of the event, released with it. `None` for requests of the gateway itself.
    pub buffered: Option<Arc<BufferReservation>>,
}

/// An event that can repeat the event before it.
pub type StreamedEvent = AgentEvent<StreamEvent>;

/// The context of a caller.
#[derive(Debug, Clone, Default)]
pub struct RequestContext {
    /// The capabilities of the client.
    pub capabilities: Capabilities,
    /// The lowest severity of wanted log messages, as a JSON string.
    pub log_level: Option<Box<RawValue>>,
    /// Whether the client wants progress notifications.
    pub wants_progress: bool,
    /// The trace context of the client.
    pub trace: TraceContext,
    /// The number of gateways and compositions that the call passed through before, if they count
    /// it. The upstream receives the next number.
    pub hops: Option<u32>,
    /// The members of `_meta` that the protocol does not define.
    pub meta: Vec<Param>,
    /// The legacy session of the caller. A server with sessions gets one per session.
    pub session: Option<Arc<str>>,
    /// The identity of the caller, which can have its own child process.
    pub caller: Option<Arc<str>>,
    /// Receives the extensions that an agent activates. `None`: the surface does not report them.
    pub activated: Option<Arc<OnceLock<Extensions>>>,
    /// The token of the caller, for token exchange.
    pub subject: Option<Arc<SubjectToken>>,
    /// The memory reserved for the request and its results. `None` for requests of the gateway
    /// itself.
    pub buffered: Option<Arc<BufferReservation>>,
    /// The delay before the request is sent again, if that is safe. `None`: a short one.
    pub retry_delay: Option<Duration>,
}

impl RequestContext {
    /// The id of the caller's task, for data agents.
    pub fn task_id(&self) -> Option<Cow<'_, str>> {
        let param = self.meta.iter().find(|param| &*param.name == TASK_ID)?;
        read_string(&param.value)
    }

    /// Reserves memory for a part of a result.
    pub fn buffer(&self, bytes: usize) -> Result<(), QuotaExceeded> {
        self.buffered.as_ref().map_or(Ok(()), |buffered| buffered.reserve(bytes))
    }

    /// Returns the context of a step. Memory for its result is released when the step ends.
    pub fn of_step(&self) -> Self {
        let buffered = self.buffered.as_ref().map(|buffered| buffered.part());
        Self { buffered, ..self.clone() }
    }

    /// The key of the caller's quotas of memory and worker threads.
    pub fn payer(&self) -> &QuotaKey {
        self.buffered.as_ref().map_or(&None, |buffered| buffered.quota_key())
    }

    /// Returns the context without the members of `_meta` that the protocol does not define, and
    /// without `baggage`, which applications read.
    pub fn without_meta(&self) -> Self {
        let trace = TraceContext { baggage: None, ..self.trace.clone() };
        Self { meta: Vec::new(), trace, ..self.clone() }
    }

    /// Returns the context without support for tasks, whose results would bypass the projection.
    pub fn without_tasks(&self) -> Self {
        Self { capabilities: self.capabilities.without_extension(TASKS), ..self.clone() }
    }
}
