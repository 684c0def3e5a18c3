//! `outdated`: locked requirements with newer versions, deprecated dependencies, and the effects of
//! upgrades.

use std::collections::{BTreeMap, BTreeSet};

use registry_core::{
    Key, PointInTime, Revision, Version, limits,
    resolve::{Constraint, Requirement},
};
use registry_proto::v1::{self, analyze_impact_request::Plan};
use serde::Serialize;

use super::{
    Session, get,
    lock::{at, closure, same_registry},
    resolve::{Resolutions, resolve},
};
use crate::{
    cli::{Format, OutdatedArgs},
    client::{Client, request},
    comparison::ComparisonView,
    diff::diff,
    failure::Failure,
    graph::Resolved,
    lock::Lock,
    screen::{Screen, TextTable},
    style::Paint,
    view::{KeyView, LifecycleView},
};

/// Requirements per request. Each becomes three, and the registry accepts a thousand.
const AT_ONCE: usize = 300;

/// A locked requirement and its current versions.
#[derive(Debug, Serialize)]
struct Row {
    requirement: String,
    constraint: String,
    current: String,
    /// The lifecycle of the current version; `None`: not registered.
    lifecycle: Option<LifecycleView>,
    /// The newest version that matches the constraint.
    wanted: Option<String>,
    /// The newest version of all.
    latest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upgrade: Option<Upgrade>,
}

/// The effects of moving to another version.
#[derive(Debug, Serialize)]
struct Upgrade {
    to: String,
    /// The compatibility of the two versions.
    comparison: Option<ComparisonView>,
    /// JSON pointers of the differences.
    changed: Vec<String>,
    /// Added and removed dependencies.
    added: Vec<String>,
    removed: Vec<String>,
    /// The dependents that break.
    breaks: Vec<String>,
    /// The number of dependents that were not decided or not compared.
    unknown: u64,
    dependents: u64,
}

pub(super) async fn run(session: &Session, args: &OutdatedArgs) -> Result<(), Failure> {
    let lock = Lock::read(&args.lock_file)?;
    let client = session.connect().await?;
    let mut rows = Vec::new();
    let required = read(&lock)?;
    for some in required.chunks(AT_ONCE) {
        let (compared, revision) = compare(&client, &lock, some).await?;
        for mut row in compared.into_iter().filter(Row::is_reported) {
            row.upgrade = upgrade(&client, &row, revision).await?;
            rows.push(row);
        }
    }
    let direct = rows.len();
    rows.extend(dependencies(&client, &lock, &required).await?);
    show(session.screen, &rows, required.len())?;
    if args.exit_code && !rows.is_empty() {
        let (below, all) = (rows.len() - direct, required.len());
        let mut message = format!("{direct} of {all} requirements are outdated");
        if below > 0 {
            message = format!("{message}, and {below} dependencies");
        }
        return Err(Failure::WouldChange(message));
    }
    Ok(())
}

/// Deprecated and retired dependencies of the requirements. Newer versions are not listed: dependents
/// refer to exact versions.
async fn dependencies(
    client: &Client,
    lock: &Lock,
    required: &[(Requirement, Version)],
) -> Result<Vec<Row>, Failure> {
    let direct: BTreeSet<String> =
        required.iter().map(|(one, version)| key_of(one, version).to_string()).collect();
    let keys = lock.entities.keys().filter(|key| !direct.contains(*key));
    let keys = keys.map(|key| key.parse().map_err(Failure::usage));
    let keys = keys.collect::<Result<Vec<Key>, Failure>>()?;
    let mut rows = Vec::new();
    for some in keys.chunks(limits::REQUIREMENTS) {
        let exact: Vec<_> = some.iter().map(Requirement::exact).collect();
        let Resolutions { outcomes, registry, .. } = resolve(client, &exact, None).await?;
        same_registry(lock, &registry)?;
        let row = |((key, requirement), outcome): ((&Key, &Requirement), Result<_, String>)| Row {
            requirement: crate::lock::name_of(requirement),
            constraint: requirement.constraint.to_string(),
            current: key.version.to_string(),
            lifecycle: outcome.ok().map(|found: Resolved| found.lifecycle),
            wanted: None,
            latest: None,
            upgrade: None,
        };
        rows.extend(some.iter().zip(&exact).zip(outcomes).map(row).filter(Row::is_reported));
    }
    Ok(rows)
}

/// The locked requirements with their versions.
fn read(lock: &Lock) -> Result<Vec<(Requirement, Version)>, Failure> {
    let one = |(name, locked): (&String, &crate::lock::Locked)| {
        let requirement: Requirement =
            format!("{name}@{}", locked.constraint).parse().map_err(Failure::usage)?;
        Ok((requirement, Version::parse(&locked.version).map_err(Failure::usage)?))
    };
    lock.requirements.iter().map(one).collect()
}

/// The key of a requirement with this version.
fn key_of(Requirement { kind, name, .. }: &Requirement, version: &Version) -> Key {
    Key::new(*kind, name.clone(), version.clone())
}

async fn compare(
    client: &Client,
    lock: &Lock,
    required: &[(Requirement, Version)],
) -> Result<(Vec<Row>, u64), Failure> {
    let mut wanted = Vec::with_capacity(3 * required.len());
    for (requirement, version) in required {
        let latest = Requirement { constraint: Constraint::latest(), ..requirement.clone() };
        wanted.extend([
            Requirement::exact(&key_of(requirement, version)),
            requirement.clone(),
            latest,
        ]);
    }
    let Resolutions { outcomes, registry, revision } = resolve(client, &wanted, None).await?;
    same_registry(lock, &registry)?;
    let row = |((requirement, version), outcomes): (&(Requirement, Version), &[_])| {
        let found = |outcome: &Result<Resolved, String>| outcome.as_ref().ok().cloned();
        let [current, wanted, latest] = [0, 1, 2].map(|i| outcomes.get(i).and_then(found));
        Row {
            requirement: crate::lock::name_of(requirement),
            constraint: requirement.constraint.to_string(),
            current: version.to_string(),
            lifecycle: current.map(|current| current.lifecycle),
            wanted: wanted.map(|wanted| wanted.key.version),
            latest: latest.map(|latest| latest.key.version),
            upgrade: None,
        }
    };
    Ok((required.iter().zip(outcomes.chunks(3)).map(row).collect(), revision))
}

impl Row {
    fn is_reported(&self) -> bool {
        self.state() != "active" || self.target().is_some()
    }

    fn state(&self) -> &'static str {
        self.lifecycle.as_ref().map_or("unknown", |lifecycle| lifecycle.state)
    }

    /// The notice of a deprecation or retirement.
    fn notice(&self) -> String {
        let Some(lifecycle) = &self.lifecycle else { return String::new() };
        let replacement = lifecycle.replacement.as_ref().map(|key| format!("replacement: {key}"));
        let sunset = lifecycle.sunset_date.as_ref().map(|day| format!("sunset: {day}"));
        let parts = [lifecycle.message.clone(), replacement, sunset];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// The newer version within the constraint, or else the latest.
    fn target(&self) -> Option<&str> {
        let current = Version::parse(&self.current).ok();
        let is_newer = |version: &&String| Version::parse(version).ok() > current;
        [&self.wanted, &self.latest].into_iter().flatten().find(is_newer).map(String::as_str)
    }
}

impl Upgrade {
    /// The changes, the compatibility and the number of broken dependents.
    fn cells(&self) -> (String, &'static str, String) {
        let Self { to: _, comparison, changed, added, removed, breaks, unknown, dependents } = self;
        let values = if changed.len() == 1 { "value" } else { "values" };
        let changes = format!("{} {values}, +{} -{}", changed.len(), added.len(), removed.len());
        let compatibility = comparison.as_ref().map_or("", |comparison| comparison.outcome);
        let unknown = if *unknown > 0 { format!(", {unknown} unknown") } else { String::new() };
        let broken = format!("{} of {dependents}{unknown}", breaks.len());
        (changes, compatibility, broken)
    }
}

async fn upgrade(client: &Client, row: &Row, revision: u64) -> Result<Option<Upgrade>, Failure> {
    // A version that is not registered cannot be compared.
    let Some(to) = row.target().filter(|_| row.lifecycle.is_some()) else { return Ok(None) };
    let key = |version: &str| format!("{}@{version}", row.requirement).parse::<Key>();
    let (old, new) = (key(&row.current), key(to));
    let (old, new) =
        (old.map_err(Failure::invalid_response)?, new.map_err(Failure::invalid_response)?);
    let needs = async |key: &Key| {
        let key = KeyView::from(v1::EntityKey::from(key));
        let closure: BTreeMap<String, String> =
            closure(client, [&key].into_iter(), revision).await?;
        Ok::<BTreeSet<String>, Failure>(
            closure.into_keys().filter(|k| *k != key.to_string()).collect(),
        )
    };
    let (before, after) = (needs(&old).await?, needs(&new).await?);
    let at_lock = Some(PointInTime::Revision(Revision(revision)));
    let document = async |key: &Key| get::content(&get::fetch(client, key, at_lock).await?);
    let changed = diff(&document(&old).await?, &document(&new).await?);
    // A removed item of an array and another item may have the same pointer.
    let changed: BTreeSet<String> = changed.into_iter().map(|at| at.pointer).collect();
    let plan = Some(Plan::Version(to.to_owned()));
    let wanted = v1::AnalyzeImpactRequest {
        key: Some((&old).into()),
        plan,
        at: Some(at(revision)),
        ..Default::default()
    };
    let impact = client.answer(client.graph().analyze_impact(request(wanted))).await?;
    let breaks = impact.affected.into_iter().filter_map(|affected| {
        let breaks = affected.effect == i32::from(v1::ImpactEffect::Breaks);
        let key = affected.entity.and_then(|entity| entity.key).filter(|_| breaks)?;
        Some(KeyView::from(key).to_string())
    });
    Ok(Some(Upgrade {
        to: to.to_owned(),
        comparison: impact.comparison.map(ComparisonView::from),
        changed: changed.into_iter().filter(|pointer| pointer != "/version").collect(),
        added: after.difference(&before).cloned().collect(),
        removed: before.difference(&after).cloned().collect(),
        breaks: breaks.collect(),
        unknown: impact.undecided_count + impact.unchecked_count,
        dependents: impact.total_count,
    }))
}

fn show(screen: Screen, rows: &[Row], all: usize) -> Result<(), Failure> {
    if screen.format == Format::Json {
        return screen.json(&rows);
    }
    if rows.is_empty() {
        return screen.line(&format!("all {all} requirements are up to date"));
    }
    let heading = [
        "REQUIREMENT",
        "CURRENT",
        "WANTED",
        "LATEST",
        "LIFECYCLE",
        "CHANGES",
        "COMPATIBILITY",
        "BREAKS",
        "NOTICE",
    ];
    let mut table = TextTable::new(&heading);
    for row in rows {
        let Row { requirement, current, wanted, latest, upgrade, .. } = row;
        let text = |version: &Option<String>| version.clone().unwrap_or_else(|| "-".to_owned());
        let (changes, compatibility, breaks) =
            upgrade.as_ref().map(Upgrade::cells).unwrap_or_default();
        let (wanted, latest, notice) = (text(wanted), text(latest), row.notice());
        let (state, notice) = (row.state(), &*notice);
        let cells = [
            requirement,
            current,
            &*wanted,
            &latest,
            state,
            &changes,
            compatibility,
            &breaks,
            notice,
        ];
        match state {
            "active" => table.row(cells),
            "retired" => table.painted(Paint::Bad, cells),
            _ => table.painted(Paint::Careful, cells),
        }
    }
    screen.table(&table)?;
    // Details of the comparisons follow the table.
    let upgrades = rows.iter().filter_map(|row| Some((row, row.upgrade.as_ref()?)));
    for (Row { requirement, current, .. }, Upgrade { to, comparison, .. }) in upgrades {
        let reported = ["breaking", "undecided"];
        let Some(comparison) = comparison.as_ref().filter(|c| reported.contains(&c.outcome)) else {
            continue;
        };
        screen.line(&format!("\n{requirement} {current} -> {to}: {}", comparison.outcome))?;
        comparison.show(screen)?;
    }
    Ok(())
}
