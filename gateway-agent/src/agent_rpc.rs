//! The surface of data agents and AIO: `POST /rpc`, and `GET /traces/{trace_id}`.
//!
//! A function of an agent is the tool `{agent_id}.{function}`. A closed connection cancels its call.
//! Errors of JSON-RPC have the status 200, as in specifications of JSON-RPC over HTTP.

mod aio;
mod failure;
mod graph;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc, time::Instant};

use agent_rpc::{
    Failure, Request as Rpc,
    envelope::Reply,
    execute::{Execute, Execution, METHOD},
    heartbeat, registration,
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
    mcp::{Era, Param, RawResult},
};
use http::{
    HeaderValue, Method,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    request::Parts,
};
use serde_json::value::to_raw_value;

pub(crate) use self::graph::Graphs;
use self::{
    aio::{AioRequest, AioState},
    failure::Refusal,
};
use crate::{
    audit::{self, CallRecord, REQUEST_ID},
    buffers,
    ingress::{
        self, CompleteRequest, EnteredRequest, authentication, check_origin, request_context,
        sends_json,
    },
    pipeline::{
        self, Error, Gateway, GatewayHandle, InputHandling, Invocation, Output, Target, ToolCall,
    },
};

const PATH: &str = "/rpc";
/// The member of `_meta` with the id of the caller's task.
const TASK_ID: &str = "task_id";

/// The surface. Clones share its state.
#[derive(Debug, Clone)]
pub(crate) struct AgentRpc {
    gateway: GatewayHandle,
    aio: Arc<AioState>,
}

impl AgentRpc {
    /// Creates the surface of a gateway.
    pub(crate) fn new(gateway: GatewayHandle) -> Self {
        Self { gateway, aio: Arc::default() }
    }

    /// The execution graphs of all callers.
    pub(crate) fn graphs(&self) -> Arc<Graphs> {
        Arc::clone(&self.aio.graphs)
    }

    /// The routes of the surface.
    pub(crate) fn router(&self) -> Router {
        let exposed = [WWW_AUTHENTICATE, RETRY_AFTER, REQUEST_ID];
        let cors = ingress::cors(self.gateway.clone(), &[Method::GET, Method::POST], &exposed);
        let routes =
            Router::new().route(PATH, post(receive)).route(graph::ROUTE, get(graph::receive));
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
        Ok(Rpc { id, call: Call::Execute(call), .. }) => {
            let executed = Executed { gateway: &gateway, parts: &parts, id, bytes: body.len() };
            Box::pin(executed.execute(call)).await
        }
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
        Ok(Rpc { id, call, .. }) => {
            audit::count_rejection("unknown-method");
            let failure = Failure::method_not_found(method(&call));
            respond(Reply { id, trace_id: None, execution: None }.failure(&failure))
        }
        Err(rejected) => {
            audit::count_rejection("invalid-request");
            respond(rejected.reply())
        }
    };
    buffers::reserved(response, buffered)
}

/// The name of a method that the surface does not serve yet.
fn method<'a>(call: &'a Call<'_>) -> &'a str {
    match call {
        Call::Register(_) => registration::METHOD,
        Call::Heartbeat(_) => heartbeat::METHOD,
        Call::Execute(_) => METHOD,
        Call::Aio(call) => call.operation.name(),
    }
}

/// The request of an execution.
struct Executed<'a> {
    gateway: &'a Arc<Gateway>,
    parts: &'a Parts,
    id: Option<Id<'a>>,
    bytes: usize,
}

impl Executed<'_> {
    /// Calls the tool of a function.
    async fn execute(&self, call: Execute<'_>) -> Response {
        let started = Instant::now();
        let tool = format!("{}.{}", call.agent_id, call.function);
        let mut invocation = self.invocation(&call, &tool);
        let span = self.gateway.tracer().begin(&invocation.context.trace);
        let mut record = CallRecord::begin(METHOD, Era::Modern, &tool, self.bytes, span)
            .of_request(&self.parts.headers);
        let outcome = Box::pin(pipeline::invoke(self.gateway, &mut invocation, &mut record)).await;
        let outcome = match outcome.and_then(Output::into_result) {
            Err(Error::Scopes(refusal)) => return Refusal::of_scopes(refusal).respond(self.id),
            outcome => outcome,
        };
        let answer = match &outcome {
            Ok(outcome) => result(&outcome.result),
            Err(error) => Err(failure::of_call(self.gateway, &invocation.caller, &call, error)),
        };
        let execution = Execution { task_id: &call.task_id, duration: started.elapsed() };
        let reply = Reply { id: self.id, trace_id: None, execution: Some(execution) };
        let body = match &answer {
            Ok(result) => reply.result(result),
            Err(failure) => reply.failure(failure),
        };
        record.answered(body.len());
        respond(body)
    }

    fn invocation(&self, call: &Execute<'_>, tool: &str) -> Invocation {
        let mut context = request_context(self.parts);
        // A string always serializes.
        let task_id = to_raw_value(&*call.task_id).ok();
        context.meta.extend(task_id.map(|value| Param { name: TASK_ID.into(), value }));
        Invocation {
            caller: authentication(self.parts),
            target: Target::Tool(ToolCall {
                name: tool.into(),
                arguments: Some(call.input.to_owned()),
                mcp_headers: None,
                takes_tasks: false,
            }),
            params: Vec::new(),
            context,
            client: None,
            input: InputHandling::ReturnToClient,
        }
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

fn respond(body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
