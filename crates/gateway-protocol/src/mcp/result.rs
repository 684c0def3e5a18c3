//! Results and errors of MCP, as their sender wrote them.

use serde_json::value::RawValue;

use super::Era;
use crate::jsonrpc::ErrorObject;

/// A result as its sender wrote it.
#[derive(Debug)]
pub struct RawResult {
    /// The unchanged result object. It may contain line breaks outside of its strings.
    pub result: Box<RawValue>,
    /// `isError`.
    pub is_error: bool,
    /// `resultType`.
    pub result_type: ResultType,
    /// Whether the result has `_meta`, which may contain reserved keys of the upstream.
    pub has_meta: bool,
    /// The era of the upstream.
    pub era: Era,
}

/// The `resultType` of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    /// Absent, as before 2026-07-28; counts as complete.
    Absent,
    /// `complete`.
    Complete,
    /// `input_required`.
    InputRequired,
    /// `task` of the tasks extension, or the task of a call of 2025-11-25.
    Task,
}

impl ResultType {
    /// The JSON text; `complete` if absent.
    pub fn as_raw(self) -> &'static str {
        match self {
            Self::Absent | Self::Complete => r#""complete""#,
            Self::InputRequired => r#""input_required""#,
            Self::Task => r#""task""#,
        }
    }

    /// Whether the result is complete.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Absent | Self::Complete)
    }
}

/// An error response.
#[derive(Debug, Clone)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: String,
    /// The data as JSON text.
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// Borrows the error for writing.
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
