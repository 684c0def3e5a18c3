//! Validating arguments and results against their schemas, by the configured modes.
//!
//! A long text is validated on another thread: a hundred thousand values take some ten milliseconds.

use std::sync::LazyLock;

use registry_core::schema_compile::{Instance, Unreadable, Violation};
use serde_json::value::RawValue;

use super::{Arguments, Error, Gateway, arguments::InvalidArguments};
use crate::{
    audit::{CallRecord, Check},
    config::Mode,
    jsonrpc::Object,
    upstream::Context,
    view::{Offer, input::Schema, validators::Compiled},
};

/// Longest text that is validated where the connection is served, in bytes: it has at most some
/// thousand values.
const SHORT: usize = 16 * 1024;

/// Absent arguments.
static EMPTY: LazyLock<Box<RawValue>> =
    LazyLock::new(|| RawValue::from_string("{}".to_owned()).expect("an empty object is JSON"));

/// Checks the arguments as the caller sent them against the schema as the caller sees it.
pub(super) async fn input(
    gateway: &Gateway,
    offer: &Offer,
    (arguments, context): (&Arguments<'_>, &Context),
    record: &mut CallRecord,
) -> Result<(), Error> {
    let mode = offer.checks().input;
    if mode == Mode::Ignore {
        return Ok(());
    }
    let input = offer.input();
    if let Some(problem) = &input.problem {
        record.input(Check::Unusable);
        return refuse(mode, Error::UnusableSchema { reason: problem.to_string() });
    }
    let raw = arguments.raw().unwrap_or(&EMPTY);
    let (check, error) = match check(gateway, &input.schema, (raw, context)).await {
        Ok(()) => (Check::Valid, None),
        Err(Failed::Unusable(reason)) => (Check::Unusable, Some(Error::UnusableSchema { reason })),
        Err(Failed::Ambiguous(what)) => return Err(InvalidArguments::Ambiguous(what).into()),
        Err(Failed::Violations(violations)) => {
            (Check::Violated, Some(Error::InvalidInput { violations }))
        }
    };
    record.input(check);
    error.map_or(Ok(()), |error| refuse(mode, error))
}

/// Checks the structured result. A schema that cannot be used says nothing about the result.
pub(super) async fn output(
    gateway: &Gateway,
    offer: &Offer,
    (result, context): (&RawValue, &Context),
    record: &mut CallRecord,
) -> Result<(), Error> {
    let Some(schema) = offer.output() else { return Ok(()) };
    let members = Object::parse(result).unwrap_or_default();
    let checked = match members.find("structuredContent") {
        Some(instance) => check(gateway, schema, (instance, context)).await,
        None => violation("there is no structuredContent"),
    };
    let checked = match checked {
        Err(Failed::Ambiguous(what)) => violation(&what),
        checked => checked,
    };
    match checked {
        Ok(()) => record.output(Check::Valid),
        Err(Failed::Unusable(_) | Failed::Ambiguous(_)) => record.output(Check::Unusable),
        Err(Failed::Violations(violations)) => {
            record.output(Check::Violated);
            return refuse(offer.checks().output, Error::InvalidOutput { violations });
        }
    }
    Ok(())
}

fn violation(message: &str) -> Result<(), Failed> {
    let (pointer, message) = (String::new(), message.to_owned());
    Err(Failed::Violations(vec![Violation { pointer, message }]))
}

fn refuse(mode: Mode, error: Error) -> Result<(), Error> {
    match mode {
        Mode::Ignore | Mode::Warn => Ok(()),
        Mode::Error => Err(error),
    }
}

enum Failed {
    Unusable(String),
    /// The text has no value, or more than one.
    Ambiguous(String),
    Violations(Vec<Violation>),
}

async fn check(
    gateway: &Gateway,
    schema: &Schema,
    (instance, context): (&RawValue, &Context),
) -> Result<(), Failed> {
    let validator = gateway.validators().of(schema);
    if instance.get().len() <= SHORT {
        return judge(&validator, instance);
    }
    let instance = instance.to_owned();
    let judge = move || judge(&validator, &instance);
    gateway.workers().run(context.payer(), judge).await
}

fn judge(validator: &Compiled, instance: &RawValue) -> Result<(), Failed> {
    let validator = validator.as_ref().map_err(|reason| Failed::Unusable(reason.to_string()))?;
    let ambiguous = |unreadable: Unreadable| Failed::Ambiguous(unreadable.to_string());
    let instance = Instance::read(instance).map_err(ambiguous)?;
    if let Some(repeated) = instance.repeated_name() {
        return Err(ambiguous(repeated));
    }
    validator.check(&instance).map_err(Failed::Violations)
}
