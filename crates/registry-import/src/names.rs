//! Repairs of names and versions.

use registry_core::decode::describe;
use serde_json::Value;

use super::{Repairs, repair::quoted};

pub(super) use registry_core::{name::closest_name, version::closest_version};

/// The problem of a name without a usable part.
pub(super) fn no_name(said: Option<&Value>, whose: &str) -> String {
    match said {
        None | Some(Value::Null) => "the name is missing".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "the name is empty".to_owned(),
        Some(Value::String(text)) => format!("{} cannot be used as {whose} name", quoted(text)),
        Some(other) => format!("the name is {}, not a text", describe(other)),
    }
}

/// A version as text, even if it is a number.
pub(super) fn version_text(said: &Value) -> String {
    said.as_str().map_or_else(|| said.to_string(), str::to_owned)
}

/// The stated exact version, or this default. Inexact versions are reported.
pub(super) fn exact_version(
    repairs: &mut Repairs,
    said: &Value,
    at: &str,
    instead: &str,
) -> String {
    let text = version_text(said);
    let (exact, is_version) = match closest_version(&text) {
        Some(version) => (version.to_string(), true),
        None => (instead.to_owned(), false),
    };
    let (text, how) = (quoted(&text), format!("{exact} is written"));
    if said.is_f64() && is_version {
        let what = format!("{text} is a number, not an exact version");
        repairs.needed(at, what, format!("{how}; 1.10 is the number 1.1, check the original"));
    } else if !is_version {
        repairs.needed(at, format!("{text} is not an exact version"), how);
    } else if *said != *exact {
        repairs.made(at, format!("{text} is not an exact version"), how);
    }
    exact
}
