//! Evaluation of a schema on a value: accepted, rejected, or unknown.
//!
//! It avoids compiling a validator for each subschema and counts its steps. Verdicts are confirmed
//! by real validators.

use std::{cmp::Ordering, collections::BTreeSet, rc::Rc};

use serde_json::{Map, Value};

use super::{
    arena::Id,
    prover::{Prover, Stop},
    rules::{Range, Rules, Types},
    sample::size,
    value_set::ValueSet,
};

/// Three-valued conjunction: rejected dominates, then unknown.
fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

impl Prover<'_> {
    /// Whether all these nodes accept the value.
    pub(super) fn accepts_all(
        &mut self,
        given: &ValueSet,
        value: &Value,
    ) -> Result<Option<bool>, Stop> {
        let mut answer = Some(Types::of_value(value).within(given.types));
        for &node in &given.nodes {
            if answer == Some(false) {
                return Ok(answer);
            }
            answer = and(answer, self.accepts(node, value)?);
        }
        for &node in &given.nots {
            if answer == Some(false) {
                return Ok(answer);
            }
            answer = and(answer, self.accepts(node, value)?.map(|accepts| !accepts));
        }
        Ok(answer)
    }

    /// Whether the node accepts the value.
    pub(super) fn accepts(&mut self, node: Id, value: &Value) -> Result<Option<bool>, Stop> {
        self.step(1)?;
        let rules = self.arena.rules(node);
        if !Types::of_value(value).within(rules.types) {
            return Ok(Some(false));
        }
        self.step(size(rules.values.iter().flat_map(|(_, list)| list.iter())) / 16)?;
        let is_listed = |(_, list): &(_, Rc<[Value]>)| list.iter().any(|one| equal(one, value));
        if !rules.values.iter().all(is_listed) {
            return Ok(Some(false));
        }
        self.deeper(|prover| {
            let own = match value {
                Value::Number(number) => {
                    accepts_number(&rules, number.as_f64().unwrap_or(f64::NAN))
                }
                Value::String(text) => prover.accepts_text(&rules, text)?,
                Value::Array(items) => prover.accepts_array(&rules, items)?,
                Value::Object(map) => prover.accepts_object(&rules, map)?,
                Value::Null | Value::Bool(_) => Some(true),
            };
            if own == Some(false) {
                return Ok(own);
            }
            let logic = prover.accepts_logic(&rules, value)?;
            let known = if rules.opaque.is_empty() { Some(true) } else { None };
            let evaluated = prover.accepts_unevaluated(node, &rules, value)?;
            Ok(and(and(own, logic), and(known, evaluated)))
        })
    }

    fn accepts_text(&mut self, rules: &Rules, text: &str) -> Result<Option<bool>, Stop> {
        self.step(text.len() / 1_024)?;
        if !fits(rules.length, text.chars().count()) {
            return Ok(Some(false));
        }
        match &rules.pattern {
            Some(pattern) => self.matches(pattern, text).map(Some),
            None => Ok(Some(true)),
        }
    }

    fn accepts_array(&mut self, rules: &Rules, items: &[Value]) -> Result<Option<bool>, Stop> {
        let pairs = if rules.is_unique { items.len() * items.len() / 16 } else { 0 };
        self.step(items.len() + pairs)?;
        if !fits(rules.count, items.len()) || rules.is_unique && !is_unique(items) {
            return Ok(Some(false));
        }
        let mut answer = Some(true);
        for (i, item) in items.iter().enumerate() {
            if let Some(schema) = rules.prefix.get(i).copied().or(rules.items) {
                answer = and(answer, self.accepts(schema, item)?);
                if answer == Some(false) {
                    return Ok(answer);
                }
            }
        }
        if let Some(contains) = rules.contains {
            let (mut sure, mut perhaps) = (0, 0);
            for item in items {
                match self.accepts(contains.schema, item)? {
                    Some(true) => sure += 1,
                    None => perhaps += 1,
                    Some(false) => {}
                }
            }
            let max = contains.max.unwrap_or(u64::MAX);
            answer = if sure > max || sure + perhaps < contains.min {
                Some(false)
            } else if sure >= contains.min && sure + perhaps <= max {
                answer
            } else {
                None
            };
        }
        Ok(answer)
    }

    fn accepts_object(
        &mut self,
        rules: &Rules,
        map: &Map<String, Value>,
    ) -> Result<Option<bool>, Stop> {
        let needs: usize = rules.needs.iter().map(|(_, needs)| needs.len()).sum();
        self.step((rules.required.len() + needs) / 16)?;
        let has_all = |names: &BTreeSet<String>| names.iter().all(|name| map.contains_key(name));
        let is_met = |(name, list): (&String, _)| !map.contains_key(name) || has_all(list);
        if !fits(rules.size, map.len())
            || !rules.required.iter().all(|name| map.contains_key(name))
            || !rules.needs.iter().all(|(_, needs)| needs.iter().all(is_met))
        {
            return Ok(Some(false));
        }
        let mut answer = Some(true);
        for (name, member) in map {
            self.step(1)?;
            for schema in self.property_of(rules, name)? {
                answer = and(answer, self.accepts(schema, member)?);
            }
            if let Some(names) = rules.names {
                answer = and(answer, self.accepts(names, &Value::String(name.clone()))?);
            }
            if answer == Some(false) {
                return Ok(answer);
            }
        }
        Ok(answer)
    }

    /// The schemas that one schema object applies to a property.
    pub(super) fn property_of(&mut self, rules: &Rules, name: &str) -> Result<Vec<Id>, Stop> {
        let mut found: Vec<Id> = rules.properties.get(name).copied().into_iter().collect();
        for (pattern, schema) in &rules.patterns {
            if self.matches(pattern, name)? {
                found.push(*schema);
            }
        }
        if found.is_empty() {
            found.extend(rules.additional);
        }
        Ok(found)
    }

    fn accepts_logic(&mut self, rules: &Rules, value: &Value) -> Result<Option<bool>, Stop> {
        let mut answer = Some(true);
        for (_, schema) in &rules.all {
            answer = and(answer, self.accepts(*schema, value)?);
            if answer == Some(false) {
                return Ok(answer);
            }
        }
        for (branches, is_one) in [(&rules.any, false), (&rules.one, true)] {
            if !branches.is_empty() {
                answer = and(answer, self.accepts_branches(branches, is_one, value)?);
            }
        }
        if let Some(not) = rules.not {
            answer = and(answer, self.accepts(not, value)?.map(|accepts| !accepts));
        }
        if let Some(conditional) = rules.conditional {
            let holds = self.accepts(conditional.condition, value)?;
            let mut branch = |schema: Option<Id>| match schema {
                Some(schema) => self.accepts(schema, value),
                None => Ok(Some(true)),
            };
            answer = match holds {
                Some(true) => and(answer, branch(conditional.then)?),
                Some(false) => and(answer, branch(conditional.otherwise)?),
                None => {
                    let both = (branch(conditional.then)?, branch(conditional.otherwise)?);
                    and(answer, if both == (Some(true), Some(true)) { Some(true) } else { None })
                }
            };
        }
        if let Value::Object(map) = value {
            for (name, schema) in &rules.dependent {
                if map.contains_key(name) {
                    answer = and(answer, self.accepts(*schema, value)?);
                }
            }
        }
        Ok(answer)
    }

    fn accepts_branches(
        &mut self,
        branches: &[Id],
        is_one: bool,
        value: &Value,
    ) -> Result<Option<bool>, Stop> {
        let (mut sure, mut perhaps) = (0, 0);
        for branch in branches {
            match self.accepts(*branch, value)? {
                Some(true) if !is_one => return Ok(Some(true)),
                Some(true) => sure += 1,
                None => perhaps += 1,
                Some(false) => {}
            }
        }
        Ok(match (sure, perhaps) {
            (0, 0) | (2.., _) => Some(false),
            (1, 0) => Some(true),
            _ => None,
        })
    }

    /// Accepted under the strict reading, rejected under the loose one, else unknown.
    fn accepts_unevaluated(
        &mut self,
        node: Id,
        rules: &Rules,
        value: &Value,
    ) -> Result<Option<bool>, Stop> {
        let is_about = match value {
            Value::Object(_) => rules.unevaluated_properties.is_some(),
            Value::Array(_) => rules.unevaluated_items.is_some(),
            _ => false,
        };
        if !is_about {
            return Ok(Some(true));
        }
        let mut reading = |is_strict| {
            let meaning = match value {
                Value::Object(_) => self.unevaluated_properties(node, is_strict)?,
                _ => self.unevaluated_items(node, is_strict)?,
            };
            meaning.map_or(Ok(Some(true)), |meaning| self.accepts(meaning, value))
        };
        Ok(match (reading(true)?, reading(false)?) {
            (Some(true), _) => Some(true),
            (_, Some(false)) => Some(false),
            _ => None,
        })
    }
}

fn accepts_number(rules: &Rules, number: f64) -> Option<bool> {
    let above = |low: f64, is_exclusive| if is_exclusive { number > low } else { number >= low };
    let below = |high: f64, is_exclusive| if is_exclusive { number < high } else { number <= high };
    let is_within = rules.low.iter().all(|(_, b)| above(b.value, b.is_exclusive))
        && rules.high.iter().all(|(_, b)| below(b.value, b.is_exclusive));
    if !is_within {
        return Some(false);
    }
    match rules.multiple_of {
        None => Some(true),
        Some(multiple) if multiple.fract() == 0.0 && number.fract() == 0.0 => {
            Some(number % multiple == 0.0)
        }
        Some(multiple) if multiple.fract() == 0.0 => Some(false),
        // Validators use different rounding.
        Some(_) => None,
    }
}

fn fits(range: Range, count: usize) -> bool {
    (range.min..=range.max).contains(&(count as u64))
}

fn is_unique(items: &[Value]) -> bool {
    let is_first = |(i, item): (usize, &Value)| !items[..i].iter().any(|other| equal(other, item));
    items.iter().enumerate().all(is_first)
}

/// Equality in JSON Schema: `1` equals `1.0`.
pub(super) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other
                || one
                    .as_f64()
                    .zip(other.as_f64())
                    .is_some_and(|(a, b)| a.partial_cmp(&b).is_some_and(Ordering::is_eq))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| equal(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, value): (&String, &Value)| {
                other.get(name).is_some_and(|other| equal(value, other))
            };
            one.len() == other.len() && one.iter().all(same)
        }
        (one, other) => one == other,
    }
}
