//! Sample values as candidates for counterexamples, which validators check.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

use super::{
    prover::{Prover, Stop},
    rules::{Range, Types},
    strings::fitted,
    value_set::{Facts, ValueSet},
};

/// Maximum number of samples per set, and their maximum depth.
const SAMPLES: usize = 6;
const DEPTH: usize = 12;
/// Maximum length of a sample string in characters, and of any generated string.
const SAMPLE_TEXT: u64 = 2_000;
pub(super) const LONGEST_TEXT: usize = 100_000;

impl Prover<'_> {
    /// Sample values that are not known to be rejected.
    pub(super) fn samples(&mut self, given: &ValueSet) -> Result<Vec<Value>, Stop> {
        if let Some(known) = self.samples.get(given) {
            let known = known.clone();
            self.step(size(&known) / 16)?;
            return Ok(known);
        }
        if self.sampling == DEPTH {
            return Ok(Vec::new());
        }
        self.sampling += 1;
        let found = self.deeper(|prover| prover.new_samples(given));
        self.sampling -= 1;
        let found = found?;
        // Samples built near the depth limit may be incomplete, so they are not cached.
        if self.sampling == 0 || !found.is_empty() {
            self.samples.insert(given.clone(), found.clone());
        }
        Ok(found)
    }

    fn new_samples(&mut self, given: &ValueSet) -> Result<Vec<Value>, Stop> {
        self.step(2)?;
        let facts = self.facts(given)?;
        let mut drafts = facts.values.clone().unwrap_or_default();
        if facts.values.is_none() {
            drafts = self.annotated_values(&facts);
            for one in facts.types.each() {
                self.drafts_of(one, &facts, &mut drafts)?;
            }
        }
        self.step(size(&drafts) / 16)?;
        let mut found = self.kept(given, drafts)?;
        if found.is_empty()
            && facts.values.is_none()
            && let Some(cases) = self.cases(given, &facts)?
        {
            for case in cases.iter().take(4) {
                let more = self.samples(case)?;
                found.extend(more.into_iter().take(2));
            }
        }
        Ok(found)
    }

    fn kept(&mut self, given: &ValueSet, drafts: Vec<Value>) -> Result<Vec<Value>, Stop> {
        let (mut sure, mut perhaps): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
        for draft in drafts {
            if sure.len() >= SAMPLES {
                break;
            }
            match self.accepts_all(given, &draft)? {
                Some(true) if !sure.contains(&draft) => sure.push(draft),
                None if perhaps.len() < SAMPLES => perhaps.push(draft),
                _ => {}
            }
        }
        sure.extend(perhaps);
        sure.truncate(SAMPLES);
        Ok(sure)
    }

    /// The values of `examples`, `default`, `const` and `enum`.
    fn annotated_values(&self, facts: &Facts) -> Vec<Value> {
        let mut found = Vec::new();
        for (node, _) in &facts.rules {
            let Some(Value::Object(map)) = self.arena.json(*node) else { continue };
            for name in ["examples", "enum"] {
                if let Some(Value::Array(list)) = map.get(name) {
                    found.extend(list.iter().take(2).cloned());
                }
            }
            found.extend(["const", "default"].iter().filter_map(|name| map.get(*name)).cloned());
        }
        found.truncate(SAMPLES);
        found
    }

    fn drafts_of(
        &mut self,
        one: Types,
        facts: &Facts,
        drafts: &mut Vec<Value>,
    ) -> Result<(), Stop> {
        if one == Types::NULL {
            drafts.push(Value::Null);
        } else if one == Types::BOOLEAN {
            drafts.extend([Value::Bool(true), Value::Bool(false)]);
        } else if one == Types::STRING {
            for (_, rules) in &facts.rules {
                if let Some(pattern) = &rules.pattern {
                    let examples = &self.pattern(pattern)?.examples;
                    let fits = |text: &String| fitted(text, facts.length);
                    drafts.extend(examples.iter().filter_map(fits).map(Value::String));
                }
            }
            let formats = facts.rules.iter().flat_map(|(_, rules)| &rules.opaque);
            drafts.extend(formats.filter_map(|opaque| format_example(opaque.text.as_deref()?)));
            let Range { min, max } = facts.length;
            let lengths = [min, min.saturating_add(1), max].into_iter();
            drafts.extend(lengths.filter(|length| *length <= SAMPLE_TEXT).filter_map(long_text));
        } else if one == Types::ARRAY {
            drafts.extend(self.array_of(facts, facts.count.min)?);
            if facts.count.min == 0 {
                drafts.extend(self.array_of(facts, 1)?);
            }
            drafts.extend(self.containing(facts)?);
        } else if one == Types::OBJECT {
            drafts.extend(self.objects_of(facts)?);
        } else {
            numbers(one, facts, drafts);
        }
        Ok(())
    }

    /// Arrays that satisfy `contains`.
    fn containing(&mut self, facts: &Facts) -> Result<Vec<Value>, Stop> {
        let mut found = Vec::new();
        for (_, rules) in &facts.rules {
            let Some(contains) = rules.contains else { continue };
            let mut parts = facts.item_schemas(facts.prefix());
            parts.push(contains.schema);
            let part = self.given(parts)?;
            let count = contains.min.max(facts.count.min).clamp(1, 64);
            let values = self.samples(&part)?;
            for value in values.into_iter().take(2) {
                let items = (0..count).map(|_| value.clone()).collect();
                found.push(Value::Array(items));
            }
        }
        Ok(found)
    }

    fn objects_of(&mut self, facts: &Facts) -> Result<Vec<Value>, Stop> {
        self.step(facts.rules.iter().map(|(_, rules)| rules.size()).sum::<usize>() / 8)?;
        let mut needed: BTreeSet<String> = facts.required.clone();
        for (_, rules) in &facts.rules {
            for (name, list) in rules.needs.iter().flat_map(|(_, needs)| needs) {
                if needed.contains(name) {
                    needed.extend(list.iter().cloned());
                }
            }
        }
        let mut written: Vec<String> =
            facts.rules.iter().flat_map(|(_, rules)| rules.properties.keys().cloned()).collect();
        written.extend((0..4).map(|i| format!("p{i}")));
        let mut object = Map::new();
        for name in needed.iter().chain(&written) {
            let is_needed = needed.contains(name) || (object.len() as u64) < facts.size.min;
            if !is_needed || object.contains_key(name) {
                continue;
            }
            let schemas = facts.property_schemas(self, name)?;
            let part = self.given(schemas)?;
            if let Some(value) = self.samples(&part)?.into_iter().next() {
                object.insert(name.clone(), value);
            }
        }
        let mut found = vec![Value::Object(object.clone())];
        // Adds variants with an optional property.
        for name in written.iter().filter(|name| !facts.absent.contains(*name)).take(3) {
            if !object.contains_key(name) && (object.len() as u64) < facts.size.max {
                let schemas = facts.property_schemas(self, name)?;
                let part = self.given(schemas)?;
                if let Some(value) = self.samples(&part)?.into_iter().next() {
                    let mut more = object.clone();
                    more.insert(name.clone(), value);
                    found.push(Value::Object(more));
                }
            }
        }
        Ok(found)
    }
}

fn numbers(one: Types, facts: &Facts, drafts: &mut Vec<Value>) {
    let mut near = vec![0.0, 1.0, -1.0, 0.5];
    for bound in [facts.low, facts.high].into_iter().flatten() {
        let steps = [0.0, 1.0, -1.0, 0.5, -0.5];
        near.extend(steps.map(|step| bound.value + step));
    }
    if let (Some(low), Some(high)) = (facts.low, facts.high) {
        near.push(f64::midpoint(low.value, high.value));
    }
    near.extend(facts.multiples.iter().flat_map(|m| [*m, 2.0 * m, -m]));
    if let (Some(low), Some(multiple)) = (facts.low, facts.multiples.first()) {
        near.push((low.value / multiple).ceil() * multiple);
    }
    let fits = |value: &Value| Types::of_value(value).within(one);
    let inside = near.into_iter().filter(|value| facts.is_within(*value));
    drafts.extend(inside.filter_map(number).filter(fits));
}

/// A string of this format.
fn format_example(format: &str) -> Option<Value> {
    let text = match format {
        "date-time" => "2024-01-31T12:00:00Z",
        "date" => "2024-01-31",
        "time" => "12:00:00Z",
        "email" | "idn-email" => "a@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "iri" | "uri-reference" | "iri-reference" => "https://example.com/",
        "uuid" => "123e4567-e89b-12d3-a456-426614174000",
        "json-pointer" => "/a",
        "regex" => "a",
        _ => return None,
    };
    Some(text.into())
}

/// The cost of copying sixteen of these values, in steps: one for a scalar, more for a composite
/// value.
pub(super) fn size<'v>(values: impl IntoIterator<Item = &'v Value>) -> usize {
    let each = |value: &Value| match value {
        Value::String(text) => 1 + text.len() / 64,
        Value::Array(items) => 8 + size(items),
        Value::Object(map) => 8 + 2 * map.len() + size(map.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    };
    values.into_iter().map(each).sum()
}

/// A number, as an integer if integral.
pub(super) fn number(value: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and small enough")]
    let whole = (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64);
    match whole {
        Some(integer) => Some(integer.into()),
        None => Number::from_f64(value).map(Value::Number),
    }
}

/// A string of this length; `None` if that is very long.
pub(super) fn long_text(length: u64) -> Option<Value> {
    let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST_TEXT)?;
    Some(Value::String("a".repeat(length)))
}
