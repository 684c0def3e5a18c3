//! Tool errors: `isError` results with a machine-readable code.

use rmcp::ErrorData;
use rmcp::handler::server::tool::IntoCallToolResult;
use rmcp::model::{CallToolResponse, CallToolResult};
use serde_json::json;

/// A tool error for programs and people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// Stable code, such as `not_found`.
    pub code: &'static str,
    /// The attempted operation and the reason of its failure.
    pub message: String,
}

impl ToolError {
    /// An error with this code and message.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// An error for an unknown id.
    pub fn not_found(what: &str, id: &str) -> Self {
        Self::new("not_found", format!("no {what} has the id {id:?}"))
    }

    /// An error for an argument that is valid by its schema, but not here.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_argument", message)
    }
}

impl From<ToolError> for CallToolResponse {
    fn from(ToolError { code, message }: ToolError) -> Self {
        let error = json!({ "error": { "code": code, "message": message } });
        CallToolResult::structured_error(error).into()
    }
}

impl IntoCallToolResult for ToolError {
    fn into_call_tool_result(self) -> Result<CallToolResponse, ErrorData> {
        Ok(self.into())
    }
}
