//! Patterns that pass data to another tool: dead letter and claim check.

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{
    Backoff, Operation, Target,
    operation::read_tool,
    read::{ATTEMPTS, Reader},
};
use crate::decode::Fields;

/// Sends failures to a tool, with input, error and number of attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// The guarded operation.
    pub inner: Operation,
    /// The tool that receives failures.
    pub dead_letter_tool: Target,
    /// The number of attempts; 1 if absent.
    pub max_attempts: Option<u64>,
    /// The delay between attempts.
    pub backoff: Option<Backoff>,
    /// Whether the caller receives the failure, too.
    pub rethrow: bool,
}

/// Stores a large payload externally while the inner operation receives a reference.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimCheck {
    /// The tool that stores the payload.
    pub store_tool: Target,
    /// The tool that retrieves the payload.
    pub retrieve_tool: Target,
    /// The operation that receives the reference.
    pub inner: Operation,
    /// Whether the result is the retrieved payload.
    pub retrieve_at_end: bool,
}

impl DeadLetter {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let inner = reader.operation(&fields, "inner");
        let dead_letter_tool = tool(reader, &fields, "deadLetterTool");
        let max_attempts = reader.number(&fields, "maxAttempts", ATTEMPTS);
        let backoff = Backoff::read_optional(reader, &fields);
        let rethrow = fields.required_bool("rethrow");
        fields.finish();
        Some(Self {
            inner: inner?,
            dead_letter_tool: dead_letter_tool?,
            max_attempts,
            backoff,
            rethrow: rethrow?,
        })
    }
}

impl ClaimCheck {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let store_tool = tool(reader, &fields, "storeTool");
        let retrieve_tool = tool(reader, &fields, "retrieveTool");
        let inner = reader.operation(&fields, "inner");
        let retrieve_at_end = fields.required_bool("retrieveAtEnd");
        fields.finish();
        Some(Self {
            store_tool: store_tool?,
            retrieve_tool: retrieve_tool?,
            inner: inner?,
            retrieve_at_end: retrieve_at_end?,
        })
    }
}

fn tool<'f>(reader: &Reader, fields: &'f Fields<'f>, name: &'static str) -> Option<Target> {
    let at = fields.at(name);
    read_tool(reader, fields.require(name)?, (at, at))
}
