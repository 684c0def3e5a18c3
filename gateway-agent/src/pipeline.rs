//! One tool call from end to end: identify, permit, prepare, invoke, finish.
//!
//! Deliberately absent: protocols. How a call arrives is `mcp`'s affair, how a failure is answered
//! `respond`'s.

pub mod arguments;
mod defaults;
pub mod error;
mod gateway;
pub mod mirror;
mod validate;

use std::sync::Arc;

use http::HeaderMap;
use registry_core::Revision;
use serde_json::value::RawValue;

use self::arguments::Arguments;
pub use self::{
    error::Error,
    gateway::{Gateway, Reach},
};
use crate::{
    audit::CallRecord,
    config::Mode,
    freshness::Freshness,
    identity::{ClientInfo, HeaderClaim},
    permit,
    upstream::{ResultType, ToolCall, ToolResult, TraceContext},
    view::Offer,
};

/// A call as it arrived.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// Whom the headers name.
    pub claim: &'a HeaderClaim,
    /// What the client says that it is.
    pub client: Option<Arc<ClientInfo>>,
    /// The name that the caller uses.
    pub tool: &'a str,
    /// The raw arguments, if there are any.
    pub arguments: Option<&'a RawValue>,
    /// The request's headers, where they must mirror arguments.
    pub mirror: Option<&'a HeaderMap>,
    /// Whose trace it belongs to.
    pub trace: TraceContext<'a>,
}

/// What a call came to.
#[derive(Debug)]
pub struct Outcome {
    /// The tool's own result.
    pub result: ToolResult,
    /// The revision of the catalog that decided.
    pub revision: Revision,
    /// How old that catalog was.
    pub freshness: Freshness,
}

/// Runs one call. It finishes on the snapshot that it began with, whatever happens meanwhile.
pub async fn call_tool(
    gateway: &Gateway,
    call: Call<'_>,
    record: &mut CallRecord,
) -> Result<Outcome, Error> {
    let freshness = gateway.watchman().look();
    let snapshot = gateway.views().now();
    let caller = gateway.identify(&snapshot, call.claim, call.client.clone());
    let revision = snapshot.catalog.revision();
    record.identified(revision, &caller);
    record.dated(freshness);
    if !snapshot.has_catalog() {
        return Err(Error::NoCatalog);
    }
    let sight = gateway.views().sight(&snapshot);
    let admission = permit::admit(gateway.policy(), &freshness, &caller, &sight, call.tool)?;
    record.admitted(&admission);
    let offer = &admission.offer;
    let arguments = prepare(gateway, offer, &call, record)?;
    let outgoing = ToolCall { arguments: arguments.raw(), trace: call.trace };
    let result = gateway.upstreams().call(admission.permit, outgoing).await?;
    let result = finish(gateway, offer, result, record)?;
    Ok(Outcome { result, revision, freshness })
}

/// Checks the arguments as the caller knows them, then fills in what the caller does not send.
fn prepare<'a>(
    gateway: &Gateway,
    offer: &Offer,
    call: &Call<'a>,
    record: &mut CallRecord,
) -> Result<Arguments<'a>, Error> {
    let mut arguments = Arguments::new(call.arguments)?;
    if let Some(headers) = call.mirror {
        let params = &offer.input().params;
        if !params.is_empty() {
            mirror::check_params(headers, params, arguments.members()?)?;
        }
    }
    for field in offer.hidden() {
        if field.find(arguments.members()?).is_some() {
            return Err(Error::HiddenField { pointer: field.pointer() });
        }
    }
    validate::input(gateway, offer, &mut arguments, record)?;
    // After the validation, which tells more; but it may not have been asked to refuse.
    for field in offer.hidden() {
        if field.is_obstructed(arguments.members()?) {
            return Err(Error::HiddenField { pointer: field.pointer() });
        }
    }
    if let Some(defaults) = offer.defaults() {
        let filling = defaults::Filling { hidden: offer.hidden(), variables: gateway.variables() };
        arguments.change(|members| filling.fill(defaults, members))?;
    }
    Ok(arguments)
}

/// Looks at what came back; the result itself is not touched.
fn finish(
    gateway: &Gateway,
    offer: &Offer,
    result: ToolResult,
    record: &mut CallRecord,
) -> Result<ToolResult, Error> {
    match result.result_type {
        ResultType::InputRequired => return Err(Error::InputRequired),
        ResultType::Absent | ResultType::Complete => {}
    }
    if gateway.policy().output_validation != Mode::Ignore && !result.is_error {
        validate::output(gateway, offer, &result.result, record)?;
    }
    record.finished(&result);
    Ok(result)
}
