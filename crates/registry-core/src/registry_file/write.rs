//! Writing of version 2 registry files.
//!
//! Kinds, keys and the members of open JSON are sorted, so equal catalogs produce equal files.

use serde::Serialize;

use crate::{
    catalog::{Catalog, Record},
    entity::Entity,
    kind::Kind,
    lifecycle::LifecycleState,
    reference::Key,
    timestamp::Date,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    schema_version: &'static str,
    schemas: Vec<Written<'a>>,
    servers: Vec<Written<'a>>,
    tools: Vec<Written<'a>>,
    agents: Vec<Written<'a>>,
    // Programs without policies reject the member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<Written<'a>>,
}

/// An entity with the lifecycle members next to its own fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(flatten)]
    entity: &'a Entity,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deprecated: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    retired: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replacement: Option<&'a Key>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sunset_date: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    force_reason: Option<&'a str>,
}

/// Writes a catalog as a file that [`super::RegistryFile::parse`] reads.
pub fn write(catalog: &Catalog) -> Vec<u8> {
    let of = |kind| catalog.of_kind(kind).map(|(_, record)| Written::new(record)).collect();
    let file = File {
        schema_version: "2.0",
        schemas: of(Kind::Schema),
        servers: of(Kind::Server),
        tools: of(Kind::Tool),
        agents: of(Kind::Agent),
        policies: of(Kind::Policy),
    };
    // Entities are JSON objects with string keys, so serializing them to memory cannot fail.
    let mut bytes = serde_json::to_vec_pretty(&file).expect("a catalog is always JSON");
    bytes.push(b'\n');
    bytes
}

impl<'a> Written<'a> {
    fn new(record: &'a Record) -> Self {
        let state = record.lifecycle.state;
        Self {
            entity: record.document.entity(),
            deprecated: state == LifecycleState::Deprecated,
            retired: state == LifecycleState::Retired,
            deprecation_message: record.lifecycle.message(),
            replacement: record.lifecycle.replacement(),
            sunset_date: record.lifecycle.sunset_date(),
            force_reason: record.lifecycle.force_reason(),
        }
    }
}
