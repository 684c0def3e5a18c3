//! Pruning: retires entities that a source no longer contains, and restores those it contains
//! again.
//!
//! `metadata.managedBy` of a document names its managing source. Only entities with that source and
//! owner that are missing from the batch are pruned. An entity with dependents outside of the
//! source is deprecated instead, and retired by a later run once they are gone. Only entities that
//! pruning itself retired or deprecated, which their notice shows, are restored. A deliberate
//! retirement stays.
//!
//! Only the highest version of a policy is in force. A source with lower versions only would turn
//! the policy off, and is rejected.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    catalog::{Catalog, Record},
    document::Document,
    entity::MANAGED_BY,
    graph::{Direction, Reach},
    kind::Kind,
    lifecycle::{LifecycleState, Notice},
    name::Name,
    reference::Key,
    rules::Proposed,
};

/// The selection of entities that may be pruned.
#[derive(Debug, Clone, Copy)]
pub struct Managed<'a> {
    /// The value of `metadata.managedBy`.
    pub source: &'a str,
    /// The owner of the entities.
    pub owner: &'a str,
}

/// A batch cannot be applied as the complete content of a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSource {
    /// No document names the source, so pruning would retire all of its entities.
    #[error(
        "no document in the files has `managedBy` `{0}`, so all entities of that source would be retired"
    )]
    Empty(String),
    /// Some documents do not name the source, so they could never be pruned.
    #[error(
        "{first}{} is not managed by `{source_name}`; \
         add \"metadata\": {{ \"managedBy\": \"{source_name}\" }}",
        and_more(*more)
    )]
    Unmarked {
        /// The first such document.
        first: Key,
        /// The number of further ones.
        more: usize,
        /// The source.
        source_name: String,
    },
    /// A policy of the source would have no version in force.
    #[error(
        "policy/{}{} would have no version in force: the highest registered version {} is not in \
         the files, and lower versions are never in force again; give the policy a version above \
         it, or remove the policy from the files to turn it off",
        highest.name, and_more(*more), highest.version
    )]
    PolicyOff {
        /// The highest version of the first such policy.
        highest: Key,
        /// The number of further ones.
        more: usize,
    },
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

/// The changes, beyond those in the files, that make the registry match its source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pruning {
    /// Retirements or deprecations of removed entities, and restorations of returned ones.
    pub changes: Vec<Proposed>,
    /// Entities of the source that were deprecated or retired by other means, and stay so.
    pub held: Vec<Key>,
}

/// Compares a source with the registered entities that it manages.
pub fn prune(
    catalog: &Catalog,
    batch: &[Proposed],
    managed: Managed<'_>,
) -> Result<Pruning, InvalidSource> {
    let documents = || batch.iter().filter_map(Proposed::document);
    let unmarked = documents().filter(|document| source_of(document) != Some(managed.source));
    let unmarked: BTreeSet<&Key> = unmarked.map(|document| document.key()).collect();
    if let Some(first) = unmarked.first() {
        let (first, source_name) = ((*first).clone(), managed.source.to_owned());
        return Err(InvalidSource::Unmarked { first, more: unmarked.len() - 1, source_name });
    }
    let kept: BTreeSet<&Key> = documents().map(|document| document.key()).collect();
    if kept.is_empty() {
        return Err(InvalidSource::Empty(managed.source.to_owned()));
    }
    let gone: BTreeSet<&Key> = catalog
        .iter()
        .filter(|(key, record)| !kept.contains(key) && is_managed(catalog, record, managed))
        .filter(|(_, record)| record.lifecycle.state != LifecycleState::Retired)
        .map(|(key, _)| key)
        .collect();
    let needed = still_needed(catalog, &gone, documents().map(|document| &**document));
    let change = |key: &&Key| {
        let record = catalog.find(key)?;
        let state =
            if needed.contains(key) { LifecycleState::Deprecated } else { LifecycleState::Retired };
        let is_new = record.lifecycle.state < state;
        is_new.then(|| set(key, state, managed.notice()))
    };
    let mut changes: Vec<_> = gone.iter().filter_map(change).collect();
    let (pruned, held) = inactive(catalog, batch, &kept, managed);
    let restored = |key: &Key| set(key, LifecycleState::Active, Notice::default());
    changes.extend(pruned.into_iter().map(restored));
    let off = policies_off(catalog, &kept, batch.iter().chain(&changes));
    if let Some(first) = off.first() {
        return Err(InvalidSource::PolicyOff { highest: (*first).clone(), more: off.len() - 1 });
    }
    Ok(Pruning { changes, held: held.into_iter().cloned().collect() })
}

impl Managed<'_> {
    /// The notice of pruning, which identifies its deprecations and retirements.
    fn notice(self) -> Notice {
        Notice::with_message(Some(&format!("no longer in {}", self.source)))
    }
}

fn set(key: &Key, state: LifecycleState, notice: Notice) -> Proposed {
    Proposed::SetLifecycle { key: key.clone(), state, notice }
}

/// The present but inactive entities: those that pruning changed, and those changed by other means.
/// Entities whose lifecycle is set by the files belong to neither.
fn inactive<'a>(
    catalog: &Catalog,
    batch: &[Proposed],
    kept: &BTreeSet<&'a Key>,
    managed: Managed<'_>,
) -> (Vec<&'a Key>, Vec<&'a Key>) {
    let said: BTreeSet<&Key> =
        batch.iter().filter(|change| change.document().is_none()).map(Proposed::key).collect();
    let find = |key: &&'a Key| Some((*key, catalog.find(key)?));
    let (pruned, held): (Vec<_>, Vec<_>) = kept
        .iter()
        .filter(|key| !said.contains(*key))
        .filter_map(find)
        .filter(|(_, record)| record.lifecycle.state != LifecycleState::Active)
        .filter(|(_, record)| is_managed(catalog, record, managed))
        .partition(|(_, record)| record.lifecycle.notice.as_deref() == Some(&managed.notice()));
    let key = |(key, _)| key;
    (pruned.into_iter().map(key).collect(), held.into_iter().map(key).collect())
}

/// The highest releases of policies that the files contain only in lower versions, if they are retired
/// after the changes. A deliberate retirement of all versions in the files stays possible, and the
/// trial of a pre-release while the policy is off.
fn policies_off<'a>(
    catalog: &'a Catalog,
    kept: &BTreeSet<&'a Key>,
    changes: impl Iterator<Item = &'a Proposed>,
) -> Vec<&'a Key> {
    let set: BTreeMap<&Key, LifecycleState> = changes
        .filter_map(|change| match change {
            Proposed::SetLifecycle { key, state, .. } => Some((key, *state)),
            Proposed::Register(_) => None,
        })
        .collect();
    let state = |key: &Key| catalog.find(key).map(|record| record.lifecycle.state);
    let is_off = |key: &Key| {
        let after = set.get(key).copied().or_else(|| state(key));
        after == Some(LifecycleState::Retired)
    };
    let mut wanted: BTreeMap<&Name, Vec<&Key>> = BTreeMap::new();
    for &key in kept.iter().filter(|key| key.kind == Kind::Policy && !is_off(key)) {
        wanted.entry(&key.name).or_default().push(key);
    }
    let is_release = |key: &Key| !key.version.is_prerelease();
    let mut off = Vec::new();
    for (name, versions) in wanted {
        let registered = catalog.versions(Kind::Policy, name).map(|(key, _)| key);
        let Some(highest) = registered.filter(|key| is_release(key)).last() else { continue };
        let mut releases = versions.into_iter().filter(|key| is_release(key)).peekable();
        let is_turned_off =
            releases.peek().is_some() || state(highest) != Some(LifecycleState::Retired);
        let is_kept = kept.contains(highest) || releases.any(|key| key > highest);
        if is_off(highest) && is_turned_off && !is_kept {
            off.push(highest);
        }
    }
    off
}

/// The managing source of a document.
fn source_of(document: &Document) -> Option<&str> {
    document.entity().metadata()?.get(MANAGED_BY).and_then(Value::as_str)
}

fn is_managed(catalog: &Catalog, record: &Record, managed: Managed<'_>) -> bool {
    catalog.owner_of(record) == managed.owner && source_of(&record.document) == Some(managed.source)
}

/// The entities with remaining dependents, direct or through other kept entities.
fn still_needed<'a>(
    catalog: &'a Catalog,
    gone: &BTreeSet<&'a Key>,
    batch: impl Iterator<Item = &'a Document>,
) -> BTreeSet<&'a Key> {
    let is_in_use = |key: &Key| {
        let state = catalog.find(key).map(|record| record.lifecycle.state);
        state.is_some_and(|state| state != LifecycleState::Retired)
    };
    // An entity that was retired by force and is needed by an active one keeps its own
    // dependencies.
    let leads_on = |key: &Key| {
        let reach = Reach::from_roots(catalog, [key], Direction::Dependents, None);
        reach.nodes().iter().any(|node| is_in_use(node.key) && !gone.contains(node.key))
    };
    // `provides` of a server is an offer, not a dependency.
    let stays = |key: &&Key| key.kind != Kind::Server && (is_in_use(key) || leads_on(key));
    let offers = |document: &&Document| document.key().kind != Kind::Server;
    let in_batch: BTreeSet<&Key> = batch.filter(offers).flat_map(Document::edges).collect();
    let mut needed: BTreeSet<&Key> = BTreeSet::new();
    loop {
        let more: Vec<_> = gone
            .iter()
            .copied()
            .filter(|key| !needed.contains(key))
            .filter(|key| {
                let mut users = catalog.dependents(key).filter(stays);
                in_batch.contains(key)
                    || users.any(|user| !gone.contains(user) || needed.contains(user))
            })
            .collect();
        if more.is_empty() {
            return needed;
        }
        needed.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::{
        plan,
        testing::{agent, catalog, policy, schema, server, source_tool, versioned, with},
    };

    fn marked(proposed: &Proposed) -> Proposed {
        with(proposed, json!({ "metadata": { "managedBy": "git/a" } }))
    }

    fn world() -> Vec<Proposed> {
        let mut all: Vec<_> = [
            schema("Old", &json!({ "type": "string" })),
            server("docs", &["read", "find"]),
            source_tool("read", "docs"),
            source_tool("find", "docs"),
        ]
        .iter()
        .map(marked)
        .collect();
        all.push(server("other", &["write"]));
        all.push(source_tool("write", "other"));
        all
    }

    fn pruned(before: &Catalog, batch: &[Proposed]) -> Vec<String> {
        let owner = before.iter().next().map(|(_, record)| record.owner.to_string()).unwrap();
        let changes =
            prune(before, batch, Managed { source: "git/a", owner: &owner }).unwrap().changes;
        let all = [batch, &changes].concat();
        assert!(plan(before, &all).is_acceptable(), "{:?}", plan(before, &all).diagnostics);
        changes
            .iter()
            .map(|change| match change {
                Proposed::SetLifecycle { key, state, .. } => format!("{key} {state}"),
                Proposed::Register(_) => panic!("nothing is registered"),
            })
            .collect()
    }

    #[test]
    fn prune_retires_only_removed_entities() {
        let before = catalog(&world());
        assert_eq!(pruned(&before, &world()[..4]), <[&str; 0]>::default());
        assert_eq!(pruned(&before, &world()[1..4]), ["schema/Old@1.0.0 retired"]);
        let everything = [marked(&schema("New", &json!({})))];
        assert_eq!(
            pruned(&before, &everything),
            [
                "schema/Old@1.0.0 retired",
                "server/docs@1.0.0 retired",
                "tool/find@1.0.0 retired",
                "tool/read@1.0.0 retired",
            ]
        );
    }

    #[test]
    fn prune_deprecates_entities_with_outside_dependents() {
        let depends = json!([{ "type": "tool", "name": "read", "version": "1.0.0" }]);
        let before = catalog(&[world(), vec![agent("outside", &depends)]].concat());
        let batch = [marked(&schema("New", &json!({})))];
        assert_eq!(
            pruned(&before, &batch),
            [
                "schema/Old@1.0.0 retired",
                "server/docs@1.0.0 deprecated",
                "tool/find@1.0.0 retired",
                "tool/read@1.0.0 deprecated",
            ]
        );
    }

    #[test]
    fn prune_restores_only_pruned_entities() {
        let managed = Managed { source: "git/a", owner: "" };
        let (schema, read) = ("schema/Old@1.0.0".parse().unwrap(), "tool/read@1.0.0".parse());
        let (find, docs) = ("tool/find@1.0.0".parse().unwrap(), "server/docs@1.0.0".parse());
        let on_purpose = Notice::with_message(Some("leaks"));
        let gone = [
            set(&schema, LifecycleState::Retired, managed.notice()),
            set(&docs.unwrap(), LifecycleState::Deprecated, managed.notice()),
            set(&find, LifecycleState::Deprecated, on_purpose),
            set(&read.unwrap(), LifecycleState::Retired, managed.notice()),
        ];
        let before = catalog(&[world(), gone.to_vec()].concat());
        assert_eq!(
            pruned(&before, &world()[..4]),
            ["schema/Old@1.0.0 active", "server/docs@1.0.0 active", "tool/read@1.0.0 active"]
        );
        let owner = before.iter().next().map(|(_, record)| record.owner.to_string()).unwrap();
        let managed = Managed { source: "git/a", owner: &owner };
        assert_eq!(prune(&before, &world()[..4], managed).unwrap().held, [find]);
        // A lifecycle in the files takes precedence.
        let batch = [&world()[..4], &[set(&schema, LifecycleState::Deprecated, Notice::default())]];
        let changes = prune(&before, &batch.concat(), managed).unwrap().changes;
        assert!(changes.iter().all(|change| *change.key() != schema), "{changes:?}");
    }

    #[test]
    fn prune_rejects_policy_without_version_in_force() {
        let of = |version: &str| versioned(&marked(&policy("p", json!({}))), version);
        let off = |version: &str| {
            let notice = Managed { source: "git/a", owner: "" }.notice();
            set(&key(version), LifecycleState::Retired, notice)
        };
        let result = |before: &[Proposed], batch: &[Proposed]| {
            let before = catalog(before);
            let owner = before.iter().next().map(|(_, record)| record.owner.to_string()).unwrap();
            prune(&before, batch, Managed { source: "git/a", owner: &owner }).map(|_| ())
        };
        let rejected =
            |version: &str| Err(InvalidSource::PolicyOff { highest: key(version), more: 0 });
        let two = [of("1.0.0"), of("1.1.0"), off("1.0.0")];
        assert_eq!(result(&two, &[of("1.0.0")]), rejected("1.1.0"));
        assert_eq!(result(&two, &[of("1.2.0-rc.1")]), rejected("1.1.0"));
        let both_off = [&two[..], &[off("1.1.0")]].concat();
        assert_eq!(result(&both_off, &[of("1.0.0")]), rejected("1.1.0"));
        for accepted in [
            vec![of("1.1.0")],
            vec![of("1.0.0"), of("1.1.0")],
            vec![of("1.2.0")],
            vec![of("1.0.0"), off("1.0.0")],
            vec![marked(&policy("q", json!({})))],
        ] {
            assert_eq!(result(&two, &accepted), Ok(()), "{accepted:?}");
        }
        assert_eq!(result(&both_off, &[of("1.2.0-rc.1")]), Ok(()));
        assert_eq!(result(&[of("1.0.0-rc.1")], &[of("1.0.0-rc.2")]), Ok(()));
    }

    fn key(version: &str) -> Key {
        format!("policy/p@{version}").parse().unwrap()
    }

    #[test]
    fn prune_ignores_other_owners_and_rejects_unmarked() {
        let before = catalog(&world());
        let managed = Managed { source: "git/a", owner: "another owner" };
        assert_eq!(prune(&before, &world()[..1], managed), Ok(Pruning::default()));
        let unmarked = InvalidSource::Unmarked {
            first: "server/other@1.0.0".parse().unwrap(),
            more: 1,
            source_name: "git/a".to_owned(),
        };
        assert_eq!(prune(&before, &world(), managed), Err(unmarked));
        assert_eq!(prune(&before, &[], managed), Err(InvalidSource::Empty("git/a".to_owned())));
    }
}
