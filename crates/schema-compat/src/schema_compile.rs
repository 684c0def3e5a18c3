//! Compilation of JSON Schemas and validation of values; the only user of the schema library.
//!
//! The caller resolves references to named schemas; nothing is fetched. Patterns run on a
//! linear-time engine with a size limit.

mod basic;
mod identity;
mod instance;
mod metered;
mod problem;
mod states;
mod weight;

use std::collections::{BTreeMap, VecDeque};

use jsonschema::{Draft, PatternOptions, ValidationOptions};
use referencing::SPECIFICATIONS;
use serde_json::{Map, Value, json};

pub use basic::is_basic;
pub use identity::uri_at;
pub use identity::{ROOT, resources, same_id, uris_at_host};
pub use instance::{Instance, Problem, Unreadable};
use metered::{Counted, Metered, Stopped, collecting, within};
pub use problem::InvalidSchema;
pub use states::{patterns_of, states};
pub use weight::{Weight, weigh};

use crate::{
    json_schema::{each_object_at, each_reference, with_uris},
    limits,
    name::SchemaName,
    pointer::Location,
};

/// A compiled JSON Schema, which can be used concurrently.
#[derive(Debug)]
pub struct Validator {
    compiled: jsonschema::Validator<Metered>,
    /// The number of states of the largest regular expression.
    states: usize,
    /// Maximum size of schema parts that one error copies (`not`, patterns, names), in bytes.
    quoted: usize,
}

/// A location where a value violates its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer into the value.
    pub pointer: String,
    /// The violation.
    pub message: String,
}

/// Maximum size of the pointer of a violation in bytes.
const POINTER_BYTES: usize = 1024;
/// Maximum size of all errors of one value in bytes, in addition to one byte per byte of its text.
const ERRORS_BYTES: usize = 1 << 20;
/// Maximum number of errors, including those inside of alternatives.
const ERRORS: usize = 1_000;
/// Size of one error without its pointer and quotes, in bytes.
const ERROR_BYTES: usize = 1024;

impl Validator {
    /// Validates a value and reports at most [`limits::VIOLATIONS`] violations. A value that takes
    /// more than [`limits::VALIDATION_STEPS`] is invalid, too.
    pub fn validate(&self, instance: &Value) -> Result<(), Vec<Violation>> {
        read(instance, |instance| self.check(instance))
            .unwrap_or_else(|unreadable| Err(vec![unreadable.into()]))
    }

    /// Validates a JSON text in memory and time proportional to its length.
    pub fn check(&self, instance: &Instance<'_>) -> Result<(), Vec<Violation>> {
        match self.outcome(instance) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.violations(instance, steps_for(instance)).0),
            Err(stopped) => Err(vec![too_costly(instance, stopped)]),
        }
    }

    /// Like [`Self::check`], but returns `None` if it takes more than this many steps.
    pub fn check_within(
        &self,
        instance: &Instance<'_>,
        steps: u64,
    ) -> Option<Result<(), Vec<Violation>>> {
        let check = || self.compiled.is_valid(Counted::root(instance));
        if within(steps, self.states, check).ok()? {
            return Some(Ok(()));
        }
        let (violations, is_stopped) = self.violations(instance, steps);
        (!is_stopped).then_some(Err(violations))
    }

    /// Whether a value is valid.
    pub fn is_valid(&self, instance: &Value) -> bool {
        self.accepts(instance) == Some(true)
    }

    /// Whether a value is valid; `None` if validation takes more than [`limits::VALIDATION_STEPS`].
    pub fn accepts(&self, instance: &Value) -> Option<bool> {
        read(instance, |instance| self.outcome(instance)).ok()?.ok()
    }

    fn outcome(&self, instance: &Instance<'_>) -> Result<bool, Stopped> {
        let check = || self.compiled.is_valid(Counted::root(instance));
        // Large values get more steps. They are rare, so only long validations measure the size.
        within(limits::VALIDATION_STEPS, self.states, check)
            .or_else(|_| within(steps_for(instance), self.states, check))
    }

    /// The library collects all errors before it returns the first one. The value itself therefore
    /// stops the collection once the errors exceed a fixed size plus one byte per byte of text. The
    /// second result is whether the steps were exhausted before.
    fn violations(&self, instance: &Instance<'_>, steps: u64) -> (Vec<Violation>, bool) {
        let each = ERROR_BYTES + self.quoted + instance.error_bytes();
        let most = ((ERRORS_BYTES + instance.bytes()) / each).clamp(1, ERRORS);
        let errors = || self.compiled.iter_errors(Counted::root(instance));
        let (errors, is_stopped) = collecting((steps, most), self.states, errors);
        let seen: Vec<_> = errors.filter(problem::is_seen).take(limits::VIOLATIONS).collect();
        let violation = |error: &jsonschema::ValidationError<'_>| {
            let mut message = problem::violation_message(error, instance);
            if let Some(name) = problem::likely_misspelling(error, &seen) {
                message = format!("{message}; '{name}' may be a misspelling of it");
            }
            let pointer = problem::cut(error.instance_path().as_str(), POINTER_BYTES);
            Violation { pointer, message }
        };
        let mut found: Vec<_> = seen.iter().map(violation).collect();
        if found.is_empty() {
            let message = "the value violates the schema in too many ways to report; simplify the \
                           schema or send less";
            found.push(Violation { pointer: String::new(), message: message.to_owned() });
        }
        (found, is_stopped)
    }
}

fn read<T>(value: &Value, judge: impl FnOnce(&Instance<'_>) -> T) -> Result<T, Unreadable> {
    // A JSON value always serializes.
    let text = serde_json::value::to_raw_value(value).unwrap_or_default();
    Instance::read(&text).map(|instance| judge(&instance))
}

impl From<Unreadable> for Violation {
    fn from(Unreadable { pointer, problem }: Unreadable) -> Self {
        Self { pointer: problem::cut(&pointer, POINTER_BYTES), message: problem.to_string() }
    }
}

/// The number of steps allowed for this value.
fn steps_for(instance: &Instance<'_>) -> u64 {
    let values = u64::try_from(instance.values()).unwrap_or(u64::MAX);
    limits::VALIDATION_STEPS.saturating_add(values.saturating_mul(limits::VALIDATION_STEPS_EACH))
}

fn too_costly(instance: &Instance<'_>, Stopped(slot): Stopped) -> Violation {
    let message = format!(
        "validation exceeds {} steps because the schema applies to this value too often; \
         simplify the schema or send less",
        steps_for(instance)
    );
    Violation { pointer: problem::cut(&instance.pointer(slot), POINTER_BYTES), message }
}

/// Maximum size in bytes of a schema part that one error copies: a `not`, a pattern or a name.
fn most_quoted(schema: &Value) -> usize {
    let mut most = 0;
    each_object_at(schema, Location::ROOT, &mut |map, _| {
        let quoted = ["not", "pattern"].iter().filter_map(|keyword| map.get(*keyword));
        let names = map.get("required").and_then(Value::as_array).into_iter().flatten();
        most = quoted.chain(names).map(tree_bytes).max().unwrap_or(0).max(most);
    });
    most
}

/// The approximate memory usage of a value.
fn tree_bytes(value: &Value) -> usize {
    const NODE: usize = 128;
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(tree_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| NODE + name.len() + tree_bytes(member)).sum()
        }
        _ => 0,
    }
}

/// Compiles a schema; `resolve` returns the JSON Schema of a registered schema.
pub fn compile<'a>(
    schema: &Value,
    resolve: &dyn Fn(&SchemaName) -> Option<&'a Value>,
) -> Result<Validator, Vec<InvalidSchema>> {
    let mut problems = identity::reserved_uris(schema);
    problems.extend(too_many_patterns(schema));
    problems.extend(unknown_dialects(schema));
    let needed = needed(schema, resolve).map_err(|e| problems.extend(e)).unwrap_or_default();
    problems.extend(same_id_in(schema, &needed));
    if !problems.is_empty() {
        return Err(problems);
    }
    let draft = draft(schema);
    if let Err(heavy) = weight::weigh_with(schema, resolve) {
        return Err(vec![heavy]);
    }
    let all = || needed.values().copied().chain([schema]);
    let states = all().map(states::most_states).max().unwrap_or(0);
    let quoted = all().map(most_quoted).max().unwrap_or(0);
    let compiled =
        build(schema, draft, &needed).map_err(|e| problem::from_build(schema, draft, &e))?;
    Ok(Validator { compiled, states, quoted })
}

/// The problems of a schema that occur only when another schema refers to it, because its URI then
/// differs. Referenced schemas are replaced by ones that allow anything.
pub fn problems_if_referred_to(schema: &Value) -> Vec<InvalidSchema> {
    // No registered schema has this URI.
    let (uri, anything) = ("registry:/-/-/", &Value::Bool(true));
    let reference = json!({ "$ref": uri_at(schema, uri) });
    let built = needed(schema, &|_| Some(anything)).and_then(|mut needed| {
        needed.insert(uri.to_owned(), schema);
        build(&reference, Draft::Draft202012, &needed)
            .map_err(|e| problem::from_build(schema, draft(schema), &e))
    });
    let referred = |problem: InvalidSchema| {
        let pointer = problem.pointer().to_owned();
        InvalidSchema::Referred { pointer, problem: problem.to_string() }
    };
    built.err().unwrap_or_default().into_iter().map(referred).collect()
}

fn build(
    schema: &Value,
    draft: Draft,
    needed: &Needed<'_>,
) -> Result<jsonschema::Validator<Metered>, jsonschema::ValidationError<'static>> {
    let patterns = PatternOptions::regex()
        .size_limit(limits::PATTERN_BYTES)
        .dfa_size_limit(limits::PATTERN_BYTES);
    let options: ValidationOptions<'_, _, Metered> = jsonschema::options_for::<Metered>()
        .with_draft(draft)
        .with_pattern_options(patterns)
        .offline();
    let uris: BTreeMap<&str, String> =
        needed.iter().map(|(base, needed)| (&**base, uri_at(needed, base))).collect();
    let with_uris =
        |schema| with_uris(schema, &|name| uris.get(&*name.uri()).cloned().unwrap_or_default());
    if needed.is_empty() {
        return options.with_registry(&SPECIFICATIONS).build(&with_uris(schema));
    }
    // Each resource has its own dialect; the registry builder would use one for all.
    let resources = needed.iter().map(|(base, needed)| {
        let uri = &uris[&**base];
        (uri, identity::resource(with_uris(needed), uri))
    });
    let registry = SPECIFICATIONS.extend(resources)?.prepare()?;
    options.with_registry(&registry).build(&with_uris(schema))
}

/// The dialect of a schema; 2020-12 by default.
fn draft(schema: &Value) -> Draft {
    Draft::Draft202012.detect(schema)
}

/// Reports an `$id` that occurs in two documents that are compiled together.
fn same_id_in(schema: &Value, needed: &Needed<'_>) -> Option<InvalidSchema> {
    if needed.is_empty() {
        return None;
    }
    let each = needed.iter().map(|(base, needed)| resources(needed, base));
    let ids: Vec<_> = each.chain([resources(schema, ROOT)]).collect();
    same_id(ids.iter().map(Vec::as_slice))
}

/// Reports every unsupported `$schema`, including those of subschemas.
fn unknown_dialects(schema: &Value) -> Vec<InvalidSchema> {
    let mut found = Vec::new();
    each_object_at(schema, Location::ROOT, &mut |map, at| {
        if let Some(declared) = map.get("$schema")
            && !is_dialect(declared)
        {
            let pointer = at.member("$schema").to_string();
            let dialect = problem::shortened(&declared.to_string());
            found.push(InvalidSchema::Dialect { pointer, dialect });
        }
    });
    found
}

fn is_dialect(declared: &Value) -> bool {
    declared.is_string()
        && matches!(
            draft(&json!({ "$schema": declared })),
            Draft::Draft4 | Draft::Draft6 | Draft::Draft7 | Draft::Draft201909 | Draft::Draft202012
        )
}

/// Registered schemas by the URIs derived from their names.
type Needed<'a> = BTreeMap<String, &'a Value>;

/// All registered schemas that this one refers to, or all missing ones.
fn needed<'a>(
    schema: &Value,
    resolve: &dyn Fn(&SchemaName) -> Option<&'a Value>,
) -> Result<Needed<'a>, Vec<InvalidSchema>> {
    let mut missing = Vec::new();
    let mut waiting = VecDeque::new();
    each_reference(schema, Location::ROOT, &mut |name, at| {
        waiting.push_back((name, at.to_string()));
    });
    let mut found = BTreeMap::new();
    while let Some((name, pointer)) = waiting.pop_front() {
        let uri = name.uri();
        if found.contains_key(&uri) {
            continue;
        }
        let Some(schema) = resolve(&name) else {
            missing.push(InvalidSchema::unresolved(pointer, &name.reference()));
            continue;
        };
        each_reference(schema, Location::ROOT, &mut |name, _| {
            waiting.push_back((name, pointer.clone()));
        });
        found.insert(uri, schema);
        if found.len() > limits::SCHEMA_REFERENCES {
            missing.push(InvalidSchema::TooManyReferences);
            break;
        }
    }
    if missing.is_empty() { Ok(found) } else { Err(missing) }
}

/// Each pattern takes time and memory to compile, regardless of its length.
fn too_many_patterns(schema: &Value) -> Option<InvalidSchema> {
    let patterns = patterns(schema);
    (patterns > limits::SCHEMA_PATTERNS).then_some(InvalidSchema::TooManyPatterns { patterns })
}

/// The number of regular expressions in a schema.
pub fn patterns(schema: &Value) -> usize {
    let mut patterns = 0;
    each_object_at(schema, Location::ROOT, &mut |map, _| {
        patterns += usize::from(map.contains_key("pattern"));
        patterns += map.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
    });
    patterns
}

#[cfg(test)]
mod tests;
