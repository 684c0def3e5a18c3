//! `lock`: what a project requires, as exact versions with the digests of all that they need.
//!
//! A version that is locked and still meets its requirement stays, unless the user wants newer ones.

use std::{collections::BTreeMap, path::Path};

use registry_core::{Key, PointInTime, Revision, limits, resolve::Requirement};
use registry_proto::v1;
use serde::Serialize;

use super::{
    Session, export,
    resolve::{Answers, ask},
};
use crate::{
    cli::{Format, LockArgs},
    client::{Client, request},
    failure::Failure,
    graph::{Graph, Resolved},
    lock::{Lock, Locked, name_of, read_requirements},
    screen::{Screen, TextTable},
    style::Paint,
    view::KeyView,
};

/// A requirement and what became of it, for people and for scripts.
#[derive(Debug, Serialize)]
struct Row {
    requirement: String,
    constraint: String,
    version: String,
    /// The version that was locked before.
    was: Option<String>,
    lifecycle: &'static str,
}

/// The result for scripts.
#[derive(Serialize)]
struct LockView<'a> {
    written: bool,
    registry: &'a str,
    revision: u64,
    requirements: &'a [Row],
    entities: usize,
}

pub(super) async fn run(session: &Session, args: &LockArgs) -> Result<(), Failure> {
    let LockArgs { file, lock_file, update, at } = args;
    let required = read_requirements(file)?;
    if required.len() > limits::REQUIREMENTS {
        let (count, most) = (required.len(), limits::REQUIREMENTS);
        return Err(Failure::Usage(format!("{count} requirements, at most {most} can be locked")));
    }
    let old = Lock::find(lock_file)?;
    let client = session.connect().await?;
    let kept = old.as_ref().filter(|_| !update);
    let (lock, rows) = choose(&client, &required, (kept, old.as_ref()), at.message()).await?;
    let written = !old.as_ref().is_some_and(|old| lock.is_same(old));
    if written {
        export::save(session, Some(lock_file), &lock.write())?;
    }
    show(session.screen, &lock, &rows, (written, lock_file))
}

/// The new lock: what the old one keeps stays, the rest is chosen by the registry.
async fn choose(
    client: &Client,
    required: &[Requirement],
    (kept, old): (Option<&Lock>, Option<&Lock>),
    at: Option<v1::At>,
) -> Result<(Lock, Vec<Row>), Failure> {
    let Answers { outcomes, revision, registry } = answers(client, required, kept, at).await?;
    if let Some(kept) = kept {
        same_registry(kept, &registry)?;
    }
    let missing: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.clone().err()).collect();
    if !missing.is_empty() {
        return Err(Failure::Rejected(missing.join("; ")));
    }
    let chosen: Vec<Resolved> = outcomes.into_iter().flatten().collect();
    let entities = closure(client, chosen.iter().map(|chosen| &chosen.key), revision).await?;
    if let Some(kept) = kept {
        no_drift(kept, &entities)?;
    }
    let (mut rows, mut requirements) = (Vec::new(), BTreeMap::new());
    for (required, chosen) in required.iter().zip(chosen) {
        let (name, constraint) = (name_of(required), required.constraint.to_string());
        let version = chosen.key.version;
        let was = old.and_then(|old| old.requirements.get(&name));
        let was = was.map(|was| was.version.clone()).filter(|was| *was != version);
        let locked = Locked { constraint: constraint.clone(), version: version.clone() };
        requirements.insert(name.clone(), locked);
        rows.push(Row {
            requirement: name,
            constraint,
            version,
            was,
            lifecycle: chosen.lifecycle.state,
        });
    }
    rows.sort_by(|a, b| a.requirement.cmp(&b.requirement));
    Ok((Lock::new(registry, revision, requirements, entities), rows))
}

/// What the requirements mean; what the old lock keeps stays, unless it was retired since.
async fn answers(
    client: &Client,
    required: &[Requirement],
    kept: Option<&Lock>,
    at: Option<v1::At>,
) -> Result<Answers, Failure> {
    let locked = |required: &Requirement| kept.and_then(|kept| kept.keeps(required));
    let wanted = required.iter().map(|required| match locked(required) {
        Some(version) => {
            Requirement::exact(&Key::new(required.kind, required.name.clone(), version))
        }
        None => required.clone(),
    });
    let mut answers = ask(client, &wanted.collect::<Vec<_>>(), at).await?;
    for (required, outcome) in required.iter().zip(&mut answers.outcomes) {
        if let Err(message) = outcome
            && locked(required).is_some()
        {
            message.push_str(
                " (it is so in the lock file: find out who changed it, or lock anew with --update)",
            );
        }
    }
    let is_gone = |(required, outcome): &(&Requirement, &mut Result<Resolved, String>)| {
        let retired = outcome.as_ref().is_ok_and(|found| found.lifecycle.state == "retired");
        retired && !required.constraint.is_exact()
    };
    let gone: Vec<_> = required.iter().zip(&mut answers.outcomes).filter(is_gone).collect();
    if gone.is_empty() {
        return Ok(answers);
    }
    let anew: Vec<_> = gone.iter().map(|(required, _)| (*required).clone()).collect();
    let Answers { outcomes, .. } = ask(client, &anew, Some(self::at(answers.revision))).await?;
    for ((_, old), new) in gone.into_iter().zip(outcomes) {
        *old = new;
    }
    Ok(answers)
}

/// A revision as a point in history.
pub(super) fn at(revision: u64) -> v1::At {
    PointInTime::Revision(Revision(revision)).into()
}

/// A lock says nothing about another registry.
pub(super) fn same_registry(lock: &Lock, registry: &str) -> Result<(), Failure> {
    if lock.registry == registry {
        return Ok(());
    }
    Err(Failure::Rejected(format!(
        "the lock file is of the registry {}, and {registry} answers; `lock --update` locks anew",
        lock.registry
    )))
}

/// What is registered never changes; if it did, somebody must look.
fn no_drift(kept: &Lock, entities: &BTreeMap<String, String>) -> Result<(), Failure> {
    let other = |(key, digest): &(&String, &String)| {
        kept.entities.get(*key).is_some_and(|locked| locked != *digest)
    };
    match entities.iter().find(other) {
        None => Ok(()),
        Some((key, digest)) => Err(Failure::Rejected(format!(
            "{key} is locked with another digest than the registry has ({digest})"
        ))),
    }
}

/// Everything that these need, themselves included, with digests.
pub(super) async fn closure(
    client: &Client,
    keys: impl Iterator<Item = &KeyView>,
    revision: u64,
) -> Result<BTreeMap<String, String>, Failure> {
    let key = |key: &KeyView| {
        key.to_string().parse::<registry_core::Key>().map(|key| v1::EntityKey::from(&key))
    };
    let keys = keys.map(key).collect::<Result<Vec<_>, _>>().map_err(Failure::answer)?;
    let limit = u32::try_from(limits::GRAPH_NODES).unwrap_or(u32::MAX);
    let wanted = v1::GetDependenciesRequest { keys, depth: None, limit, at: Some(at(revision)) };
    let answer = client.answer(client.graph().get_dependencies(request(wanted))).await?;
    let graph = answer.graph.ok_or_else(|| Failure::answer("there is no graph in it"))?;
    let Graph { nodes, total, .. } = graph.into();
    if total > nodes.len() as u64 {
        let most = limits::GRAPH_NODES;
        let message = format!("{total} entities are needed, at most {most} can be locked");
        return Err(Failure::Rejected(message));
    }
    Ok(nodes.into_iter().map(|node| (node.key.to_string(), node.digest)).collect())
}

fn show(
    screen: Screen,
    lock: &Lock,
    rows: &[Row],
    (written, path): (bool, &Path),
) -> Result<(), Failure> {
    let entities = lock.entities.len();
    if screen.format == Format::Json {
        let Lock { registry, revision, .. } = lock;
        let revision = *revision;
        return screen.json(&LockView {
            written,
            registry,
            revision,
            requirements: rows,
            entities,
        });
    }
    let mut table = TextTable::new(&["REQUIREMENT", "CONSTRAINT", "VERSION", "WAS", "LIFECYCLE"]);
    for Row { requirement, constraint, version, was, lifecycle } in rows {
        let was = was.as_deref().unwrap_or_default();
        let cells = [&**requirement, constraint, version, was, lifecycle];
        if *lifecycle == "active" { table.row(cells) } else { table.painted(Paint::Careful, cells) }
    }
    screen.table(&table)?;
    let path = path.display();
    screen.line(&if written {
        format!("{path}: {entities} entities at revision {}", lock.revision)
    } else {
        format!("{path} is as it was: {entities} entities")
    })
}
