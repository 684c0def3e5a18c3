//! The Model Context Protocol: its revisions, methods, parameters and results.

pub mod header;

mod capabilities;
mod result;

use serde_json::value::RawValue;

pub use self::{
    capabilities::Capabilities,
    result::{RawResult, ResultType, RpcError},
};

/// The modern protocol version.
pub const MODERN_VERSION: &str = "2026-07-28";

/// The versions with a handshake, newest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The two incompatible eras of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Stateless: every request is self-contained (2026-07-28).
    Modern,
    /// A session with a handshake (2025-11-25 and before).
    Legacy,
}

impl Era {
    /// The name in audit and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}

/// The methods that the gateway forwards to upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `tools/call`.
    CallTool,
    /// `SendMessage` of A2A: the arguments become the text or the data of the message.
    SendMessage {
        /// Whether the arguments are an object with one member, `text`.
        takes_text: bool,
        /// Whether text of the answer stays text, even if it is JSON.
        gives_text: bool,
        /// Whether the agent can stream its answer.
        streams: bool,
    },
    /// `prompts/get`.
    GetPrompt,
    /// `resources/read`.
    ReadResource,
    /// `resources/subscribe`, before 2026-07-28.
    Subscribe,
    /// `resources/unsubscribe`, before 2026-07-28.
    Unsubscribe,
    /// `completion/complete`.
    Complete,
    /// `logging/setLevel`, before 2026-07-28.
    SetLevel,
    /// `tasks/get` of the tasks extension, or of 2025-11-25.
    GetTask,
    /// `tasks/result` of 2025-11-25.
    TaskResult,
    /// `tasks/update` of the tasks extension.
    UpdateTask,
    /// `tasks/cancel` of the tasks extension, or of 2025-11-25.
    CancelTask,
}

impl Method {
    /// The name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CallTool => "tools/call",
            Self::SendMessage { .. } => "SendMessage",
            Self::GetPrompt => "prompts/get",
            Self::ReadResource => "resources/read",
            Self::Subscribe => "resources/subscribe",
            Self::Unsubscribe => "resources/unsubscribe",
            Self::Complete => "completion/complete",
            Self::SetLevel => "logging/setLevel",
            Self::GetTask => "tasks/get",
            Self::TaskResult => "tasks/result",
            Self::UpdateTask => "tasks/update",
            Self::CancelTask => "tasks/cancel",
        }
    }

    /// The parameter with the name, URI or task id. In the modern era, `Mcp-Name` repeats it.
    pub fn subject(self) -> Option<&'static str> {
        match self {
            Self::CallTool | Self::GetPrompt => Some("name"),
            Self::ReadResource | Self::Subscribe | Self::Unsubscribe => Some("uri"),
            Self::GetTask | Self::TaskResult | Self::UpdateTask | Self::CancelTask => {
                Some("taskId")
            }
            Self::SendMessage { .. } | Self::Complete | Self::SetLevel => None,
        }
    }

    /// Whether the method has no side effects.
    pub fn is_read_only(self) -> bool {
        matches!(
            self,
            Self::GetPrompt
                | Self::ReadResource
                | Self::Complete
                | Self::GetTask
                | Self::TaskResult
        )
    }

    /// Whether the method is about a task.
    pub fn concerns_task(self) -> bool {
        matches!(self, Self::GetTask | Self::TaskResult | Self::UpdateTask | Self::CancelTask)
    }

    /// Whether a result can be `input_required` (basic/patterns/mrtr).
    pub fn may_need_input(self) -> bool {
        matches!(self, Self::CallTool | Self::GetPrompt | Self::ReadResource)
    }
}

/// A parameter of a request.
#[derive(Debug, Clone)]
pub struct Param {
    /// The name.
    pub name: Box<str>,
    /// The value as JSON text.
    pub value: Box<RawValue>,
}

/// The severities of log messages, the least first (server/utilities/logging).
pub const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The parameter of 2025-11-25 that makes a call a task.
pub const TASK_PARAM: &str = "task";

/// The key of `_meta` with the number of gateways and compositions that a call passed through.
pub const HOPS: &str = "registry/hops";
/// The key of `_meta` with the reason of a denial by a policy.
pub const GOVERNANCE: &str = "registry/governance";
/// The key in `_meta` that names the task of a message, in 2025-11-25.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The extension of long-running calls.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
