//! `verify --live`: live servers against the registry, for people and for CI.

mod targets;

use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use registry_core::{
    Catalog, Key,
    live::{Class, LiveDifference, compare},
};
use serde::Serialize;

use super::Session;
use crate::{
    cli::{Format, VerifyArgs},
    failure::Failure,
    follow::Follower,
    live::{self, Target},
    progress::Progress,
    screen::{Screen, TextTable},
    style::Paint,
};

/// How many servers are asked at once.
const AT_ONCE: usize = 8;

/// What was found about one server.
#[derive(Serialize)]
struct Verified {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    differences: Vec<LiveDifference>,
    #[serde(skip)]
    failure: Option<Failure>,
}

/// The result for scripts.
#[derive(Serialize)]
struct Outcome<'a> {
    revision: u64,
    failed: bool,
    servers: &'a [Verified],
}

pub(super) async fn run(session: &Session, args: VerifyArgs) -> Result<(), Failure> {
    let targets = targets::of(&args)?;
    let client = session.connect().await?;
    let head = client.head().await?;
    let catalog = Follower::open(&client, None).await?.catalog(head).await?;
    let progress = Progress::bar("asking", targets.len() as u64);
    let (catalog, bar) = (&catalog, &progress);
    let asked = stream::iter(targets).map(|(server, target)| async move {
        let verified = verify(catalog, server, &target).await;
        bar.advance(1);
        verified
    });
    let verified: Vec<_> = asked.buffered(AT_ONCE).collect().await;
    drop(progress);
    let fails = |class: Class| args.fail_on.iter().any(|fail_on| fail_on.class() == class);
    let all = || verified.iter().flat_map(|one| &one.differences);
    let failing = all().filter(|difference| fails(difference.class)).count();
    let is_failed = failing > 0 || verified.iter().any(|one| one.failure.is_some());
    if session.screen.format == Format::Json {
        let revision = catalog.revision().0;
        session.screen.json(&Outcome { revision, failed: is_failed, servers: &verified })?;
    } else {
        show(session.screen, &verified)?;
    }
    if failing > 0 {
        let noun = if failing == 1 { "difference" } else { "differences" };
        return Err(Failure::Rejected(format!("{failing} {noun} that should not be")));
    }
    verified.into_iter().find_map(|one| one.failure).map_or(Ok(()), Err)
}

async fn verify(catalog: &Catalog, server: Key, target: &Target) -> Verified {
    let compared = differences(catalog.clone(), server.clone(), target).await;
    let server = server.to_string();
    match compared {
        Ok(differences) => Verified { server, error: None, differences, failure: None },
        Err(failure) => {
            let error = Some(failure.to_string());
            Verified { server, error, differences: Vec::new(), failure: Some(failure) }
        }
    }
}

async fn differences(
    catalog: Catalog,
    server: Key,
    target: &Target,
) -> Result<Vec<LiveDifference>, Failure> {
    let started = Instant::now();
    let said = live::ask(target).await?;
    let compared = target.work(started, move || compare(&catalog, &server, &said)).await?;
    compared.map_err(|e| Failure::Rejected(e.to_string()))
}

fn show(screen: Screen, verified: &[Verified]) -> Result<(), Failure> {
    let mut table = TextTable::new(&["CLASS", "SERVER", "TOOL", "WHERE", "WHAT"]);
    let (mut rows, mut equal) = (0, 0);
    for Verified { server, error, differences, .. } in verified {
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
    screen.line(&format!("{equal} of {} servers are as registered", verified.len()))
}
