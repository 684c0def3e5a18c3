//! Defaults for absent arguments and for hidden fields.
//!
//! A default fills an absent argument. If the caller sends an object that has a hidden field, the
//! default is inserted into that object. If it sends another type there, the call is rejected.
//! Strings may contain `${NAME}`, which only the configured variables resolve.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schema_compat::pointer::pointer_join;
use serde_json::{Map, Value};

use super::hide::HiddenField;

/// The parts that complete the arguments of a caller.
#[derive(Debug, Clone, Copy)]
pub struct Defaults<'a> {
    /// The hidden fields of the tool.
    pub hidden: &'a [HiddenField],
    /// The variables of the gateway.
    pub variables: &'a BTreeMap<String, String>,
}

/// A default that cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefaultError {
    /// The caller sent another type in place of an object with a hidden field.
    #[error("the argument {pointer} is hidden")]
    HiddenField {
        /// JSON Pointer of the argument.
        pointer: String,
    },
    /// A default needs a variable that is not configured.
    #[error("the default at {pointer} needs the variable `{name}`, which is not configured")]
    MissingVariable {
        /// JSON Pointer of the default.
        pointer: String,
        /// Name of the variable.
        name: String,
    },
}

impl Defaults<'_> {
    /// Fills absent arguments and hidden fields.
    pub fn fill(
        &self,
        defaults: &Map<String, Value>,
        arguments: &mut Map<String, Value>,
    ) -> Result<(), DefaultError> {
        for (name, default) in defaults {
            if !arguments.contains_key(name) {
                let value = self.resolved(default, &pointer_join("", name))?;
                arguments.insert(name.clone(), value);
            }
        }
        self.hidden.iter().try_for_each(|field| self.fill_hidden(field, defaults, arguments))
    }

    /// Inserts the default of a hidden field into an argument of the caller.
    fn fill_hidden(
        &self,
        field: &HiddenField,
        defaults: &Map<String, Value>,
        arguments: &mut Map<String, Value>,
    ) -> Result<(), DefaultError> {
        let (Some(default), None) = (field.find(defaults), field.find(arguments)) else {
            return Ok(());
        };
        let value = self.resolved(default, &field.pointer())?;
        if field.insert(arguments, value) {
            return Ok(());
        }
        Err(DefaultError::HiddenField { pointer: field.pointer() })
    }

    fn resolved(&self, default: &Value, pointer: &str) -> Result<Value, DefaultError> {
        Ok(match default {
            Value::String(text) => Value::String(self.substituted(text, pointer)?),
            Value::Array(items) => {
                let item = |(i, item)| self.resolved(item, &format!("{pointer}/{i}"));
                Value::Array(items.iter().enumerate().map(item).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let mut resolved = Map::new();
                for (name, member) in members {
                    let value = self.resolved(member, &pointer_join(pointer, name))?;
                    resolved.insert(name.clone(), value);
                }
                Value::Object(resolved)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => default.clone(),
        })
    }

    fn substituted(&self, text: &str, pointer: &str) -> Result<String, DefaultError> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                rest = &rest[before.len()..];
                break;
            };
            let missing = || DefaultError::MissingVariable {
                pointer: pointer.to_owned(),
                name: name.to_owned(),
            };
            out.push_str(self.variables.get(name).ok_or_else(missing)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }
}
