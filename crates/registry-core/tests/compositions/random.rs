//! Random numbers, schemas, and values that schemas accept.

use schema_compat::schema_compile::{Validator, compile};
use serde_json::{Map, Value, json};

/// A deterministic random number generator (xorshift).
pub(crate) struct Random(u64);

pub(crate) const NAMES: [&str; 5] = ["a", "b", "c", "id", "items"];

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    /// An independent sequence; this one is not advanced.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.0 >> 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap() % limit
    }

    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn choose<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    pub(crate) fn name(&mut self) -> String {
        self.choose(&NAMES).to_owned()
    }
}

/// A random schema.
pub(crate) fn schema(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 9 } else { 17 }) {
        0 | 1 => string(random),
        2 | 3 => integer(random),
        4 => json!({ "type": "boolean" }),
        5 => json!({ "enum": [leaf(random), leaf(random)] }),
        6 => json!({ "const": leaf(random) }),
        7 => json!({ "type": ["string", "null"] }),
        8 => json!({ "type": "number" }),
        9..=11 => object_schema(random, depth - 1),
        12 | 13 => array_schema(random, depth - 1),
        14 => {
            let keyword = random.choose(&["anyOf", "oneOf"]);
            json!({ keyword: [schema(random, depth - 1), schema(random, depth - 1)] })
        }
        15 => {
            json!({ "allOf": [object_schema(random, depth - 1), { "required": [random.name()] }] })
        }
        _ => conditional(random, depth - 1),
    }
}

fn string(random: &mut Random) -> Value {
    let mut schema = json!({ "type": "string" });
    match random.below(6) {
        0 => schema["minLength"] = json!(random.below(3)),
        1 => schema["maxLength"] = json!(1 + random.below(3)),
        2 => schema["pattern"] = json!(random.choose(&["^x", "y$", "^[a-z]+$"])),
        3 => schema["enum"] = json!(["x", "y"]),
        _ => {}
    }
    schema
}

fn integer(random: &mut Random) -> Value {
    let mut schema = json!({ "type": random.choose(&["integer", "integer", "number"]) });
    match random.below(5) {
        0 => schema["minimum"] = json!(random.below(4)),
        1 => schema["maximum"] = json!(random.below(4)),
        2 => schema["exclusiveMinimum"] = json!(0),
        _ => {}
    }
    schema
}

pub(crate) fn object_schema(random: &mut Random, depth: usize) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for _ in 0..=random.below(3) {
        let name = random.name();
        if !random.one_in(3) && !required.contains(&name) {
            required.push(name.clone());
        }
        properties.insert(name, schema(random, depth));
    }
    let mut schema = json!({ "type": "object", "properties": properties, "required": required });
    match random.below(6) {
        0 | 1 => schema["additionalProperties"] = json!(false),
        2 => schema["additionalProperties"] = self::schema(random, 0),
        3 => schema["unevaluatedProperties"] = json!(false),
        _ => {}
    }
    schema
}

pub(crate) fn array_schema(random: &mut Random, depth: usize) -> Value {
    let mut schema = json!({ "type": "array", "items": schema(random, depth) });
    match random.below(6) {
        0 => schema["minItems"] = json!(1 + random.below(2)),
        1 => schema["maxItems"] = json!(1 + random.below(3)),
        2 => {
            schema["minItems"] = json!(1 + random.below(2));
            schema["maxItems"] = json!(2 + random.below(2));
        }
        3 => schema["prefixItems"] = json!([self::schema(random, 0)]),
        _ => {}
    }
    schema
}

fn conditional(random: &mut Random, depth: usize) -> Value {
    let mut object = object_schema(random, depth);
    let name = random.name();
    object["properties"][&name] = json!({ "enum": ["x", "y"] });
    object["if"] = json!({ "properties": { &name: { "const": "x" } } });
    object["then"] = json!({ "required": [random.name()] });
    if random.one_in(2) {
        let other = random.name();
        object["else"] = json!({ "properties": { other: schema(random, 0) } });
    }
    object
}

fn leaf(random: &mut Random) -> Value {
    random.choose(&[
        json!("x"),
        json!("y"),
        json!("zz"),
        json!(0),
        json!(1),
        json!(true),
        json!(null),
    ])
}

/// A random value.
pub(crate) fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0..=4 => leaf(random),
        5 => (0..random.below(3)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let members = (0..random.below(3)).map(|_| (random.name(), value(random, depth - 1)));
            Value::Object(members.collect())
        }
    }
}

/// A schema with its validator.
pub(crate) struct Checked {
    pub(crate) schema: Value,
    validator: Validator,
}

impl Checked {
    pub(crate) fn new(schema: Value) -> Self {
        let validator = compile(&schema, &|_| None).unwrap();
        Self { schema, validator }
    }

    pub(crate) fn accepts(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// A value that the schema accepts, if one is found.
    pub(crate) fn sample(&self, random: &mut Random) -> Option<Value> {
        let drafts = (0..24).map(|_| near(&self.schema, random));
        let drafts: Vec<_> = drafts.collect();
        drafts.into_iter().find(|draft| self.accepts(draft))
    }
}

/// A value that the schema probably accepts.
fn near(schema: &Value, random: &mut Random) -> Value {
    let Value::Object(map) = schema else { return value(random, 1) };
    if let Some(Value::Array(all)) = map.get("allOf") {
        let mut merged = near(&all[0], random);
        for part in &all[1..] {
            for name in part["required"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap();
                let own = all.iter().find_map(|one| one["properties"].get(name));
                let own = own.map(|own| near(own, random));
                if let Value::Object(members) = &mut merged
                    && !members.contains_key(name)
                {
                    members.insert(name.to_owned(), own.unwrap_or_else(|| value(random, 1)));
                }
            }
        }
        return merged;
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = map.get(keyword) {
            let branch = random.choose(branches);
            return near(&branch, random);
        }
    }
    if let Some(value) = map.get("const") {
        return value.clone();
    }
    if let Some(Value::Array(values)) = map.get("enum") {
        return random.choose(values);
    }
    let kind = match map.get("type") {
        Some(Value::Array(kinds)) => random.choose(kinds),
        Some(kind) => kind.clone(),
        None => return value(random, 2),
    };
    let number = |name: &str| map.get(name).and_then(Value::as_u64);
    match kind.as_str().unwrap() {
        "string" => random.choose(&["", "x", "y", "xy", "xxy", "zzzz", "A", "yy"]).into(),
        "integer" => json!(random.choose(&[0, 1, 2, 3, 4, -1, 7])),
        "number" => {
            random.choose(&[json!(0), json!(1), json!(1.5), json!(-0.5), json!(3), json!(9)])
        }
        "boolean" => json!(random.one_in(2)),
        "array" => {
            let (min, max) = (number("minItems").unwrap_or(0), number("maxItems").unwrap_or(3));
            let count = min + u64::try_from(random.below(3)).unwrap();
            let prefix = map.get("prefixItems").and_then(Value::as_array);
            let item = |i: u64| {
                let own = prefix.and_then(|prefix| prefix.get(usize::try_from(i).unwrap()));
                near(own.unwrap_or(map.get("items").unwrap_or(&Value::Bool(true))), random)
            };
            (0..count.min(max.max(min))).map(item).collect()
        }
        "object" => object_near(map, random),
        _ => Value::Null,
    }
}

fn object_near(map: &Map<String, Value>, random: &mut Random) -> Value {
    let mut object = Map::new();
    let none = Map::new();
    let properties = map.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut required: Vec<String> = Vec::new();
    for list in [map.get("required"), map.get("then").and_then(|then| then.get("required"))] {
        let names = list.and_then(Value::as_array).into_iter().flatten();
        required.extend(names.filter_map(|name| name.as_str().map(str::to_owned)));
    }
    let optional: Vec<_> = properties.keys().filter(|name| !required.contains(name)).collect();
    for name in optional {
        if random.one_in(2) {
            object.insert(name.clone(), near(&properties[name], random));
        }
    }
    for name in required {
        let schema = properties.get(&name).or(map.get("additionalProperties"));
        object.insert(name, near(schema.unwrap_or(&Value::Bool(true)), random));
    }
    if random.one_in(5) {
        let name = random.name();
        if !properties.contains_key(&name) {
            let rest = map.get("additionalProperties").unwrap_or(&Value::Bool(true));
            object.insert(name, near(rest, random));
        }
    }
    Value::Object(object)
}

/// A schema that accepts a value and similar ones.
pub(crate) fn like(value: &Value, random: &mut Random) -> Value {
    match value {
        Value::Object(members) => {
            let properties: Map<_, _> =
                members.iter().map(|(name, member)| (name.clone(), like(member, random))).collect();
            let required: Vec<_> =
                properties.keys().filter(|_| !random.one_in(4)).cloned().collect();
            let mut schema =
                json!({ "type": "object", "properties": properties, "required": required });
            if random.one_in(4) {
                schema["additionalProperties"] = json!(false);
            }
            schema
        }
        Value::Array(items) => {
            let mut schemas: Vec<Value> = items.iter().map(|item| like(item, random)).collect();
            schemas.dedup();
            let items = match schemas.len() {
                0 => json!(true),
                1 => schemas.remove(0),
                _ => json!({ "anyOf": schemas }),
            };
            let mut schema = json!({ "type": "array", "items": items });
            match random.below(6) {
                0 => schema["minItems"] = json!(value.as_array().unwrap().len()),
                1 => schema["maxItems"] = json!(value.as_array().unwrap().len()),
                _ => {}
            }
            schema
        }
        Value::String(_) => json!({ "type": "string" }),
        Value::Number(_) => json!({ "type": "number" }),
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Null => json!({ "type": ["null", random.choose(&["string", "number"])] }),
    }
}

/// A schema with one random change.
pub(crate) fn changed(mut schema: Value, random: &mut Random) -> Value {
    let Some(map) = schema.as_object_mut() else { return json!({ "type": "string" }) };
    let names: Vec<String> = map
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default();
    if names.is_empty() {
        return self::schema(random, 1);
    }
    let name = random.choose(&names);
    match random.below(5) {
        0 => {
            let mut names = vec![name, random.name()];
            names.dedup();
            schema["required"] = json!(names);
        }
        1 => drop(schema["properties"].as_object_mut().unwrap().remove(&name)),
        2 => schema["properties"][&name] = self::schema(random, 1),
        _ => {
            let inner = schema["properties"][&name].take();
            schema["properties"][&name] = changed(inner, random);
        }
    }
    schema
}
