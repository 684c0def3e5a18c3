//! `snapshot(r) == fold(log[1..=r])`, through the chain, restoring and exports.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};
use registry_core::{
    Catalog, Key, Record, RegistryFile, SealedCommit,
    registry_file::{read_export, write, write_export},
};
use registry_fixtures::world::{Wish, catalog, commit, empty, wish};

/// The log of a random history and the catalog after each of its commits.
fn log(batches: &[Vec<Wish>]) -> (Vec<SealedCommit>, Vec<Catalog>) {
    let (mut log, mut snapshots) = (Vec::new(), vec![empty()]);
    for batch in batches {
        let mut next = snapshots.last().unwrap().clone();
        if let Some(sealed) = commit(&next, batch) {
            next.apply(&sealed).unwrap();
            log.push(sealed);
            snapshots.push(next);
        }
    }
    (log, snapshots)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn snapshot_equals_fold_of_log(batches in vec(vec(wish(), 1..6), 0..10)) {
        let (log, snapshots) = log(&batches);
        for (r, snapshot) in snapshots.iter().enumerate() {
            let mut folded = empty();
            folded.content_digest();
            for sealed in &log[..r] {
                // As a follower receives it: bytes, verified against the chain.
                let (bytes, documents) = (sealed.bytes().clone(), sealed.documents().to_vec());
                let proved = SealedCommit::verify(&folded.chain(), bytes, sealed.chain(), documents);
                folded.apply(&proved.unwrap()).unwrap();
                prop_assert_eq!(folded.chain(), sealed.chain());
            }
            prop_assert_eq!(&folded, snapshot);
            prop_assert_eq!(folded.digest(), snapshot.digest());
            // One is updated incrementally, the other is computed from scratch.
            prop_assert_eq!(folded.content_digest(), snapshot.content_digest());
            for earlier in &snapshots[..r] {
                let derived = snapshot.without_content().with_content_since(earlier);
                prop_assert_eq!(derived.content_digest(), snapshot.content_digest());
            }
            prop_assert_eq!(snapshot.revision().0, r as u64);
        }
        for pair in snapshots.windows(2) {
            prop_assert_ne!(pair[0].digest(), pair[1].digest());
        }
    }

    #[test]
    fn restored_snapshot_continues_like_original(batches in vec(vec(wish(), 1..6), 1..8)) {
        let (log, snapshots) = log(&batches);
        for (r, snapshot) in snapshots.iter().enumerate() {
            let records: Vec<Record> = snapshot.iter().map(|(_, record)| (**record).clone()).collect();
            let (registry, chain) = (snapshot.registry().clone(), snapshot.chain());
            let mut restored = Catalog::restore(registry, snapshot.revision(), chain, records);
            prop_assert_eq!(&restored, snapshot);
            let mut read = read_export(&write_export(snapshot)).unwrap();
            prop_assert_eq!(&read, snapshot);
            for sealed in &log[r..] {
                restored.apply(sealed).unwrap();
                read.apply(sealed).unwrap();
            }
            prop_assert_eq!(Some(&restored), snapshots.last());
            prop_assert_eq!(Some(&read), snapshots.last());
        }
    }

    #[test]
    fn out_of_order_commit_is_rejected_unchanged(
        batches in vec(vec(wish(), 1..6), 2..6),
        wrong in any::<prop::sample::Index>(),
    ) {
        let (log, snapshots) = log(&batches);
        prop_assume!(!log.is_empty());
        let at = wrong.index(log.len());
        for (r, snapshot) in snapshots.iter().enumerate().filter(|(r, _)| *r != at) {
            let mut catalog = snapshot.clone();
            prop_assert!(catalog.apply(&log[at]).is_err(), "{} after {}", at + 1, r);
            prop_assert_eq!(&catalog, snapshot);
        }
    }

    #[test]
    fn written_file_yields_same_entities(batch in vec(wish(), 0..12)) {
        let before = catalog(&batch);
        let file = RegistryFile::parse(&write(&before)).unwrap();
        let changes = file.proposals().iter().map(|proposed| match proposed {
            registry_core::rules::Proposed::Register(document) => {
                Wish::Register(document.key().kind, document.entity().to_value())
            }
            registry_core::rules::Proposed::SetLifecycle { key, state, notice } => {
                Wish::SetLifecycle(key.clone(), *state, notice.message.clone())
            }
        });
        let after = catalog(&changes.collect::<Vec<_>>());
        let lines = |catalog: &Catalog| -> Vec<String> {
            let line = |record: &Record| {
                let active = record.is_active();
                let message = record.lifecycle.message().filter(|_| !active);
                format!("{} {} {message:?}", record.document.digest(), record.lifecycle.state)
            };
            catalog.iter().map(|(key, record)| format!("{key} {}", line(record))).collect()
        };
        prop_assert_eq!(lines(&before), lines(&after));
    }

    #[test]
    fn catalog_differences_match_entities(
        batches in vec(vec(wish(), 1..6), 1..8),
        sides in any::<[prop::sample::Index; 2]>(),
        place in any::<prop::sample::Index>(),
    ) {
        let (_, snapshots) = log(&batches);
        let [old, new] = sides.map(|side| &snapshots[side.index(snapshots.len())]);
        let state = |catalog: &Catalog, key: &Key| {
            let record = catalog.find(key)?;
            Some((record.lifecycle.state, record.lifecycle.notice.clone()))
        };
        let keys: BTreeSet<_> = old.iter().chain(new.iter()).map(|(key, _)| key.clone()).collect();
        let expected: Vec<_> =
            keys.into_iter().filter(|key| state(old, key) != state(new, key)).collect();
        let found = |after: Option<&Key>| -> Vec<Key> {
            old.entity_differences(new, after).map(|found| found.key.clone()).collect()
        };
        prop_assert_eq!(&found(None), &expected);
        for difference in old.entity_differences(new, None) {
            prop_assert_eq!(difference.old, old.find(difference.key));
            prop_assert_eq!(difference.new, new.find(difference.key));
        }
        if !expected.is_empty() {
            let place = place.index(expected.len());
            prop_assert_eq!(&found(Some(&expected[place])), &expected[place + 1..]);
        }
        for (key, _) in new.iter() {
            let lower = new.versions(key.kind, &key.name).filter(|(lower, _)| *lower < key);
            prop_assert_eq!(new.predecessor(key), lower.map(|(_, record)| record).last());
        }
    }
}
