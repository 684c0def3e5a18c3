//! Bills of random registries are exact, closed, reproducible and parsable. The acceptance tests
//! validate bills with the official schemas.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;

use proptest::{collection::vec, option, prelude::*};
use registry_core::{Catalog, Entity, Key, Kind, Timestamp};
use registry_fixtures::world::{Wish, catalog, commit, empty, registration, wish};
use registry_sbom::{Bill, Format, consumers, read};
use serde_json::Value;

fn write(catalog: &Catalog, root: Option<&Key>, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    let bill = Bill::build(catalog, Timestamp::from_millis(0), root).unwrap();
    bill.write(format, &mut bytes).unwrap();
    bytes
}

/// Adds all referenced keys until nothing changes. The tools of a server are added only if it is
/// the root.
fn brute_force(catalog: &Catalog, root: &Key) -> BTreeSet<Key> {
    let mut found = BTreeSet::from([root.clone()]);
    loop {
        let refers = |key: &&Key| key.kind != Kind::Server || *key == root;
        let next: BTreeSet<Key> = found
            .iter()
            .filter(refers)
            .flat_map(|key| catalog.find(key).unwrap().document.edges().to_vec())
            .filter(|key| catalog.find(key).is_some() && !found.contains(key))
            .collect();
        if next.is_empty() {
            return found;
        }
        found.extend(next);
    }
}

/// The keys of the entities that bills list.
fn components(catalog: &Catalog) -> Vec<Key> {
    let keys = catalog.iter().map(|(key, _)| key);
    keys.filter(|key| key.kind != Kind::Policy).cloned().collect()
}

/// The entries of a CycloneDX bill by `bom-ref`, and every reference in its dependency graph.
fn refs(bytes: &[u8]) -> (Vec<String>, Vec<String>, Vec<String>) {
    let bill: Value = serde_json::from_slice(bytes).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut listed: Vec<_> =
        [&bill["components"], &bill["services"]].into_iter().flat_map(list).collect();
    listed.push(bill["metadata"]["component"].clone());
    let entries = list(&bill["dependencies"]);
    let of = entries.iter().map(|entry| text(&entry["ref"])).collect();
    let targets = |entry: &Value| -> Vec<String> {
        let targets = [list(&entry["dependsOn"]), list(&entry["provides"])].concat();
        let unique: BTreeSet<_> = targets.iter().map(text).collect();
        assert_eq!(unique.len(), targets.len(), "duplicate reference: {entry}");
        unique.into_iter().collect()
    };
    let targets = entries.iter().flat_map(targets).collect();
    (listed.iter().map(|thing| text(&thing["bom-ref"])).collect(), of, targets)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bill_is_closure_with_internal_edges(batch in vec(registration(), 0..24)) {
        let catalog = catalog(&batch);
        for root in &components(&catalog) {
            let bytes = write(&catalog, Some(root), Format::CycloneDx16);
            let (listed, of, targets) = refs(&bytes);
            let unique: BTreeSet<_> = listed.iter().cloned().collect();
            prop_assert_eq!(unique.len(), listed.len(), "duplicate bom-ref");
            let things = unique.iter().filter(|text| *text != "subject");
            let things: BTreeSet<Key> = things.map(|text| text.parse().unwrap()).collect();
            prop_assert_eq!(things, brute_force(&catalog, root));
            prop_assert_eq!(of.into_iter().collect::<BTreeSet<_>>(), unique.clone());
            prop_assert!(targets.iter().all(|target| unique.contains(target)));
        }
        let (listed, ..) = refs(&write(&catalog, None, Format::CycloneDx17));
        prop_assert_eq!(listed.len(), components(&catalog).len() + 1);
    }

    #[test]
    fn formats_agree_and_are_reproducible(
        batch in vec(registration(), 0..16),
        root in option::of(any::<prop::sample::Index>()),
    ) {
        let catalog = catalog(&batch);
        let keys = components(&catalog);
        let root = root.filter(|_| !keys.is_empty()).map(|index| index.get(&keys).clone());
        let written = Format::ALL.map(|format| write(&catalog, root.as_ref(), format));
        prop_assert_eq!(&written, &Format::ALL.map(|f| write(&catalog, root.as_ref(), f)));
        let [first, rest @ ..] = written.map(|bytes| read(&bytes).unwrap());
        for other in rest {
            prop_assert_eq!(&other, &first);
        }
    }

    /// A catalog is a value, so later commits cannot affect an earlier bill.
    #[test]
    fn later_commits_do_not_change_earlier_bill(history in vec(vec(wish(), 0..6), 1..8)) {
        let mut catalog = empty();
        let mut taken: Vec<(Catalog, Vec<u8>)> = Vec::new();
        for wishes in &history {
            taken.push((catalog.clone(), write(&catalog, None, Format::Spdx30)));
            if let Some(sealed) = commit(&catalog, wishes) {
                catalog.apply(&sealed).unwrap();
            }
        }
        for (then, bytes) in taken {
            prop_assert_eq!(write(&then, None, Format::Spdx30), bytes);
        }
    }

    #[test]
    fn policies_are_properties_of_selected_entities(batch in vec(registration(), 0..20)) {
        let catalog = catalog(&batch);
        let bytes = write(&catalog, None, Format::CycloneDx17);
        let bill: Value = serde_json::from_slice(&bytes).unwrap();
        let items = [&bill["components"], &bill["services"]].into_iter().flat_map(|l| l.as_array().unwrap());
        for item in items {
            let key: Key = item["bom-ref"].as_str().unwrap().parse().unwrap();
            let properties = item["properties"].as_array().unwrap().iter();
            let listed: BTreeSet<_> = properties
                .filter(|property| property["name"] == "registry:policy")
                .map(|property| property["value"].as_str().unwrap().to_owned())
                .collect();
            let entity = catalog.find(&key).unwrap().document.entity();
            let expected = catalog.policies_in_force().filter(|record| {
                let Entity::Policy(policy) = record.document.entity() else { return false };
                catalog.is_selected(&policy.applies_to, entity)
            });
            let expected: BTreeSet<_> = expected.map(|r| r.document.key().to_string()).collect();
            prop_assert_eq!(listed, expected);
        }
    }

    #[test]
    fn consumers_are_entities_whose_bills_list_target(batch in vec(registration(), 0..20)) {
        let catalog = catalog(&batch);
        let keys: Vec<_> = catalog.iter().map(|(key, _)| key.clone()).collect();
        for target in &keys {
            let found = consumers(&catalog, target);
            for holder in found.after(None) {
                prop_assert_eq!((&holder.path[0], holder.path.last()), (&holder.key, Some(target)));
                for step in holder.path.windows(2) {
                    let edges = catalog.find(&step[0]).unwrap().document.edges();
                    let is_first = step[0] == holder.key;
                    prop_assert!(edges.contains(&step[1]));
                    prop_assert!(is_first || step[0].kind != Kind::Server);
                }
            }
            let found: BTreeSet<_> = found.after(None).map(|holder| holder.key).collect();
            let lists = |key: &&Key| *key != target && brute_force(&catalog, key).contains(target);
            prop_assert_eq!(found, keys.iter().filter(lists).cloned().collect());
        }
    }

    #[test]
    fn arbitrary_metadata_yields_valid_bill(metadata in metadata()) {
        let mut value = serde_json::json!({ "name": "a", "version": "1.0.0", "provides": [] });
        value["metadata"] = metadata;
        let catalog = catalog(&[Wish::Register(Kind::Server, value)]);
        for format in Format::ALL {
            prop_assert_eq!(read(&write(&catalog, None, format)).unwrap().len(), 1);
        }
    }
}

/// Metadata with the keys used by bills, and values of any type.
fn metadata() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "\\PC{0,12}",
        "pkg:[a-z]{1,5}/[%@/a-z0-9]{0,8}[@?#][a-z=&%#/.]{0,8}",
        "https?://[a-z:@%\\[\\]/.0-9]{0,12}",
        "[A-Z()+ :-]{0,6}(MIT|OR|WITH|LicenseRef-x|ISC)[ ()A-Z+]{0,6}",
    ];
    let leaf = prop_oneof![text.prop_map(Value::from), any::<bool>().prop_map(Value::from)];
    let key = prop::sample::select(vec![
        "license",
        "supplier",
        "name",
        "url",
        "repository",
        "websiteUrl",
        "remotes",
        "packages",
        "registryType",
        "identifier",
        "version",
        "purl",
    ]);
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((key.clone(), inner), 0..8).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
    .prop_filter("an object", Value::is_object)
}
