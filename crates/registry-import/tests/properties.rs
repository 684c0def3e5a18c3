//! Properties of imports: the registry accepts every result, and shared schemas are equivalent to
//! their originals.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*, sample::select};
use registry_core::{
    Catalog, Document, Key, Kind, RegistryFile, RegistryId, live::LiveServer, rules::plan,
};
use registry_fixtures::values::json;
use registry_import::{
    AgentImportOptions, Imported, Repair, RepairedBy, ServerImportOptions, import_agent,
    import_registry_file, import_server,
};
use schema_compat::{name::SchemaName, schema_compile::compile};
use serde_json::{Map, Value, json};

/// Small values that are likely to match small schemas.
fn instance() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..4).prop_map(Value::from),
        select(vec!["", "a", "bb", "low"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((select(vec!["a", "b", "c", "x"]), inner), 0..4).prop_map(|members| {
                Value::Object(members.into_iter().map(|(n, v)| (n.to_owned(), v)).collect())
            }),
        ]
    })
}

/// Schemas from few parts, so that equal ones are common.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        select(vec!["string", "integer", "object", "array", "null"])
            .prop_map(|t| json!({ "type": t })),
        Just(json!({})),
        Just(json!(false)),
        Just(json!({ "enum": ["low", 1, null] })),
        Just(json!({ "const": { "a": 1, "b": 2 } })),
        Just(json!({ "minimum": 1, "minLength": 1 })),
        select(vec!["A", "B", "C"]).prop_map(|d| json!({ "$ref": format!("#/$defs/{d}") })),
        select(vec!["A", "B"])
            .prop_map(|d| json!({ "$ref": format!("#/$defs/{d}"), "maxProperties": 1 })),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let object = (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(a, b, closed)| {
            let mut object = json!({ "type": "object", "properties": { "a": a, "b": b } });
            if closed {
                object["additionalProperties"] = json!(false);
            }
            object
        });
        prop_oneof![
            3 => object,
            1 => inner.clone().prop_map(|s| json!({ "type": "array", "items": s })),
            1 => vec(inner.clone(), 1..3).prop_map(|s| json!({ "anyOf": s })),
            1 => vec(inner.clone(), 1..3)
                .prop_map(|s| json!({ "allOf": s, "unevaluatedProperties": false })),
            1 => inner.clone().prop_map(|s| json!({ "not": s })),
            1 => (inner.clone(), inner).prop_map(|(p, a)| {
                json!({ "properties": { "a": p }, "additionalProperties": a, "required": ["a"] })
            }),
        ]
    })
}

/// Two to four tools whose schemas share definitions and parts, in either dialect.
fn tools() -> impl Strategy<Value = Vec<Value>> {
    let definitions = (schema(), schema(), schema());
    let dialect = select(vec![None, Some("http://json-schema.org/draft-07/schema#")]);
    (vec(schema(), 1..3), definitions, dialect, vec((0_usize..4, any::<bool>()), 2..5)).prop_map(
        |(parts, (a, b, c), dialect, choices)| {
            let one = |(i, (part, whole)): (usize, (usize, bool))| {
                let part = parts[part % parts.len()].clone();
                let mut root = json!({ "properties": { "a": part, "b": part } });
                if whole {
                    root = json!({ "type": "object", "properties": { "a": part, "x": {} } });
                }
                root["$defs"] = json!({ "A": a, "B": b, "C": c });
                if let Some(dialect) = dialect {
                    root["$schema"] = json!(dialect);
                }
                json!({ "name": format!("t{i}"), "inputSchema": root })
            };
            choices.into_iter().enumerate().map(one).collect()
        },
    )
}

fn imported(tools: &[Value]) -> Imported {
    let info = json!({ "name": "s", "version": "1.0.0" });
    let options = ServerImportOptions { share_schemas: true, ..ServerImportOptions::default() };
    import_server(&LiveServer { info, tools: tools.to_vec(), ..LiveServer::default() }, &options)
}

fn is_acceptable(imported: &Imported) -> bool {
    let file = RegistryFile::from_value(&imported.draft.to_value()).expect("documents");
    plan(&Catalog::empty(RegistryId::new("test")), file.proposals()).is_acceptable()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn shared_schema_accepts_the_same_values(
        tools in tools(),
        instances in vec(instance(), 12),
    ) {
        let imported = imported(&tools);
        let schemas: BTreeMap<Key, &Value> = imported.draft.schemas.iter().map(|document| {
            let text = |name: &str| document[name].as_str().unwrap();
            let key = format!("schema/{}@{}", text("name"), text("version"));
            (key.parse().unwrap(), &document["schema"])
        }).collect();
        for (said, document) in tools.iter().zip(&imported.draft.tools) {
            let Ok(before) = compile(&said["inputSchema"], &|_| None) else { continue };
            let resolve = |name: &SchemaName| schemas.get(&Key::for_schema(name)?).copied();
            // Schemas beyond the registry's limits are dropped and reported.
            let Some(kept) = document.get("inputSchema") else {
                prop_assert!(!imported.repairs.is_empty());
                continue;
            };
            let after = compile(kept, &resolve).expect("it compiles");
            for instance in &instances {
                prop_assert_eq!(before.is_valid(instance), after.is_valid(instance));
            }
        }
    }

    #[test]
    fn any_file_is_repaired_or_reported(file in prop_oneof![json(), nearly_a_file()]) {
        let once = import_registry_file(&file);
        for Repair { pointer, .. } in &once.repairs {
            let above = pointer.rsplit_once('/').and_then(|(above, _)| file.pointer(above));
            let is_there = file.pointer(pointer).is_some() || above.is_some_and(Value::is_object);
            prop_assert!(is_there || pointer == "/schemaVersion", "{pointer}");
        }
        let people = |imported: &Imported| {
            imported.repairs.iter().filter(|repair| repair.by == RepairedBy::Person).count()
        };
        let again = import_registry_file(&once.draft.to_value());
        let made: Vec<_> = again.repairs.iter().filter(|r| r.by == RepairedBy::Import).collect();
        prop_assert_eq!(made, Vec::<&Repair>::new(), "a repaired file needs no repair");
        prop_assert_eq!(&again.draft, &once.draft);
        if people(&once) == 0 {
            prop_assert!(is_acceptable(&once), "{:?}", once);
            prop_assert_eq!(again.repairs, vec![]);
        }
    }

    #[test]
    fn any_card_is_an_agent_or_rejected(card in json()) {
        let mut card = card;
        if let Value::Object(map) = &mut card {
            map.insert("name".to_owned(), json!("a"));
        }
        let imported = import_agent(&card, &AgentImportOptions::default());
        for agent in &imported.draft.agents {
            let is_said = imported.repairs.iter().any(|repair| repair.by == RepairedBy::Person);
            prop_assert!(is_said || Document::parse(Kind::Agent, agent).is_ok(), "{agent}");
        }
    }

    #[test]
    fn card_values_are_never_lost(card in nearly_a_card()) {
        let imported = import_agent(&card, &AgentImportOptions::default());
        let file = json!({ "schemaVersion": "2.0", "agents": [card] });
        for agent in [imported.draft.agents, import_registry_file(&file).draft.agents].concat() {
            let text = agent.to_string();
            for leaf in leaves(&card) {
                prop_assert!(text.contains(&leaf), "{} of {} is not in {}", leaf, card, text);
            }
        }
    }

    #[test]
    fn any_server_gives_valid_documents(
        info in json(),
        tools in vec(prop_oneof![json(), nearly_a_tool()], 0..6),
    ) {
        let mut named = info;
        if let Value::Object(map) = &mut named {
            map.insert("name".to_owned(), json!("s"));
        }
        let imported = import_server(&LiveServer { info: named, tools, ..LiveServer::default() }, &ServerImportOptions::default());
        prop_assert!(is_acceptable(&imported), "{:?}", imported);
    }
}

/// Words that trigger repairs.
const WORDS: &str = "
    name version schemas servers tools agents provides source
    server target tool serverVersion depends type skills capabilities
    extensions uri params inputSchema $ref schema spec pipeline
    implementation $comment metadata deprecationMessage url description
";

/// Files from the words that trigger repairs, in valid and invalid places.
fn nearly_a_file() -> impl Strategy<Value = Value> {
    let word = select(WORDS.split_whitespace().collect::<Vec<_>>());
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(1)),
        select(vec![
            "a",
            "b",
            "1.0.0",
            "v1",
            "latest",
            "#a",
            "#a:1.0.0",
            "#/schemas/a",
            "tool/a@1.0.0",
            "tool",
            "agent",
            "urn:agentgateway:sbom",
            "",
        ])
        .prop_map(Value::from),
    ];
    let part = leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((word.clone(), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(n, v)| (n.to_owned(), v)).collect())
            }),
        ]
    });
    let list = move || vec(part.clone(), 0..4);
    (list(), list(), list(), list()).prop_map(|(schemas, servers, tools, agents)| {
        json!({ "schemas": schemas, "servers": servers, "tools": tools, "agents": agents })
    })
}

/// Cards from the words that the import reads; every number occurs once.
fn nearly_a_card() -> impl Strategy<Value = Value> {
    let word = select(CARD_WORDS.split_whitespace().collect::<Vec<_>>());
    let leaf = select(vec![json!(true), json!(1), json!("urn:agentgateway:sbom"), json!("tool")]);
    let part = leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..4).prop_map(Value::from),
            2 => vec((word.clone(), inner), 0..8).prop_map(|members| {
                Value::Object(members.into_iter().map(|(n, v)| (n.to_owned(), v)).collect())
            }),
        ]
    });
    let fields = CARD_WORDS.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    vec((select(fields), part), 0..16).prop_map(|members| {
        // Top-level dependencies belong to registry files, which report dropped members.
        let members = members.into_iter().filter(|(name, _)| name != "depends");
        let mut card = Value::Object(members.collect());
        number(&mut card, &mut 10_000);
        (card["name"], card["version"]) = (json!("a"), json!("1.0.0"));
        card
    })
}

/// The members of cards that the import reads.
const CARD_WORDS: &str = "
    description url protocolVersion supportedInterfaces protocolBinding defaultInputModes
    skills capabilities extensions uri params depends type version skill provider organization
    security securityRequirements schemes list securitySchemes id tags inputSchema required odd
    metadata deprecated
";

/// Makes all numbers distinct, and every second one a text.
fn number(value: &mut Value, next: &mut u32) {
    match value {
        Value::Number(_) => {
            *next += 1;
            *value = if next.is_multiple_of(2) { json!(next) } else { json!(next.to_string()) };
        }
        Value::Array(items) => items.iter_mut().for_each(|item| number(item, next)),
        Value::Object(map) => map.values_mut().for_each(|item| number(item, next)),
        _ => {}
    }
}

/// The numbers of a card, which may have become texts.
fn leaves(value: &Value) -> Vec<String> {
    match value {
        Value::Number(number) => vec![number.to_string()],
        Value::String(text) if text.starts_with('1') => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        Value::Object(map) => map.values().flat_map(leaves).collect(),
        _ => Vec::new(),
    }
}

fn nearly_a_tool() -> impl Strategy<Value = Value> {
    let field = select(vec!["name", "title", "description", "annotations", "_meta", "icons"]);
    (vec((field, json()), 0..5), "[a-z /\u{200b}]{0,6}", schema()).prop_map(
        |(fields, name, schema)| {
            let mut map: Map<_, _> = fields.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
            map.entry("name").or_insert_with(|| name.into());
            map.insert("inputSchema".to_owned(), schema);
            Value::Object(map)
        },
    )
}

#[test]
fn generated_servers_share_schemas() {
    let part = json!({ "type": "object", "properties": { "a": {}, "b": { "$ref": "#/$defs/A" } } });
    let tool = |name: &str| {
        json!({ "name": name, "inputSchema": { "type": "object", "properties": { name: part },
            "$defs": { "A": { "type": "string" } } } })
    };
    let imported = imported(&[tool("x"), tool("y")]);
    assert_eq!(imported.draft.schemas.len(), 2, "{:?}", imported.draft);
}
