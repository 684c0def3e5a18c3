//! `drift`: compares live servers and agents with their registered definitions.

mod targets;

use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use registry_core::{
    Catalog, Key, Kind,
    live::{Class, LiveDifference, NotRegistered, compare, compare_agent},
};
use registry_import::{AgentImportOptions, CardOrigin, live_agent};
use serde::Serialize;

use self::targets::DriftTarget;
use super::Session;
use crate::{
    cli::{DriftArgs, Format},
    failure::Failure,
    follow::Follower,
    live::{self, CardKeys, without_query},
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
    /// The result of the verification of an agent's card. `None`: signatures are not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<Signature>,
    #[serde(skip)]
    failure: Option<Failure>,
}

/// The signature of a card. An invalid one is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Signature {
    Verified,
    /// The card has no signature.
    Missing,
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
    let keys = CardKeys::open(&args.keys, &args.reach).await?;
    let client = session.connect().await?;
    let head = client.head().await?;
    let catalog = Follower::open(&client, None).await?.catalog(head).await?;
    let progress = Progress::bar("checking", targets.len() as u64);
    let (catalog, keys, bar) = (&catalog, &keys, &progress);
    let served: Vec<_> = targets.iter().map(|target| target.served(catalog, &targets)).collect();
    let checked =
        stream::iter(targets.into_iter().zip(served)).map(|(target, served)| async move {
            let drift = check(catalog, (&target, keys), served).await;
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
            Ok(differences) => {
                Self { server, error: None, differences, signature: None, failure: None }
            }
            Err(failure) => Self {
                server,
                error: Some(failure.to_string()),
                differences: Vec::new(),
                signature: None,
                failure: Some(failure),
            },
        }
    }
}

/// Compares one live server with each registered version that it serves.
async fn check(
    catalog: &Catalog,
    (target, keys): (&DriftTarget, &CardKeys),
    served: Vec<Key>,
) -> Vec<ServerDrift> {
    match compared(catalog.clone(), (target, keys), served).await {
        Ok(drifts) => drifts,
        Err(failure) => vec![ServerDrift::new(target.label(), Err(failure))],
    }
}

async fn compared(
    catalog: Catalog,
    (target, keys): (&DriftTarget, &CardKeys),
    served: Vec<Key>,
) -> Result<Vec<ServerDrift>, Failure> {
    if served.is_empty() {
        let message = format!("the registry has no version that {} serves", target.label());
        return Err(Failure::Rejected(message));
    }
    if target.kind == Kind::Agent {
        return compared_card(catalog, (target, keys), served).await;
    }
    let started = Instant::now();
    let live = live::list_tools(&target.live).await?;
    let servers = served.clone();
    let compare_all =
        move || servers.iter().map(|server| compare(&catalog, server, &live)).collect::<Vec<_>>();
    let all = target.live.process(started, compare_all).await?;
    Ok(drifts(served, all))
}

/// Compares the card of a live agent with each registered version that it serves.
async fn compared_card(
    catalog: Catalog,
    (target, trusted): (&DriftTarget, &CardKeys),
    served: Vec<Key>,
) -> Result<Vec<ServerDrift>, Failure> {
    let (live, started) = (&target.live, Instant::now());
    let (card, origin) = trusted.verified_card(live, &target.url, started).await?;
    let signature = match origin {
        CardOrigin::Verified(_) => Some(Signature::Verified),
        CardOrigin::Unsigned => Some(Signature::Missing),
        CardOrigin::NotVerified => None,
    };
    let options = AgentImportOptions {
        name: served.first().map(|key| key.name.clone()),
        url: without_query(&target.url).to_owned(),
        ..AgentImportOptions::default()
    };
    let agents = served.clone();
    let compare_all = move || {
        live_agent(&card.value, &options).map(|found| {
            agents.iter().map(|key| compare_agent(&catalog, key, &found)).collect::<Vec<_>>()
        })
    };
    let all = live.process(started, compare_all).await?;
    let all = all.map_err(|why| live.invalid_response(format!("invalid card: {why}")))?;
    let mut drifts = drifts(served, all);
    for drift in &mut drifts {
        drift.signature = signature;
    }
    Ok(drifts)
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
    for ServerDrift { server, error, differences, signature, .. } in servers {
        if let Some(error) = error {
            table.painted(Paint::Bad, ["unknown", server, "", "", error]);
            rows += 1;
        } else if differences.is_empty() {
            equal += 1;
        }
        if *signature == Some(Signature::Missing) {
            let note = "the card is not signed";
            table.painted(Paint::Careful, ["note", server, "", "/signatures", note]);
            rows += 1;
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
