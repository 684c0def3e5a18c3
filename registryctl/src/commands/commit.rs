//! One `Apply` call: tried again when the connection breaks or the registry is too busy, under one
//! request id, so that it is committed at most once.
//!
//! Deliberately absent: what is applied, and how the answer is shown.

use std::time::Duration;

use registry_proto::v1;
use tokio::time::sleep;
use uuid::Uuid;

use super::refused;
use crate::{
    cli::CommitArgs,
    client::{Client, request},
    failure::Failure,
    report::{Finding, Report},
    screen::Screen,
};

/// How often a call is tried, and how long to wait after the first time; then twice as long.
const ATTEMPTS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// A request with the author's part filled in.
pub(super) fn request_of(
    changes: Vec<v1::Change>,
    message: String,
    args: CommitArgs,
) -> v1::ApplyRequest {
    let CommitArgs { author, request_id, base_revision } = args;
    let request_id = request_id.unwrap_or_else(|| Uuid::now_v7().to_string());
    v1::ApplyRequest {
        changes,
        message,
        author,
        request_id: Some(request_id),
        base_revision,
        dry_run: false,
        settings: Vec::new(),
    }
}

/// Applies a batch.
pub(super) async fn apply(
    client: &Client,
    wanted: &v1::ApplyRequest,
) -> Result<v1::ApplyResponse, Failure> {
    let mut wait = FIRST_WAIT;
    for _ in 1..ATTEMPTS {
        match attempt(client, wanted).await {
            Err(failure) if failure.is_transient() => {}
            ended => return say_how_to_ask(wanted, ended),
        }
        sleep(wait).await;
        wait *= 2;
    }
    say_how_to_ask(wanted, attempt(client, wanted).await)
}

/// Applies a batch; where it is refused, shows why.
pub(super) async fn apply_or_show(
    screen: Screen,
    client: &Client,
    wanted: &v1::ApplyRequest,
) -> Result<v1::ApplyResponse, Failure> {
    apply(client, wanted).await.map_err(|failure| match failure {
        Failure::Invalid(found) => {
            refused(screen, &Report::new(found.iter().map(Finding::from).collect()))
        }
        other => other,
    })
}

fn say_how_to_ask(
    wanted: &v1::ApplyRequest,
    ended: Result<v1::ApplyResponse, Failure>,
) -> Result<v1::ApplyResponse, Failure> {
    if let Err(failure) = &ended
        && failure.leaves_outcome_open()
        && let Some(id) = &wanted.request_id
    {
        eprintln!("note: it may have been stored; the same command with --request-id {id} tells");
    }
    ended
}

async fn attempt(client: &Client, wanted: &v1::ApplyRequest) -> Result<v1::ApplyResponse, Failure> {
    client.answer(client.registry().apply(request(wanted.clone()))).await
}
