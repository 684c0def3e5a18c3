//! Closure, dependents and cycles, compared with brute force.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};
use registry_core::{
    Catalog, Code, Key, Kind,
    cycles::cycles,
    edges::{Relation, references},
    graph::{closure, dependents},
    rules::plan,
};
use registry_fixtures::world::{Wish, catalog, empty, registration};

/// Whether one entity directly depends on another.
fn needs(catalog: &Catalog, from: &Key, to: &Key) -> bool {
    let record = catalog.find(from).unwrap();
    references(record.document.entity())
        .iter()
        .any(|r| r.relation != Relation::Provides && r.key == *to)
}

/// The transitive closure by iterating to a fixed point.
fn reachable(size: usize, step: impl Fn(usize, usize) -> bool) -> Vec<Vec<bool>> {
    let mut reach: Vec<Vec<bool>> =
        (0..size).map(|i| (0..size).map(|j| step(i, j)).collect()).collect();
    for via in 0..size {
        for i in 0..size {
            for j in 0..size {
                reach[i][j] |= reach[i][via] && reach[via][j];
            }
        }
    }
    reach
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn closure_and_dependents_match_brute_force(batch in vec(registration(), 0..24)) {
        let catalog = catalog(&batch);
        let keys: Vec<Key> = catalog.iter().map(|(key, _)| key.clone()).collect();
        let reach = reachable(keys.len(), |i, j| needs(&catalog, &keys[i], &keys[j]));
        for (i, key) in keys.iter().enumerate() {
            let set = |holds: &dyn Fn(usize) -> bool| -> BTreeSet<Key> {
                (0..keys.len()).filter(|j| holds(*j)).map(|j| keys[j].clone()).collect()
            };
            prop_assert_eq!(closure(&catalog, [key]), set(&|j| j == i || reach[i][j]));
            prop_assert_eq!(dependents(&catalog, key), set(&|j| j != i && reach[j][i]));
        }
    }

    #[test]
    fn cycles_reports_each_component_once(graph in graph()) {
        let reach = reachable(graph.len(), |i, j| graph[i].contains(&j));
        let mut circular: BTreeSet<usize> = (0..graph.len()).filter(|i| reach[*i][*i]).collect();
        for path in cycles(&graph) {
            prop_assert!(path.len() > 1 && path.first() == path.last());
            for step in path.windows(2) {
                prop_assert!(graph[step[0]].contains(&step[1]), "{:?}", path);
            }
            let inner: BTreeSet<usize> = path[1..].iter().copied().collect();
            prop_assert_eq!(inner.len(), path.len() - 1, "visits a node twice: {:?}", path);
            let start = path[0];
            let component: Vec<usize> =
                (0..graph.len()).filter(|j| reach[start][*j] && reach[*j][start]).collect();
            prop_assert_eq!(component.first(), Some(&start));
            for node in component {
                prop_assert!(circular.remove(&node), "shown twice: {}", node);
            }
        }
        prop_assert!(circular.is_empty(), "not shown: {:?}", circular);
    }

    #[test]
    fn cycle_is_reported_iff_batch_has_one(batch in vec(registration(), 0..16)) {
        let batch: Vec<_> = batch.iter().filter_map(Wish::proposed).collect();
        let found = plan(&empty(), &batch).diagnostics;
        let catalog = catalog_of(&batch);
        let keys: Vec<Key> = catalog.iter().map(|(key, _)| key.clone()).collect();
        for (code, kinds) in [
            (Code::SchemaCycle, &[Kind::Schema][..]),
            (Code::DependencyCycle, &[Kind::Tool, Kind::Agent][..]),
        ] {
            let counts = |key: &Key| kinds.contains(&key.kind);
            let reach = reachable(keys.len(), |i, j| {
                counts(&keys[i]) && counts(&keys[j]) && needs(&catalog, &keys[i], &keys[j])
            });
            let circular = (0..keys.len()).any(|i| reach[i][i]);
            prop_assert_eq!(found.iter().any(|d| d.code == code), circular, "{:?}", code);
        }
    }
}

fn catalog_of(batch: &[registry_core::rules::Proposed]) -> Catalog {
    let wishes: Vec<Wish> = batch
        .iter()
        .filter_map(|proposed| match proposed {
            registry_core::rules::Proposed::Register(document) => {
                Some(Wish::Register(document.key().kind, document.entity().to_value()))
            }
            registry_core::rules::Proposed::SetLifecycle { .. } => None,
        })
        .collect();
    catalog(&wishes)
}

fn graph() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1..12_usize).prop_flat_map(|size| vec(vec(0..size, 0..3), size))
}
