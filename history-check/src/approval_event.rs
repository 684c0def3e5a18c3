//! The events of a history with approvals.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer to a call, as its caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Reply {
    /// The tool answered, also with an error.
    Done {},
    /// The tool asks for input, which another call brings.
    Asked {},
    /// The gateway rejected the call.
    Rejected {
        /// The machine-readable reason.
        reason: String,
        /// The id of the request for an approval.
        request: Option<String>,
    },
    /// The call failed, or its outcome is unknown.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ApprovalEvent {
    /// A caller sends a call.
    Called {
        /// The unique id of the call.
        call: String,
        /// The gateway.
        gateway: String,
        /// The agent that calls.
        agent: String,
        /// The arguments.
        arguments: Value,
    },
    /// The answer to a call.
    Answered {
        /// The id of the call.
        call: String,
        /// The answer.
        #[serde(flatten)]
        reply: Reply,
    },
    /// The tool received a call and executed it.
    Executed {
        /// The id of the call.
        call: String,
        /// The received arguments.
        arguments: Value,
        /// The received state of an earlier question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
        /// The unique state of the question that the tool answers with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asks: Option<String>,
    },
    /// A person sends the first decision about a request.
    Decided {
        /// The id of the request.
        request: String,
        /// The agent that calls, as the registry shows it.
        agent: String,
        /// The arguments, as the registry shows them.
        arguments: Value,
        /// Whether the person approves.
        approves: bool,
    },
    /// The request that a call used or was rejected for, by the audit log of its gateway.
    Used {
        /// The id of the call.
        call: String,
        /// The id of the request.
        request: String,
    },
    /// A request at the end.
    Ended {
        /// The id of the request.
        request: String,
        /// Its state.
        state: String,
    },
}
