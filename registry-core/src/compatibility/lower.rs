//! Reads a schema object into [`Rules`], whatever its dialect.
//!
//! What is not understood is kept as opaque, so that nobody takes it for absent. Deliberately
//! absent: checking; what is registered obeys its meta-schema.

use serde_json::{Map, Value};

use super::{
    arena::{Arena, Dialect, Id, Target},
    rules::{Bound, Conditional, Contains, Opaque, Range, Rules, Types},
};

/// The node that is read.
pub(super) struct Source<'s, 'a> {
    pub(super) arena: &'s mut Arena<'a>,
    pub(super) node: Id,
}

pub(super) fn rules<'a>(value: &'a Value, source: &mut Source<'_, 'a>) -> Rules {
    let map = match value {
        Value::Bool(true) => return Rules::default(),
        Value::Bool(false) => return Rules::nothing(),
        Value::Object(map) => map,
        _ => return opaque("schema"),
    };
    let dialect = source.arena.dialect(source.node);
    if dialect == Dialect::Older {
        return opaque("$schema");
    }
    let mut rules = Rules::default();
    if let Some(reference) = map.get("$ref") {
        refer("$ref", reference, source, &mut rules);
        // Up to draft 7, `$ref` hides what stands beside it.
        if dialect == Dialect::Draft7 {
            return rules;
        }
    }
    for keyword in ["$dynamicRef", "$recursiveRef"] {
        if map.contains_key(keyword) {
            rules.opaque.push(Opaque { keyword, text: None });
        }
    }
    scalars(map, &mut rules);
    objects(map, source, &mut rules);
    arrays(map, dialect, source, &mut rules);
    applicators(map, source, &mut rules);
    if dialect == Dialect::Draft7 {
        unknown_to_draft_7(map, &mut rules);
        // Our validators check formats in this draft, as it says; later ones call them annotations.
        if let Some(Value::String(format)) = map.get("format") {
            rules.opaque.push(Opaque { keyword: "format", text: Some(format.clone()) });
        }
    }
    rules
}

/// Takes out what came with later drafts.
fn unknown_to_draft_7(map: &Map<String, Value>, rules: &mut Rules) {
    (rules.unevaluated_properties, rules.unevaluated_items) = (None, None);
    let is_old = |name: &String| map.get("dependencies").is_some_and(|old| old.get(name).is_some());
    rules.dependent.retain(|name, _| is_old(name));
    rules.dependent_required.retain(|name, _| is_old(name));
}

fn opaque(keyword: &'static str) -> Rules {
    let mut rules = Rules::default();
    rules.opaque.push(Opaque { keyword, text: None });
    rules
}

fn refer(keyword: &'static str, reference: &Value, source: &mut Source<'_, '_>, rules: &mut Rules) {
    let target = reference.as_str().map(|text| source.arena.follow(source.node, text));
    match target {
        Some(Target::Node(id)) => rules.all.push((keyword, id)),
        Some(Target::Outside(uri)) => rules.opaque.push(Opaque { keyword, text: Some(uri) }),
        Some(Target::Unknown) | None => rules.opaque.push(Opaque { keyword, text: None }),
    }
}

fn scalars(map: &Map<String, Value>, rules: &mut Rules) {
    match map.get("type") {
        Some(Value::String(name)) => rules.types = Types::named(name).unwrap_or(Types::ALL),
        Some(Value::Array(names)) => {
            let each = names.iter().filter_map(|name| Types::named(name.as_str()?));
            rules.types = each.fold(Rules::nothing().types, Types::or);
        }
        _ => {}
    }
    if let Some(Value::Array(values)) = map.get("enum") {
        rules.values.push(("enum", values.clone()));
    }
    if let Some(value) = map.get("const") {
        rules.values.push(("const", vec![value.clone()]));
    }
    let bound = |name: &'static str, is_exclusive| {
        let value = map.get(name)?.as_f64()?;
        Some((name, Bound { value, is_exclusive }))
    };
    rules.low =
        [bound("minimum", false), bound("exclusiveMinimum", true)].into_iter().flatten().collect();
    rules.high =
        [bound("maximum", false), bound("exclusiveMaximum", true)].into_iter().flatten().collect();
    rules.multiple_of = map.get("multipleOf").and_then(Value::as_f64);
    rules.length = range(map, "minLength", "maxLength");
    rules.pattern = map.get("pattern").and_then(Value::as_str).map(str::to_owned);
}

fn range(map: &Map<String, Value>, min: &str, max: &str) -> Range {
    Range {
        min: map.get(min).and_then(count).unwrap_or(0),
        max: map.get(max).and_then(count).unwrap_or(u64::MAX),
    }
}

/// A count may be written `2.0`.
fn count(value: &Value) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small")]
    let whole = |float: f64| (float >= 0.0).then_some(float as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

fn objects<'a>(map: &'a Map<String, Value>, source: &mut Source<'_, 'a>, rules: &mut Rules) {
    rules.properties = source.named(map, "properties").into_iter().collect();
    rules.patterns = source.named(map, "patternProperties");
    rules.dependent = source.named(map, "dependentSchemas").into_iter().collect();
    rules.additional = source.single(map, "additionalProperties");
    rules.unevaluated_properties = source.single(map, "unevaluatedProperties");
    rules.names = source.single(map, "propertyNames");
    rules.required = map.get("required").map(strings).unwrap_or_default().into_iter().collect();
    rules.size = range(map, "minProperties", "maxProperties");
    if let Some(Value::Object(needs)) = map.get("dependentRequired") {
        rules.dependent_required = needs.iter().map(|(n, v)| (n.clone(), strings(v))).collect();
    }
    // The older form of both, which our validators know in every dialect.
    if let Some(Value::Object(needs)) = map.get("dependencies") {
        for (name, need) in needs {
            if need.is_array() {
                let list = rules.dependent_required.entry(name.clone()).or_default();
                list.extend(strings(need));
            } else if rules.dependent.contains_key(name) {
                rules.opaque.push(Opaque { keyword: "dependencies", text: None });
            } else {
                let id = source.arena.part(source.node, need, &["dependencies", name]);
                rules.dependent.insert(name.clone(), id);
            }
        }
    }
}

fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn arrays<'a>(
    map: &'a Map<String, Value>,
    dialect: Dialect,
    source: &mut Source<'_, 'a>,
    rules: &mut Rules,
) {
    if dialect == Dialect::Draft202012 {
        rules.prefix = source.list(map, "prefixItems");
        rules.items = source.single(map, "items");
    } else if map.get("items").is_some_and(Value::is_array) {
        rules.prefix = source.list(map, "items");
        rules.items = source.single(map, "additionalItems");
    } else {
        rules.items = source.single(map, "items");
    }
    rules.unevaluated_items = source.single(map, "unevaluatedItems");
    rules.count = range(map, "minItems", "maxItems");
    rules.is_unique = map.get("uniqueItems") == Some(&Value::Bool(true));
    if let Some(schema) = source.single(map, "contains") {
        let is_counted = dialect != Dialect::Draft7;
        let counted = |name| map.get(name).filter(|_| is_counted).and_then(count);
        let (min, max) = (counted("minContains").unwrap_or(1), counted("maxContains"));
        rules.contains = Some(Contains { schema, min, max });
    }
}

fn applicators<'a>(map: &'a Map<String, Value>, source: &mut Source<'_, 'a>, rules: &mut Rules) {
    rules.all.extend(source.list(map, "allOf").into_iter().map(|id| ("allOf", id)));
    rules.any = source.list(map, "anyOf");
    rules.one = source.list(map, "oneOf");
    rules.not = source.single(map, "not");
    if let Some(condition) = source.single(map, "if") {
        let (then, otherwise) = (source.single(map, "then"), source.single(map, "else"));
        rules.conditional = Some(Conditional { condition, then, otherwise });
    }
}

impl<'a> Source<'_, 'a> {
    fn single(&mut self, map: &'a Map<String, Value>, name: &str) -> Option<Id> {
        map.get(name).map(|value| self.arena.part(self.node, value, &[name]))
    }

    fn list(&mut self, map: &'a Map<String, Value>, name: &str) -> Vec<Id> {
        let Some(Value::Array(list)) = map.get(name) else { return Vec::new() };
        let each = list.iter().enumerate();
        each.map(|(i, value)| self.arena.part(self.node, value, &[name, &i.to_string()])).collect()
    }

    fn named(&mut self, map: &'a Map<String, Value>, name: &str) -> Vec<(String, Id)> {
        let Some(Value::Object(named)) = map.get(name) else { return Vec::new() };
        let each = named.iter();
        each.map(|(n, value)| (n.clone(), self.arena.part(self.node, value, &[name, n]))).collect()
    }
}
