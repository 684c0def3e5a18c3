//! Limits of one evaluation.

use serde_json::Value;

use super::Reason;
use crate::{limits, spec::path::Size};

/// Bytes of a string that count as one value.
const TEXT_BYTES: usize = 64;

/// The remaining visits and output of one evaluation.
#[derive(Debug, Clone)]
pub struct Budget {
    looks: u64,
    values: u64,
    bytes: usize,
    max_bytes: usize,
}

impl Budget {
    /// A budget for an evaluation with about this much JSON output.
    pub fn new(max_bytes: usize) -> Self {
        let (looks, values) = (limits::EVAL_LOOKS, limits::EVAL_VALUES);
        Self { looks, values, bytes: max_bytes, max_bytes }
    }

    /// Charges this number of visits.
    pub(in crate::spec) fn look(&mut self, looks: u64) -> Result<(), Reason> {
        self.looks = self.looks.checked_sub(looks).ok_or(Reason::TooMuchWork)?;
        Ok(())
    }

    /// The size of a value. Measuring it also costs visits.
    pub(in crate::spec) fn measure(&mut self, value: &Value) -> Result<Size, Reason> {
        let before = self.looks;
        let depth = self.visit(value)?;
        Ok(Size { values: before - self.looks, depth })
    }

    fn visit(&mut self, value: &Value) -> Result<u64, Reason> {
        let mut deepest = 0;
        let texts = match value {
            Value::Array(items) => {
                for item in items {
                    deepest = deepest.max(self.visit(item)?);
                }
                0
            }
            Value::Object(members) => {
                for member in members.values() {
                    deepest = deepest.max(self.visit(member)?);
                }
                0
            }
            Value::String(text) => text.len() / TEXT_BYTES,
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        };
        self.look(1 + texts as u64)?;
        Ok(deepest + 1)
    }

    /// Copies a value into the output at this depth.
    pub(in crate::spec) fn copy(&mut self, value: &Value, depth: usize) -> Result<Value, Reason> {
        self.charge(value, depth)?;
        Ok(value.clone())
    }

    /// Charges for a value at this depth of the output.
    pub(super) fn charge(&mut self, value: &Value, depth: usize) -> Result<(), Reason> {
        self.produce(depth, 1)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.charge(item, depth + 1)),
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                self.text(name.len() + 1)?;
                self.charge(member, depth + 1)
            }),
            Value::String(text) => self.text(text.len()),
            // No number is longer.
            Value::Number(_) => self.text(24),
            Value::Null | Value::Bool(_) => self.text(4),
        }
    }

    /// Charges for the syntax of one value: brackets or quotes, and a comma.
    pub(super) fn produce(&mut self, depth: usize, values: u64) -> Result<(), Reason> {
        if depth > limits::EVAL_DEPTH {
            return Err(Reason::TooDeep);
        }
        self.values = self.values.checked_sub(values).ok_or(Reason::TooMany)?;
        self.text(3)
    }

    /// Charges for this amount of text.
    pub(super) fn text(&mut self, bytes: usize) -> Result<(), Reason> {
        let max_bytes = self.max_bytes;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(Reason::TooLarge { max_bytes })?;
        Ok(())
    }
}
