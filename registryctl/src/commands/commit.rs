//! `Apply` calls with retries. All attempts have one request id, so that the batch is committed once at
//! most, also by different servers of the registry.

use std::time::Duration;

use registry_proto::v1;
use tokio::time::sleep;
use uuid::Uuid;

use super::rejected_batch;
use crate::{
    cli::{AccessArgs, CommitArgs},
    client::{Client, request},
    failure::Failure,
    report::{Finding, Report},
    screen::Screen,
};

/// Maximum number of attempts, and the wait after the first. The wait doubles after each attempt.
const ATTEMPTS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// A request. For an authenticated caller, the registry sets the author.
pub(super) fn new_request(
    changes: Vec<v1::EntityChange>,
    message: String,
    args: CommitArgs,
    access: &AccessArgs,
) -> v1::ApplyChangesRequest {
    let CommitArgs { author, user, request_id, base_revision } = args;
    let default = || if access.has_credentials() { String::new() } else { user };
    let author = author.unwrap_or_else(default);
    let request_id = request_id.unwrap_or_else(|| Uuid::now_v7().to_string());
    v1::ApplyChangesRequest {
        changes,
        message,
        author,
        request_id,
        base_revision,
        validate_only: false,
        settings: Vec::new(),
        allow_policy_break: false,
    }
}

/// Applies a batch. Retries go to the next server, if there are several.
pub(super) async fn apply(
    client: &Client,
    wanted: &v1::ApplyChangesRequest,
) -> Result<v1::ApplyChangesResponse, Failure> {
    let mut is_unknown = false;
    let result = try_apply(client.clone(), wanted, &mut is_unknown).await;
    let id = &wanted.request_id;
    if result.is_err() && is_unknown && !id.is_empty() {
        eprintln!(
            "note: the commit may have been stored; repeat the command with --request-id {id} to \
             find out"
        );
    }
    result
}

/// The plan of a batch, with the same retries.
pub(super) async fn dry_run(
    client: &Client,
    wanted: &v1::ApplyChangesRequest,
) -> Result<v1::ApplyChangesResponse, Failure> {
    let dry = v1::ApplyChangesRequest {
        validate_only: true,
        request_id: String::new(),
        ..wanted.clone()
    };
    try_apply(client.clone(), &dry, &mut false).await
}

/// Sets `is_unknown` if an attempt may have been committed.
async fn try_apply(
    mut client: Client,
    wanted: &v1::ApplyChangesRequest,
    is_unknown: &mut bool,
) -> Result<v1::ApplyChangesResponse, Failure> {
    let (mut wait, mut left) = (FIRST_WAIT, ATTEMPTS);
    loop {
        let failure = match attempt(&client, wanted).await {
            Ok(response) => return Ok(response),
            Err(failure) => failure,
        };
        *is_unknown |= failure.is_outcome_unknown();
        left -= 1;
        if left == 0 || !is_retryable(&client, &failure) {
            return Err(failure);
        }
        sleep(wait).await;
        wait *= 2;
        if client.has_others() {
            client = client.next_server().await?;
        }
    }
}

fn is_retryable(client: &Client, failure: &Failure) -> bool {
    failure.is_transient() || (client.has_others() && failure.is_server_specific())
}

/// Applies a batch, and prints the findings of a rejection.
pub(super) async fn apply_or_show(
    screen: Screen,
    client: &Client,
    wanted: &v1::ApplyChangesRequest,
) -> Result<v1::ApplyChangesResponse, Failure> {
    or_show(screen, apply(client, wanted).await)
}

/// Prints the findings of a rejection.
pub(super) fn or_show<T>(screen: Screen, answer: Result<T, Failure>) -> Result<T, Failure> {
    answer.map_err(|failure| match failure {
        Failure::Invalid(found) => {
            rejected_batch(screen, &Report::new(found.iter().map(Finding::from).collect()))
        }
        other => other,
    })
}

async fn attempt(
    client: &Client,
    wanted: &v1::ApplyChangesRequest,
) -> Result<v1::ApplyChangesResponse, Failure> {
    client.answer(client.registry().apply_changes(request(wanted.clone()))).await
}
