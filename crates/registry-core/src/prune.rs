//! Pruning: what a source managed and no longer has is retired; what it has again is restored.
//!
//! A document says in `metadata.managedBy` from which source it is managed. Pruned is only what
//! says so, has the right owner, and is not in the batch; nobody else's entities are ever touched.
//! What something outside still needs is deprecated instead, and retired by a later run, when that
//! has moved. Restored is only what pruning itself retired or deprecated, which its notice shows: what
//! somebody retired on purpose stays so.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    catalog::{Catalog, Record},
    document::Document,
    entity::{Entity, MANAGED_BY},
    graph::{Direction, Reach},
    kind::Kind,
    lifecycle::{LifecycleState, Notice},
    reference::Key,
    rules::Proposed,
};

/// Whose entities are pruned.
#[derive(Debug, Clone, Copy)]
pub struct Managed<'a> {
    /// What `metadata.managedBy` says.
    pub source: &'a str,
    /// Who owns them.
    pub owner: &'a str,
}

/// Why a batch is not what a source has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSource {
    /// Pruning by it would retire everything.
    #[error(
        "nothing in the files is managed by `{0}`, so everything that it managed would be retired"
    )]
    Empty(String),
    /// Documents that could never be pruned.
    #[error(
        "{first}{} does not say that `{source_name}` manages it; \
         add \"metadata\": {{ \"managedBy\": \"{source_name}\" }}",
        and_more(*more)
    )]
    Unmarked {
        /// The first of them.
        first: Key,
        /// How many more there are.
        more: usize,
        /// The source.
        source_name: String,
    },
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

/// What makes a registry as its source is, beside what the files themselves say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pruning {
    /// What retires, or at least deprecates, what the source no longer has, and restores what it
    /// has again.
    pub changes: Vec<Proposed>,
    /// What the source has, and somebody else than pruning deprecated or retired; it stays so.
    pub held: Vec<Key>,
}

/// Compares what a source has with what is registered as managed by it.
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
    Ok(Pruning { changes, held: held.into_iter().cloned().collect() })
}

impl Managed<'_> {
    /// What pruning says of what it deprecates or retires, and nothing else does.
    fn notice(self) -> Notice {
        Notice::saying(Some(&format!("no longer in {}", self.source)))
    }
}

fn set(key: &Key, state: LifecycleState, notice: Notice) -> Proposed {
    Proposed::SetLifecycle { key: key.clone(), state, notice }
}

/// What is kept and no longer active: by pruning, and by somebody. What the files themselves give a
/// lifecycle is neither.
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

/// From where a document is managed.
fn source_of(document: &Document) -> Option<&str> {
    let metadata = match document.entity() {
        Entity::Schema(schema) => &schema.metadata,
        Entity::Server(server) => &server.metadata,
        Entity::Tool(tool) => &tool.metadata,
        Entity::Agent(agent) => &agent.metadata,
    };
    metadata.as_ref()?.get(MANAGED_BY).and_then(Value::as_str)
}

fn is_managed(catalog: &Catalog, record: &Record, managed: Managed<'_>) -> bool {
    catalog.owner_of(record) == managed.owner && source_of(&record.document) == Some(managed.source)
}

/// What of it something needs that stays: directly, or through what is kept for that reason.
fn still_needed<'a>(
    catalog: &'a Catalog,
    gone: &BTreeSet<&'a Key>,
    batch: impl Iterator<Item = &'a Document>,
) -> BTreeSet<&'a Key> {
    let is_in_use = |key: &Key| {
        let state = catalog.find(key).map(|record| record.lifecycle.state);
        state.is_some_and(|state| state != LifecycleState::Retired)
    };
    // What was retired by force, and something still in use needs, is needed too.
    let leads_on = |key: &Key| {
        let reach = Reach::of(catalog, [key], Direction::Dependents, None);
        reach.nodes().iter().any(|node| is_in_use(&node.key) && !gone.contains(&node.key))
    };
    // A server's `provides` is an offer.
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
        testing::{agent, catalog, schema, server, source_tool, with},
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
    fn what_is_gone_is_retired_and_nothing_else() {
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
    fn what_is_needed_outside_is_deprecated_until_it_is_free() {
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
    fn what_pruning_retired_comes_back_with_the_files_and_nothing_else_does() {
        let managed = Managed { source: "git/a", owner: "" };
        let (schema, read) = ("schema/Old@1.0.0".parse().unwrap(), "tool/read@1.0.0".parse());
        let (find, docs) = ("tool/find@1.0.0".parse().unwrap(), "server/docs@1.0.0".parse());
        let on_purpose = Notice::saying(Some("leaks"));
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
        // What the files say themselves counts.
        let batch = [&world()[..4], &[set(&schema, LifecycleState::Deprecated, Notice::default())]];
        let changes = prune(&before, &batch.concat(), managed).unwrap().changes;
        assert!(changes.iter().all(|change| *change.key() != schema), "{changes:?}");
    }

    #[test]
    fn another_owner_s_and_unmarked_documents_are_refused_or_left() {
        let before = catalog(&world());
        let managed = Managed { source: "git/a", owner: "somebody else" };
        assert_eq!(prune(&before, &world()[..1], managed), Ok(Pruning::default()));
        let error = prune(&before, &world(), managed).unwrap_err().to_string();
        assert!(error.starts_with("server/other@1.0.0 (and 1 more) does not say"), "{error}");
        let error = prune(&before, &[], managed).unwrap_err().to_string();
        assert!(error.contains("everything that it managed would be retired"), "{error}");
    }
}
