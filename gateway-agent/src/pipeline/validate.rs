//! Validating arguments and results against their schemas, by the configured modes.
//!
//! Deliberately absent: which schema applies (`view`), and compiling (`view/validators.rs`).

use registry_core::schema_compile::Violation;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{Arguments, Error, Gateway};
use crate::{
    audit::{CallRecord, Check},
    config::Mode,
    jsonrpc,
    view::{Offer, input::Schema},
};

/// Checks the arguments as the caller sent them against the schema as the caller sees it.
pub(super) fn input(
    gateway: &Gateway,
    offer: &Offer,
    arguments: &mut Arguments<'_>,
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
    let (check, error) = match check(gateway, &input.schema, arguments.value()?) {
        Ok(()) => (Check::Valid, None),
        Err(Failed::Unusable(reason)) => (Check::Unusable, Some(Error::UnusableSchema { reason })),
        Err(Failed::Violations(violations)) => {
            (Check::Violated, Some(Error::InvalidInput { violations }))
        }
    };
    record.input(check);
    error.map_or(Ok(()), |error| refuse(mode, error))
}

/// Checks the structured result. A schema that cannot be used says nothing about the result.
pub(super) fn output(
    gateway: &Gateway,
    offer: &Offer,
    result: &RawValue,
    record: &mut CallRecord,
) -> Result<(), Error> {
    let Some(schema) = offer.output() else { return Ok(()) };
    let structured: Structured = jsonrpc::read_object(result).unwrap_or_default();
    let checked = match structured.content {
        Some(instance) => check(gateway, schema, &instance),
        None => Err(Failed::Violations(vec![Violation {
            pointer: String::new(),
            message: "there is no structuredContent".to_owned(),
        }])),
    };
    match checked {
        Ok(()) => record.output(Check::Valid),
        Err(Failed::Unusable(_)) => record.output(Check::Unusable),
        Err(Failed::Violations(violations)) => {
            record.output(Check::Violated);
            return refuse(offer.checks().output, Error::InvalidOutput { violations });
        }
    }
    Ok(())
}

fn refuse(mode: Mode, error: Error) -> Result<(), Error> {
    match mode {
        Mode::Ignore | Mode::Warn => Ok(()),
        Mode::Error => Err(error),
    }
}

enum Failed {
    Unusable(String),
    Violations(Vec<Violation>),
}

fn check(gateway: &Gateway, schema: &Schema, instance: &Value) -> Result<(), Failed> {
    match &*gateway.validators().of(schema) {
        Ok(validator) => validator.validate(instance).map_err(Failed::Violations),
        Err(reason) => Err(Failed::Unusable(reason.to_string())),
    }
}

#[derive(Default, Deserialize)]
struct Structured {
    /// Absent is not the same as `null`, which is a value like any other.
    #[serde(rename = "structuredContent", default, deserialize_with = "present")]
    content: Option<Value>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
