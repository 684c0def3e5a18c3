//! Validation of arguments and results by the configured modes.
//!
//! Long texts and costly schemas are validated on a worker thread: 100,000 values take about 10 ms.

use std::sync::{Arc, LazyLock};

use a2a::skill::DataPart;
use gateway_policy::{QuotaKey, ValidationMode};
use gateway_protocol::jsonrpc::Object;
use gateway_upstream::RequestContext;
use schema_compat::schema_compile::{Instance, Unreadable, Validator, Violation};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{
    Error, Gateway,
    arguments::{Arguments, InvalidArguments},
};
use crate::{
    audit::{CallRecord, Check},
    view::{ServedTool, input::ServedSchema, validators::Compiled},
    workers::Workers,
};

/// Maximum size of a text that is validated on the connection's thread, in bytes.
const MAX_INLINE_BYTES: usize = 16 * 1024;
/// Maximum validation steps on the connection's thread: about 0.5 ms.
const INLINE_STEPS: u64 = 20_000;

/// Absent arguments.
static EMPTY: LazyLock<Box<RawValue>> =
    LazyLock::new(|| RawValue::from_string("{}".to_owned()).expect("an empty object is JSON"));

/// Validates the arguments against the schema that the caller sees.
pub(super) async fn input(
    gateway: &Gateway,
    served: &ServedTool,
    (arguments, context, mode): (&Arguments<'_>, &RequestContext, ValidationMode),
    record: &mut CallRecord,
) -> Result<(), Error> {
    let Some(schema) = input_schema(served, mode, record)? else { return Ok(()) };
    let raw = arguments.raw().unwrap_or(&EMPTY);
    let checked = check(gateway, schema, (raw, context)).await;
    judge_input(checked, mode, record)
}

/// Validates the data of a message against the input schema of its skill.
pub(super) async fn message(
    gateway: &Gateway,
    served: &ServedTool,
    (data, context, mode): (&[DataPart<'_>], &RequestContext, ValidationMode),
    record: &mut CallRecord,
) -> Result<(), Error> {
    if data.is_empty() {
        return Ok(());
    }
    let Some(schema) = input_schema(served, mode, record)? else { return Ok(()) };
    let checked = check_parts(gateway, schema, (data, context)).await;
    judge_input(checked, mode, record)
}

/// Whether data conforms to the input schema of a skill. Long texts and costly schemas do not count:
/// the caller can name the skill.
pub(super) fn matches(gateway: &Gateway, served: &ServedTool, data: &Value) -> bool {
    let Ok(text) = to_raw_value(data) else { return false };
    let input = served.input();
    if input.problem.is_some() || text.get().len() > MAX_INLINE_BYTES {
        return false;
    }
    let validator = gateway.validators().get(&input.schema);
    matches!(validate_within_budget(&validator, &text), Some(Ok(())))
}

/// The input schema to validate by. `None`: the mode accepts anything.
fn input_schema<'s>(
    served: &'s ServedTool,
    mode: ValidationMode,
    record: &mut CallRecord,
) -> Result<Option<&'s ServedSchema>, Error> {
    if mode == ValidationMode::Ignore {
        return Ok(None);
    }
    let input = served.input();
    let Some(problem) = &input.problem else { return Ok(Some(&input.schema)) };
    record.input(Check::Unusable);
    let error = Error::UnusableSchema { reason: problem.to_string() };
    reject_in_mode(mode, error).map(|()| None)
}

fn judge_input(
    checked: Result<(), ValidationFailure>,
    mode: ValidationMode,
    record: &mut CallRecord,
) -> Result<(), Error> {
    let (check, error) = match checked {
        Ok(()) => (Check::Valid, None),
        Err(ValidationFailure::Unusable(reason)) => {
            (Check::Unusable, Some(Error::UnusableSchema { reason }))
        }
        Err(ValidationFailure::Ambiguous(what)) => {
            return Err(InvalidArguments::Ambiguous(what).into());
        }
        Err(ValidationFailure::Violations(violations)) => {
            (Check::Violated, Some(Error::InvalidInput { violations }))
        }
    };
    record.input(check);
    error.map_or(Ok(()), |error| reject_in_mode(mode, error))
}

/// Validates the structured result. An invalid schema rejects nothing.
pub(super) async fn output(
    gateway: &Gateway,
    served: &ServedTool,
    (result, context): (&RawValue, &RequestContext),
    record: &mut CallRecord,
) -> Result<(), Error> {
    let Some(schema) = served.output() else { return Ok(()) };
    let members = Object::parse(result).unwrap_or_default();
    let checked = match members.find("structuredContent") {
        Some(instance) => check(gateway, schema, (instance, context)).await,
        None => violation("structuredContent is missing"),
    };
    let checked = match checked {
        Err(ValidationFailure::Ambiguous(what)) => violation(&what),
        checked => checked,
    };
    judge_output(served, checked, record)
}

/// Validates the data of an agent's answer or event against the output schema of the skill. An invalid
/// schema rejects nothing.
pub(super) async fn answer(
    gateway: &Gateway,
    served: &ServedTool,
    (data, context): (&[DataPart<'_>], &RequestContext),
    record: &mut CallRecord,
) -> Result<(), Error> {
    let Some(schema) = served.output().filter(|_| !data.is_empty()) else { return Ok(()) };
    let checked = check_parts(gateway, schema, (data, context)).await;
    judge_output(served, checked, record)
}

/// Whether the changed data of an answer conforms to the output schema. An invalid schema rejects
/// nothing.
pub(super) async fn answer_fits(
    gateway: &Gateway,
    served: &ServedTool,
    (data, context): (&[DataPart<'_>], &RequestContext),
) -> bool {
    let Some(schema) = served.output().filter(|_| !data.is_empty()) else { return true };
    let checked = check_parts(gateway, schema, (data, context)).await;
    matches!(checked, Ok(()) | Err(ValidationFailure::Unusable(_)))
}

fn judge_output(
    served: &ServedTool,
    checked: Result<(), ValidationFailure>,
    record: &mut CallRecord,
) -> Result<(), Error> {
    match checked {
        Ok(()) => record.output(Check::Valid),
        Err(ValidationFailure::Unusable(_) | ValidationFailure::Ambiguous(_)) => {
            record.output(Check::Unusable);
        }
        Err(ValidationFailure::Violations(violations)) => {
            record.output(Check::Violated);
            return reject_in_mode(served.checks().output, Error::InvalidOutput { violations });
        }
    }
    Ok(())
}

/// Whether a changed result, or the result of a task in it, conforms to the output schema. An invalid
/// schema rejects nothing.
pub(super) async fn fits(
    gateway: &Gateway,
    served: &ServedTool,
    result: &RawValue,
    context: &RequestContext,
) -> bool {
    let Some(schema) = served.output() else { return true };
    let members = Object::parse(result).unwrap_or_default();
    let of_task = || Object::parse(members.find("result")?).ok()?.find("structuredContent");
    let Some(instance) = members.find("structuredContent").or_else(of_task) else { return true };
    match check(gateway, schema, (instance, context)).await {
        Ok(()) | Err(ValidationFailure::Unusable(_)) => true,
        Err(ValidationFailure::Ambiguous(_) | ValidationFailure::Violations(_)) => false,
    }
}

fn violation(message: &str) -> Result<(), ValidationFailure> {
    let (pointer, message) = (String::new(), message.to_owned());
    Err(ValidationFailure::Violations(vec![Violation { pointer, message }]))
}

fn reject_in_mode(mode: ValidationMode, error: Error) -> Result<(), Error> {
    match mode {
        ValidationMode::Ignore | ValidationMode::Warn => Ok(()),
        ValidationMode::Error => Err(error),
    }
}

enum ValidationFailure {
    Unusable(String),
    /// The text is not valid JSON, or has repeated member names.
    Ambiguous(String),
    Violations(Vec<Violation>),
}

/// Validates each part by itself. The pointers of violations start at the message.
async fn check_parts(
    gateway: &Gateway,
    schema: &ServedSchema,
    (data, context): (&[DataPart<'_>], &RequestContext),
) -> Result<(), ValidationFailure> {
    let mut found = Vec::new();
    for part in data {
        // JSON values always serialize.
        let Ok(text) = to_raw_value(part.data) else { continue };
        match check(gateway, schema, (&text, context)).await {
            Err(ValidationFailure::Violations(violations)) => {
                found.extend(violations.into_iter().map(|violation| Violation {
                    pointer: format!("{}{}", part.pointer, violation.pointer),
                    ..violation
                }));
            }
            checked => checked?,
        }
    }
    if found.is_empty() { Ok(()) } else { Err(ValidationFailure::Violations(found)) }
}

async fn check(
    gateway: &Gateway,
    schema: &ServedSchema,
    (instance, context): (&RawValue, &RequestContext),
) -> Result<(), ValidationFailure> {
    let validator = gateway.validators().get(schema);
    validate(gateway.workers(), context.payer(), (validator, instance)).await
}

/// Validates a short text here within [`INLINE_STEPS`], and everything else on a worker thread.
async fn validate(
    workers: &Workers,
    caller: &QuotaKey,
    (validator, text): (Arc<Compiled>, &RawValue),
) -> Result<(), ValidationFailure> {
    if text.get().len() <= MAX_INLINE_BYTES
        && let Some(judged) = validate_within_budget(&validator, text)
    {
        return judged;
    }
    let text = text.to_owned();
    workers.run(caller, move || validate_all(&validator, &text)).await
}

/// Returns `None` if it needs more than [`INLINE_STEPS`].
fn validate_within_budget(
    validator: &Compiled,
    text: &RawValue,
) -> Option<Result<(), ValidationFailure>> {
    match read(validator, text) {
        Ok((validator, instance)) => {
            let checked = validator.check_within(&instance, INLINE_STEPS)?;
            Some(checked.map_err(ValidationFailure::Violations))
        }
        Err(failed) => Some(Err(failed)),
    }
}

fn validate_all(validator: &Compiled, text: &RawValue) -> Result<(), ValidationFailure> {
    let (validator, instance) = read(validator, text)?;
    validator.check(&instance).map_err(ValidationFailure::Violations)
}

fn read<'a>(
    validator: &'a Compiled,
    text: &'a RawValue,
) -> Result<(&'a Validator, Instance<'a>), ValidationFailure> {
    let validator =
        validator.as_ref().map_err(|reason| ValidationFailure::Unusable(reason.to_string()))?;
    let ambiguous = |unreadable: Unreadable| ValidationFailure::Ambiguous(unreadable.to_string());
    let instance = Instance::read(text).map_err(ambiguous)?;
    match instance.repeated_name() {
        Some(repeated) => Err(ambiguous(repeated)),
        None => Ok((validator, instance)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt as _;
    use schema_compat::schema_compile::compile;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn costly_short_texts_are_validated_on_workers() {
        let workers = Workers::with(1);
        let caller = Some(Arc::from("a"));
        let (start, started) = mpsc::channel::<()>();
        let mut busy = Box::pin(workers.run(&caller, move || started.recv().unwrap()));
        assert!(busy.as_mut().now_or_never().is_none());
        let limits: Vec<_> =
            (10..110).map(|most| json!({ "items": { "maximum": most } })).collect();
        let schema = compile(&json!({ "allOf": limits }), &|_| None);
        let validator = Arc::new(schema.map_err(|_| Box::from("invalid")));
        let ones = vec![1; 7_000];
        let texts = [json!([1]), json!([11]), json!(ones), json!([ones, vec![11]].concat())];
        let [cheap, invalid, costly, costly_invalid] =
            texts.map(|value| to_raw_value(&value).unwrap());
        assert!(
            costly.get().len() <= MAX_INLINE_BYTES
                && costly_invalid.get().len() <= MAX_INLINE_BYTES
        );
        let validated = |text| Box::pin(validate(&workers, &caller, (validator.clone(), text)));
        assert!(matches!(validated(&cheap).now_or_never(), Some(Ok(()))));
        assert!(matches!(
            validated(&invalid).now_or_never(),
            Some(Err(ValidationFailure::Violations(_)))
        ));
        let (mut one, mut other) = (validated(&costly), validated(&costly_invalid));
        assert!(one.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        start.send(()).unwrap();
        let ((), one, other) = tokio::join!(busy, one, other);
        assert!(one.is_ok() && matches!(other, Err(ValidationFailure::Violations(_))));
    }
}
