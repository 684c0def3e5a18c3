//! AIO: `agent::module.method` over `POST /rpc`.
//!
//! An agent is a registered agent or a registered server. Its tools, prompts and resources are those
//! that the caller's lists of MCP have, and each call passes `invoke` like one of MCP or A2A. A closed
//! connection cancels its call.

mod agent;
mod calls;
mod lists;
mod sampling;
mod sessions;
mod skills;
mod values;

use std::sync::Arc;

use agent_rpc::{
    Failure, Reason,
    aio::{Call, Operation},
    envelope::Reply,
    execute::TRACE_ID,
};
use axum::response::Response;
use gateway_policy::{BufferReservation, CallOutcome, Denial, QuotaExceeded};
use gateway_protocol::{
    jsonrpc::Id,
    mcp::{Era, Param},
    trace_context::TraceContext,
};
use gateway_upstream::RequestContext;
use serde_json::value::{RawValue, to_raw_value};

use self::{agent::AddressedAgent, sessions::Sessions};
use super::{end_in_graph, failure::Refusal, respond};
use crate::{
    audit::{self, CallRecord},
    graphs::{RequestTrace, StartedCall},
    identity::{
        authenticator::Authentication, challenge::AuthenticationError, sender::RequestHead,
    },
    ingress::{IngressError, authentication, request_context},
    pipeline::{self, Error, Gateway, Invocation, Output, Target, message::NO_CATALOG},
};

/// The protocol in graphs.
const PROTOCOL: &str = "aio";

/// State that survives configuration reloads.
#[derive(Debug, Default)]
pub(super) struct AioState {
    sessions: Sessions,
}

/// A request.
pub(super) struct AioRequest<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) parts: &'a RequestHead,
    /// The memory of the request.
    pub(super) buffered: &'a Arc<BufferReservation>,
    pub(super) id: Option<Id<'a>>,
    /// The caller's id of the trace.
    pub(super) trace_id: Option<&'a str>,
    pub(super) bytes: usize,
}

/// Why a request has no result.
enum Rejection {
    Failed(Box<Failure>),
    /// The caller lacks scopes, which the status of HTTP reports.
    Scopes(AuthenticationError),
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl From<AuthenticationError> for Rejection {
    fn from(error: AuthenticationError) -> Self {
        Self::Scopes(error)
    }
}

/// One call of an agent.
struct Serving<'a> {
    gateway: &'a Arc<Gateway>,
    parts: &'a RequestHead,
    buffered: &'a Arc<BufferReservation>,
    sessions: &'a Sessions,
    caller: &'a Authentication,
    agent: &'a AddressedAgent<'a>,
    trace: &'a RequestTrace,
    /// The name of the operation in audit events.
    event: &'static str,
    bytes: usize,
    /// The record of the operation that reached the pipeline.
    record: Option<CallRecord>,
}

/// An operation of the pipeline.
struct Invoked<'a> {
    target: Target,
    params: Vec<Param>,
    /// The name for the audit.
    name: &'a str,
}

/// Serves a request with its whole body.
pub(super) async fn serve(state: &AioState, request: AioRequest<'_>, call: Call<'_>) -> Response {
    let AioRequest { gateway, parts, buffered, id, trace_id, bytes } = request;
    let caller = authentication(parts);
    let agent = AddressedAgent::find(gateway, &caller, &call.agent);
    let mut trace = gateway.trace_of(&caller, trace_id);
    let started = StartedCall {
        agent: call.agent.as_str(),
        method: call.operation.name(),
        kind: agent.is_known().then(|| agent.kind()),
        protocol: PROTOCOL,
        input: call.params.map_or("{}", RawValue::get),
    };
    let begun = trace.begin(id, &started);
    let reply = Reply { id, trace_id: Some(trace.id()), execution: None };
    let Ok(running) = begun else {
        audit::count_rejection("id-in-use");
        let id = id.map_or("null", Id::as_raw);
        return respond(reply.failure(&Failure::id_in_use(trace.id(), id)));
    };
    let mut serving = Serving {
        gateway,
        parts,
        buffered,
        sessions: &state.sessions,
        caller: &caller,
        agent: &agent,
        trace: &trace,
        event: call.operation.event(),
        bytes,
        record: None,
    };
    let answer = Box::pin(serving.answer(call.operation)).await;
    let cost = serving.record.as_ref().and_then(CallRecord::charged);
    match &answer {
        Ok(result) => end_in_graph(running, Ok(result.as_str()), cost),
        Err(Rejection::Failed(failure)) => end_in_graph(running, Err(&**failure), cost),
        Err(Rejection::Scopes(_)) => drop(running),
    }
    let body = match answer {
        Ok(result) => reply.result(&result),
        Err(Rejection::Failed(failure)) => reply.failure(&failure),
        Err(Rejection::Scopes(error)) => return Refusal::of_scopes(error).respond(id),
    };
    if let Some(record) = &mut serving.record {
        record.answered(body.len());
    }
    respond(body)
}

/// The error of a request whose memory exceeds the quota of its caller.
fn out_of_memory(full: QuotaExceeded) -> Rejection {
    Refusal::from(IngressError::Buffers(full)).into_failure().into()
}

impl Serving<'_> {
    /// The result of an operation as JSON text.
    async fn answer(&mut self, operation: Operation<'_>) -> Result<String, Rejection> {
        if !self.agent.snapshot.has_catalog() {
            return Err(Failure::new(Reason::Unreachable, NO_CATALOG).into());
        }
        match operation {
            Operation::Help => self.help(),
            Operation::ListTools => self.list_tools(),
            Operation::ListResources => Box::pin(self.list_resources()).await,
            Operation::ListPrompts => Box::pin(self.list_prompts()).await,
            Operation::CallTool { tool, args } => Box::pin(self.call_tool(&tool, args)).await,
            Operation::GetResource { uri } => Box::pin(self.get_resource(&uri)).await,
            Operation::GetPrompt { name, args } => Box::pin(self.get_prompt(&name, args)).await,
            Operation::StartSampling { input } => Box::pin(self.start_sampling(&input)).await,
            Operation::StepSampling { session, input } => {
                Box::pin(self.step_sampling(&session, input.as_ref())).await
            }
            Operation::Input { input } => Box::pin(self.input(&input)).await,
            Operation::Named { name, args } => Box::pin(self.call_named(&name, args)).await,
            Operation::Unknown { method } => Err(self.unknown_method(&method).into()),
        }
    }

    /// The error of a method that the agent does not have, or that the caller may not use.
    fn unknown_method(&self, method: &str) -> Failure {
        audit::count_rejection("unknown-method");
        self.without_method(method)
    }

    fn without_method(&self, method: &str) -> Failure {
        let name = self.agent.name.as_str();
        if !self.agent.is_known() {
            return Failure::agent_not_found(name);
        }
        let methods = self.available_methods();
        Failure::method_not_found(&format!("{name}::{method}")).with_methods(methods)
    }

    /// The methods that the caller may use. They have names of tools, so that a caller without the
    /// scopes of lists gets none.
    fn available_methods(&self) -> Vec<String> {
        let has_scopes = self.gateway.authenticator().has_scopes_of(self.caller, lists::TOOLS);
        if has_scopes { self.agent.available_methods() } else { Vec::new() }
    }

    /// The same for a name of a tool, a skill, a prompt or a resource, which is audited like a call
    /// of an unknown tool.
    fn unknown_name(&mut self, name: &str, failure: Failure) -> Rejection {
        let mut record = self.record(name, &self.context().trace);
        pipeline::record_caller(self.gateway, self.caller, &mut record);
        record.failed(CallOutcome::Denied, failure.message.to_string(), Some(Denial::NoSuchTool));
        self.record = Some(record);
        failure.into()
    }

    /// Checks the scopes of a list.
    fn check_scopes(&self, method: &str) -> Result<(), Rejection> {
        pipeline::check_method_scopes(self.gateway, self.caller, method)?;
        audit::count_list(Era::Modern);
        Ok(())
    }

    /// Reserves memory of the request.
    fn reserve(&self, bytes: usize) -> Result<(), Rejection> {
        self.buffered.reserve(bytes).map_err(out_of_memory)
    }

    fn context(&self) -> RequestContext {
        let mut context = request_context(self.parts);
        // A string always serializes.
        let id = to_raw_value(self.trace.id()).ok();
        context.meta.extend(id.map(|value| Param { name: TRACE_ID.into(), value }));
        context
    }

    fn record(&self, name: &str, trace: &TraceContext) -> CallRecord {
        let span = self.gateway.tracer().begin_in(self.trace.w3c(), trace);
        CallRecord::begin(self.event, Era::Modern, name, self.bytes, span)
            .of_request(&self.parts.headers)
            .of_client_trace(self.trace.clone())
    }

    /// Runs an operation of the pipeline.
    async fn invoke(&mut self, invoked: Invoked<'_>) -> Result<Output, Error> {
        let Invoked { target, params, name } = invoked;
        let context = self.context();
        let mut record = self.record(name, &context.trace);
        let mut invocation =
            Invocation { params, ..Invocation::new(self.caller.clone(), target, context) };
        let output = Box::pin(pipeline::invoke(self.gateway, &mut invocation, &mut record)).await;
        self.record = Some(record);
        output
    }
}
