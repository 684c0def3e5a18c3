//! The JSON Schema of registry files and the parsers accept the same documents, except for rules that a
//! schema cannot express.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod definitions;
mod mutations;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use jsonschema::Validator;
use proptest::prelude::*;
use registry_core::{
    Diagnostic, Kind, PublishedSchema, RegistryFile, Spec, entity::tool::expected_annotation_type,
    spec::Mappings,
};
use registry_fixtures::{
    values::{damaged, json},
    world::{Wish, registration},
};
use serde_json::{Value, json};

use crate::mutations::{mutations, pointers};

static REGISTRY: LazyLock<Validator> = LazyLock::new(|| validator(PublishedSchema::Registry));

fn validator(schema: PublishedSchema) -> Validator {
    jsonschema::validator_for(&parsed(schema)).unwrap()
}

fn parsed(schema: PublishedSchema) -> Value {
    serde_json::from_str(&schema.text()).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "json") {
        return serde_json::from_str(&text).unwrap();
    }
    serde_saphyr::from_str(&text).unwrap()
}

/// All files below a directory.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The registry files among the examples, and those of the tests.
fn registry_files() -> Vec<(PathBuf, Value)> {
    let mut paths = Vec::new();
    files(&root().join("examples"), &mut paths);
    paths.retain(|path| {
        let is_data = path.extension().is_some_and(|e| e == "json" || e == "yaml");
        is_data && !path.components().any(|part| part.as_os_str() == "node_modules")
    });
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    paths.extend(["every-member.json", "field-example.json"].map(|name| data.join(name)));
    let read = paths.into_iter().map(|path| (path.clone(), read(&path)));
    let found: Vec<_> = read.filter(|(_, file)| file["schemaVersion"] == "2.0").collect();
    assert!(found.len() >= 8, "{found:?}");
    found
}

/// The registry file of the tests with every member.
fn every_member() -> Value {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/every-member.json"))
}

/// The entities of a registry file.
fn entities(file: &Value) -> Vec<(Kind, &Value)> {
    let list = |kind: Kind| file[kind.plural()].as_array().into_iter().flatten();
    Kind::ALL.into_iter().flat_map(|kind| list(kind).map(move |entity| (kind, entity))).collect()
}

fn file_of(kind: Kind, entity: &Value) -> Value {
    json!({ "schemaVersion": "2.0", kind.plural(): [entity] })
}

/// The findings of the parsers, without the rules that compare entities.
fn findings(file: &Value) -> Vec<Diagnostic> {
    if let Err(invalid) = RegistryFile::from_value(file) {
        return invalid.diagnostics;
    }
    let tools = file["tools"].as_array().into_iter().flatten().enumerate();
    let found = tools.flat_map(|(i, tool)| {
        let spec = tool.get("spec").filter(|spec| spec.is_object());
        let spec = spec.and_then(|spec| Spec::parse(spec).err());
        let transform = tool.get("outputTransform").filter(|transform| transform.is_object());
        let transform = transform.and_then(|transform| Mappings::parse(transform).err());
        let annotations = tool["annotations"].as_object().into_iter().flatten();
        let annotations = annotations.filter_map(|(name, value)| {
            let expected = expected_annotation_type(name, value)?;
            Some(Diagnostic::error(registry_core::Code::DocumentInvalid, "", expected))
        });
        let within = move |member: &str, found: Diagnostic| {
            let pointer = format!("/tools/{i}/{member}{}", found.pointer);
            Diagnostic { pointer, ..found }
        };
        let spec = spec.into_iter().flatten().map(move |found| within("spec", found));
        let transform =
            transform.into_iter().flatten().map(move |found| within("outputTransform", found));
        let annotations = annotations.map(move |found| within("annotations", found));
        spec.chain(transform).chain(annotations).collect::<Vec<_>>()
    });
    found.collect()
}

/// The members with texts that must fit other values of the document, or a database of the program.
const RELATED: [&str; 7] =
    ["stepId", "step", "template", "timeZone", "target", "perCall", "perRound"];

/// Whether a finding is about a rule that a schema cannot express.
fn is_beyond_schemas(file: &Value, found: &Diagnostic) -> bool {
    let (_, member) = found.pointer.rsplit_once('/').unwrap_or_default();
    let is_text = file.pointer(&found.pointer).is_some_and(Value::is_string);
    // An item of an array that no other mapping builds.
    RELATED.contains(&member) && is_text || member.contains("[*].")
}

/// Compares the verdicts about a document that was changed at a place.
fn compare(file: &Value, change: &str, disagreements: &mut Vec<String>) {
    let (found, is_valid) = (findings(file), REGISTRY.is_valid(file));
    if is_valid && found.iter().any(|found| !is_beyond_schemas(file, found)) {
        disagreements.push(format!("{change}: only the parser rejects: {}", found[0]));
    }
    if !is_valid && found.is_empty() {
        let problem = REGISTRY.iter_errors(file).next().unwrap().to_string();
        disagreements.push(format!("{change}: only the schema rejects: {problem}"));
    }
}

#[track_caller]
fn assert_none(disagreements: &[String]) {
    let shown: Vec<_> = disagreements.iter().take(30).map(String::as_str).collect();
    assert!(disagreements.is_empty(), "{}:\n{}", disagreements.len(), shown.join("\n"));
}

#[test]
fn schema_accepts_every_registry_file() {
    for (path, file) in registry_files() {
        assert_eq!(findings(&file), [], "{}", path.display());
        let problems: Vec<_> =
            REGISTRY.iter_errors(&file).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert_eq!(problems, [""; 0], "{}", path.display());
    }
}

#[test]
fn entity_schemas_agree_with_registry_schema() {
    let validators = Kind::ALL.map(|kind| (kind, validator(PublishedSchema::Entity(kind))));
    let file = every_member();
    for (kind, entity) in entities(&file) {
        for (of, validator) in &validators {
            let expected = REGISTRY.is_valid(&file_of(*of, entity));
            assert_eq!(validator.is_valid(entity), expected, "{kind} as {of}: {entity}");
        }
    }
}

#[test]
fn schema_and_parser_agree_about_changed_entities() {
    let (files, mut disagreements) = (registry_files(), Vec::new());
    for (kind, entity) in files.iter().flat_map(|(_, file)| entities(file)) {
        for (change, changed) in mutations(entity) {
            let change = format!("{kind} {} {change}", entity["name"]);
            compare(&file_of(kind, &changed), &change, &mut disagreements);
        }
    }
    assert_none(&disagreements);
}

/// The words of findings, such as the valid ones.
fn words(found: &[Diagnostic]) -> BTreeSet<&str> {
    let texts = found.iter().flat_map(|found| [Some(&*found.message), found.help.as_deref()]);
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    let words = texts.flatten().flat_map(|text| text.split(move |c| !is_word(c)));
    words.filter(|word| !word.is_empty()).collect()
}

/// The findings about an unknown word or member list the known ones. A schema that lacks one of them
/// rejects a document that the parser accepts.
#[test]
fn schema_has_the_words_and_members_of_the_parser() {
    let (file, mut disagreements) = (every_member(), Vec::new());
    let mut suggested = 0;
    for (kind, entity) in entities(&file) {
        for pointer in pointers(entity) {
            let mut changed = entity.clone();
            let place = changed.pointer_mut(&pointer).unwrap();
            match place {
                Value::String(text) => "?? no".clone_into(text),
                Value::Object(members) => drop(members.insert("unknownMember".into(), json!(7))),
                _ => continue,
            }
            let found = findings(&file_of(kind, &changed));
            for word in words(&found) {
                let mut changed = entity.clone();
                match changed.pointer_mut(&pointer).unwrap() {
                    Value::Object(members) if members.contains_key(word) => continue,
                    Value::Object(members) => drop(members.insert(word.to_owned(), Value::Null)),
                    text => *text = word.into(),
                }
                suggested += 1;
                let change = format!("{kind} {} {pointer} {word}", entity["name"]);
                compare(&file_of(kind, &changed), &change, &mut disagreements);
            }
        }
    }
    assert!(suggested > 1_000, "{suggested}");
    assert_none(&disagreements);
}

#[test]
fn schema_and_parser_agree_about_members_of_file() {
    let mut file = every_member();
    for kind in Kind::ALL {
        file[kind.plural()].as_array_mut().unwrap().clear();
    }
    let mut disagreements = Vec::new();
    for (change, file) in mutations(&file) {
        compare(&file, &change, &mut disagreements);
    }
    assert_none(&disagreements);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn schema_rejects_only_what_parser_rejects(
        wish in registration(), at in any::<usize>(), with in json(),
    ) {
        let Wish::Register(kind, entity) = wish else { unreachable!() };
        for entity in [&entity, &damaged(&entity, at, &with)] {
            let file = file_of(kind, entity);
            prop_assert!(REGISTRY.is_valid(&file) || !findings(&file).is_empty(), "{}", file);
        }
    }
}
