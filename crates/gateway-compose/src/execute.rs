//! The execution of a composition and its result.

use gateway_policy::QuotaExceeded;
use gateway_protocol::{
    content,
    jsonrpc::ObjectWriter,
    mcp::{Era, RawResult, ResultType},
};
use registry_core::{Name, spec::Target};
use serde_json::{Value, value::RawValue};

use crate::{Cause, CompositionCall, Failure, StepError, Steps, run::Run};

/// The failure of a composition, and the steps that ran before it.
#[derive(Debug, thiserror::Error)]
#[error("{failure}")]
pub struct CompositionError {
    /// The failed step and the cause.
    pub failure: Failure,
    /// The steps that ran.
    pub steps: Steps,
    /// The error for callers, if it is not that of `failure` and `steps`.
    pub shown: Option<Box<ShownFailure>>,
}

/// The form of an error for callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownFailure {
    /// The message.
    pub message: String,
    /// The failure as JSON text.
    pub failure: String,
    /// The steps as JSON text.
    pub steps: String,
}

impl CompositionError {
    /// Creates the error of a composition whose steps succeeded and whose result the gateway
    /// rejected.
    pub fn rejected_result(tool: &Name, error: StepError, steps: Steps) -> Self {
        let failure = Failure::new("", Cause::Call { tool: Target::Tool(tool.clone()), error });
        Self { failure, steps, shown: None }
    }
}

/// Calls a composed tool.
pub async fn execute(
    call: CompositionCall<'_>,
    input: &Value,
) -> (Result<RawResult, Failure>, Steps) {
    let (max_bytes, buffered) = (call.response_bytes, call.buffered.cloned());
    let run = Run::new(call);
    let outcome = run.pattern(run.plan.spec(), "", input).await;
    let steps = run.report.finish(run.has_sent());
    let reserve = |bytes| buffered.as_ref().map_or(Ok(()), |buffered| buffered.reserve(bytes));
    (outcome.and_then(|value| to_result(&value, max_bytes, reserve)), steps)
}

/// Converts a value to a tool result of at most `max_bytes`.
fn to_result(
    value: &Value,
    max_bytes: usize,
    reserve: impl Fn(usize) -> Result<(), QuotaExceeded>,
) -> Result<RawResult, Failure> {
    let text = value.to_string();
    // The result contains the value twice: as structured content and as text.
    reserve(2 * text.len()).map_err(|error| Failure::new("", Cause::BufferLimit(error)))?;
    let mut out = ObjectWriter::with_capacity(256);
    content::write_json_value(&text, &mut out);
    let result = RawValue::from_string(out.finish_string())
        .map_err(|_| Failure::new("", Cause::Unserializable))?;
    // The limit applies to one of the two copies.
    if result.get().len() / 2 > max_bytes {
        return Err(Failure::new("", Cause::TooLarge { most: max_bytes }));
    }
    let (result_type, era) = (ResultType::Absent, Era::Modern);
    Ok(RawResult { result, is_error: false, result_type, has_meta: false, era })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_size_limit_counts_one_copy() {
        let value = Value::from("x".repeat(101));
        let result = |max_bytes| to_result(&value, max_bytes, |_| Ok(()));
        let written = result(usize::MAX).unwrap().result.get().len();
        assert!(result(written / 2).is_ok());
        assert!(result(written / 2 - 1).is_err());
    }
}
