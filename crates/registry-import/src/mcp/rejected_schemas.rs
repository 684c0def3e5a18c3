//! Drops schemas that the registry's rules reject.

use std::sync::Arc;

use registry_core::{
    catalog::Catalog,
    chain::RegistryId,
    diagnostic::Diagnostic,
    document::Document,
    kind::Kind,
    rules::{Proposed, plan},
};
use serde_json::Value;

use super::schema::LEFT_OUT;
use crate::{Repairs, shared_schemas::FIELDS};

/// The tools without the schemas that the registry would reject.
pub(super) fn without_rejected_schemas(
    server: &Value,
    mut tools: Vec<Value>,
    pointers: &[String],
    repairs: &mut Repairs,
) -> Vec<Value> {
    let documents = tools.iter().map(|tool| (Kind::Tool, tool));
    let batch: Vec<_> = documents
        .chain([(Kind::Server, server)])
        .filter_map(|(kind, value)| Document::parse(kind, value).ok())
        .map(|document| Proposed::Register(Arc::new(document)))
        .collect();
    let nothing = Catalog::empty(RegistryId::new("import"));
    for found in plan(&nothing, &batch).diagnostics.iter().filter(|found| found.is_error()) {
        let Some((i, field)) = schema_of(found, tools.len()) else { continue };
        let help = found.help.as_deref().unwrap_or("see the rules of the registry");
        let how = format!("{LEFT_OUT}: {help}");
        repairs.needed(format!("{}{}", pointers[i], found.pointer), found.message.clone(), how);
        if let Value::Object(tool) = &mut tools[i] {
            tool.remove(field);
        }
    }
    tools
}

/// The tool and the schema of a finding.
fn schema_of(found: &Diagnostic, tools: usize) -> Option<(usize, &'static str)> {
    let tool = found.change.filter(|change| *change < tools)?;
    let first = found.pointer.split('/').nth(1)?;
    FIELDS.into_iter().find(|field| *field == first).map(|field| (tool, field))
}
