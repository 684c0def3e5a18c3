//! Robustness against arbitrary bytes, arbitrary JSON, and almost valid JSON.
//!
//! The fuzz targets run the same entry points for longer.

use proptest::{collection::vec, prelude::*, sample::select};
use registry_core::{
    Catalog, Entity, Kind, RegistryFile, RegistryId, SchemaRef, SealedCommit, Spec,
    document::parse_json,
    registry_file::read_export,
    rules::validate,
    spec::{Mappings, Path, eval::Budget},
};
use registry_fixtures::values::json;
use schema_compat::schema_compile::compile;
use serde_json::{Value, json};

const WORDS: &[&str] = &[
    "name",
    "version",
    "schema",
    "schemas",
    "servers",
    "tools",
    "agents",
    "provides",
    "tool",
    "source",
    "spec",
    "server",
    "serverVersion",
    "target",
    "depends",
    "type",
    "skill",
    "inputSchema",
    "outputTransform",
    "mappings",
    "path",
    "pipeline",
    "steps",
    "id",
    "operation",
    "input",
    "step",
    "stepId",
    "reference",
    "construct",
    "fields",
    "saga",
    "action",
    "compensate",
    "scatterGather",
    "targets",
    "aggregation",
    "ops",
    "retry",
    "inner",
    "pattern",
    "agent",
    "schemaVersion",
    "registry",
    "revision",
    "chain",
    "digest",
    "records",
    "key",
    "lifecycle",
    "state",
    "deprecated",
    "capabilities",
    "extensions",
    "params",
    "uri",
    "$ref",
    "$schema",
    "properties",
    "items",
    "x-mcp-header",
    "template",
    "vars",
    "nested",
];

const TEXTS: &[&str] = &[
    "a",
    "1.0.0",
    "2.0",
    "1.0",
    "tool",
    "agent",
    "$.a",
    "$",
    "#a:1.0.0",
    "object",
    "string",
    "tool/a@1.0.0",
    "deprecated",
    "urn:agentgateway:sbom",
    "{a}",
    "",
];

/// JSON with the keywords of our formats, which reaches deeper than random text.
fn wordy() -> impl Strategy<Value = Value> {
    let (words, texts) = (select(WORDS), select(TEXTS));
    let leaf = prop_oneof![
        texts.prop_map(Value::from),
        (-2..5_i64).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..4).prop_map(Value::Array),
            4 => vec((words.clone(), inner), 0..6)
                .prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Value>()),
        ]
    })
}

fn read_everything(value: &Value) {
    for kind in Kind::ALL {
        let _ = Entity::parse(kind, value);
    }
    let _ = Spec::parse(value);
    if let Ok(mappings) = Mappings::parse(value) {
        let _ = mappings.apply(value, &mut Budget::new(1 << 16));
    }
    let empty = Catalog::empty(RegistryId::new("r"));
    let _ = compile(value, &|name| empty.json_schema(name));
    if let Ok(file) = RegistryFile::from_value(value) {
        let plan = validate(&empty, file.proposals());
        plan.diagnostics.iter().for_each(|found| drop(file.locate(found)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..256), text in ".{0,64}") {
        for bytes in [&bytes[..], text.as_bytes()] {
            let _ = parse_json(bytes);
            let _ = RegistryFile::parse(bytes);
            let _ = read_export(bytes);
            let _ = SealedCommit::parse(bytes);
        }
        let _ = Path::parse(&text);
        let _ = SchemaRef::parse(&format!("#{text}"));
    }

    #[test]
    fn arbitrary_json_never_panics(value in json()) {
        read_everything(&value);
    }

    #[test]
    fn json_with_keywords_never_panics(value in wordy()) {
        read_everything(&value);
        for list in ["schemas", "servers", "tools", "agents", "records"] {
            let file = json!({ "schemaVersion": "2.0", list: [value] });
            let bytes = serde_json::to_vec(&file).unwrap();
            read_everything(&file);
            let _ = read_export(&bytes);
            let _ = SealedCommit::parse(&bytes);
        }
    }
}
