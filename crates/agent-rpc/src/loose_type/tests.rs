//! Types and their schemas.

use proptest::prelude::*;
use schema_compat::schema_compile::compile;

use super::*;

fn read(value: &Value) -> Result<Structure, String> {
    let read = Structure::read(value, "/input");
    read.map_err(|failure| failure.data["pointer"].as_str().unwrap().to_owned())
}

fn schema(value: &Value, direction: Direction) -> Value {
    read(value).unwrap().to_schema(direction)
}

#[test]
fn each_type_has_its_schema() {
    let types = json!({
        "a": "string", "b": "integer", "c": "float", "d": "boolean", "e": "list[list[float]]",
        "f": "dict[ string , integer ]", "g": "dict[integer,list[string]]",
        "h": "optional[list[optional[string]]]", "i": { "j": "optional[float]" }, "k": {},
    });
    let string = json!({ "type": "string" });
    let expected = json!({
        "type": "object", "additionalProperties": false,
        "required": ["a", "b", "c", "d", "e", "f", "g", "i", "k"],
        "properties": {
            "a": string, "b": { "type": "integer" }, "c": { "type": "number" },
            "d": { "type": "boolean" },
            "e": { "type": "array", "items": { "type": "array", "items": { "type": "number" } } },
            "f": { "type": "object", "additionalProperties": { "type": "integer" } },
            "g": {
                "type": "object", "additionalProperties": { "type": "array", "items": string },
                "propertyNames": { "pattern": INTEGER_KEY },
            },
            "h": { "type": ["array", "null"], "items": { "type": ["string", "null"] } },
            "i": {
                "type": "object", "additionalProperties": false,
                "properties": { "j": { "type": ["number", "null"] } },
            },
            "k": { "type": "object", "additionalProperties": false, "properties": {} },
        },
    });
    assert_eq!(schema(&types, Direction::Input), expected);
    let open = schema(&types, Direction::Output).to_string();
    assert!(!open.contains("\"additionalProperties\":false"), "{open}");
}

#[test]
fn unknown_types_are_rejected_with_pointer() {
    for bad in [
        json!(""),
        json!("String"),
        json!("int"),
        json!("list"),
        json!("list[]"),
        json!("list[string"),
        json!("list[string]]"),
        json!("list[string]x"),
        json!("dict[string]"),
        json!("dict[float,string]"),
        json!("dict[list[string],string]"),
        json!("dict[string,string,string]"),
        json!("tuple[string]"),
        json!("string\u{0}"),
        json!(1),
        json!(null),
        json!(["string"]),
    ] {
        assert_eq!(read(&json!({ "a/b": bad })), Err("/input/a~1b".to_owned()), "{bad}");
    }
    assert_eq!(read(&json!("string")), Err("/input".to_owned()));
    assert_eq!(read(&json!({ "\n": "string" })), Err("/input".to_owned()));
    assert_eq!(read(&json!({ "a": { "b": 1 } })), Err("/input/a/b".to_owned()));
}

#[test]
fn hostile_structures_are_rejected() {
    let deep = format!("{}string{}", "list[".repeat(16), "]".repeat(16));
    assert!(read(&json!({ "a": deep })).is_err());
    let deepest = format!("{}string{}", "list[".repeat(15), "]".repeat(15));
    assert!(read(&json!({ "a": deepest })).is_ok());
    let nested = (0..17).fold(json!("string"), |inner, _| json!({ "a": inner }));
    assert!(read(&nested).is_err());
    let wide: Map<_, _> = (0..1_001).map(|i| (i.to_string(), json!("string"))).collect();
    assert!(read(&Value::Object(wide)).is_err());
    assert!(read(&json!({ "a": "list[".repeat(1 << 16) })).is_err());
    assert!(read(&json!({ "n".repeat(129): "string" })).is_err());
}

/// A type with a value that it accepts.
fn types() -> impl Strategy<Value = (LooseType, Value)> {
    let leaf = prop_oneof![
        Just((LooseType::String, json!("a"))),
        Just((LooseType::Integer, json!(-7))),
        Just((LooseType::Float, json!(1.5))),
        Just((LooseType::Boolean, json!(true))),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|(t, v)| (LooseType::List(Box::new(t)), json!([v, v]))),
            inner
                .clone()
                .prop_map(|(t, v)| (LooseType::Dict(Key::String, Box::new(t)), json!({ "k": v }))),
            inner.clone().prop_map(|(t, v)| {
                (LooseType::Dict(Key::Integer, Box::new(t)), json!({ "-10": v }))
            }),
            inner.clone().prop_map(|(t, v)| (LooseType::Optional(Box::new(t)), v)),
            inner.prop_map(|(t, _)| (LooseType::Optional(Box::new(t)), Value::Null)),
        ]
    })
}

/// A value that the type rejects.
fn wrong(t: &LooseType) -> Value {
    match t {
        LooseType::Optional(inner) => wrong(inner),
        LooseType::String => json!(1),
        _ => json!("a"),
    }
}

proptest! {
    #[test]
    fn types_survive_their_text((expected, _) in types()) {
        let read = read(&json!({ "a": expected.to_string() })).unwrap();
        prop_assert_eq!(&read.0["a"], &expected);
    }

    #[test]
    fn schemas_accept_values_of_their_type((t, value) in types()) {
        let structure = Structure(BTreeMap::from([("a".to_owned(), t.clone())]));
        for direction in [Direction::Input, Direction::Output] {
            let schema = structure.to_schema(direction);
            let validator = compile(&schema, &|_| None).unwrap();
            let accepts = |value: &Value| validator.validate(value).is_ok();
            let object = json!({ "a": value });
            prop_assert!(accepts(&object), "{} {}", t, object);
            let wrong = json!({ "a": wrong(&t) });
            prop_assert!(!accepts(&wrong), "{} {}", t, wrong);
            let is_optional = matches!(t, LooseType::Optional(_));
            prop_assert_eq!(accepts(&json!({})), is_optional);
            let more = json!({ "a": value, "b": 1 });
            prop_assert_eq!(accepts(&more), direction == Direction::Output);
        }
    }

    #[test]
    fn arbitrary_texts_are_read_without_panic(text in ".{0,40}|[a-z\\[\\], ]{0,40}") {
        if let Ok(read) = read(&json!({ "a": text })) {
            prop_assert!(compile(&read.to_schema(Direction::Input), &|_| None).is_ok());
        }
    }
}
