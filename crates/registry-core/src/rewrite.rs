//! Rewriting of a document with other versions of itself and its references.

use std::collections::BTreeMap;

use schema_compat::json_schema::map_objects;
use serde_json::Value;

use crate::{
    document::Document,
    entity::agent::SBOM_EXTENSION,
    kind::Kind,
    reference::{Key, SchemaRef},
};

/// The document's JSON with each renamed key replaced by its new one.
pub(crate) fn rewritten(document: &Document, renamed: &BTreeMap<Key, Key>) -> Value {
    let mut value = document.entity().to_value();
    let kind = document.key().kind;
    let names = Names(renamed);
    names.version(&mut value, kind, ("name", "version"));
    match kind {
        Kind::Schema => names.schemas(&mut value, &["schema"]),
        Kind::Server => {
            for provision in items(value.get_mut("provides")) {
                names.version(provision, Kind::Tool, ("tool", "version"));
            }
        }
        Kind::Tool => {
            names.schemas(&mut value, &["inputSchema", "outputSchema"]);
            if let Some(source) = value.get_mut("source") {
                names.version(source, Kind::Server, ("server", "serverVersion"));
            }
            names.depends(value.get_mut("depends"));
        }
        Kind::Policy => {}
        Kind::Agent => {
            for skill in items(value.get_mut("skills")) {
                names.schemas(skill, &["inputSchema", "outputSchema"]);
            }
            let extensions = value.get_mut("capabilities").and_then(|c| c.get_mut("extensions"));
            for extension in items(extensions) {
                if extension["uri"] == SBOM_EXTENSION {
                    names.depends(extension.get_mut("params").and_then(|p| p.get_mut("depends")));
                }
            }
        }
    }
    value
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

struct Names<'a>(&'a BTreeMap<Key, Key>);

impl Names<'_> {
    /// Updates the version next to a name.
    fn version(&self, value: &mut Value, kind: Kind, (name, version): (&str, &str)) {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let Ok(key) = Key::parse(kind, text(name), text(version)) else { return };
        if let Some(new) = self.0.get(&key) {
            value[version] = new.version.to_string().into();
        }
    }

    fn depends(&self, depends: Option<&mut Value>) {
        for dependency in items(depends) {
            let kind = if dependency["type"] == "agent" { Kind::Agent } else { Kind::Tool };
            self.version(dependency, kind, ("name", "version"));
        }
    }

    fn schemas(&self, value: &mut Value, fields: &[&str]) {
        for field in fields {
            let Some(schema) = value.get_mut(*field) else { continue };
            *schema = map_objects(schema, &mut |map| {
                let Some(Value::String(text)) = map.get_mut("$ref") else { return };
                if let Some(Ok(reference)) = SchemaRef::parse(text)
                    && let Some(new) = self.0.get(reference.key())
                {
                    *text = format!("#{}:{}", new.name, new.version);
                }
            });
        }
    }
}
