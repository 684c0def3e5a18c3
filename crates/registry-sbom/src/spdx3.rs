//! Output as SPDX 3.0.1 JSON-LD: a graph of elements of the profiles core, software, simple
//! licensing and extension.
//!
//! The id of an element consists of the bill's UUID and the entity's key. Properties without a
//! field in SPDX are in its extension for CycloneDX properties.

mod element;

use std::{cell::RefCell, collections::BTreeSet, io};

use element::{Element, Names, Relation};
use registry_core::kind::Kind;
use serde::Serialize;

use crate::{
    bill::Bill,
    format::Format,
    id,
    item::Item,
    license::License,
    metadata::Supplier,
    stream::{self, Each},
};

#[derive(Serialize)]
struct Document<G> {
    #[serde(rename = "@context")]
    context: &'static str,
    #[serde(rename = "@graph")]
    graph: G,
}

/// Elements shared by several packages, written once after them.
#[derive(Default)]
struct Shared {
    suppliers: BTreeSet<String>,
    licenses: BTreeSet<License>,
}

pub(super) fn write(bill: &Bill, out: impl io::Write) -> io::Result<()> {
    let names = Names::new(format!("urn:uuid:{}", id::uuid(bill, Format::Spdx30)));
    let shared = RefCell::new(Shared::default());
    let graph = || {
        let head = element::head(bill, &names);
        let packages = bill.records.iter().flat_map(|record| {
            let item = Item::new(bill, record);
            let mut found = Vec::with_capacity(3);
            let mut shared = shared.borrow_mut();
            if let Some(Supplier { name, .. }) = &item.supplier {
                shared.suppliers.insert(name.clone());
            }
            if let Some(license) = &item.license {
                found.push(names.declared(&item.key, license));
                shared.licenses.insert(license.clone());
            }
            let edges = bill.edges(record);
            if !edges.is_empty() {
                let relation = match item.key.kind {
                    Kind::Server => Relation::Contains,
                    _ => Relation::DependsOn,
                };
                found.push(names.relationship(&item.key, relation, &edges));
            }
            found.insert(0, element::package(&names, item));
            found
        });
        // Evaluated lazily, after every package has been written.
        let rest = std::iter::once_with(|| rest(&names, &shared.borrow())).flatten();
        head.into_iter().chain(packages).chain(rest)
    };
    let context = "https://spdx.org/rdf/3.0.1/spdx-context.jsonld";
    stream::write(&Document { context, graph: Each(graph) }, out)
}

fn rest(names: &Names, shared: &Shared) -> Vec<Element> {
    let suppliers = shared.suppliers.iter().map(|name| names.organization(name));
    let licenses = shared.licenses.iter().map(|license| names.license(license));
    let references: BTreeSet<_> = shared
        .licenses
        .iter()
        .filter(|license| matches!(license, License::Expression(_)))
        .flat_map(License::references)
        .collect();
    let references = references.into_iter().map(|(id, text)| names.license_text(&id, text));
    suppliers.chain(licenses).chain(references).collect()
}
