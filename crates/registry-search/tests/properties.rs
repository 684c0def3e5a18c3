//! Properties of search over random histories. `tests/search` measures the quality of the order.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;

use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{select, subsequence},
};
use registry_core::{Catalog, Key, Kind, LifecycleState, Record};
use registry_fixtures::world::{self, Wish, wish};
use registry_search::{Index, Query, ResultPage, Target, Total, Versions};

const STATES: [LifecycleState; 3] =
    [LifecycleState::Active, LifecycleState::Deprecated, LifecycleState::Retired];

fn history() -> impl Strategy<Value = Vec<Vec<Wish>>> {
    vec(vec(wish(), 1..12), 1..6)
}

fn target() -> impl Strategy<Value = Target> {
    let text = "(tool|server|agent|schema)/[abcd](@(1\\.0\\.0|1\\.1\\.0|2\\.0\\.0-rc\\.1))?";
    text.prop_map(|text| text.parse().unwrap())
}

prop_compose! {
    fn query()(
        text in select(&["", " ", "a", "b c", "tool", "an agent s", "c schem", "zzz", "äx toool"][..]),
        kinds in subsequence(Kind::ALL.to_vec(), 0..3),
        owner in option::weighted(0.2, "author \"[012]\""),
        lifecycle in subsequence(STATES.to_vec(), 0..=3),
        provides in option::weighted(0.15, target()),
        depends_on in option::weighted(0.15, target()),
        used_by in option::weighted(0.15, target()),
        versions in select(&[Versions::Newest, Versions::All][..]),
    ) -> Query {
        let text = text.to_owned();
        let tags = Vec::new();
        Query { text, kinds, owner, tags, lifecycle, provides, depends_on, used_by, versions }
    }
}

/// The results in order.
fn seen(found: &ResultPage) -> Vec<(String, u32)> {
    let seen = |hit: &registry_search::Hit| {
        (format!("{} {:?}", hit.record.document.key(), hit.highlights), hit.score.to_bits())
    };
    found.hits.iter().map(seen).collect()
}

fn keys(found: &ResultPage) -> BTreeSet<Key> {
    found.hits.iter().map(|hit| hit.record.document.key().clone()).collect()
}

fn is_target(target: &Target, key: &Key) -> bool {
    let Target { kind, name, version } = target;
    key.kind == *kind && key.name == *name && version.as_ref().is_none_or(|v| key.version == *v)
}

/// Whether the filters accept a record, by exhaustive evaluation.
fn passes(catalog: &Catalog, query: &Query, record: &Record) -> bool {
    let key = record.document.key();
    let default = [LifecycleState::Active, LifecycleState::Deprecated];
    let states = if query.lifecycle.is_empty() { &default[..] } else { &query.lifecycle };
    let rank = |record: &Record| {
        let version = record.document.key().version.clone();
        (record.lifecycle.state, std::cmp::Reverse((!version.is_prerelease(), version)))
    };
    let is_wanted = |record: &Record| states.contains(&record.lifecycle.state);
    let best = catalog.versions(key.kind, &key.name).map(|(_, record)| record);
    let best = best.filter(|record| is_wanted(record)).min_by_key(|record| rank(record));
    let edges = record.document.edges();
    // A target without a version matches any registered version; references to others are rejected
    // by the rules.
    let is_known = |target: &Target, k: &Key| target.version.is_some() || catalog.find(k).is_some();
    let refers = |target: &Option<Target>, from_server: bool| {
        target.as_ref().is_none_or(|target| {
            (key.kind == Kind::Server) == from_server
                && edges.iter().any(|k| is_target(target, k) && is_known(target, k))
        })
    };
    let is_used = query.used_by.as_ref().is_none_or(|user| {
        catalog.iter().any(|(k, user_record)| {
            k.kind != Kind::Server
                && is_target(user, k)
                && user_record.document.edges().contains(key)
        })
    });
    let relations = [&query.provides, &query.depends_on, &query.used_by];
    let lists_versions =
        query.versions == Versions::All || relations.iter().any(|relation| relation.is_some());
    is_wanted(record)
        && (query.kinds.is_empty() || query.kinds.contains(&key.kind))
        && query.owner.as_ref().is_none_or(|owner| catalog.owner_of(record) == owner)
        && (lists_versions || best.is_some_and(|best| best.document.key() == key))
        && refers(&query.provides, true)
        && refers(&query.depends_on, false)
        && is_used
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn advanced_index_equals_rebuilt_index(history in history(), query in query()) {
        let mut catalog = world::empty();
        let mut index = Index::build(&catalog);
        let mut past = Vec::new();
        for wishes in &history {
            if let Some(sealed) = world::commit(&catalog, wishes) {
                catalog.apply(&sealed).unwrap();
                // Every second revision is applied together with the next.
                if catalog.revision().0.is_multiple_of(2) {
                    index.advance(&catalog);
                }
                past.push(catalog.clone());
            }
        }
        index.advance(&catalog);
        for catalog in past.iter().chain([&catalog]) {
            let anew = seen(&Index::build(catalog).search(&query, None, 100));
            prop_assert_eq!(&seen(&index.rewind_to(catalog).search(&query, None, 100)), &anew);
            if catalog.revision() == index.revision() {
                prop_assert_eq!(seen(&index.search(&query, None, 100)), anew);
            }
        }
    }

    #[test]
    fn filters_match_exhaustive_evaluation(
        wishes in vec(vec(wish(), 5..30), 1..4),
        query in query(),
    ) {
        let mut catalog = world::empty();
        for wishes in &wishes {
            if let Some(sealed) = world::commit(&catalog, wishes) {
                catalog.apply(&sealed).unwrap();
            }
        }
        let index = Index::build(&catalog);
        let all = catalog.iter().filter(|(_, record)| passes(&catalog, &query, record));
        let all: BTreeSet<Key> = all.map(|(key, _)| key.clone()).collect();
        let found = index.search(&query, None, 1_000);
        prop_assert_eq!(found.total, Total::Exactly(found.hits.len()));
        if query.text.trim().is_empty() {
            prop_assert_eq!(keys(&found), all);
            return Ok(());
        }
        // The words select the same entities regardless of the filters.
        let every = Query { text: query.text.clone(), versions: Versions::All, ..Query::default() };
        let every = Query { lifecycle: STATES.to_vec(), ..every };
        let matching = keys(&index.search(&every, None, 1_000));
        prop_assert_eq!(keys(&found), all.intersection(&matching).cloned().collect());
    }

    #[test]
    fn pages_concatenate_to_full_list(
        wishes in vec(vec(wish(), 5..30), 1..4),
        query in query(),
        size in 1_usize..5,
    ) {
        let mut catalog = world::empty();
        for wishes in &wishes {
            if let Some(sealed) = world::commit(&catalog, wishes) {
                catalog.apply(&sealed).unwrap();
            }
        }
        let index = Index::build(&catalog);
        let whole = seen(&index.search(&query, None, 1_000));
        let (mut parts, mut after) = (Vec::new(), None);
        loop {
            let page = index.search(&query, after, size);
            parts.extend(seen(&page));
            after = page.next;
            prop_assert!(page.hits.len() == size || after.is_none());
            if after.is_none() {
                break;
            }
        }
        prop_assert_eq!(parts, whole);
    }

    #[test]
    fn arbitrary_query_never_panics(text in any::<String>(), wishes in vec(wish(), 1..20)) {
        let index = Index::build(&world::catalog(&wishes));
        let found = index.search(&Query { text, ..Query::default() }, None, 10);
        for highlight in found.hits.iter().flat_map(|hit| &hit.highlights) {
            for range in &highlight.ranges {
                prop_assert!(highlight.text.get(range.clone()).is_some_and(|part| !part.is_empty()));
            }
        }
    }
}
