//! Output as SPDX 2.3 JSON.
//!
//! Every entity is a package. Properties without a field in SPDX are in its `comment`, one
//! `name=value` per line. A server *contains* the tools that it provides.

use std::{cell::RefCell, collections::BTreeMap, io};

use registry_core::kind::Kind;
use serde::Serialize;

use crate::{
    bill::Bill,
    format::Format,
    id,
    item::Item,
    license::{self, License},
    stream::{self, Each},
};

const DOCUMENT: &str = "SPDXRef-DOCUMENT";
/// The package of the whole registry; the identifier of an entity always contains `-2F`.
const REGISTRY: &str = "SPDXRef-Registry";
const UNKNOWN: &str = "NOASSERTION";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<P, L, R> {
    spdx_version: &'static str,
    data_license: &'static str,
    #[serde(rename = "SPDXID")]
    id: &'static str,
    name: String,
    #[serde(rename = "documentNamespace")]
    namespace: String,
    comment: String,
    creation_info: CreationInfo,
    packages: P,
    // Known only after the packages are written.
    has_extracted_licensing_infos: L,
    relationships: R,
}

#[derive(Serialize)]
struct CreationInfo {
    created: String,
    creators: [String; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Package {
    #[serde(rename = "SPDXID")]
    id: String,
    name: String,
    version_info: String,
    supplier: String,
    download_location: &'static str,
    files_analyzed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checksums: Vec<Checksum>,
    license_concluded: &'static str,
    license_declared: String,
    copyright_text: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    comment: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external_refs: Vec<ExternalRef>,
    primary_package_purpose: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checksum {
    algorithm: &'static str,
    checksum_value: String,
}

#[derive(Serialize)]
struct ExternalRef {
    #[serde(rename = "referenceCategory")]
    category: &'static str,
    #[serde(rename = "referenceType")]
    kind: &'static str,
    #[serde(rename = "referenceLocator")]
    locator: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExtractedLicense {
    license_id: String,
    name: String,
    extracted_text: String,
}

#[derive(Serialize)]
struct Relationship {
    #[serde(rename = "spdxElementId")]
    from: String,
    #[serde(rename = "relationshipType")]
    relation: &'static str,
    #[serde(rename = "relatedSpdxElement")]
    to: String,
}

pub(super) fn write(bill: &Bill, out: impl io::Write) -> io::Result<()> {
    let found = RefCell::new(BTreeMap::new());
    let packages = || {
        let entities = bill.records.iter().map(|record| {
            let item = Item::new(bill, record);
            let references = item.license.iter().flat_map(License::references);
            for (id, text) in references {
                let mut found = found.borrow_mut();
                let known: &mut String = found.entry(id).or_default();
                // An expression may contain the id assigned to a name.
                if known.is_empty() || text != license::UNKNOWN_TEXT {
                    text.clone_into(known);
                }
            }
            package(item)
        });
        bill.root.is_none().then(|| registry(bill)).into_iter().chain(entities)
    };
    let licenses = || found.borrow().clone().into_iter().map(extracted);
    let document = Document {
        spdx_version: "SPDX-2.3",
        data_license: "CC0-1.0",
        id: DOCUMENT,
        name: bill.name(),
        namespace: format!("urn:uuid:{}", id::uuid(bill, Format::Spdx23)),
        comment: bill.describe_source(),
        creation_info: CreationInfo {
            created: id::seconds(bill.time),
            creators: [format!("Tool: registry-{}", env!("CARGO_PKG_VERSION"))],
        },
        packages: Each(packages),
        has_extracted_licensing_infos: Each(licenses),
        relationships: Each(|| relationships(bill)),
    };
    stream::write(&document, out)
}

fn package(item: Item) -> Package {
    // Each property is one line, so line breaks in values are escaped.
    let line = |text: &str| text.replace('\\', "\\\\").replace('\n', "\\n");
    let properties = item.properties.iter().map(|(name, value)| format!("{name}={}", line(value)));
    let external_refs = external_refs(&item);
    Package {
        id: id::spdx_ref(&item.key),
        name: item.key.name.to_string(),
        version_info: item.key.version.to_string(),
        supplier: item.supplier.map_or_else(|| UNKNOWN.to_owned(), |it| organization(&it.name)),
        download_location: UNKNOWN,
        files_analyzed: false,
        checksums: vec![Checksum { algorithm: "SHA256", checksum_value: id::hex(item.digest) }],
        license_concluded: UNKNOWN,
        license_declared: item
            .license
            .map_or_else(|| UNKNOWN.to_owned(), |license| license.spdx2()),
        copyright_text: UNKNOWN,
        description: item.description,
        comment: properties.collect::<Vec<_>>().join("\n"),
        external_refs,
        primary_package_purpose: match item.key.kind {
            Kind::Schema | Kind::Policy => "FILE",
            Kind::Tool => "LIBRARY",
            Kind::Server | Kind::Agent => "APPLICATION",
        },
    }
}

/// SPDX interprets parentheses at the end as an email address, so a name with parentheses gets an
/// empty one.
fn organization(name: &str) -> String {
    let address = if name.contains(['(', ')']) { " ()" } else { "" };
    format!("Organization: {name}{address}")
}

fn registry(bill: &Bill) -> Package {
    Package {
        id: REGISTRY.to_owned(),
        name: bill.name(),
        version_info: bill.catalog.revision().to_string(),
        supplier: UNKNOWN.to_owned(),
        download_location: UNKNOWN,
        files_analyzed: false,
        checksums: Vec::new(),
        license_concluded: UNKNOWN,
        license_declared: UNKNOWN.to_owned(),
        copyright_text: UNKNOWN,
        description: Some("everything that is registered".to_owned()),
        comment: String::new(),
        external_refs: Vec::new(),
        primary_package_purpose: "OTHER",
    }
}

fn external_refs(item: &Item) -> Vec<ExternalRef> {
    let reference =
        |category, kind, locator: &String| ExternalRef { category, kind, locator: locator.clone() };
    let mut found = vec![reference("PACKAGE-MANAGER", "purl", &item.purl)];
    found.extend(item.endpoints.iter().map(|url| reference("OTHER", "endpoint", url)));
    found.extend(item.repository.iter().map(|url| reference("OTHER", "vcs", url)));
    found.extend(item.website.iter().map(|url| reference("OTHER", "website", url)));
    found
}

fn extracted((license_id, text): (String, String)) -> ExtractedLicense {
    let name = if text == license::UNKNOWN_TEXT { license_id.clone() } else { text.clone() };
    ExtractedLicense { license_id, name, extracted_text: text }
}

fn relationships(bill: &Bill) -> impl Iterator<Item = Relationship> {
    let edges = bill.records.iter().flat_map(move |record| {
        let from = id::spdx_ref(record.document.key());
        let relation = match record.document.key().kind {
            Kind::Server => "CONTAINS",
            _ => "DEPENDS_ON",
        };
        let edges = bill.edges(record).into_iter();
        edges.map(|to| relate(&from, relation, id::spdx_ref(to))).collect::<Vec<_>>()
    });
    described(bill).into_iter().chain(edges)
}

/// The subjects of the document.
fn described(bill: &Bill) -> Vec<Relationship> {
    if let Some(root) = &bill.root {
        return vec![relate(DOCUMENT, "DESCRIBES", id::spdx_ref(root))];
    }
    let mut found = vec![relate(DOCUMENT, "DESCRIBES", REGISTRY.to_owned())];
    let tops = bill.subjects().into_iter();
    found.extend(tops.map(|key| relate(REGISTRY, "CONTAINS", id::spdx_ref(key))));
    found
}

fn relate(from: &str, relation: &'static str, to: String) -> Relationship {
    Relationship { from: from.to_owned(), relation, to }
}
