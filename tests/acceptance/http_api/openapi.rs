//! `/openapi.json`: valid by an independent validator, and true for the responses of a server.

use std::path::Path;

use acceptance::{PythonEnvironment, Registry, access::Guarded, root};
use serde_json::{Value, json};

use super::{Answer, call, post};
use crate::conformance::run;

async fn document(registry: &Registry) -> Value {
    let answer = Answer::of(reqwest::Client::new().get(format!("{}/openapi.json", registry.url())));
    let answer = answer.await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "application/json");
    answer.body
}

/// A validator of a schema in the document. Unknown members are errors, so that a missing member of a schema is found.
fn validator(document: &Value, name: &str) -> jsonschema::Validator {
    let mut components = document["components"].clone();
    for schema in components["schemas"].as_object_mut().expect("schemas").values_mut() {
        if schema["properties"].is_object() {
            schema["additionalProperties"] = json!(false);
        }
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/components/schemas/{name}"),
        "components": components,
    });
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&schema).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[tokio::test]
async fn document_is_valid_openapi() {
    let registry = Registry::start();
    let document = document(&registry).await;
    assert_eq!(document["openapi"], "3.1.0");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("openapi.json");
    std::fs::write(&file, document.to_string()).expect("a file");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi");
    std::fs::create_dir_all(&target).expect("the target directory is writable");
    let requirements = root().join("tests/acceptance/http_api/requirements.txt");
    let environment = PythonEnvironment::of(&requirements, &target);
    let mut validate = environment.python();
    validate.args(["-m", "openapi_spec_validator"]).arg(&file);
    run(validate);
}

#[tokio::test]
async fn every_schema_compiles() {
    let registry = Registry::start();
    let document = document(&registry).await;
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    assert!(schemas.len() > 100, "{}", schemas.len());
    for name in schemas.keys() {
        validator(&document, name);
    }
}

/// The requests whose responses must fit the document.
fn requests() -> Vec<(&'static str, Value)> {
    let key = json!({ "kind": "ENTITY_KIND_TOOL", "name": "fetch", "version": "1.2.3" });
    let selector = json!({ "kind": "ENTITY_KIND_TOOL", "name": "fetch" });
    vec![
        ("RegistryService/GetRegistryInfo", json!({})),
        ("RegistryService/ListEntities", json!({ "pageSize": 1000, "includeDocument": true })),
        ("RegistryService/GetEntity", json!({ "key": key })),
        ("RegistryService/ListSettings", json!({})),
        ("HistoryService/ListCommits", json!({})),
        ("HistoryService/ListEntityEvents", json!({ "entity": selector })),
        ("HistoryService/ExportCatalog", json!({})),
        ("DiscoveryService/SearchEntities", json!({ "query": "fetch" })),
        ("GraphService/GetDependencies", json!({ "keys": [key] })),
        ("GraphService/GetDependents", json!({ "keys": [key] })),
        ("AuditService/GetCheckpoint", json!({})),
        ("AuditService/ListAccessEvents", json!({})),
        ("SyncService/ListGateways", json!({})),
        ("LedgerService/ListBudgets", json!({})),
        ("AccessService/WhoAmI", json!({})),
        ("ApprovalService/ListApprovals", json!({})),
    ]
}

#[tokio::test]
async fn responses_fit_their_schemas() {
    let registry = Registry::start();
    registry.apply_example();
    let document = document(&registry).await;
    for (method, message) in requests() {
        let method = format!("registry.v1.{method}");
        let answer = call(&registry, &method, &message).await;
        let responses = &document["paths"][format!("/{method}")]["post"]["responses"];
        assert_eq!(answer.status, 200, "{method}: {answer:?}");
        let reference = &responses["200"]["content"]["application/json"]["schema"]["$ref"];
        let name =
            reference.as_str().and_then(|reference| reference.rsplit('/').next()).expect("a name");
        let errors: Vec<_> = validator(&document, name)
            .iter_errors(&answer.body)
            .map(|error| format!("{} {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{method}: {errors:?}");
    }
    let failed = call(&registry, "registry.v1.RegistryService/GetEntity", &json!({})).await;
    assert!(validator(&document, "Error").is_valid(&failed.body), "{failed:?}");
}

#[tokio::test]
async fn documented_operations_need_credentials() {
    let guarded = Guarded::start(&[]);
    let document = document(&guarded.registry).await;
    let paths = document["paths"].as_object().expect("paths");
    let operations: Vec<_> = paths.iter().filter(|(_, item)| item["post"].is_object()).collect();
    assert!(operations.len() > 40, "{}", operations.len());
    for (path, item) in operations {
        let missing = Answer::of(post(&guarded.registry, &path[1..]).body("{}")).await;
        assert_eq!(missing.code(), (401, "unauthenticated"), "{path}");
        if item["get"].is_object() {
            let url = format!("{}{path}?encoding=json&message=%7B%7D", guarded.registry.url());
            let missing = Answer::of(reqwest::Client::new().get(url)).await;
            assert_eq!(missing.code(), (401, "unauthenticated"), "{path}");
        }
    }
}
