//! Bodies of requests, answers and events.

use gateway_protocol::jsonrpc::{Limits, nests_within};
use registry_core::document::parse_json;
use serde_json::Value;

use crate::error::{ErrorKind, Failure};

/// Parses a body within limits.
pub(crate) fn parse(body: &[u8], limits: Limits) -> Result<Value, Failure> {
    if body.len() > limits.bytes {
        let message = format!("the body is longer than {} bytes", limits.bytes);
        return Err(Failure::new(ErrorKind::InvalidRequest, message));
    }
    if !nests_within(body, limits.depth) {
        let message = format!("the body is nested deeper than {} levels", limits.depth);
        return Err(Failure::new(ErrorKind::InvalidRequest, message));
    }
    parse_part(body)
}

/// Parses a part of a body that is within the limits. Repeated members are rejected, because two
/// parsers could read two different messages.
pub(crate) fn parse_part(part: &[u8]) -> Result<Value, Failure> {
    parse_json(part).map_err(|error| Failure::new(ErrorKind::ParseError, error.to_string()))
}
