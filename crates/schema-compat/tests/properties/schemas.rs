//! Schemas and values from random bytes, with few names, numbers and strings, so that they
//! interact.
//!
//! Exhausted bytes yield the simplest choice, so that shrinking the bytes shrinks the schema.

use std::sync::LazyLock;

use schema_compat::name::SchemaName;
use serde_json::{Map, Value, json};

/// A source of random choices.
pub(crate) struct Choices<'a>(std::slice::Iter<'a, u8>);

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.iter())
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0.next().map_or(0, |byte| usize::from(*byte) % limit)
    }

    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == many - 1
    }

    fn choose<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    pub(crate) fn name(&mut self) -> String {
        self.choose(&["a", "b", "c", "x1", "ab"]).to_owned()
    }

    fn number(&mut self) -> Value {
        self.choose(&[
            json!(1),
            json!(0),
            json!(2),
            json!(3),
            json!(-1),
            json!(1.5),
            json!(4),
            json!(0.5),
        ])
    }

    fn text(&mut self) -> String {
        self.choose(&["", "a", "ab", "abc", "x1", "aaaa", "é", "a@b.ch"]).to_owned()
    }
}

const TYPES: [&str; 7] = ["object", "string", "integer", "number", "array", "boolean", "null"];
const PATTERNS: [&str; 6] = ["^a", "b", "^[a-c]+$", "^x", "1$", "^.{2}$"];

const DIALECTS: [&str; 3] = [
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];
/// Different spellings of URIs, including equivalent ones.
const IDS: [&str; 7] = [
    "http://x.y/z",
    "http://x.y/z#",
    "http://x.y/w/../z",
    "http://X.y/z",
    "z",
    DIALECTS[0],
    "HTTP://Json-Schema.org/draft%2D07/./schema",
];
const LINKS: [&str; 20] = [
    "#/$defs/d",
    "#q",
    "#e",
    "#L:1.0.0",
    "#O:1.0.0",
    "#R:1.0.0",
    "#T:1.0.0",
    "#H:1.0.0",
    "#H:1.1.0",
    "#H:1.2.0",
    "#H:1.3.0",
    "#H:1.4.0",
    "#M:1.0.0",
    "#V:1.0.0",
    "http://x.y/z#/$defs/d",
    "http://x.y:80/z#/$defs/d",
    "http://x.y/./z#/$defs/d",
    "http://x.y/z#q",
    DIALECTS[0],
    DIALECTS[2],
];

/// Schemas that are registered for every pair.
pub(crate) static REGISTERED: LazyLock<Vec<(SchemaName, Value)>> = LazyLock::new(|| {
    let addressed = |kind: Value| {
        let properties = json!({ "a": { "$ref": "http://x.y/v/../r#/$defs/d" } });
        json!({ "$id": "http://x.y/r", "properties": properties, "$defs": { "d": { "type": kind } } })
    };
    let list = json!({
        "items": { "$dynamicRef": "#e" }, "$defs": { "e": { "$dynamicAnchor": "e" } },
    });
    let hiding = |more: Value| {
        let mut schema = json!({ "$schema": DIALECTS[0], "definitions": { "x": {} } });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let shown = json!({ "$ref": "#/definitions/x" });
    let hidden = json!({ "$ref": "#/definitions/x", "properties": { "a": {} }, "items": true });
    let later = json!({ "dependentSchemas": { "a": { "properties": { "b": {} } } } });
    let unevaluated = json!({ "unevaluatedProperties": true, "unevaluatedItems": true });
    let schemas = [
        ("H", "1.0.0", hiding(shown)),
        ("H", "1.1.0", hiding(hidden)),
        ("H", "1.2.0", hiding(later)),
        ("H", "1.3.0", hiding(unevaluated)),
        ("H", "1.4.0", hiding(json!({}))),
        ("M", "1.0.0", json!({ "$id": DIALECTS[2], "type": "string" })),
        (
            "V",
            "1.0.0",
            json!({ "$id": "v", "$ref": "v#q", "$defs": { "q": { "$anchor": "q", "type": "integer" } } }),
        ),
        ("L", "1.0.0", list),
        ("O", "1.0.0", addressed(json!(["string", "number"]))),
        ("R", "1.0.0", addressed(json!("string"))),
        ("T", "1.0.0", json!({ "$schema": DIALECTS[0], "contentMediaType": "application/json" })),
    ];
    schemas.map(|(name, version, schema)| (SchemaName::new(name, version), schema)).into()
});

/// A schema that usually accepts some value.
pub(crate) fn schema(choices: &mut Choices<'_>) -> Value {
    match choices.below(8) {
        6 => closed(choices),
        7 => linked(choices),
        _ => plain(choices),
    }
}

/// A closed object with one property that has only large values.
fn closed(choices: &mut Choices<'_>) -> Value {
    let mut root = json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": named(choices, 0), "propertyNames": part(choices, 0),
    });
    root["properties"]["a"] = json!({ "type": "array", "minItems": 300 });
    if choices.below(2) == 0 {
        root.as_object_mut().unwrap().remove("propertyNames");
    }
    root
}

/// A small schema whose parts are referenced by an anchor, a URI or a registered name.
fn linked(choices: &mut Choices<'_>) -> Value {
    let link = json!({ "$ref": choices.choose(&LINKS) });
    let mut root = match choices.below(3) {
        0 => link,
        1 => json!({ "properties": { "a": link } }),
        _ => json!({ "items": link }),
    };
    let typed = |choices: &mut Choices<'_>| json!({ "type": [choices.choose(&TYPES), "null"] });
    let mut defs = json!({ "d": typed(choices), "f": typed(choices) });
    match choices.below(3) {
        0 => {}
        1 => defs["d"]["$anchor"] = json!("q"),
        _ => defs["f"]["$dynamicAnchor"] = json!("e"),
    }
    if choices.one_in(4) {
        defs["f"]["$id"] = json!(choices.choose(&IDS));
    }
    root["$defs"] = defs;
    if choices.one_in(3) {
        root["$id"] = json!(choices.choose(&IDS));
    }
    if choices.one_in(3) {
        let keyword = choices.choose(&["unevaluatedProperties", "unevaluatedItems"]);
        root[keyword] = json!(false);
    }
    if choices.one_in(4) {
        root["x-doc"] = json!({ "example": { "$anchor": "q" } });
    }
    if choices.one_in(3) {
        root["$schema"] = json!(choices.choose(&DIALECTS));
    }
    root
}

fn plain(choices: &mut Choices<'_>) -> Value {
    let mut root = part(choices, 3);
    if let Value::Object(map) = &mut root {
        let defs = json!({ "d": part(choices, 2), "e": part(choices, 1) });
        map.insert("$defs".to_owned(), defs);
        if choices.one_in(5) {
            map.insert("$schema".to_owned(), json!(DIALECTS[0]));
        }
        if choices.one_in(6) {
            map.insert("$dynamicAnchor".to_owned(), json!("m"));
        }
    }
    root
}

fn part(choices: &mut Choices<'_>, depth: usize) -> Value {
    if choices.one_in(12) {
        return json!(choices.below(2) == 0);
    }
    let mut map = Map::new();
    for _ in 0..choices.below(5) {
        add(&mut map, choices, depth);
    }
    Value::Object(map)
}

/// A schema, half of the time with one random value.
pub(crate) fn misfit(choices: &mut Choices<'_>) -> Value {
    let mut schema = part(choices, 2);
    if choices.one_in(2) {
        spoil(&mut schema, choices);
    }
    schema
}

fn spoil(value: &mut Value, choices: &mut Choices<'_>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let names: Vec<String> = map.keys().cloned().collect();
            let name = choices.choose(&names);
            if choices.one_in(2)
                && let Some(member) = map.get_mut(&name)
            {
                spoil(member, choices);
            } else {
                map.insert(name, instance(choices, 2));
            }
        }
        Value::Array(list) if !list.is_empty() => {
            let at = choices.below(list.len());
            spoil(&mut list[at], choices);
        }
        other => *other = instance(choices, 1),
    }
}

fn parts(choices: &mut Choices<'_>, depth: usize) -> Value {
    (0..=choices.below(3)).map(|_| part(choices, depth)).collect()
}

fn named(choices: &mut Choices<'_>, depth: usize) -> Value {
    let named = (0..=choices.below(3)).map(|_| (choices.name(), part(choices, depth)));
    Value::Object(named.collect())
}

fn names(choices: &mut Choices<'_>) -> Value {
    let mut names: Vec<String> = (0..=choices.below(2)).map(|_| choices.name()).collect();
    names.sort();
    names.dedup();
    names.into()
}

/// Adds a random keyword.
fn add(map: &mut Map<String, Value>, choices: &mut Choices<'_>, depth: usize) {
    let count = json!(choices.below(4));
    let (name, value) = match choices.below(if depth == 0 { 26 } else { 52 }) {
        0 | 1 => ("type", json!(choices.choose(&TYPES))),
        2 => {
            let mut list = vec![choices.choose(&TYPES), choices.choose(&TYPES)];
            list.dedup();
            ("type", json!(list))
        }
        3 => ("required", names(choices)),
        4 => ("enum", (0..=choices.below(3)).map(|_| instance(choices, 1)).collect()),
        5 => ("const", instance(choices, 2)),
        6 => ("minimum", choices.number()),
        7 => ("maximum", choices.number()),
        8 => ("exclusiveMinimum", choices.number()),
        9 => ("exclusiveMaximum", choices.number()),
        10 => ("multipleOf", choices.choose(&[json!(1), json!(2), json!(0.5), json!(3), json!(4)])),
        11 => ("minLength", count),
        12 => ("maxLength", count),
        13 => ("pattern", json!(choices.choose(&PATTERNS))),
        14 => ("minItems", count),
        15 => ("maxItems", count),
        16 => ("uniqueItems", json!(choices.below(4) != 3)),
        17 => ("minProperties", count),
        18 => ("maxProperties", count),
        19 => ("dependentRequired", json!({ choices.name(): names(choices) })),
        20 => ("format", json!(choices.choose(&["email", "ipv4"]))),
        21 => ("title", json!(choices.text())),
        22 => ("contentEncoding", json!("base64")),
        23 => ("contentMediaType", json!("application/json")),
        24 => ("minItems", json!(300)),
        25 => ("$schema", json!(choices.choose(&DIALECTS))),
        26..=29 => ("properties", named(choices, depth - 1)),
        30 => ("patternProperties", json!({ choices.choose(&PATTERNS): part(choices, depth - 1) })),
        31 | 32 => ("additionalProperties", part(choices, depth - 1)),
        33 => ("additionalProperties", json!(false)),
        34 => ("propertyNames", part(choices, depth - 1)),
        35 => ("dependentSchemas", named(choices, depth - 1)),
        36 => ("items", part(choices, depth - 1)),
        37 => ("prefixItems", parts(choices, depth - 1)),
        38 => ("contains", part(choices, depth - 1)),
        39 => (choices.choose(&["minContains", "maxContains"]), count),
        40 => ("allOf", parts(choices, depth - 1)),
        41 => ("anyOf", parts(choices, depth - 1)),
        42 => ("oneOf", parts(choices, depth - 1)),
        43 => ("not", part(choices, depth - 1)),
        44 => ("if", part(choices, depth - 1)),
        45 => (choices.choose(&["then", "else"]), part(choices, depth - 1)),
        46 => ("unevaluatedProperties", part(choices, depth - 1)),
        47 => ("unevaluatedItems", part(choices, depth - 1)),
        48 => ("$ref", json!(choices.choose(&["#/$defs/d", "#/$defs/e", "#"]))),
        49 => ("$dynamicRef", json!("#m")),
        50 => ("dependencies", named(choices, depth - 1)),
        _ => ("$ref", json!(choices.choose(&LINKS))),
    };
    map.insert(name.to_owned(), value);
}

/// The schema with a few random modifications.
pub(crate) fn changed(schema: &Value, choices: &mut Choices<'_>) -> Value {
    let mut schema = schema.clone();
    for _ in 0..=choices.below(3) {
        change(&mut schema, choices, 4);
    }
    schema
}

fn change(schema: &mut Value, choices: &mut Choices<'_>, depth: usize) {
    let Value::Object(map) = schema else {
        *schema = part(choices, 1);
        return;
    };
    let schemas = |value: &Value| value.is_object() || value.is_array();
    let inner: Vec<String> = map
        .iter()
        .filter(|(name, value)| {
            schemas(value)
                && !["enum", "const", "required", "type", "dependentRequired"]
                    .contains(&name.as_str())
        })
        .map(|(name, _)| name.clone())
        .collect();
    if depth > 0 && !inner.is_empty() && choices.below(3) > 0 {
        let name = choices.choose(&inner);
        let is_named =
            ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs"]
                .contains(&name.as_str());
        return match map.get_mut(&name) {
            Some(Value::Array(list)) => change_list(list, choices, depth - 1),
            Some(Value::Object(named)) if is_named => change_named(named, choices, depth - 1),
            Some(inner) => change(inner, choices, depth - 1),
            None => {}
        };
    }
    let names: Vec<String> = map.keys().filter(|name| *name != "$defs").cloned().collect();
    if choices.below(3) == 2 && !names.is_empty() {
        map.remove(&choices.choose(&names));
    } else if map.contains_key("$ref") && choices.one_in(3) {
        map.insert("$ref".to_owned(), json!(choices.choose(&LINKS)));
    } else {
        add(map, choices, 2.min(depth));
    }
}

fn change_list(list: &mut Vec<Value>, choices: &mut Choices<'_>, depth: usize) {
    let at = choices.below(list.len());
    match choices.below(5) {
        3 => list.push(part(choices, 1)),
        4 if list.len() > 1 => drop(list.remove(at)),
        _ => change(&mut list[at], choices, depth),
    }
}

fn change_named(named: &mut Map<String, Value>, choices: &mut Choices<'_>, depth: usize) {
    let keys: Vec<String> = named.keys().cloned().collect();
    if keys.is_empty() || choices.one_in(4) {
        named.insert(choices.name(), part(choices, 1));
    } else if let Some(inner) = named.get_mut(&choices.choose(&keys)) {
        change(inner, choices, depth);
    }
}

/// A random value.
pub(crate) fn instance(choices: &mut Choices<'_>, depth: usize) -> Value {
    match choices.below(if depth == 0 { 5 } else { 9 }) {
        0 | 1 => choices.number(),
        2 => choices.text().into(),
        3 => json!(choices.below(2) == 0),
        4 => Value::Null,
        5 | 6 => (0..choices.below(4)).map(|_| instance(choices, depth - 1)).collect(),
        _ => {
            let members =
                (0..choices.below(4)).map(|_| (choices.name(), instance(choices, depth - 1)));
            Value::Object(members.collect())
        }
    }
}

/// A value that the schema probably accepts.
pub(crate) fn near(schema: &Value, choices: &mut Choices<'_>) -> Value {
    near_within(schema, schema, choices, 4)
}

fn near_within(root: &Value, schema: &Value, choices: &mut Choices<'_>, depth: usize) -> Value {
    let Value::Object(map) = schema else { return instance(choices, 1) };
    if depth == 0 {
        return instance(choices, 0);
    }
    if let Some(Value::String(text)) = map.get("$ref")
        && let Some((_, fragment)) = text.split_once('#')
        && let Some(target) = root.pointer(fragment)
        && choices.below(2) == 0
    {
        return near_within(root, target, choices, depth - 1);
    }
    for name in ["allOf", "anyOf", "oneOf", "enum"] {
        if let Some(Value::Array(list)) = map.get(name)
            && choices.below(2) == 0
        {
            let one = choices.choose(list);
            return if name == "enum" { one } else { near_within(root, &one, choices, depth - 1) };
        }
    }
    if let Some(value) = map.get("const") {
        return value.clone();
    }
    let is_object = ["properties", "required", "additionalProperties", "dependentSchemas"];
    let is_array = ["items", "prefixItems", "contains", "uniqueItems", "minItems"];
    if is_object.iter().any(|name| map.contains_key(*name)) && choices.below(4) < 3 {
        return object_near(root, map, choices, depth);
    }
    if is_array.iter().any(|name| map.contains_key(*name)) && choices.below(4) < 3 {
        let item = |name: &str| map.get(name).cloned().unwrap_or(json!(true));
        let schemas = [item("items"), item("contains")];
        let count = match map.get("minItems").and_then(Value::as_u64) {
            Some(300) => 300,
            _ => choices.below(4),
        };
        return (0..count)
            .map(|i| {
                let prefix = map.get("prefixItems").and_then(|list| list.get(i)).cloned();
                let schema = prefix.unwrap_or_else(|| choices.choose(&schemas));
                near_within(root, &schema, choices, depth - 1)
            })
            .collect();
    }
    for (name, step) in [("minimum", 0.0), ("maximum", 0.0), ("exclusiveMinimum", 0.5)] {
        if let Some(bound) = map.get(name).and_then(Value::as_f64)
            && choices.below(2) == 0
        {
            return json!(bound + step);
        }
    }
    instance(choices, 2)
}

fn object_near(
    root: &Value,
    map: &Map<String, Value>,
    choices: &mut Choices<'_>,
    depth: usize,
) -> Value {
    let mut object = Map::new();
    let mut names: Vec<String> = (0..choices.below(3)).map(|_| choices.name()).collect();
    let required = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if !choices.one_in(4) {
        names.extend(required.iter().filter_map(|name| name.as_str().map(str::to_owned)));
    }
    for name in names {
        let own = map.get("properties").and_then(|properties| properties.get(&name));
        let schema =
            own.or_else(|| map.get("additionalProperties")).cloned().unwrap_or(json!(true));
        object.insert(name, near_within(root, &schema, choices, depth - 1));
    }
    Value::Object(object)
}
