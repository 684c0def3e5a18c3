//! Policies in scoped catalogs: an entity in a scope is selected by the same policies as in the
//! whole catalog, and has the same owner.

use std::sync::Arc;

use proptest::{collection::vec, prelude::*, sample::select};
use registry_core::{
    Catalog, Entity, Key, Kind, Scope, Setting, SettingChange, policies::EffectiveVersions,
    scoped_catalog::ScopedCatalog,
};
use registry_fixtures::world::{commit, empty, wish};

const ROOTS: [&str; 7] = [
    "agent/a@1.0.0",
    "agent/b@*",
    "tool/b@*",
    "tool/c@1.1.0",
    "server/a@*",
    "schema/c@*",
    "tool/d@2.0.0-rc.1",
];

/// The policies in force and the candidates that select an entity.
fn selecting(catalog: &Catalog, entity: &Entity) -> Vec<Key> {
    let effective = catalog.effective_policies().into_iter().flat_map(EffectiveVersions::iter);
    let selecting = effective.filter(|record| match record.document.entity() {
        Entity::Policy(policy) => catalog.is_selected(&policy.applies_to, entity),
        _ => false,
    });
    selecting.map(|record| record.document.key().clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn scoped_catalog_has_selecting_policies_and_owners(
        batches in vec((vec(wish(), 1..8), select(&["tool/a", "agent/b", "server/a", "tool/b"][..])), 1..8),
        roots in vec(select(&ROOTS[..]), 1..4),
    ) {
        let scope = Arc::new(Scope::from_roots(&roots).unwrap());
        let mut catalog = empty();
        let mut part = ScopedCatalog::select(scope.clone(), &catalog);
        let mut held = part.catalog().clone();
        for (i, (batch, given)) in batches.iter().enumerate() {
            if let Some(sealed) = commit(&catalog, batch) {
                catalog.apply(&sealed).unwrap();
            }
            let mut settings = catalog.settings().clone();
            let setting = Setting::Owner(format!("team {i}"));
            let change = SettingChange { target: given.parse().unwrap(), setting };
            settings.apply(&change, catalog.revision());
            catalog = catalog.with_settings(settings);

            let changed = catalog.changed_since(part.source());
            part.advance(&catalog, changed.as_deref());
            let scoped = part.catalog();
            for (key, record) in scoped.iter().filter(|(key, _)| key.kind != Kind::Policy) {
                let entity = record.document.entity();
                prop_assert_eq!(selecting(scoped, entity), selecting(&catalog, entity), "{}", key);
                prop_assert_eq!(scoped.owner_of(record), catalog.owner_of(record), "{}", key);
            }
            let afresh = ScopedCatalog::select(scope.clone(), &catalog);
            prop_assert_eq!(scoped, afresh.catalog());
            prop_assert_eq!(scoped.content_digest(), afresh.catalog().content_digest());
            let step = scoped.delta_from(&held);
            let at = (scoped.revision(), scoped.chain());
            let stepped = held.with_delta(at, scope.clone(), step).unwrap();
            prop_assert_eq!(&stepped, scoped);
            prop_assert_eq!(stepped.content_digest(), scoped.content_digest());
            held = stepped;
        }
    }
}
