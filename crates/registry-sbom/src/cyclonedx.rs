//! Output as CycloneDX 1.6 or 1.7 JSON.
//!
//! Servers and agents are services, tools and schemas are components. A `bom-ref` is the key of an
//! entity. A root that is a service also occurs in `metadata.component` as an application, because
//! only components are allowed there. Licenses are always expressions or names, never `id`s,
//! because each format version has its own list of identifiers.

use std::io;

use registry_core::{catalog::Record, kind::Kind, reference::Key};
use serde::Serialize;

use crate::{
    bill::{Bill, HASHES},
    format::Format,
    id,
    item::Item,
    license::License,
    metadata::Supplier,
    stream::{self, Each},
};

/// The `bom-ref` of the subject if it is not one of the components.
pub(super) const SUBJECT: &str = "subject";

/// The property with the digest of a service, because services have no hashes.
pub(super) const DIGEST: &str = "registry:digest";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bom<'a, C, S, D> {
    #[serde(rename = "$schema")]
    schema: String,
    #[serde(rename = "bomFormat")]
    format: &'static str,
    spec_version: &'a str,
    serial_number: String,
    version: u32,
    metadata: Metadata,
    components: C,
    services: S,
    dependencies: D,
}

#[derive(Serialize)]
struct Metadata {
    timestamp: String,
    tools: Tools,
    component: Component,
    properties: Vec<Property>,
}

#[derive(Serialize)]
struct Tools {
    components: [Component; 1],
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Component {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "bom-ref", skip_serializing_if = "Option::is_none")]
    bom_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supplier: Option<Organization>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    licenses: Option<[Licence; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external_references: Vec<Reference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<Property>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Service {
    #[serde(rename = "bom-ref")]
    bom_ref: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<Organization>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    endpoints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authenticated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    licenses: Option<[Licence; 1]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external_references: Vec<Reference>,
    properties: Vec<Property>,
}

#[derive(Serialize)]
struct Organization {
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    url: Vec<String>,
}

#[derive(Serialize)]
struct Hash {
    alg: &'static str,
    content: String,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Licence {
    Expression(String),
    License { name: String },
}

#[derive(Serialize)]
struct Reference {
    #[serde(rename = "type")]
    kind: &'static str,
    url: String,
}

#[derive(Serialize)]
struct Property {
    name: String,
    value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    #[serde(rename = "ref")]
    of: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    depends_on: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provides: Option<Vec<String>>,
}

pub(super) fn write(bill: &Bill, format: Format, out: impl io::Write) -> io::Result<()> {
    let version = format.as_str().trim_start_matches("cyclonedx-");
    let is_service = |record: &&_| is_service(key_of(record));
    let is_subject = |record: &&_| bill.root.as_ref() == Some(key_of(record));
    let item = |record| Item::new(bill, record);
    let components = || {
        let records = bill.records.iter().map(|r| &**r);
        records.filter(move |r| !is_service(r) && !is_subject(r)).map(|r| component(item(r)))
    };
    let services = || {
        let records = bill.records.iter().map(|r| &**r);
        records.filter(is_service).map(|r| service(item(r)))
    };
    let bom = Bom {
        schema: format!("http://cyclonedx.org/schema/bom-{version}.schema.json"),
        format: "CycloneDX",
        spec_version: version,
        serial_number: format!("urn:uuid:{}", id::uuid(bill, format)),
        version: 1,
        metadata: metadata(bill),
        components: Each(components),
        services: Each(services),
        dependencies: Each(|| dependencies(bill)),
    };
    stream::write(&bom, out)
}

fn key_of(record: &Record) -> &Key {
    record.document.key()
}

/// Whether entities of this kind are services.
fn is_service(key: &Key) -> bool {
    matches!(key.kind, Kind::Server | Kind::Agent)
}

fn metadata(bill: &Bill) -> Metadata {
    let writer = Component {
        kind: "application",
        name: "registry".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Component::default()
    };
    let property = |name: &str, value: String| Property { name: format!("registry:{name}"), value };
    Metadata {
        timestamp: bill.time.to_string(),
        tools: Tools { components: [writer] },
        component: subject(bill),
        properties: vec![
            property("chain", bill.catalog.chain().to_string()),
            property("hashes", HASHES.to_owned()),
            property("id", bill.catalog.registry().to_string()),
            property("revision", bill.catalog.revision().to_string()),
        ],
    }
}

/// The subject of the bill as a component.
fn subject(bill: &Bill) -> Component {
    let root = bill.records.iter().find(|record| bill.root.as_ref() == Some(key_of(record)));
    match root {
        Some(root) => {
            let component = component(Item::new(bill, root));
            if !is_service(key_of(root)) {
                return component;
            }
            Component { bom_ref: Some(SUBJECT.to_owned()), ..component }
        }
        None => Component {
            kind: "application",
            bom_ref: Some(SUBJECT.to_owned()),
            name: bill.name(),
            version: bill.catalog.revision().to_string(),
            description: Some("everything that is registered".to_owned()),
            ..Component::default()
        },
    }
}

fn component(item: Item) -> Component {
    let (group, name) = names(&item.key);
    let external_references = references(&item);
    Component {
        kind: match item.key.kind {
            Kind::Schema | Kind::Policy => "data",
            Kind::Tool => "library",
            Kind::Server | Kind::Agent => "application",
        },
        bom_ref: Some(item.key.to_string()),
        supplier: item.supplier.map(organization),
        group,
        name,
        version: item.key.version.to_string(),
        description: item.description,
        hashes: vec![Hash { alg: "SHA-256", content: id::hex(item.digest) }],
        licenses: item.license.map(licence),
        purl: Some(item.purl),
        external_references,
        properties: item.properties.into_iter().map(property).collect(),
    }
}

fn service(item: Item) -> Service {
    let (group, name) = names(&item.key);
    let external_references = references(&item);
    let mut properties: Vec<_> = item.properties.into_iter().map(property).collect();
    properties.push(Property { name: DIGEST.to_owned(), value: item.digest.to_string() });
    properties.push(Property { name: "registry:purl".to_owned(), value: item.purl });
    properties.sort_unstable_by(|a, b| (&a.name, &a.value).cmp(&(&b.name, &b.value)));
    Service {
        bom_ref: item.key.to_string(),
        provider: item.supplier.map(organization),
        group,
        name,
        version: item.key.version.to_string(),
        description: item.description,
        endpoints: item.endpoints,
        authenticated: item.authenticated,
        licenses: item.license.map(licence),
        external_references,
        properties,
    }
}

/// The namespace of a name and the name within it.
fn names(key: &Key) -> (Option<String>, String) {
    match key.name.as_str().split_once('/') {
        Some((group, name)) => (Some(group.to_owned()), name.to_owned()),
        None => (None, key.name.to_string()),
    }
}

fn organization(Supplier { name, url }: Supplier) -> Organization {
    Organization { name, url: url.into_iter().collect() }
}

fn licence(license: License) -> [Licence; 1] {
    [match license {
        License::Expression(expression) => Licence::Expression(expression),
        License::Name(name) => Licence::License { name },
    }]
}

fn property((name, value): (String, String)) -> Property {
    Property { name, value }
}

fn references(item: &Item) -> Vec<Reference> {
    let reference = |kind, url: &Option<String>| url.clone().map(|url| Reference { kind, url });
    let found = [reference("vcs", &item.repository), reference("website", &item.website)];
    found.into_iter().flatten().collect()
}

/// One entry for the subject, unless it is one of the components, and one per entity.
fn dependencies(bill: &Bill) -> impl Iterator<Item = Dependency> {
    let texts = |keys: Vec<&Key>| keys.into_iter().map(ToString::to_string).collect::<Vec<_>>();
    let is_apart = bill.root.as_ref().is_none_or(is_service);
    let subject = is_apart.then(|| Dependency {
        of: SUBJECT.to_owned(),
        depends_on: Some(texts(bill.subjects())),
        provides: None,
    });
    let entries = bill.records.iter().map(move |record| {
        let edges = texts(bill.edges(record));
        let provides = key_of(record).kind == Kind::Server;
        Dependency {
            of: key_of(record).to_string(),
            depends_on: (!provides && !edges.is_empty()).then(|| edges.clone()),
            provides: (provides && !edges.is_empty()).then_some(edges),
        }
    });
    subject.into_iter().chain(entries)
}
