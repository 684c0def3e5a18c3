//! Execution graphs: the calls of a trace.

use registry_core::Amount;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The calls of a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Graph {
    /// The id of the trace.
    pub trace_id: String,
    /// The calls in the order of their starts.
    pub calls: Vec<Call>,
}

/// A call of a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The id of the request: JSON text of a string or an integer. With the id of the trace it
    /// identifies the call: `trace_id#id`.
    pub id: Box<RawValue>,
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
    /// The result, or its digest and size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    /// The status. The example of the specification has a call without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The price of the call as a decimal text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
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
