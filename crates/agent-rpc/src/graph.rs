//! Execution graphs: the calls of a trace.

use registry_core::{Amount, Digest, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use crate::text::{OPAQUE_CHARACTERS, is_printable};

/// The calls of a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Graph {
    /// The id of the trace.
    pub trace_id: String,
    /// The calls in the order of their starts.
    pub calls: Vec<Call>,
    /// The number of calls that the graph does not contain, because it has reached its limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_calls: u64,
    /// Whether calls of other gateways may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// Whether a text can be the id of a trace.
pub fn is_trace_id(text: &str) -> bool {
    is_printable(text, OPAQUE_CHARACTERS)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A call of a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The id of the request: JSON text of a string or an integer, or `null` if it has none. With the
    /// id of the trace it identifies the call: `trace_id#id`.
    pub id: Box<RawValue>,
    /// The id of the call whose composition runs this step. Absent: the caller sent the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<RawValue>>,
    /// The agent.
    pub agent: String,
    /// The method without the agent.
    pub method: String,
    /// The protocol of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// How the agent is called.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The parameters, or their digest and size.
    pub input: Box<RawValue>,
    /// The result or the error, or their digest and size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    /// The status. The example of the specification has a call without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The price of the call as a decimal text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
    /// The start of the call. Graphs of several gateways are merged by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// The duration of the call, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The call has a result.
    Ok,
    /// The call failed.
    Error,
    /// The call is running.
    Pending,
}

/// The digest and the size of a value that a graph does not contain.
pub fn summary(value: &str) -> Box<RawValue> {
    let digest = Digest::compute(value.as_bytes()).to_string();
    let summary = json!({ "bytes": value.len(), "digest": digest });
    // An object with a text and a number always serializes.
    serde_json::value::to_raw_value(&summary).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_digest_and_size() {
        insta::assert_snapshot!(
            summary("{}").get(),
            @r#"{"bytes":2,"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}"#
        );
    }
}
