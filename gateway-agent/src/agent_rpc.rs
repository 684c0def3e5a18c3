//! The surface of data agents and AIO: `POST /rpc`, the methods of data agents over a WebSocket at
//! `GET /rpc`, and `GET /traces/{trace_id}`; and the orchestrator.
//!
//! A function of an agent is the tool `{agent_id}.{function}`. A closed connection cancels its call.
//! Errors of JSON-RPC have the status 200, as in specifications of JSON-RPC over HTTP.

mod aio;
mod failure;
mod orchestrator;
mod peer;
mod registering;
mod socket;
#[cfg(test)]
mod tests;
mod traces;

use std::{borrow::Cow, sync::Arc, time::Instant};

use agent_rpc::{
    Failure, Request as Rpc,
    envelope::Reply,
    execute::{Execute, Execution, METHOD},
    graph::Status,
    request::Call,
};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
    routing::{get, post},
};
use bytes::Bytes;
use gateway_protocol::{
    content,
    jsonrpc::{Id, Limits, Object},
    mcp::{Era, RawResult},
};
use http::{
    HeaderValue, Method,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use registry_core::Amount;

use self::{
    aio::{AioRequest, AioState},
    failure::Refusal,
    peer::Peer,
    socket::Pace,
};
use crate::{
    audit::{self, CallRecord, REQUEST_ID},
    buffers,
    graphs::{EndedCall, IdInUse, RequestTrace, RunningCall, StartedCall, agent_type},
    identity::{authenticator::Authentication, sender::RequestHead},
    ingress::{
        CompleteRequest, EnteredRequest, PageCors, authentication, check_origin, request_context,
        sends_json,
    },
    pipeline::{
        self, Directory, Error, Gateway, GatewayHandle, Invocation, Output, Target, ToolCall,
    },
};

const PATH: &str = "/rpc";

/// The surface. Clones share its state.
#[derive(Debug, Clone)]
pub(crate) struct AgentRpc {
    gateway: GatewayHandle,
    pace: Pace,
    aio: Arc<AioState>,
}

impl AgentRpc {
    /// Creates the surface of a gateway.
    pub(crate) fn new(gateway: GatewayHandle) -> Self {
        Self { gateway, pace: Pace::default(), aio: Arc::default() }
    }

    /// The routes of the surface.
    pub(crate) fn router(&self) -> Router {
        let exposed = [WWW_AUTHENTICATE, RETRY_AFTER, REQUEST_ID];
        let cors = PageCors::new(self.gateway.clone(), &[Method::GET, Method::POST], &exposed);
        let methods = post(receive).get(socket::open);
        let graphs = Router::new().route(traces::ROUTE, get(traces::receive));
        let routes = Router::new().route(PATH, methods).merge(graphs).merge(orchestrator::routes());
        routes.with_state(self.clone()).layer(cors)
    }
}

async fn receive(State(surface): State<AgentRpc>, request: Request) -> Response {
    match read(&surface.gateway, request).await {
        Ok(complete) => Box::pin(serve(&surface.aio, complete)).await,
        Err(refusal) => {
            audit::count_rejection(refusal.metric);
            refusal.respond(None)
        }
    }
}

async fn read(gateway: &GatewayHandle, request: Request) -> Result<CompleteRequest, Refusal> {
    let entered = EnteredRequest::authenticate(gateway, request).await?;
    check_origin(&entered.gateway, &entered.parts)?;
    if !sends_json(&entered.parts.headers) {
        return Err(Refusal::media_type());
    }
    Ok(entered.read(gateway).await?)
}

/// Serves a request with its whole body.
async fn serve(aio: &AioState, complete: CompleteRequest) -> Response {
    let CompleteRequest { gateway, parts, body, buffered } = complete;
    let limits = Limits::with_max_bytes(gateway.settings().request_bytes);
    let response = match Rpc::read(&body, limits) {
        Ok(Rpc { id, trace_id, call: Call::Aio(call) }) => {
            let request = AioRequest {
                gateway: &gateway,
                parts: &parts,
                buffered: &buffered,
                id,
                trace_id: trace_id.as_deref(),
                bytes: body.len(),
            };
            Box::pin(aio::serve(aio, request, call)).await
        }
        Ok(Rpc { id, trace_id, call }) => {
            let received = Received {
                gateway: &gateway,
                parts: &parts,
                peer: None,
                id,
                trace_id: trace_id.as_deref(),
                bytes: body.len(),
            };
            match Box::pin(received.answer(call)).await {
                Ok(Answer { body, .. }) => respond(body),
                Err(refusal) => refusal.respond(id),
            }
        }
        Err(rejected) => {
            audit::count_rejection("invalid-request");
            respond(rejected.reply())
        }
    };
    buffers::reserved(response, buffered)
}

/// A request over any transport.
struct Received<'a> {
    gateway: &'a Arc<Gateway>,
    parts: &'a RequestHead,
    /// The WebSocket. `None`: the request came over HTTP.
    peer: Option<&'a Peer>,
    id: Option<Id<'a>>,
    /// The caller's id of the trace.
    trace_id: Option<&'a str>,
    bytes: usize,
}

/// The answer to a request.
struct Answer {
    body: Bytes,
    is_error: bool,
}

impl Received<'_> {
    /// Answers a call. Errors of its own have a status over HTTP.
    async fn answer(&self, call: Call<'_>) -> Result<Answer, Refusal> {
        match call {
            Call::Execute(call) => Box::pin(self.execute(call)).await,
            Call::Register(registration) => Box::pin(self.register(&registration)).await,
            Call::Heartbeat(heartbeat) => Ok(self.heartbeat(&heartbeat)),
            Call::Aio(call) => {
                audit::count_rejection("unknown-method");
                Ok(self.failed(&Failure::method_not_found(call.operation.name())))
            }
        }
    }

    /// The answer of a method without an execution.
    fn succeeded(&self, result: &str) -> Answer {
        Answer { body: self.reply().result(result), is_error: false }
    }

    fn failed(&self, failure: &Failure) -> Answer {
        Answer { body: self.reply().failure(failure), is_error: true }
    }

    fn reply(&self) -> Reply<'_> {
        Reply { id: self.id, trace_id: self.trace_id, execution: None }
    }

    /// Calls the tool of a function.
    async fn execute(&self, call: Execute<'_>) -> Result<Answer, Refusal> {
        let started = Instant::now();
        let tool = call.tool();
        let mut invocation = self.invocation(&call, &tool);
        let mut trace = self.trace_id.map(|id| self.gateway.trace_of(&invocation.caller, Some(id)));
        let begun = self.begin_in_graph(trace.as_mut(), &invocation.caller, &call);
        let Ok(running) = begun else {
            audit::count_rejection("id-in-use");
            let id = self.id.map_or("null", Id::as_raw);
            let failure = Failure::id_in_use(self.trace_id.unwrap_or_default(), id);
            let body = self.executed(&call, started).failure(&failure);
            return Ok(Answer { body, is_error: true });
        };
        let w3c = trace.as_ref().and_then(RequestTrace::w3c);
        let span = self.gateway.tracer().begin_in(w3c, &invocation.context.trace);
        let mut record = CallRecord::begin(METHOD, Era::Modern, &*tool, self.bytes, span)
            .of_request(&self.parts.headers);
        if let Some(trace) = trace {
            record = record.of_client_trace(trace);
        }
        let outcome = Box::pin(pipeline::invoke(self.gateway, &mut invocation, &mut record)).await;
        let outcome = match outcome.and_then(Output::into_result) {
            Err(Error::Scopes(refusal)) => return Err(Refusal::of_scopes(refusal)),
            outcome => outcome,
        };
        let answer = match &outcome {
            Ok(outcome) => result(&outcome.result),
            Err(error) => Err(failure::of_call(self.gateway, &invocation.caller, &call, error)),
        };
        if let Some(running) = running {
            end_in_graph(running, answer.as_deref(), record.charged());
        }
        let reply = self.executed(&call, started);
        let body = match &answer {
            Ok(result) => reply.result(result),
            Err(failure) => reply.failure(failure),
        };
        record.answered(body.len());
        Ok(Answer { body, is_error: answer.is_err() })
    }

    /// Adds a call to the graph of its trace. `None`: it has none.
    fn begin_in_graph(
        &self,
        trace: Option<&mut RequestTrace>,
        caller: &Authentication,
        call: &Execute<'_>,
    ) -> Result<Option<RunningCall>, IdInUse> {
        let Some(trace) = trace else { return Ok(None) };
        let agent = call.agent_id.as_str();
        let is_known = Directory::of(self.gateway, caller).has_function_of(agent);
        let snapshot = self.gateway.views().now();
        let started = StartedCall {
            agent,
            method: &call.function,
            kind: is_known.then(|| agent_type(&snapshot.catalog, agent)),
            protocol: METHOD,
            input: call.input.get(),
        };
        trace.begin(self.id, &started).map(Some)
    }

    /// The members of the answer to a call beside its result.
    fn executed<'b>(&'b self, call: &'b Execute<'_>, started: Instant) -> Reply<'b> {
        let execution = Execution { task_id: &call.task_id, duration: started.elapsed() };
        Reply { id: self.id, trace_id: self.trace_id, execution: Some(execution) }
    }

    fn invocation(&self, call: &Execute<'_>, tool: &str) -> Invocation {
        let mut context = request_context(self.parts);
        call.set_meta(&mut context.meta, self.trace_id);
        let target = Target::Tool(ToolCall::new(tool, Some(call.input.to_owned())));
        Invocation::new(authentication(self.parts).into_owned(), target, context)
    }
}

/// The result of a function: the structured content, else the texts. A tool reports its own errors in
/// a result.
fn result(result: &RawResult) -> Result<Cow<'_, str>, Failure> {
    let members = Object::parse(&result.result).unwrap_or_default();
    if let Some(failure) = failure::of_result(result, &members, METHOD) {
        return Err(failure);
    }
    Ok(match content::structured(&members) {
        Some(structured) => structured.get().into(),
        None => format!(r#"{{"content":{}}}"#, content::text_blocks(&members)).into(),
    })
}

/// Ends a call in its graph.
fn end_in_graph(running: RunningCall, answer: Result<&str, &Failure>, cost: Option<Amount>) {
    let (status, output) = match answer {
        Ok(result) => (Status::Ok, Cow::Borrowed(result)),
        Err(failure) => (Status::Error, Cow::Owned(failure.to_value().to_string())),
    };
    running.finish(EndedCall { status, output: Some(&output), cost });
}

/// A response to a GET request, which depends on its caller and on the present.
fn respond_private(body: Bytes) -> Response {
    let mut response = respond(body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}

fn respond(body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
