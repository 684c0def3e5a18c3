//! Projection of results (`outputTransform`).
//!
//! It fails closed: data that the projection omits never reaches the caller. A result becomes the
//! projected object and its text; an error keeps its texts; a question keeps the parts needed to
//! answer it; progress keeps its numbers. `_meta`, log messages, tasks and the data of JSON-RPC
//! errors are removed.

use gateway_protocol::{
    content,
    jsonrpc::{Object, ObjectWriter, code},
    mcp::{Param, RawResult, ResultType},
};
use gateway_upstream::{ClientChannel, RequestContext};
use registry_core::spec::{
    Mappings,
    eval::{self, Budget},
};
use serde_json::{Value, value::RawValue};

use super::{Error, Invocation};

/// Why a projection failed. Messages contain no values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectionError {
    /// The result has no content to project.
    #[error("there is no structuredContent, and no text")]
    NoContent,
    /// The first text is not JSON.
    #[error("there is no structuredContent, and the first text is not JSON")]
    NoJson,
    /// The result has repeated member names.
    #[error("the result is ambiguous")]
    Unreadable,
    /// The mappings do not match the result.
    #[error("outputTransform {0}")]
    Mappings(#[from] eval::Error),
}

/// The parts of a call that the upstream receives.
pub(super) struct ProjectedCall {
    pub(super) context: RequestContext,
    pub(super) params: Vec<Param>,
    pub(super) side: Option<ClientChannel>,
}

impl ProjectedCall {
    /// Without tasks, whose results would bypass the projection, and with a client channel for
    /// numbers only.
    pub(super) fn new(call: &Invocation, context: &RequestContext, params: &[Param]) -> Self {
        let params = params.iter().filter(|param| &*param.name != "task");
        Self {
            context: context.without_tasks(),
            params: params.cloned().collect(),
            side: call.client.as_ref().map(ClientChannel::with_numbers_only),
        }
    }
}

/// Projects the answer of an upstream.
pub(super) fn outcome(
    mappings: &Mappings,
    (outcome, context): (Result<RawResult, Error>, &RequestContext),
    max_bytes: usize,
) -> Result<RawResult, Error> {
    match outcome {
        Ok(result) => {
            let reserved = context.buffer(content::tree_bytes(result.result.get()));
            reserved.map_err(gateway_upstream::Error::from)?;
            Ok(projected(mappings, &result, max_bytes)?)
        }
        Err(Error::Upstream(gateway_upstream::Error::Rpc { code, message, data })) => {
            // The data of this error lists client capabilities, which reveal nothing of the result.
            let data = data.filter(|_| code == code::MISSING_CLIENT_CAPABILITY);
            Err(gateway_upstream::Error::Rpc { code, message, data }.into())
        }
        Err(error) => Err(error),
    }
}

fn projected(
    mappings: &Mappings,
    result: &RawResult,
    max_bytes: usize,
) -> Result<RawResult, ProjectionError> {
    let members = Object::parse(&result.result).map_err(|_| ProjectionError::Unreadable)?;
    let mut out = ObjectWriter::with_capacity(256);
    let result_type = match result.result_type {
        ResultType::InputRequired => {
            out.raw("resultType", result.result_type.as_raw());
            for name in ["inputRequests", "requestState"] {
                if let Some(value) = members.find(name) {
                    out.raw(name, value.get());
                }
            }
            ResultType::InputRequired
        }
        // The upstream was not offered tasks.
        ResultType::Task => return Err(ProjectionError::Unreadable),
        ResultType::Absent | ResultType::Complete if result.is_error => {
            out.raw("content", &content::text_blocks(&members)).raw("isError", "true");
            ResultType::Absent
        }
        ResultType::Absent | ResultType::Complete => {
            let value = mappings.apply(&input(&members)?, &mut Budget::new(max_bytes))?;
            content::write_value(&value, &mut out);
            ResultType::Absent
        }
    };
    let raw =
        RawValue::from_string(out.finish_string()).map_err(|_| ProjectionError::Unreadable)?;
    Ok(RawResult { result: raw, result_type, has_meta: false, ..*result })
}

/// Returns the value to project: the structured content, or the first text as JSON.
fn input(members: &Object<'_>) -> Result<Value, ProjectionError> {
    if let Some(raw) = content::structured(members) {
        return serde_json::from_str(raw.get()).map_err(|_| ProjectionError::Unreadable);
    }
    let text = content::first_text(members).ok_or(ProjectionError::NoContent)?;
    serde_json::from_str(&text).map_err(|_| ProjectionError::NoJson)
}
