//! Pruning: retires entities that a source no longer contains, and restores those it contains
//! again.
//!
//! `metadata.managedBy` of a document names its managing source. Only entities with that source and
//! owner that are missing from the batch are pruned. An entity with dependents outside of the
//! source is deprecated instead, and retired by a later run once they are gone. Dependents in the
//! batch reject it. Only entities that pruning itself retired or deprecated, which their notice
//! shows, are restored. A deliberate retirement stays.
//!
//! Only the highest version of a policy is in force. A source with lower versions only would turn
//! the policy off, and is rejected.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    catalog::{Catalog, Record},
    diagnostic::{Code, Diagnostic},
    document::Document,
    edges::references,
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
    /// Documents of the batch do not belong to the source, so they could never be pruned, or need
    /// entities that are missing from it.
    #[error("{}", .0.first().map_or_else(String::new, ToString::to_string))]
    Documents(Vec<Diagnostic>),
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
    /// Removed entities that are deprecated instead of retired.
    pub needed: Vec<NeededEntity>,
}

/// An entity with remaining dependents.
#[derive(Debug, Clone, PartialEq)]
pub struct NeededEntity {
    /// The key of the entity.
    pub key: Key,
    /// Its direct dependents.
    pub by: Vec<Key>,
}

/// Compares a source with the registered entities that it manages.
pub fn prune(
    catalog: &Catalog,
    batch: &[Proposed],
    managed: Managed<'_>,
) -> Result<Pruning, InvalidSource> {
    let mut documents = Documents::new();
    for (change, proposed) in batch.iter().enumerate() {
        if let Some(document) = proposed.document() {
            documents.entry(document.key()).or_insert((change, &**document));
        }
    }
    reject(unmarked(&documents, managed))?;
    let kept: BTreeSet<&Key> = documents.keys().copied().collect();
    if kept.is_empty() {
        return Err(InvalidSource::Empty(managed.source.to_owned()));
    }
    let gone: BTreeSet<&Key> = catalog
        .iter()
        .filter(|(key, record)| !kept.contains(key) && is_managed(catalog, record, managed))
        .filter(|(_, record)| record.lifecycle.state != LifecycleState::Retired)
        .map(|(key, _)| key)
        .collect();
    reject(needed_by_documents(catalog, batch, (&documents, &gone), managed))?;
    let needed = still_needed(catalog, &gone, documents.values().map(|(_, document)| *document));
    let change = |key: &&Key| {
        let record = catalog.find(key)?;
        let is_needed = needed.contains_key(key);
        let state = if is_needed { LifecycleState::Deprecated } else { LifecycleState::Retired };
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
    let needed = needed
        .into_iter()
        .map(|(key, by)| NeededEntity { key: key.clone(), by: by.into_iter().cloned().collect() });
    Ok(Pruning { changes, held: held.into_iter().cloned().collect(), needed: needed.collect() })
}

/// The documents of a batch, each with the index of its first registration.
type Documents<'a> = BTreeMap<&'a Key, (usize, &'a Document)>;

fn reject(mut found: Vec<Diagnostic>) -> Result<(), InvalidSource> {
    found.sort_by_key(|diagnostic| diagnostic.change);
    if found.is_empty() { Ok(()) } else { Err(InvalidSource::Documents(found)) }
}

/// Reports documents without the mark of the source.
fn unmarked(documents: &Documents<'_>, managed: Managed<'_>) -> Vec<Diagnostic> {
    let source = managed.source;
    let report = |(key, (change, document)): (&&Key, &(usize, &Document))| {
        let (pointer, instead) = match source_of(document) {
            Some(own) if own == source => return None,
            Some(own) => ("/metadata/managedBy", format!(", but by `{own}`")),
            None => ("", String::new()),
        };
        let message = format!("{key} is not managed by `{source}`{instead}");
        let help = format!(
            "write \"metadata\": {{ \"managedBy\": \"{source}\" }}, or move it to other files"
        );
        let found = Diagnostic::error(Code::DocumentInvalid, pointer, message);
        Some(found.with_help(help).for_change(*change, key))
    };
    documents.iter().filter_map(report).collect()
}

/// Reports documents that need a removed entity, unless they are retired themselves.
fn needed_by_documents(
    catalog: &Catalog,
    batch: &[Proposed],
    (documents, gone): (&Documents<'_>, &BTreeSet<&Key>),
    managed: Managed<'_>,
) -> Vec<Diagnostic> {
    let set = lifecycles(batch.iter());
    let is_retired = |key: &Key| match (set.get(key), catalog.find(key)) {
        (Some(state), _) => *state == LifecycleState::Retired,
        (None, Some(record)) => {
            let is_pruned = record.lifecycle.notice.as_deref() == Some(&managed.notice());
            record.lifecycle.state == LifecycleState::Retired && !is_pruned
        }
        (None, None) => false,
    };
    let mut found = Vec::new();
    for (user, (change, document)) in documents {
        let is_user = document.edges().iter().any(|key| gone.contains(key));
        if !is_user || !depends(user) || is_retired(user) {
            continue;
        }
        let mut reported = BTreeSet::new();
        for reference in references(document.entity()) {
            let key = reference.key;
            if gone.contains(&key) && !reported.contains(&key) {
                let message = format!("{user} needs {key}, which was removed from the files");
                let help = format!(
                    "keep {key} in the files, for example with \"deprecated\": true, or remove \
                     {user} too"
                );
                let needed = Diagnostic::error(Code::StillNeeded, reference.pointer, message);
                found.push(needed.with_help(help).for_change(*change, user));
                reported.insert(key);
            }
        }
    }
    found
}

/// Whether references of this entity are dependencies: `provides` of a server is an offer.
fn depends(key: &Key) -> bool {
    key.kind != Kind::Server
}

/// The states that changes set.
fn lifecycles<'a>(
    changes: impl Iterator<Item = &'a Proposed>,
) -> BTreeMap<&'a Key, LifecycleState> {
    let set = changes.filter_map(|change| match change {
        Proposed::SetLifecycle { key, state, .. } => Some((key, *state)),
        Proposed::Register(_) => None,
    });
    set.collect()
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
    let set = lifecycles(changes);
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

/// The entities with remaining dependents, direct or through other kept entities, with the direct
/// ones.
fn still_needed<'a>(
    catalog: &'a Catalog,
    gone: &BTreeSet<&'a Key>,
    batch: impl Iterator<Item = &'a Document>,
) -> BTreeMap<&'a Key, Vec<&'a Key>> {
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
    let stays = |key: &&Key| depends(key) && (is_in_use(key) || leads_on(key));
    let mut in_batch: BTreeMap<&Key, Vec<&Key>> = BTreeMap::new();
    for document in batch.filter(|document| depends(document.key())) {
        for key in document.edges() {
            in_batch.entry(key).or_default().push(document.key());
        }
    }
    let mut needed: BTreeSet<&Key> = BTreeSet::new();
    loop {
        let more: Vec<_> = gone
            .iter()
            .copied()
            .filter(|key| !needed.contains(key))
            .filter(|key| {
                let mut users = catalog.dependents(key).filter(stays);
                in_batch.contains_key(key)
                    || users.any(|user| !gone.contains(user) || needed.contains(user))
            })
            .collect();
        if more.is_empty() {
            break;
        }
        needed.extend(more);
    }
    let with_users = |&key: &&'a Key| {
        let users = catalog.dependents(key).filter(stays);
        let users = users.filter(|user| !gone.contains(user) || needed.contains(user));
        let proposed = in_batch.get(key).into_iter().flatten().copied();
        let users: BTreeSet<&Key> = users.chain(proposed).collect();
        (key, users.into_iter().collect())
    };
    needed.iter().map(with_users).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::{
        plan,
        testing::{
            agent, catalog, commit, lines, policy, renamed, schema, server, source_tool, versioned,
            with,
        },
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

    fn needed(before: &Catalog, batch: &[Proposed]) -> Vec<String> {
        let owner = before.iter().next().map(|(_, record)| record.owner.to_string()).unwrap();
        let pruning = prune(before, batch, Managed { source: "git/a", owner: &owner }).unwrap();
        let users = |by: &[Key]| by.iter().map(Key::to_string).collect::<Vec<_>>().join(", ");
        pruning.needed.iter().map(|one| format!("{} by {}", one.key, users(&one.by))).collect()
    }

    #[test]
    fn prune_names_dependents_of_deprecated_entities() {
        let depends = json!([{ "type": "tool", "name": "read", "version": "1.0.0" }]);
        let users = vec![agent("outside", &depends), agent("another", &depends)];
        let before = catalog(&[world(), users].concat());
        let batch = [marked(&schema("New", &json!({})))];
        let expected = [
            "server/docs@1.0.0 by tool/read@1.0.0",
            "tool/read@1.0.0 by agent/another@1.0.0, agent/outside@1.0.0",
        ];
        assert_eq!(needed(&before, &batch), expected);
        // A later run without changes names them again.
        let managed = Managed { source: "git/a", owner: "" };
        let before = commit(
            before,
            &["server/docs@1.0.0", "tool/read@1.0.0"].map(|key| {
                set(&key.parse().unwrap(), LifecycleState::Deprecated, managed.notice())
            }),
        );
        assert_eq!(needed(&before, &batch), expected);
        assert_eq!(
            pruned(&before, &batch),
            ["schema/Old@1.0.0 retired", "tool/find@1.0.0 retired"]
        );
        assert_eq!(needed(&before, &world()[..4]), <[&str; 0]>::default());
    }

    #[test]
    fn prune_rejects_files_that_need_removed_entity() {
        let before = catalog(&world());
        let owner = before.iter().next().map(|(_, record)| record.owner.to_string()).unwrap();
        let managed = Managed { source: "git/a", owner: &owner };
        let result = |batch: &[Proposed]| prune(&before, batch, managed).map(|_| ());
        let all = world();
        let [_, docs, read, find, ..] = &all[..] else { panic!("the tools") };
        // `provides` of a server is no dependency.
        assert_eq!(result(&[docs.clone(), find.clone()]), Ok(()));
        let Err(InvalidSource::Documents(found)) = result(&[find.clone(), read.clone()]) else {
            panic!("the tools need their server");
        };
        insta::assert_snapshot!(lines(&found), @r#"
        error[still-needed] tool/find@1.0.0 at "/source": tool/find@1.0.0 needs server/docs@1.0.0, which was removed from the files (keep server/docs@1.0.0 in the files, for example with "deprecated": true, or remove tool/find@1.0.0 too)
        error[still-needed] tool/read@1.0.0 at "/source": tool/read@1.0.0 needs server/docs@1.0.0, which was removed from the files (keep server/docs@1.0.0 in the files, for example with "deprecated": true, or remove tool/read@1.0.0 too)
        "#);
        let retired = ["tool/find@1.0.0", "tool/read@1.0.0"]
            .map(|key| set(&key.parse().unwrap(), LifecycleState::Retired, Notice::default()));
        let tools = [find.clone(), read.clone()];
        assert_eq!(result(&[&tools[..], &retired].concat()), Ok(()));
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
        let mut world = world();
        let other = json!({ "metadata": { "managedBy": "git/b" } });
        world.push(with(&renamed(&world[5], "copy"), other));
        let Err(InvalidSource::Documents(found)) = prune(&before, &world, managed) else {
            panic!("some documents are not marked");
        };
        insta::assert_snapshot!(lines(&found), @r#"
        error[document-invalid] server/other@1.0.0 at "": server/other@1.0.0 is not managed by `git/a` (write "metadata": { "managedBy": "git/a" }, or move it to other files)
        error[document-invalid] tool/write@1.0.0 at "": tool/write@1.0.0 is not managed by `git/a` (write "metadata": { "managedBy": "git/a" }, or move it to other files)
        error[document-invalid] tool/copy@1.0.0 at "/metadata/managedBy": tool/copy@1.0.0 is not managed by `git/a`, but by `git/b` (write "metadata": { "managedBy": "git/a" }, or move it to other files)
        "#);
        assert_eq!(prune(&before, &[], managed), Err(InvalidSource::Empty("git/a".to_owned())));
    }
}
