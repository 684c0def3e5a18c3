//! Parses a schema object of any dialect into [`Rules`].
//!
//! Unsupported keywords are kept as opaque, so that they do not count as absent.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    arena::{Arena, Dialect, Id, Target},
    rules::{Bound, Conditional, Contains, Needs, Opaque, Range, Rules, Types},
};
use crate::json_schema::reference_of;

/// Draft 7 keywords whose members and items count as evaluated.
const EVALUATING: [&str; 10] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "items",
    "additionalItems",
    "contains",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
];
/// Evaluating keywords introduced after draft 7.
const LATER: [&str; 6] = [
    "dependentSchemas",
    "prefixItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
];

/// The node being parsed.
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
    let declared = map.get("$schema").and_then(Value::as_str);
    if dialect == Dialect::Older || declared.is_some_and(|text| Dialect::named(text) != dialect) {
        return opaque("$schema");
    }
    let mut rules = Rules::default();
    if map.contains_key("$ref") {
        refer(map, source, &mut rules);
        // Up to draft 7, `$ref` overrides its siblings.
        if dialect == Dialect::Draft7 {
            rules.hides = EVALUATING.iter().chain(&LATER).any(|name| map.contains_key(*name));
            return rules;
        }
    }
    for keyword in ["$dynamicRef", "$recursiveRef"] {
        if map.contains_key(keyword) {
            rules.opaque.push(Opaque { keyword, text: None });
        }
    }
    scalars(map, &mut rules);
    objects(map, dialect, source, &mut rules);
    arrays(map, dialect, source, &mut rules);
    applicators(map, source, &mut rules);
    if dialect == Dialect::Draft7 {
        rules.opaque.extend(format(map).into_iter().chain(content(map)));
        rules.hides = LATER.iter().any(|name| map.contains_key(*name));
    }
    rules
}

/// Validators check formats in draft 7, as it specifies; in later drafts they are annotations.
fn format(map: &Map<String, Value>) -> Option<Opaque> {
    let format = map.get("format")?.as_str()?;
    Some(Opaque { keyword: "format", text: Some(format.to_owned()) })
}

/// Like [`format`]. Both keywords form one constraint, because the media type is that of the
/// decoded text.
fn content(map: &Map<String, Value>) -> Option<Opaque> {
    let [encoding, media] = ["contentEncoding", "contentMediaType"].map(|name| map.get(name));
    let text = Some(format!("{:?}", (encoding, media)));
    let keyword = if media.is_some() { "contentMediaType" } else { "contentEncoding" };
    (encoding.is_some() || media.is_some()).then_some(Opaque { keyword, text })
}

fn opaque(keyword: &'static str) -> Rules {
    let mut rules = Rules::default();
    rules.opaque.push(Opaque { keyword, text: None });
    rules
}

fn refer(map: &Map<String, Value>, source: &mut Source<'_, '_>, rules: &mut Rules) {
    let target = reference_of(map).map(|text| source.arena.follow(source.node, text));
    let text = match target {
        Some(Target::Node(id)) => return rules.all.push(("$ref", id)),
        Some(Target::Meta) => Some(String::new()),
        Some(Target::Unknown) | None => None,
    };
    rules.opaque.push(Opaque { keyword: "$ref", text });
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
        rules.values.push(("enum", values.as_slice().into()));
    }
    if let Some(value) = map.get("const") {
        rules.values.push(("const", [value.clone()].into()));
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

/// A count may be written as `2.0`.
fn count(value: &Value) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small")]
    let whole = |float: f64| (float >= 0.0).then_some(float as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

fn objects<'a>(
    map: &'a Map<String, Value>,
    dialect: Dialect,
    source: &mut Source<'_, 'a>,
    rules: &mut Rules,
) {
    rules.properties = source.named(map, "properties").into_iter().collect();
    rules.patterns = source.named(map, "patternProperties");
    rules.additional = source.single(map, "additionalProperties");
    rules.names = source.single(map, "propertyNames");
    rules.required = map.get("required").map(strings).unwrap_or_default();
    rules.size = range(map, "minProperties", "maxProperties");
    if dialect != Dialect::Draft7 {
        rules.unevaluated_properties = source.single(map, "unevaluatedProperties");
        rules.needs.extend(needs(map, "dependentRequired"));
        rules.dependent = source.named(map, "dependentSchemas");
    }
    // The older form of both, which validators support in every dialect.
    rules.needs.extend(needs(map, "dependencies"));
    let schemas = source.named(map, "dependencies");
    let is_schema = |(name, _): &(String, Id)| !map["dependencies"][name].is_array();
    rules.dependent.extend(schemas.into_iter().filter(is_schema));
}

/// The lists of required names under this keyword.
fn needs(map: &Map<String, Value>, keyword: &'static str) -> Option<(&'static str, Needs)> {
    let each = map.get(keyword)?.as_object()?.iter().filter(|(_, need)| need.is_array());
    let needs: Needs = each.map(|(name, need)| (name.clone(), strings(need))).collect();
    (!needs.is_empty()).then_some((keyword, needs))
}

fn strings(value: &Value) -> BTreeSet<String> {
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
    if dialect != Dialect::Draft7 {
        rules.unevaluated_items = source.single(map, "unevaluatedItems");
    }
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
    fn single(&mut self, map: &'a Map<String, Value>, keyword: &'static str) -> Option<Id> {
        map.get(keyword).map(|value| self.arena.part(self.node, value, keyword, None))
    }

    fn list(&mut self, map: &'a Map<String, Value>, keyword: &'static str) -> Vec<Id> {
        let Some(Value::Array(list)) = map.get(keyword) else { return Vec::new() };
        let part = |(i, value): (usize, &'a Value)| {
            self.arena.part(self.node, value, keyword, Some(&i.to_string()))
        };
        list.iter().enumerate().map(part).collect()
    }

    fn named(&mut self, map: &'a Map<String, Value>, keyword: &'static str) -> Vec<(String, Id)> {
        let Some(Value::Object(named)) = map.get(keyword) else { return Vec::new() };
        let part = |(name, value): (&'a String, &'a Value)| {
            (name.clone(), self.arena.part(self.node, value, keyword, Some(name)))
        };
        named.iter().map(part).collect()
    }
}
