//! One `Apply` call: tried again when the connection breaks or the registry is too busy, under one
//! request id, so that it is committed at most once, at whichever server of the registry.

use std::time::Duration;

use registry_proto::v1;
use tokio::time::sleep;
use uuid::Uuid;

use super::refused;
use crate::{
    cli::{AccessArgs, CommitArgs},
    client::{Client, request},
    failure::Failure,
    report::{Finding, Report},
    screen::Screen,
};

/// How often a call is tried, and how long to wait after the first time; then twice as long.
const ATTEMPTS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// A request with the author's part filled in; whom the registry knows, it names itself.
pub(super) fn request_of(
    changes: Vec<v1::Change>,
    message: String,
    args: CommitArgs,
    access: &AccessArgs,
) -> v1::ApplyRequest {
    let CommitArgs { author, user, request_id, base_revision } = args;
    let nobody = || if access.is_somebody() { String::new() } else { user };
    let author = author.unwrap_or_else(nobody);
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

/// Applies a batch: again where that is safe, at the next server where there are several.
pub(super) async fn apply(
    client: &Client,
    wanted: &v1::ApplyRequest,
) -> Result<v1::ApplyResponse, Failure> {
    let mut is_open = false;
    let ended = try_apply(client.clone(), wanted, &mut is_open).await;
    if ended.is_err()
        && is_open
        && let Some(id) = &wanted.request_id
    {
        eprintln!("note: it may have been stored; the same command with --request-id {id} tells");
    }
    ended
}

/// As [`apply`]; also tells whether it may have been stored without an answer.
async fn try_apply(
    mut client: Client,
    wanted: &v1::ApplyRequest,
    is_open: &mut bool,
) -> Result<v1::ApplyResponse, Failure> {
    let (mut wait, mut left) = (FIRST_WAIT, ATTEMPTS);
    loop {
        let failure = match attempt(&client, wanted).await {
            Ok(response) => return Ok(response),
            Err(failure) => failure,
        };
        *is_open |= failure.leaves_outcome_open();
        left -= 1;
        if left == 0 || !is_worth_repeating(&client, &failure) {
            return Err(failure);
        }
        sleep(wait).await;
        wait *= 2;
        if client.has_others() {
            client = client.elsewhere().await?;
        }
    }
}

/// Whether the same request may succeed a little later, here or at another server.
fn is_worth_repeating(client: &Client, failure: &Failure) -> bool {
    failure.is_transient() || (client.has_others() && failure.is_of_one_server())
}

/// Applies a batch; where it is refused, shows why.
pub(super) async fn apply_or_show(
    screen: Screen,
    client: &Client,
    wanted: &v1::ApplyRequest,
) -> Result<v1::ApplyResponse, Failure> {
    or_show(screen, apply(client, wanted).await)
}

/// The answer; where the batch is refused, shows why.
pub(super) fn or_show<T>(screen: Screen, answer: Result<T, Failure>) -> Result<T, Failure> {
    answer.map_err(|failure| match failure {
        Failure::Invalid(found) => {
            refused(screen, &Report::new(found.iter().map(Finding::from).collect()))
        }
        other => other,
    })
}

async fn attempt(client: &Client, wanted: &v1::ApplyRequest) -> Result<v1::ApplyResponse, Failure> {
    client.answer(client.registry().apply(request(wanted.clone()))).await
}
