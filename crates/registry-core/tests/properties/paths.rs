//! Traversal, paths and impact, compared with brute force on cyclic and acyclic graphs.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};
use registry_core::{
    Catalog, Code, Key, Kind, LifecycleState, Notice,
    edges::{Relation, references},
    graph::{Direction, Effect, HypotheticalChange, Reach, Replacement, impact, paths},
    rules::{Proposed, plan},
};
use registry_fixtures::world::{catalog, registration, wish};

fn needs(catalog: &Catalog, from: &Key) -> BTreeSet<Key> {
    let Some(record) = catalog.find(from) else { return BTreeSet::new() };
    references(record.document.entity())
        .into_iter()
        .filter(|r| r.relation != Relation::Provides && catalog.find(&r.key).is_some())
        .map(|r| r.key)
        .collect()
}

/// Every simple path, found by exhaustive search.
fn simple_paths(catalog: &Catalog, path: &mut Vec<Key>, to: &Key, found: &mut Vec<Vec<Key>>) {
    let Some(last) = path.last().cloned() else { return };
    if last == *to {
        found.push(path.clone());
        return;
    }
    for next in needs(catalog, &last) {
        if !path.contains(&next) {
            path.push(next);
            simple_paths(catalog, path, to, found);
            path.pop();
        }
    }
}

fn is_circular(catalog: &Catalog) -> bool {
    catalog.iter().any(|(key, _)| {
        let needed = needs(catalog, key);
        needed.iter().any(|next| registry_core::graph::closure(catalog, [next]).contains(key))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn paths_match_shortest_simple_paths(batch in vec(registration(), 0..20)) {
        let catalog = catalog(&batch);
        let keys: Vec<Key> = catalog.iter().map(|(key, _)| key.clone()).collect();
        let circular = is_circular(&catalog);
        for from in &keys {
            for to in &keys {
                let mut all = Vec::new();
                simple_paths(&catalog, &mut vec![from.clone()], to, &mut all);
                let mut lengths: Vec<usize> = all.iter().map(Vec::len).collect();
                lengths.sort_unstable();
                for most in [1, 3, 100] {
                    let found = paths(&catalog, from, to, most);
                    let shown: Vec<usize> = found.shown.iter().map(Vec::len).collect();
                    prop_assert_eq!(&shown, &lengths[..most.min(lengths.len())]);
                    let different: BTreeSet<_> = found.shown.iter().collect();
                    prop_assert_eq!(different.len(), found.shown.len());
                    prop_assert!(found.shown.iter().all(|path| all.contains(path)));
                    if !circular {
                        prop_assert_eq!(found.total, all.len() as u64);
                    }
                }
            }
        }
    }

    #[test]
    fn reach_distances_match_brute_force(batch in vec(registration(), 0..24), deepest in 0..4_usize) {
        let catalog = catalog(&batch);
        for (root, _) in catalog.iter() {
            let reach = Reach::from_roots(&catalog, [root], Direction::Dependencies, None);
            for (i, node) in reach.nodes().iter().enumerate() {
                let shortest = paths(&catalog, root, node.key, 1).shown;
                prop_assert_eq!(shortest[0].len(), node.depth + 1);
                let path = reach.path(i);
                prop_assert_eq!(path.len(), node.depth + 1);
                for step in path.windows(2) {
                    let (from, to) = (reach.nodes()[step[0]].key, reach.nodes()[step[1]].key);
                    prop_assert!(needs(&catalog, from).contains(to));
                }
            }
            let near = Reach::from_roots(&catalog, [root], Direction::Dependencies, Some(deepest));
            let expected = reach.nodes().iter().filter(|node| node.depth <= deepest).count();
            prop_assert_eq!(near.nodes(), &reach.nodes()[..expected]);
        }
    }

    #[test]
    fn kinds_determine_relation(batch in vec(registration(), 0..24)) {
        for (key, record) in catalog(&batch).iter() {
            for reference in references(record.document.entity()) {
                let told = Relation::between(key.kind, reference.key.kind);
                prop_assert_eq!(told, reference.relation);
            }
        }
    }

    #[test]
    fn impact_of_retirement_matches_rules(batch in vec(wish(), 0..32)) {
        let catalog = catalog(&batch);
        for (key, record) in catalog.iter() {
            if record.lifecycle.state == LifecycleState::Retired {
                continue;
            }
            let told = impact(&catalog, key, &HypotheticalChange::Retire, usize::MAX);
            let change = Proposed::SetLifecycle {
                key: key.clone(),
                state: LifecycleState::Retired,
                notice: Notice::default(),
            };
            let found = plan(&catalog, &[change]).diagnostics;
            let refused: BTreeSet<String> = found
                .iter()
                .filter(|found| found.code == Code::StillNeeded)
                .map(|found| found.message.clone())
                .collect();
            let named = |message: &String| message.split(" is active").next().map(str::to_owned);
            let users: BTreeSet<_> = refused.iter().map(named).collect();
            prop_assert_eq!(told.breaking, users.len());
            for affected in told.affected.iter().filter(|a| a.effect == Effect::Breaks) {
                let user = &affected.path[0];
                let named = format!("{user} is active and depends on it: ");
                let lines = refused.iter().filter(|line| line.starts_with(&named));
                let lengths = lines.map(|line| line.matches(" -> ").count() + 1);
                prop_assert_eq!(lengths.min(), Some(affected.path.len()), "{}", user);
            }
        }
    }

    #[test]
    fn impact_counts_all_paths_to_listed_dependents(
        batch in vec(registration(), 0..24),
        most in 1..6_usize,
    ) {
        let catalog = catalog(&batch);
        if is_circular(&catalog) {
            return Ok(());
        }
        for (key, _) in catalog.iter() {
            let told = impact(&catalog, key, &HypotheticalChange::Retire, most);
            prop_assert_eq!(told.affected.len(), told.total.min(most));
            for affected in &told.affected {
                let mut all = Vec::new();
                let user = affected.record.document.key().clone();
                simple_paths(&catalog, &mut vec![user], key, &mut all);
                prop_assert_eq!(affected.paths, all.len() as u64);
                prop_assert!(all.contains(&affected.path));
            }
        }
    }

    #[test]
    fn identical_replacement_breaks_nothing(batch in vec(registration(), 0..24)) {
        let catalog = catalog(&batch);
        for (key, record) in catalog.iter().filter(|(key, _)| key.kind != Kind::Server) {
            let (document, accompanying) = (record.document.clone(), Vec::new());
            let same = HypotheticalChange::Replace(Replacement { document, accompanying });
            let told = impact(&catalog, key, &same, usize::MAX);
            prop_assert_eq!(told.breaking, 0, "{:?}", told);
        }
    }
}
