//! Reads requests in all bindings.

use a2a::{Binding, Dialect, Failure, Request, extensions::Extensions, grpc, rest, rpc};
use bytes::Bytes;
use gateway_protocol::{content, jsonrpc::Limits, mcp::HOPS};
use gateway_upstream::RequestContext;
use http::{Method, header::CONTENT_TYPE, request::Parts};
use serde_json::Value;

use super::{
    address::{Address, AgentName},
    answer::AnswerForm,
    failure::Refusal,
};
use crate::{identity::sender::RequestHead, ingress::request_context, pipeline::Gateway};

/// A request that was read.
pub(super) struct OperationRequest {
    /// `None`: the request names no agent.
    pub(super) agent: Option<AgentName>,
    pub(super) request: Request,
    pub(super) extensions: Extensions,
    pub(super) context: RequestContext,
    pub(super) form: AnswerForm,
}

/// The media type of a body, if the request has one.
pub(super) fn content_type(parts: &Parts) -> Option<&str> {
    parts.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"))
}

/// Estimates the memory of a request while it is read, in bytes. `method`: the method of gRPC.
pub(super) fn parsed_bytes(binding: Binding, method: &str, body: &[u8]) -> usize {
    match binding {
        Binding::Grpc => grpc::call_bytes(method, body),
        // Parsing rejects other text than UTF-8.
        Binding::JsonRpc | Binding::HttpJson => {
            std::str::from_utf8(body).map_or(0, content::tree_bytes)
        }
    }
}

/// Reads a request. An error has the form of its answer.
pub(super) fn operation(
    gateway: &Gateway,
    parts: &RequestHead,
    body: &Bytes,
    (dialect, method, address): (Dialect, &Method, &Address<'_>),
) -> Result<OperationRequest, Box<(AnswerForm, Refusal)>> {
    let limits = Limits::with_max_bytes(gateway.settings().request_bytes);
    let form = AnswerForm::new(dialect);
    let (form, request) = match dialect.binding {
        Binding::JsonRpc => match rpc::read_call(dialect.version, body, limits) {
            Ok(call) => (form.with_id(Some(call.id)), Ok(call.request)),
            Err(invalid) => (form.with_id(invalid.id), Err(*invalid.failure)),
        },
        Binding::HttpJson => {
            let query = parts.uri.query();
            let request = rest::route(dialect.version, method, address.rest)
                .and_then(|route| rest::read_call(dialect.version, route, query, body, limits));
            (form, request)
        }
        // The rest of the address is the method.
        Binding::Grpc => (form, grpc::read_call(address.rest, body)),
    };
    match request.and_then(|request| completed(parts, request, address)) {
        Ok((agent, request, context)) => {
            let extensions = Extensions::of_headers(&parts.headers);
            Ok(OperationRequest { agent, request, extensions, context, form })
        }
        Err(failure) => Err(Box::new((form, failure.into()))),
    }
}

/// Finds the agent, and takes the members that are for this gateway out of a request.
fn completed(
    parts: &RequestHead,
    mut request: Request,
    address: &Address<'_>,
) -> Result<(Option<AgentName>, Request, RequestContext), Failure> {
    let agent = match &address.agent {
        Some(agent) => Some(agent.clone()),
        None => take_name(&mut request)?,
    };
    request.set_tenant(None);
    let hops = hops(&mut request)?;
    Ok((agent, request, RequestContext { hops, ..request_context(parts) }))
}

/// The agent that a request to the gateway itself names: `tenant`, else `agent` in the metadata of
/// the request or its message, which is removed.
fn take_name(request: &mut Request) -> Result<Option<AgentName>, Failure> {
    let named = match request.tenant() {
        Some(tenant) => Some(tenant.to_owned()),
        None => take_agent(request.params.get_mut("metadata")).or_else(|| {
            let message = request.params.get_mut("message")?;
            take_agent(message.get_mut("metadata"))
        }),
    };
    let parse = |text: String| AgentName::parse(&text).ok_or_else(|| AgentName::not_found(&text));
    named.map(parse).transpose()
}

fn take_agent(metadata: Option<&mut Value>) -> Option<String> {
    let metadata = metadata?.as_object_mut()?;
    let agent = metadata.get("agent")?.as_str()?.to_owned();
    metadata.remove("agent");
    Some(agent)
}

/// Takes the number of hops. A malformed number must not reset the count, which would evade limits.
fn hops(request: &mut Request) -> Result<Option<u32>, Failure> {
    let metadata = request.params.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(hops) = metadata.and_then(|metadata| metadata.remove(HOPS)) else { return Ok(None) };
    let count = hops.as_u64().and_then(|hops| u32::try_from(hops).ok());
    let invalid = || {
        let problem = "a whole number from 0 to 4294967295 is required";
        Failure::invalid_params("/metadata/registry~1hops", problem)
    };
    count.map(Some).ok_or_else(invalid)
}
