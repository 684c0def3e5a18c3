//! One operation of one caller on any surface, and its output.

use std::{borrow::Cow, sync::Arc, time::Duration};

use a2a::extensions::Extensions;
use gateway_compose::{RunScope, Steps};
use gateway_policy::{Denial, QuotaKey};
use gateway_protocol::{
    mcp::{HOPS, Method, Param, RawResult, ResultType},
    naming::ResourceNames,
};
use gateway_upstream::{ClientChannel, RequestContext, StreamedEvent, Subscription};
use http::HeaderMap;
use registry_core::{Key, Name, Revision, Secret, Version};
use serde_json::{Value, value::RawValue};
use tokio::sync::{SetOnce, mpsc};

use super::{Error, Gateway, Task, TaskNames};
use crate::{
    audit, freshness::Freshness, identity::authenticator::Authentication, view::ServedTool,
};

/// An operation: a tool call, a request for another feature of a server, an operation of A2A, or a
/// step of a composition.
///
/// It owns its data, so execution can outlive the request that started it.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) caller: Authentication,
    pub(crate) target: Target,
    /// All parameters except the subject, the arguments and `_meta`.
    pub(crate) params: Vec<Param>,
    /// The client's metadata. `invoke` adds the caller, its token and its memory quota.
    pub(crate) context: RequestContext,
    /// The channel to the client, for progress, log messages and questions.
    pub(crate) client: Option<ClientChannel>,
    pub(crate) input: InputHandling,
}

/// How questions of the upstream reach the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputHandling {
    /// The gateway asks the client and continues the operation.
    AskClient,
    /// The result goes to the client, which repeats the request with its answers.
    ReturnToClient,
}

#[derive(Debug)]
pub(crate) enum Target {
    Tool(ToolCall),
    Feature { method: Method, subject: FeatureSubject },
    Agent(AgentCall),
    Step(StepCall),
}

#[derive(Debug)]
pub(crate) struct ToolCall {
    /// The caller's name of the tool.
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Option<Box<RawValue>>,
    /// The headers that mirror arguments, if the protocol version requires them.
    pub(crate) mcp_headers: Option<HeaderMap>,
    /// Whether the client supports tasks of 2025-11-25.
    pub(crate) takes_tasks: bool,
}

impl ToolCall {
    /// A call over a protocol without headers of arguments and tasks.
    pub(crate) fn new(name: &str, arguments: Option<Box<RawValue>>) -> Self {
        Self { name: name.into(), arguments, mcp_headers: None, takes_tasks: false }
    }
}

/// An operation of A2A. Requests, events and results have the internal form of the crate `a2a`.
#[derive(Debug)]
pub(crate) struct AgentCall {
    pub(crate) agent: RequestedAgent,
    /// The request in its internal form, with the caller's ids of tasks and contexts.
    pub(crate) request: a2a::Request,
    pub(crate) extensions: Extensions,
    /// Receives all events of a streaming operation, also the last one. A stream ends when the
    /// receiver is dropped, and continues without one.
    pub(crate) events: Option<mpsc::Sender<StreamedEvent>>,
    /// Whether the receiver of the events takes repetitions.
    pub(crate) takes_repeats: bool,
    /// Set to the time limit if the agent received a message and has not answered by then. The
    /// operation continues for some time, to learn the task. `None`: it ends.
    pub(crate) late: Option<Arc<SetOnce<Duration>>>,
    pub(crate) push: PushRole,
}

/// The role of an operation in push notifications.
#[derive(Debug, Default)]
pub(crate) enum PushRole {
    #[default]
    None,
    /// The agent receives this endpoint of the gateway instead of the caller's configuration.
    Register(PushEndpoint),
    /// The agent sent this event with its own ids. It is checked like an event of a stream, and
    /// nothing is sent.
    Event(Value),
    /// The agent reported a change of a task, which is requested for the caller.
    TaskChanged,
}

impl PushRole {
    /// Whether an agent caused the operation. Its caller registered for it with its scopes.
    pub(super) fn is_notification(&self) -> bool {
        matches!(self, Self::Event(_) | Self::TaskChanged)
    }
}

/// The endpoint of the gateway for the notifications of one configuration.
#[derive(Debug)]
pub(crate) struct PushEndpoint {
    /// The id of the configuration at the gateway and at the agent.
    pub(crate) id: Box<str>,
    /// The start of the URL; the sealed address follows.
    pub(crate) base: String,
    /// The token that the agent sends.
    pub(crate) token: Secret,
}

impl AgentCall {
    /// The number of gateways and compositions that the message passed through, if they count it.
    fn hops(&self) -> Option<u32> {
        let hops = self.request.params.get("metadata")?.get(HOPS)?.as_u64()?;
        Some(u32::try_from(hops).unwrap_or(u32::MAX))
    }
}

/// An agent as a caller names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestedAgent {
    pub(crate) name: Name,
    /// `None`: the version that the caller declares, or else the newest active one.
    pub(crate) version: Option<Version>,
}

/// A step of a composition. The authorization of the composition covers it.
#[derive(Debug)]
pub(crate) struct StepCall {
    pub(super) served: Arc<ServedTool>,
    pub(super) arguments: Box<RawValue>,
    pub(super) quota_key: QuotaKey,
    /// The policies whose approval of the enclosing compositions covers the step.
    pub(super) approved: Arc<[Key]>,
    /// The enclosing runs.
    pub(super) scope: RunScope,
}

impl Target {
    pub(super) fn arguments(&self) -> Option<&RawValue> {
        match self {
            Self::Tool(call) => call.arguments.as_deref(),
            Self::Step(step) => Some(&step.arguments),
            Self::Feature { .. } | Self::Agent(_) => None,
        }
    }

    /// The method of an operation that is no call of a tool.
    pub(super) fn method(&self) -> Option<&'static str> {
        match self {
            Self::Feature { method, .. } => Some(method.as_str()),
            Self::Agent(call) if call.request.operation.sends_message() => None,
            Self::Agent(call) => Some(call.request.operation.name()),
            Self::Tool(_) | Self::Step(_) => None,
        }
    }

    pub(super) fn mcp_headers(&self) -> Option<&HeaderMap> {
        if let Self::Tool(call) = self { call.mcp_headers.as_ref() } else { None }
    }
}

/// The prompt, resource or task of a request, named as callers know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FeatureSubject {
    Prompt(Box<str>),
    /// A resource or resource template.
    Resource(Box<str>),
    /// A task: its id, and its content if it belongs to the caller.
    Task(Box<str>, Option<Task>),
}

impl FeatureSubject {
    pub(crate) fn known(&self) -> &str {
        match self {
            Self::Prompt(known) | Self::Resource(known) | Self::Task(known, _) => known,
        }
    }

    /// The name for the audit: the scheme and host of a resource, and the tool that started a task.
    pub(crate) fn audited(&self) -> Cow<'_, str> {
        match self {
            Self::Prompt(name) => Cow::Borrowed(name),
            Self::Resource(uri) => audit::origin(uri).into(),
            Self::Task(_, task) => task.as_ref().map_or("", |task| &task.tool).into(),
        }
    }
}

impl Invocation {
    /// An operation without other parameters, whose client receives its result only.
    pub(crate) fn new(caller: Authentication, target: Target, context: RequestContext) -> Self {
        Self {
            caller,
            target,
            params: Vec::new(),
            context,
            client: None,
            input: InputHandling::ReturnToClient,
        }
    }

    pub(crate) fn subscription(caller: Authentication, uri: &str) -> Self {
        let subject = FeatureSubject::Resource(uri.into());
        let target = Target::Feature { method: Method::Subscribe, subject };
        Self::new(caller, target, RequestContext::default())
    }

    pub(crate) fn task_status(
        caller: Authentication,
        subject: FeatureSubject,
        context: RequestContext,
    ) -> Self {
        Self::new(caller, Target::Feature { method: Method::GetTask, subject }, context)
    }

    /// Completes the context, so that no surface can omit a quota. Steps inherit the caller of
    /// their composition.
    pub(super) fn bind_caller(&mut self, gateway: &Gateway) {
        let Self { caller, context, target, .. } = self;
        if let Target::Agent(call) = target {
            context.hops = context.hops.or_else(|| call.hops());
        }
        if !matches!(target, Target::Step(_)) {
            context.caller.clone_from(&caller.quota_key);
            context.subject.clone_from(&caller.subject);
        }
        context.buffered.get_or_insert_with(|| gateway.open_buffer(caller));
    }
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most outputs are results, and each would be boxed")]
pub(crate) enum Output {
    Result(OperationResult),
    Subscribed(Subscription),
    /// The result of an operation of A2A in its internal form, with the caller's ids. Null for a
    /// streaming operation, whose events were sent before.
    Agent(Value),
}

/// A result with the facts that its renderer needs.
#[derive(Debug)]
pub struct OperationResult {
    /// The upstream's result or its projection.
    pub result: RawResult,
    /// The catalog revision that authorized the operation.
    pub revision: Revision,
    /// The age of that catalog.
    pub freshness: Freshness,
    /// The names of the server's resources for callers, if exposed and if the result has some.
    pub names: Option<ResourceNames>,
    /// The caller's ids of tasks, if the result can contain tasks.
    pub tasks: Option<TaskNames>,
    /// The steps of a composition.
    pub steps: Option<Steps>,
    /// The steps as JSON text for callers, if inspection changed them.
    pub shown_steps: Option<Box<str>>,
}

impl Output {
    pub(super) fn needs_input(&self) -> Option<&RawResult> {
        match self {
            Self::Result(outcome) if outcome.result.result_type == ResultType::InputRequired => {
                Some(&outcome.result)
            }
            _ => None,
        }
    }

    pub(super) fn outcome(&self) -> gateway_policy::CallOutcome {
        match self {
            Self::Result(_) if self.needs_input().is_some() => {
                gateway_policy::CallOutcome::InputRequired
            }
            Self::Result(outcome) if outcome.result.is_error => {
                gateway_policy::CallOutcome::ToolError
            }
            Self::Result(_) | Self::Subscribed(_) | Self::Agent(_) => {
                gateway_policy::CallOutcome::Ok
            }
        }
    }

    /// The result. Subscriptions have none.
    pub(crate) fn into_result(self) -> Result<OperationResult, Error> {
        match self {
            Self::Result(outcome) => Ok(outcome),
            Self::Subscribed(_) | Self::Agent(_) => Err(Denial::NoSuchTool.into()),
        }
    }

    /// The subscription. Only `resources/subscribe` has one.
    pub(crate) fn into_subscription(self) -> Result<Subscription, Error> {
        match self {
            Self::Subscribed(subscribed) => Ok(subscribed),
            Self::Result(_) | Self::Agent(_) => Err(Denial::NoSuchTool.into()),
        }
    }

    /// The result of an operation of A2A.
    pub(crate) fn into_agent_result(self) -> Result<Value, Error> {
        match self {
            Self::Agent(result) => Ok(result),
            Self::Result(_) | Self::Subscribed(_) => Err(Denial::NoSuchTool.into()),
        }
    }
}
