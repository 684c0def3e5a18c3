//! Sample values of a schema for trial runs.
//!
//! Values are generated pseudorandomly from the structure of the schema, and only those that
//! validate are kept. The same schema always yields the same samples.

use std::collections::HashMap;

use schema_compat::{
    compatibility::{self, Budget},
    schema_compile::compile,
};
use serde_json::{Map, Value};

use super::schema::{
    Case, Cases, Definitions, Kinds, all_of, complete, elements_of, kinds_of, listed, member_of,
};

/// Number of generated values per schema, and their maximum depth.
const DRAFTS: usize = 24;
const DEPTH: usize = 8;
/// A name that schemas do not declare.
const OTHER: &str = "other";

/// Samples of scalar schemas by their text.
pub(super) type Scalars = HashMap<String, Vec<Value>>;

/// Values that a schema accepts.
pub(super) fn samples(
    (schema, modern): (&Value, &Value),
    definitions: &Definitions,
    scalars: &mut Scalars,
    budget: &mut Budget,
) -> Vec<Value> {
    let mut found = compatibility::samples(schema, budget);
    let Ok(validator) = compile(schema, &|_| None) else { return found };
    let mut drafter = Drafter { state: 0x9E37_79B9, definitions, scalars, budget };
    for _ in 0..DRAFTS {
        let draft = drafter.draft(modern, DEPTH);
        if let Some(draft) = draft.filter(|draft| validator.accepts(draft) == Some(true))
            && !found.contains(&draft)
        {
            found.push(draft);
        }
    }
    found
}

struct Drafter<'d> {
    /// The state of a linear congruential generator.
    state: u64,
    definitions: &'d Definitions,
    scalars: &'d mut Scalars,
    budget: &'d mut Budget,
}

impl Drafter<'_> {
    fn below(&mut self, limit: usize) -> usize {
        const FACTOR: u64 = 6_364_136_223_846_793_005;
        self.state = self.state.wrapping_mul(FACTOR).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap_or(0) % limit.max(1)
    }

    /// A value that the schema probably accepts.
    fn draft(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let mut cases = Cases::new(schema);
        if depth == 0 || cases.all.is_empty() {
            return None;
        }
        let chosen = self.below(cases.all.len());
        let (case, is_complete) = (cases.all.swap_remove(chosen), cases.is_complete);
        if let Some(values) = case.iter().find_map(|map| listed(map)) {
            let chosen = self.below(values.len());
            return values.get(chosen).map(|value| (*value).clone());
        }
        let kinds = kinds_of(&case);
        let is_plain = case.iter().all(|map| !map.contains_key("type"));
        match self.below(4) {
            // If every type is allowed, objects and arrays reveal little.
            0 | 1 if !is_plain && kinds.has(Kinds::OBJECT) => {
                self.object(&case, is_complete, depth)
            }
            2 if !is_plain && kinds.has(Kinds::ARRAY) => self.array(&case, depth),
            _ if kinds == Kinds::OBJECT => self.object(&case, is_complete, depth),
            _ if kinds == Kinds::ARRAY => self.array(&case, depth),
            _ => self.scalar(&case),
        }
    }

    fn object(&mut self, case: &Case<'_>, is_complete: bool, depth: usize) -> Option<Value> {
        let mut names: Vec<String> = Vec::new();
        for map in case {
            let properties = map.get("properties").and_then(Value::as_object);
            names.extend(properties.into_iter().flat_map(|all| all.keys().cloned()));
            let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
            names.extend(required.filter_map(|name| name.as_str().map(str::to_owned)));
        }
        names.sort();
        names.dedup();
        if self.below(6) == 0 {
            names.push(OTHER.to_owned());
        }
        let mut object = Map::new();
        for name in names {
            let part = member_of(case, &name, is_complete);
            if part.max == 0 || part.min == 0 && self.below(2) == 0 {
                continue;
            }
            match self.draft(&part.schema, depth - 1) {
                Some(value) => drop(object.insert(name, value)),
                None if part.min > 0 => return None,
                None => {}
            }
        }
        Some(Value::Object(object))
    }

    fn array(&mut self, case: &Case<'_>, depth: usize) -> Option<Value> {
        let elements = elements_of(case).into_iter().next()?;
        let count = elements.min.saturating_add(self.below(3) as u64).min(elements.max);
        if count > 64 {
            return None;
        }
        let mut items = Vec::new();
        for position in 0..usize::try_from(count).unwrap_or(0) {
            let schema = elements.first.get(position).unwrap_or(&elements.rest);
            items.push(self.draft(schema, depth - 1)?);
        }
        Some(Value::Array(items))
    }

    fn scalar(&mut self, case: &Case<'_>) -> Option<Value> {
        let whole = all_of(case.iter().map(|map| Value::Object((*map).clone())).collect());
        let known = self.scalars.entry(whole.to_string());
        let known = known.or_insert_with(|| {
            compatibility::samples(&complete(&whole, self.definitions), self.budget)
        });
        let count = known.len();
        let chosen = self.below(count);
        self.scalars.get(&whole.to_string()).and_then(|known| known.get(chosen)).cloned()
    }
}
