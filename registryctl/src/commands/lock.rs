//! `lock`: exact versions of a project's requirements, with the digests of all dependencies.
//!
//! A locked version that still matches its requirement is kept, unless --update is set.

use std::{collections::BTreeMap, path::Path};

use registry_core::{Key, PointInTime, Revision, limits, resolve::Requirement};
use registry_proto::v1;
use serde::Serialize;

use super::{
    Session, export, missing,
    resolve::{Resolutions, resolve},
};
use crate::{
    cli::{Format, LockArgs},
    client::{Client, request},
    failure::Failure,
    graph::{Graph, Resolved},
    lock::{Lock, Locked, name_of, read_requirements},
    screen::{Screen, TextTable},
    style::{Paint, printable},
    view::KeyView,
};

/// The remedy of a lock file with another digest than the registry.
pub(super) const DRIFT_REMEDY: &str = "restore the lock file from version control; if the registry is right, \
     replace the digests with `registryctl lock --update`";

/// A requirement and its resolution.
#[derive(Debug, Serialize)]
struct Row {
    requirement: String,
    constraint: String,
    version: String,
    /// The previously locked version.
    was: Option<String>,
    lifecycle: &'static str,
}

/// The JSON result.
#[derive(Serialize)]
struct LockView<'a> {
    written: bool,
    registry: &'a str,
    revision: u64,
    requirements: &'a [Row],
    entities: usize,
}

pub(super) async fn run(session: &Session, args: &LockArgs) -> Result<(), Failure> {
    let LockArgs { file, lock_file, update, as_of } = args;
    let required = read_requirements(file)?;
    if required.len() > limits::REQUIREMENTS {
        let (count, most) = (required.len(), limits::REQUIREMENTS);
        return Err(Failure::Usage(format!("{count} requirements exceed the limit of {most}")));
    }
    let old = Lock::find(lock_file)?;
    let client = session.connect().await?;
    let kept = old.as_ref().filter(|_| !update);
    let (lock, rows) = choose(&client, &required, (kept, old.as_ref()), as_of.message()).await?;
    let written = !old.as_ref().is_some_and(|old| lock.is_same(old));
    if written {
        export::save_file(lock_file, &lock.write())?;
    }
    show(session.screen, &lock, &rows, (written, lock_file))
}

/// The new lock. Versions of the old one are kept, and the registry resolves the other requirements.
async fn choose(
    client: &Client,
    required: &[Requirement],
    (kept, old): (Option<&Lock>, Option<&Lock>),
    at: Option<v1::PointInTime>,
) -> Result<(Lock, Vec<Row>), Failure> {
    let Resolutions { outcomes, revision, registry } = answers(client, required, kept, at).await?;
    if let Some(kept) = kept {
        same_registry(kept, &registry)?;
    }
    let mut missing = Vec::new();
    for (required, outcome) in required.iter().zip(&outcomes) {
        let Err(message) = outcome else { continue };
        let similar = missing::similar(client, required.kind, &required.name).await;
        missing.push(similar.map_or_else(|| message.clone(), |help| format!("{message} ({help})")));
    }
    if !missing.is_empty() {
        return Err(Failure::Rejected(missing.join("; ")));
    }
    let chosen: Vec<Resolved> = outcomes.into_iter().flatten().collect();
    let entities = closure(client, chosen.iter().map(|chosen| &chosen.key), revision).await?;
    if let Some(old) = old.filter(|old| old.registry == registry) {
        check_digests(old, kept.is_some(), &entities)?;
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

/// Resolves the requirements. Versions of the old lock are kept unless they were retired.
async fn answers(
    client: &Client,
    required: &[Requirement],
    kept: Option<&Lock>,
    at: Option<v1::PointInTime>,
) -> Result<Resolutions, Failure> {
    let locked = |required: &Requirement| kept.and_then(|kept| kept.keeps(required));
    let wanted = required.iter().map(|required| match locked(required) {
        Some(version) => {
            Requirement::exact(&Key::new(required.kind, required.name.clone(), version))
        }
        None => required.clone(),
    });
    let mut answers = resolve(client, &wanted.collect::<Vec<_>>(), at).await?;
    for (required, outcome) in required.iter().zip(&mut answers.outcomes) {
        if let Err(message) = outcome
            && locked(required).is_some()
        {
            message.push_str(
                " (from the lock file: check who changed it, or resolve again with --update)",
            );
        }
    }
    let is_retired = |(required, outcome): &(&Requirement, &mut Result<Resolved, String>)| {
        let retired = outcome.as_ref().is_ok_and(|found| found.lifecycle.state == "retired");
        retired && !required.constraint.is_exact()
    };
    let retired: Vec<_> = required.iter().zip(&mut answers.outcomes).filter(is_retired).collect();
    if retired.is_empty() {
        return Ok(answers);
    }
    let again: Vec<_> = retired.iter().map(|(required, _)| (*required).clone()).collect();
    let Resolutions { outcomes, .. } =
        resolve(client, &again, Some(self::at(answers.revision))).await?;
    for ((_, old), new) in retired.into_iter().zip(outcomes) {
        *old = new;
    }
    Ok(answers)
}

/// A revision as a point in time.
pub(super) fn at(revision: u64) -> v1::PointInTime {
    PointInTime::Revision(Revision(revision)).into()
}

/// Rejects a lock file of another registry.
pub(super) fn same_registry(lock: &Lock, registry: &str) -> Result<(), Failure> {
    if lock.registry == registry {
        return Ok(());
    }
    Err(Failure::Rejected(format!(
        "the lock file belongs to the registry {}, not to {registry}; `lock --update` replaces it",
        lock.registry
    )))
}

/// Rejects changed digests, or names them in warnings if they are replaced. Registered content never changes, so that
/// a difference needs investigation.
fn check_digests(
    old: &Lock,
    is_kept: bool,
    entities: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    for (key, digest) in entities {
        let Some(locked) = old.entities.get(key).filter(|locked| *locked != digest) else {
            continue;
        };
        let changed = format!(
            "the digest of {key} is {locked} in the lock file, and {digest} in the registry"
        );
        if is_kept {
            return Err(Failure::Rejected(changed).with_help(DRIFT_REMEDY.to_owned()));
        }
        eprintln!("warning: {}; the lock file now has the latter", printable(&changed));
    }
    Ok(())
}

/// The entities and all their dependencies, with digests.
pub(super) async fn closure(
    client: &Client,
    keys: impl Iterator<Item = &KeyView>,
    revision: u64,
) -> Result<BTreeMap<String, String>, Failure> {
    let key = |key: &KeyView| {
        key.to_string().parse::<registry_core::Key>().map(|key| v1::EntityKey::from(&key))
    };
    let keys = keys.map(key).collect::<Result<Vec<_>, _>>().map_err(Failure::invalid_response)?;
    let wanted = v1::GetDependenciesRequest {
        keys,
        max_nodes: i32::try_from(limits::GRAPH_NODES).unwrap_or(i32::MAX),
        at: Some(at(revision)),
        ..Default::default()
    };
    let answer = client.answer(client.graph().get_dependencies(request(wanted))).await?;
    let graph = answer.graph.ok_or_else(|| Failure::invalid_response("the graph is missing"))?;
    let Graph { nodes, total, .. } = graph.into();
    if total > nodes.len() as u64 {
        let most = limits::GRAPH_NODES;
        let message = format!("{total} dependencies exceed the limit of {most}");
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
    let mut table =
        TextTable::new(&["REQUIREMENT", "CONSTRAINT", "VERSION", "PREVIOUS", "LIFECYCLE"]);
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
        format!("{path} is unchanged: {entities} entities")
    })
}
