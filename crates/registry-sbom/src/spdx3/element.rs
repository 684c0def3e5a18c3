//! The elements of an SPDX 3 graph.

use registry_core::{kind::Kind, reference::Key};
use serde::Serialize;

use crate::{bill::Bill, id, item::Item, license::License};

/// One element; members are serialized in this order.
#[derive(Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub(super) enum Element {
    CreationInfo {
        #[serde(rename = "@id")]
        id: &'static str,
        spec_version: &'static str,
        created: String,
        created_by: [String; 1],
    },
    SoftwareAgent(Named),
    Organization(Named),
    SpdxDocument {
        #[serde(flatten)]
        named: Named,
        profile_conformance: &'static [&'static str],
        root_element: [String; 1],
    },
    #[serde(rename = "software_Sbom")]
    Sbom {
        #[serde(flatten)]
        named: Named,
        comment: String,
        profile_conformance: &'static [&'static str],
        root_element: Vec<String>,
        element: Vec<String>,
    },
    #[serde(rename = "software_Package")]
    Package(Box<Package>),
    Relationship {
        #[serde(flatten)]
        named: Named,
        from: String,
        relationship_type: &'static str,
        completeness: &'static str,
        to: Vec<String>,
    },
    #[serde(rename = "simplelicensing_LicenseExpression")]
    LicenseExpression {
        #[serde(flatten)]
        named: Named,
        #[serde(rename = "simplelicensing_licenseExpression")]
        expression: String,
        #[serde(rename = "simplelicensing_customIdToUri", skip_serializing_if = "Vec::is_empty")]
        custom: Vec<DictionaryEntry>,
    },
    #[serde(rename = "simplelicensing_SimpleLicensingText")]
    LicenseText {
        #[serde(flatten)]
        named: Named,
        #[serde(rename = "simplelicensing_licenseText")]
        text: String,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Named {
    spdx_id: String,
    creation_info: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Package {
    #[serde(flatten)]
    named: Named,
    #[serde(rename = "software_packageVersion")]
    version: String,
    #[serde(rename = "software_primaryPurpose")]
    purpose: &'static str,
    #[serde(rename = "suppliedBy", skip_serializing_if = "Option::is_none")]
    supplied_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(rename = "software_packageUrl", skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
    #[serde(rename = "software_homePage", skip_serializing_if = "Option::is_none")]
    home_page: Option<String>,
    #[serde(rename = "verifiedUsing", skip_serializing_if = "Vec::is_empty")]
    verified_using: Vec<Part>,
    #[serde(rename = "externalRef", skip_serializing_if = "Vec::is_empty")]
    external_refs: Vec<Part>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extension: Vec<Part>,
}

/// Objects inside of elements.
#[derive(Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub(super) enum Part {
    Hash {
        algorithm: &'static str,
        hash_value: String,
    },
    ExternalRef {
        external_ref_type: &'static str,
        locator: [String; 1],
        #[serde(skip_serializing_if = "Option::is_none")]
        comment: Option<&'static str>,
    },
    #[serde(rename = "extension_CdxPropertiesExtension")]
    Properties {
        #[serde(rename = "extension_cdxProperty")]
        properties: Vec<Part>,
    },
    #[serde(rename = "extension_CdxPropertyEntry")]
    Property {
        #[serde(rename = "extension_cdxPropName")]
        name: String,
        #[serde(rename = "extension_cdxPropValue")]
        value: String,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "DictionaryEntry")]
pub(super) struct DictionaryEntry {
    key: String,
    value: String,
}

const CREATION: &str = "_:creation";
const PROFILES: &[&str] = &["core", "software", "simpleLicensing", "extension"];

/// The relation of one entity to others.
#[derive(Clone, Copy)]
pub(super) enum Relation {
    DependsOn,
    Contains,
}

/// Creates the ids of a bill, and simple elements.
pub(super) struct Names {
    base: String,
}

impl Names {
    pub(super) fn new(base: String) -> Self {
        Self { base }
    }

    fn id(&self, of: impl std::fmt::Display) -> String {
        format!("{}#{of}", self.base)
    }

    fn named(&self, of: impl std::fmt::Display, name: Option<String>) -> Named {
        Named { spdx_id: self.id(of), creation_info: CREATION, name }
    }

    pub(super) fn organization(&self, name: &str) -> Element {
        Element::Organization(self.named(supplier(name), Some(name.to_owned())))
    }

    pub(super) fn relationship(&self, from: &Key, relation: Relation, to: &[&Key]) -> Element {
        let relationship_type = match relation {
            Relation::DependsOn => "dependsOn",
            Relation::Contains => "contains",
        };
        let to = to.iter().map(|key| self.id(key)).collect();
        self.relate(&from.to_string(), relationship_type, to)
    }

    pub(super) fn declared(&self, from: &Key, license: &License) -> Element {
        self.relate(&from.to_string(), "hasDeclaredLicense", vec![self.id(license_name(license))])
    }

    fn relate(&self, from: &str, relationship_type: &'static str, to: Vec<String>) -> Element {
        Element::Relationship {
            named: self.named(format_args!("{relationship_type}/{from}"), None),
            from: self.id(from),
            relationship_type,
            completeness: "complete",
            to,
        }
    }

    pub(super) fn license(&self, license: &License) -> Element {
        let named = self.named(license_name(license), None);
        match license {
            License::Name(name) => Element::LicenseText { named, text: name.clone() },
            License::Expression(expression) => {
                let entry = |(key, _): (String, _)| {
                    let value = self.id(format_args!("license/{key}"));
                    DictionaryEntry { key, value }
                };
                let custom = license.references().into_iter().map(entry).collect();
                Element::LicenseExpression { named, expression: expression.clone(), custom }
            }
        }
    }

    pub(super) fn license_text(&self, id: &str, text: &str) -> Element {
        let named = self.named(format_args!("license/{id}"), Some(id.to_owned()));
        Element::LicenseText { named, text: text.to_owned() }
    }
}

fn supplier(name: &str) -> String {
    format!("supplier/{}", id::short_hash(name))
}

fn license_name(license: &License) -> String {
    match license {
        License::Name(name) => format!("license/{}", id::short_hash(name)),
        License::Expression(text) => format!("license-expression/{}", id::short_hash(text)),
    }
}

/// The elements before the packages: creation information, tool and document.
pub(super) fn head(bill: &Bill, names: &Names) -> Vec<Element> {
    let root = bill.root.as_ref().map_or_else(|| "registry".to_owned(), ToString::to_string);
    let writer = names.named("writer", Some(format!("registry-{}", env!("CARGO_PKG_VERSION"))));
    let mut head = vec![
        Element::CreationInfo {
            id: CREATION,
            spec_version: "3.0.1",
            created: id::seconds(bill.time),
            created_by: [names.id("writer")],
        },
        Element::SoftwareAgent(writer),
        Element::SpdxDocument {
            named: names.named("document", Some(bill.name())),
            profile_conformance: PROFILES,
            root_element: [names.id("sbom")],
        },
        Element::Sbom {
            named: names.named("sbom", Some(bill.name())),
            comment: bill.describe_source(),
            profile_conformance: PROFILES,
            root_element: vec![names.id(root)],
            element: bill.keys().map(|key| names.id(key)).collect(),
        },
    ];
    if bill.root.is_none() {
        head.push(registry_package(bill, names));
        let tops: Vec<_> = bill.subjects().into_iter().map(|key| names.id(key)).collect();
        if !tops.is_empty() {
            head.push(names.relate("registry", "contains", tops));
        }
    }
    head
}

fn registry_package(bill: &Bill, names: &Names) -> Element {
    Element::Package(Box::new(Package {
        named: names.named("registry", Some(bill.name())),
        version: bill.catalog.revision().to_string(),
        purpose: "other",
        supplied_by: None,
        description: Some("everything that is registered".to_owned()),
        purl: None,
        home_page: None,
        verified_using: Vec::new(),
        external_refs: Vec::new(),
        extension: Vec::new(),
    }))
}

pub(super) fn package(names: &Names, item: Item) -> Element {
    let endpoints = item.endpoints.into_iter().map(|url| Part::ExternalRef {
        external_ref_type: "other",
        locator: [url],
        comment: Some("endpoint"),
    });
    let repository = item.repository.map(|url| Part::ExternalRef {
        external_ref_type: "vcs",
        locator: [url],
        comment: None,
    });
    let properties =
        item.properties.into_iter().map(|(name, value)| Part::Property { name, value });
    let hash = Part::Hash { algorithm: "sha256", hash_value: id::hex(item.digest) };
    Element::Package(Box::new(Package {
        named: names.named(&item.key, Some(item.key.name.to_string())),
        version: item.key.version.to_string(),
        purpose: match item.key.kind {
            Kind::Schema | Kind::Policy => "specification",
            Kind::Tool => "library",
            Kind::Server | Kind::Agent => "application",
        },
        supplied_by: item.supplier.map(|it| names.id(supplier(&it.name))),
        description: item.description,
        purl: Some(item.purl),
        home_page: item.website,
        verified_using: vec![hash],
        external_refs: endpoints.chain(repository).collect(),
        extension: vec![Part::Properties { properties: properties.collect() }],
    }))
}
