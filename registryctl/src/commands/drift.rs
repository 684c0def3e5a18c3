//! `drift`: compares live servers and agents with their registered definitions.

mod targets;

use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use registry_core::{
    Catalog, Document, Entity, Key, Kind,
    live::{Class, LiveDifference, NotRegistered, compare, compare_agent},
};
use registry_import::{AgentImportOptions, import_agent};
use serde::Serialize;
use tokio::time::timeout;

use self::targets::DriftTarget;
use super::{Session, import::a2a::card};
use crate::{
    cli::{DriftArgs, Format},
    failure::Failure,
    follow::Follower,
    live::{self, without_query},
    progress::Progress,
    screen::{Screen, TextTable},
    style::Paint,
};

/// Number of concurrent connections.
const CONCURRENCY: usize = 8;

/// The differences of one registered version.
#[derive(Serialize)]
struct ServerDrift {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    differences: Vec<LiveDifference>,
    #[serde(skip)]
    failure: Option<Failure>,
}

/// The JSON result.
#[derive(Serialize)]
struct Outcome<'a> {
    revision: u64,
    failed: bool,
    servers: &'a [ServerDrift],
}

pub(super) async fn run(session: &Session, args: DriftArgs) -> Result<(), Failure> {
    let targets = targets::collect(&args)?;
    let client = session.connect().await?;
    let head = client.head().await?;
    let catalog = Follower::open(&client, None).await?.catalog(head).await?;
    let progress = Progress::bar("checking", targets.len() as u64);
    let (catalog, bar) = (&catalog, &progress);
    let served: Vec<_> = targets.iter().map(|target| target.served(catalog, &targets)).collect();
    let checked = stream::iter(targets.into_iter().zip(served)).map(|(target, keys)| async move {
        let drift = check(catalog, &target, keys).await;
        bar.advance(1);
        drift
    });
    let checked: Vec<_> = checked.buffered(CONCURRENCY).collect().await;
    let servers: Vec<_> = checked.into_iter().flatten().collect();
    drop(progress);
    let fails = |class: Class| args.fail_on.iter().any(|fail_on| fail_on.class() == class);
    let all = || servers.iter().flat_map(|one| &one.differences);
    let failing = all().filter(|difference| fails(difference.class)).count();
    let is_failed = failing > 0 || servers.iter().any(|one| one.failure.is_some());
    if session.screen.format == Format::Json {
        let revision = catalog.revision().0;
        session.screen.json(&Outcome { revision, failed: is_failed, servers: &servers })?;
    } else {
        show(session.screen, &servers)?;
    }
    if failing > 0 {
        let noun = if failing == 1 { "difference" } else { "differences" };
        return Err(Failure::Rejected(format!("{failing} {noun} of the classes in --fail-on")));
    }
    servers.into_iter().find_map(|one| one.failure).map_or(Ok(()), Err)
}

impl ServerDrift {
    fn new(server: String, compared: Result<Vec<LiveDifference>, Failure>) -> Self {
        match compared {
            Ok(differences) => Self { server, error: None, differences, failure: None },
            Err(failure) => {
                let error = Some(failure.to_string());
                Self { server, error, differences: Vec::new(), failure: Some(failure) }
            }
        }
    }
}

/// Compares one live server with each registered version that it serves.
async fn check(catalog: &Catalog, target: &DriftTarget, served: Vec<Key>) -> Vec<ServerDrift> {
    match compared(catalog.clone(), target, served).await {
        Ok(drifts) => drifts,
        Err(failure) => vec![ServerDrift::new(target.label(), Err(failure))],
    }
}

async fn compared(
    catalog: Catalog,
    target: &DriftTarget,
    served: Vec<Key>,
) -> Result<Vec<ServerDrift>, Failure> {
    if served.is_empty() {
        let message = format!("the registry has no version that {} serves", target.label());
        return Err(Failure::Rejected(message));
    }
    let started = Instant::now();
    if target.kind == Kind::Agent {
        return compared_card(catalog, target, served, started).await;
    }
    let live = live::list_tools(&target.live).await?;
    let keys = served.clone();
    let compare_all =
        move || keys.iter().map(|server| compare(&catalog, server, &live)).collect::<Vec<_>>();
    let all = target.live.process(started, compare_all).await?;
    Ok(drifts(served, all))
}

/// Compares the card of a live agent with each registered version that it serves.
async fn compared_card(
    catalog: Catalog,
    target: &DriftTarget,
    served: Vec<Key>,
    started: Instant,
) -> Result<Vec<ServerDrift>, Failure> {
    let card = timeout(target.live.timeout(), card(&target.live, &target.url)).await;
    let card = card.unwrap_or_else(|_| Err(target.live.timed_out()))?;
    let options = AgentImportOptions {
        name: served.first().map(|key| key.name.clone()),
        version: None,
        url: without_query(&target.url).to_owned(),
    };
    let keys = served.clone();
    let no_card = || "it is not an object".to_owned();
    let compare_all = move || {
        let imported = import_agent(&card, &options);
        let document = imported.draft.agents.first().ok_or_else(no_card)?;
        let document = Document::parse(Kind::Agent, document).map_err(|found| {
            found.into_iter().next().map_or_else(String::new, |problem| problem.message)
        })?;
        let Entity::Agent(live) = document.entity() else { return Err(no_card()) };
        Ok(keys.iter().map(|key| compare_agent(&catalog, key, live)).collect::<Vec<_>>())
    };
    let all = target.live.process(started, compare_all).await?;
    let all = all.map_err(|why| target.live.invalid_response(format!("invalid card: {why}")))?;
    Ok(drifts(served, all))
}

fn drifts(
    served: Vec<Key>,
    compared: Vec<Result<Vec<LiveDifference>, NotRegistered>>,
) -> Vec<ServerDrift> {
    let drift = |(server, differences): (Key, Result<_, NotRegistered>)| {
        let differences = differences.map_err(|e| Failure::Rejected(e.to_string()));
        ServerDrift::new(server.to_string(), differences)
    };
    served.into_iter().zip(compared).map(drift).collect()
}

fn show(screen: Screen, servers: &[ServerDrift]) -> Result<(), Failure> {
    let mut table = TextTable::new(&["CLASS", "SERVER", "TOOL", "POINTER", "DIFFERENCE"]);
    let (mut rows, mut equal) = (0, 0);
    for ServerDrift { server, error, differences, .. } in servers {
        if let Some(error) = error {
            table.painted(Paint::Bad, ["unknown", server, "", "", error]);
            rows += 1;
        } else if differences.is_empty() {
            equal += 1;
        }
        for LiveDifference { class, tool, pointer, what, .. } in differences {
            let (word, paint) = match class {
                Class::Cosmetic => ("cosmetic", Paint::Dim),
                Class::Compatible => ("compatible", Paint::Good),
                Class::Undecided => ("undecided", Paint::Careful),
                Class::Suspicious => ("suspicious", Paint::Bad),
                Class::Breaking => ("breaking", Paint::Bad),
            };
            table.painted(paint, [word, server, tool, pointer, what]);
            rows += 1;
        }
    }
    if rows > 0 {
        screen.table(&table)?;
    }
    screen.line(&format!("{equal} of {} servers match the registry", servers.len()))
}
