//! Clients of protocol version 2026-07-28: every request is self-contained, and the gateway keeps
//! no state.
//!
//! `Mcp-Session-Id` is ignored.

use std::sync::Arc;

use gateway_protocol::{
    jsonrpc::ObjectWriter,
    mcp::{Era, MODERN_VERSION, header},
};
use serde_json::value::RawValue;

use super::{
    Endpoint, Rejection, call, capabilities, era,
    feature::{self, Feature},
    incoming::{Incoming, META_CAPABILITIES, META_VERSION},
    list,
    requester::Requester,
    stream,
};
use crate::{
    ingress::authentication,
    mcp::render::{self, http::SizedResponse, result::MODERN_META},
    pipeline::mcp_headers::{self, Encoding, Mismatch},
};

/// Handles `server/discover`.
fn discover(endpoint: &Endpoint, incoming: &Incoming<'_>, requester: &Requester) -> SizedResponse {
    let available = capabilities::available_features(endpoint, requester);
    let versions = serde_json::json!(era::SUPPORTED_VERSIONS);
    let mut result = ObjectWriter::with_capacity(512);
    result
        .raw("resultType", r#""complete""#)
        .raw("supportedVersions", &versions.to_string())
        .raw("capabilities", &available.capabilities(Era::Modern));
    if let Some(instructions) = available.instructions() {
        result.string("instructions", &instructions);
    }
    result
        .raw("ttlMs", "0")
        .raw("cacheScope", r#""private""#)
        .raw("_meta", &format!("{{{MODERN_META}}}"));
    render::result::raw(incoming.id, &result.finish_string())
}

pub(super) async fn serve(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
) -> Result<SizedResponse, Rejection> {
    check(incoming)?;
    let caller = authentication(incoming.parts).into_owned().with_client(incoming.client());
    let requester = Requester { era: Era::Modern, caller, session: None, takes_tasks: false };
    match incoming.method {
        "server/discover" => Ok(discover(endpoint, incoming, &requester)),
        "tools/list" => Ok(list::serve(endpoint, incoming, &requester)?.answer),
        "tools/call" => call::serve(endpoint, incoming, (requester, None)).await,
        // Boxed, to keep the future of each request small.
        "subscriptions/listen" => Box::pin(stream::subscribe(endpoint, incoming, &requester)).await,
        method => match Feature::from_method(method)
            .filter(|feature| feature.is_served(Era::Modern))
        {
            Some(feature) => feature::serve(endpoint, incoming, (requester, feature, None)).await,
            None => Err(Rejection::UnknownMethod { method: method.to_owned(), era: Era::Modern }),
        },
    }
}

/// Checks that a request is complete and that its headers match its body.
fn check(incoming: &Incoming<'_>) -> Result<(), Rejection> {
    check_version(incoming)?;
    let is_object = |raw: &RawValue| raw.get().starts_with('{');
    if !incoming.meta(META_CAPABILITIES).is_some_and(is_object) {
        return Err(Rejection::MissingMeta { name: META_CAPABILITIES, kind: "an object" });
    }
    let headers = incoming.headers();
    mcp_headers::check_string(headers, &header::METHOD, incoming.method, Encoding::Plain)?;
    let mirrored = match incoming.method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    let Some(name) = incoming.text(mirrored) else {
        return Err(Rejection::Params {
            what: "params must have the name, uri or taskId of the subject, as a string",
        });
    };
    Ok(mcp_headers::check_string(headers, &header::NAME, &name, Encoding::Sentinel)?)
}

/// The header is checked first, so that an unsupported version is reported as such even if its body
/// has an unknown form.
fn check_version(incoming: &Incoming<'_>) -> Result<(), Rejection> {
    let header = mcp_headers::single(incoming.headers(), &header::PROTOCOL_VERSION)?;
    let body = incoming.meta_text(META_VERSION);
    match (header, body.as_deref()) {
        (None, _) => Err(Mismatch::Missing { header: header::PROTOCOL_VERSION }.into()),
        (Some(header), Some(body)) if header != body => {
            Err(Mismatch::Different { header: header::PROTOCOL_VERSION }.into())
        }
        (Some(header), body) => {
            let version = era::known(header)?;
            if body.is_none() {
                return Err(Rejection::MissingMeta { name: META_VERSION, kind: "a string" });
            }
            // Older versions are supported only with sessions.
            let unsupported = || Rejection::UnsupportedVersion { requested: version.to_owned() };
            if version == MODERN_VERSION { Ok(()) } else { Err(unsupported()) }
        }
    }
}
