//! A published registry file of the field, read and validated unmodified.

use registry_core::{Catalog, Kind, RegistryFile, RegistryId, Severity, Spec, rules};
use serde_json::Value;

const EXAMPLE: &[u8] = include_bytes!("data/field-example.json");

#[test]
fn field_example_has_expected_findings() {
    let file = RegistryFile::parse(EXAMPLE).unwrap();
    assert_eq!(file.warnings(), []);
    let plan = rules::plan(&Catalog::empty(RegistryId::new("test")), file.proposals());
    let errors: Vec<_> = plan
        .diagnostics
        .iter()
        .filter(|found| found.severity == Severity::Error)
        .map(|found| {
            let entity = found.entity.as_ref().unwrap();
            let (code, pointer) = (found.code.as_str(), &found.pointer);
            format!("{code} {entity} {pointer} {} {}", file.locate(found), found.message)
        })
        .collect();
    let lacks = |server: &str, at: usize, place: usize, tool: &str| {
        format!(
            "provision-unknown server/{server} /provides/{place} /servers/{at}/provides/{place} \
             the server provides tool/{tool}@1.0.0, which is not registered"
        )
    };
    assert_eq!(
        errors,
        [
            lacks("user-service@1.1.0", 2, 1, "get_user"),
            lacks("memory-server@1.0.0", 5, 2, "create_relations"),
            lacks("inventory-service@1.0.0", 7, 2, "inventory_check"),
            lacks("payment-service@1.0.0", 8, 2, "payment_authorize"),
            lacks("shipping-service@1.0.0", 9, 2, "shipping_track"),
        ]
    );
    let warnings = plan.diagnostics.iter().filter(|found| !found.is_error());
    let warnings: Vec<_> = warnings.map(|found| found.message.as_str()).collect();
    assert_eq!(
        warnings,
        [
            // The composition accepts larger values than its first step.
            "input of step \"fetch_content\": \"maxLength\" may reject $.maxLength in the input of the \
             composition: `type` rejects {}",
            // It promises results under other names than its last skill returns.
            "result: \"research\" may reject $.research in the result of \"summarize\": `type` \
             rejects \"\"",
            "result: \"executiveSummary\" may reject $.executiveSummary in the result of \
             \"summarize\": `type` rejects \"\"",
        ]
    );
}

#[test]
fn field_example_compositions_are_valid() {
    let file: Value = serde_json::from_slice(EXAMPLE).unwrap();
    let specs: Vec<_> =
        file["tools"].as_array().unwrap().iter().filter_map(|tool| tool.get("spec")).collect();
    assert_eq!(specs.len(), 5);
    for spec in specs {
        Spec::parse(spec).unwrap_or_else(|problems| panic!("{problems:?}"));
    }
}

#[test]
fn field_example_proposes_every_entity() {
    let file = RegistryFile::parse(EXAMPLE).unwrap();
    let count = |kind| file.proposals().iter().filter(|p| p.key().kind == kind).count();
    assert_eq!(Kind::ALL.map(count), [12, 10, 27, 5, 0]);
}
