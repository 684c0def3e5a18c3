//! How a tool says no: an `isError` result with a machine-readable code.

use rmcp::ErrorData;
use rmcp::handler::server::tool::IntoCallToolResult;
use rmcp::model::{CallToolResponse, CallToolResult};
use serde_json::json;

/// A tool's refusal: what went wrong, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code, such as `not_found`.
    pub code: &'static str,
    /// What was attempted and why it failed.
    pub message: String,
}

impl Refusal {
    /// A refusal with this code and message.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Nothing has this id.
    pub fn not_found(what: &str, id: &str) -> Self {
        Self::new("not_found", format!("no {what} has the id {id:?}"))
    }

    /// An argument that the schema allows makes no sense here.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_argument", message)
    }
}

impl From<Refusal> for CallToolResponse {
    fn from(Refusal { code, message }: Refusal) -> Self {
        let error = json!({ "error": { "code": code, "message": message } });
        CallToolResult::structured_error(error).into()
    }
}

impl IntoCallToolResult for Refusal {
    fn into_call_tool_result(self) -> Result<CallToolResponse, ErrorData> {
        Ok(self.into())
    }
}
