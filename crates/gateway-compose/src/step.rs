//! The call of a tool or agent as a step.

use std::{borrow::Cow, sync::Arc};

use gateway_policy::QuotaExceeded;
use gateway_protocol::{
    content,
    jsonrpc::{self, Limits, Object},
    mcp::RawResult,
};
use registry_core::spec::{Target, eval::describe_kind};
use serde_json::{Value, json};

use crate::{Cause, Failure, Step, StepOutput, run::Run};

impl Run {
    /// Calls a tool or agent of the plan.
    pub(super) async fn call(
        self: &Arc<Self>,
        target: &Target,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        self.charge_call(at)?;
        let mut watch = self.report.begin(at, target);
        let outcome = self.call_target(target, at, input).await;
        watch.ended(outcome.as_ref().err());
        drop(watch);
        self.report_progress(at, outcome.as_ref().map_or_else(Failure::reason, |_| "ok"));
        outcome
    }

    async fn call_target(
        self: &Arc<Self>,
        target: &Target,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let takes_text = self.plan.part(target).is_some_and(|part| part.takes_text);
        let input = match input {
            Value::String(text) if takes_text => Cow::Owned(json!({ "text": text })),
            Value::Object(_) => Cow::Borrowed(input),
            other => {
                let found = describe_kind(other);
                return Err(Failure::new(at, Cause::NotAnObject { tool: target.clone(), found }));
            }
        };
        let arguments = serde_json::value::to_raw_value(&input)
            .map_err(|_| Failure::new(at, Cause::Unserializable))?;
        let step = Step { target, arguments, scope: &self.scope };
        let StepOutput { result, steps } = self.runner.run(step).await;
        if let Some(steps) = steps {
            self.report.within(at, &steps);
        }
        let result = result
            .map_err(|error| Failure::new(at, Cause::Call { tool: target.clone(), error }))?;
        self.charge_bytes(at, result.result.get().len())?;
        let value = value_of(&result, |bytes| self.reserve(bytes));
        if result.is_error {
            let text = if let Err(Unusable::BufferLimit(_)) = value {
                None
            } else {
                content::first_text(&Object::parse(&result.result).unwrap_or_default())
            };
            let value = value.unwrap_or_default();
            return Err(Failure::new(
                at,
                Cause::Tool { tool: target.clone(), text, value: Box::new(value) },
            ));
        }
        value.map_err(|unusable| {
            let cause = match unusable {
                Unusable::BufferLimit(why) => Cause::BufferLimit(why),
                Unusable::Unreadable => Cause::UnreadableResult { tool: target.clone() },
            };
            Failure::new(at, cause)
        })
    }
}

/// Why a result cannot be read.
enum Unusable {
    BufferLimit(QuotaExceeded),
    Unreadable,
}

impl From<QuotaExceeded> for Unusable {
    fn from(why: QuotaExceeded) -> Self {
        Self::BufferLimit(why)
    }
}

/// Returns the value of a result: its structured content, else its first text parsed as JSON, else
/// that text. Text that is nested more deeply than a message may be stays text. Structured content
/// with numbers out of range is unreadable.
///
/// A parsed value takes many times the memory of its text, so the memory is reserved first.
fn value_of(
    result: &RawResult,
    reserve: impl Fn(usize) -> Result<(), QuotaExceeded>,
) -> Result<Value, Unusable> {
    reserve(content::tree_bytes(result.result.get()))?;
    // The upstream client parsed the result before, so this cannot fail.
    let members = Object::parse(&result.result).unwrap_or_default();
    if let Some(structured) = content::structured(&members) {
        return serde_json::from_str(structured.get()).map_err(|_| Unusable::Unreadable);
    }
    Ok(match content::first_text(&members) {
        Some(text) if jsonrpc::nests_within(text.as_bytes(), Limits::DEPTH) => {
            reserve(content::tree_bytes(&text))?;
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
        Some(text) => Value::String(text),
        None => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use gateway_protocol::mcp::{Era, ResultType};
    use serde_json::value::RawValue;

    use super::*;

    fn value(result: &str) -> Option<Value> {
        let result = RawValue::from_string(result.to_owned()).unwrap();
        let (result_type, era) = (ResultType::Absent, Era::Modern);
        let raw = RawResult { result, is_error: false, result_type, has_meta: false, era };
        value_of(&raw, |_| Ok(())).ok()
    }

    #[test]
    fn result_value_unreadable_or_missing() {
        assert_eq!(value(r#"{"structuredContent":{"n":1e999}}"#), None);
        assert_eq!(value(r#"{"structuredContent":{"n":1e99}}"#), Some(json!({ "n": 1e99 })));
        let text = r#"{"content":[{"type":"text","text":"1e999"}]}"#;
        assert_eq!(value(text), Some(json!("1e999")));
        assert_eq!(value(r#"{"content":[]}"#), Some(Value::Null));
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let text = |levels| {
            value(&json!({ "content": [{ "type": "text", "text": nested(levels) }] }).to_string())
        };
        assert!(text(100).unwrap().is_array());
        assert_eq!(text(101), Some(json!(nested(101))));
    }
}
