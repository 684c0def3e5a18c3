//! Results and errors of MCP, as their sender wrote them.

use serde_json::value::RawValue;

use super::Era;
use crate::jsonrpc::ErrorObject;

/// A result, as the upstream wrote it.
#[derive(Debug)]
pub struct RawResult {
    /// The result object, untouched. It may contain line breaks outside of its strings.
    pub result: Box<RawValue>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// What kind of result it says it is.
    pub result_type: ResultType,
    /// Whether it carries `_meta`, where an upstream's reserved keys would be.
    pub has_meta: bool,
    /// In which era it was given.
    pub era: Era,
}

/// The `resultType` of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    /// Not said, as before 2026-07-28; it counts as complete.
    Absent,
    /// `complete`.
    Complete,
    /// `input_required`.
    InputRequired,
    /// `task`, of the tasks extension; in 2025-11-25 the result of a call that asked for a task.
    Task,
}

impl ResultType {
    /// As JSON text; what is not said is complete.
    pub fn as_raw(self) -> &'static str {
        match self {
            Self::Absent | Self::Complete => r#""complete""#,
            Self::InputRequired => r#""input_required""#,
            Self::Task => r#""task""#,
        }
    }

    /// Whether nothing more is to come.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Absent | Self::Complete)
    }
}

/// The other side's own error.
#[derive(Debug, Clone)]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// Its message.
    pub message: String,
    /// Its data, raw.
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// To be written.
    pub fn object(&self) -> ErrorObject<'_> {
        let (code, message) = (self.code, self.message.as_str().into());
        ErrorObject { code, message, data: self.data.as_deref() }
    }
}

impl From<ErrorObject<'_>> for RpcError {
    fn from(error: ErrorObject<'_>) -> Self {
        Self {
            code: error.code,
            message: error.message.into_owned(),
            data: error.data.map(ToOwned::to_owned),
        }
    }
}
