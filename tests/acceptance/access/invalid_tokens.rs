//! Tokens that must be rejected: forged, truncated, expired, revoked, and reused after revocation.

use std::{net::IpAddr, time::Duration};

use acceptance::access::{Guarded, server};
use registry_proto::v1::{
    self, access_service_client::AccessServiceClient,
    registry_service_client::RegistryServiceClient,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

async fn list(guarded: &Guarded, token: &str) -> Result<(), Status> {
    let mut client = RegistryServiceClient::new(guarded.channel(token).await);
    client.list_entities(v1::ListEntitiesRequest::default()).await.map(drop)
}

async fn assert_invalid(guarded: &Guarded, token: &str) -> String {
    let status = list(guarded, token).await.expect_err(token);
    let reason = status.get_details_error_info().expect("an ErrorInfo").reason;
    assert_eq!((status.code(), &*reason), (Code::Unauthenticated, "CREDENTIALS_INVALID"));
    status.message().to_owned()
}

/// The token with a changed secret part and a matching checksum, as a forger would compute it.
fn forged(token: &str) -> String {
    let mut body = token[..81].to_owned();
    let other = if body.ends_with('0') { "1" } else { "0" };
    body.replace_range(80.., other);
    let digest = registry_core::Digest::compute(body.as_bytes()).to_string();
    let (_, hex) = digest.split_once(':').expect("sha256:…");
    body + &hex[..8]
}

#[tokio::test]
async fn unknown_credentials_are_rejected_with_one_message() {
    let guarded = Guarded::start(&[]);
    assert!(list(&guarded, &guarded.admin).await.is_ok());
    let known = forged(&guarded.admin);
    assert_eq!(known[..17], guarded.admin[..17], "the id is one that exists");
    let unknown =
        format!("rgy_{}", &guarded.admin[4..].replace(&guarded.admin[4..16], "000000000000"));
    let mut answers = Vec::new();
    for bad in [
        known,
        forged(&unknown),
        unknown,
        guarded.admin[..88].to_owned(),
        format!("{}0", guarded.admin),
        guarded.admin.to_uppercase(),
        "rgy_".to_owned(),
        "x".repeat(4096),
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0.".to_owned(),
    ] {
        answers.push(assert_invalid(&guarded, &bad).await);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "no answer tells whether a token exists: {answers:?}");
}

/// Every address in 127.0.0.0/8 is local, so a test can use many client addresses.
async fn status_over_http(guarded: &Guarded, from: &str, token: &str) -> (u16, Option<u64>) {
    let client = reqwest::Client::builder().local_address(from.parse::<IpAddr>().expect("one"));
    let url = format!("{}/registry.json", guarded.registry.url());
    let request = client.build().expect("a client").get(url).bearer_auth(token);
    let answer = request.send().await.expect("an answer");
    let wait = answer.headers().get("retry-after");
    let wait = wait.map(|wait| wait.to_str().expect("text").parse().expect("seconds"));
    (answer.status().as_u16(), wait)
}

#[tokio::test]
async fn failed_authentications_are_rate_limited_per_address() {
    let guarded = Guarded::start(&[]);
    let forged = forged(&guarded.admin);
    let mut limited = None;
    for _ in 0..200 {
        let status = list(&guarded, &forged).await.expect_err("forged");
        if status.code() == Code::ResourceExhausted {
            limited = Some(status);
            break;
        }
    }
    let limited = limited.expect("a limit");
    assert_eq!(limited.get_details_error_info().expect("an ErrorInfo").reason, "RATE_LIMITED");
    let wait = limited.get_details_retry_info().expect("a RetryInfo").retry_delay;
    assert!(wait.is_some_and(|wait| wait <= Duration::from_secs(1)), "{wait:?}");
    // Forged tokens are sometimes rate limited as the bucket refills. Valid tokens always pass.
    acceptance::eventually("HTTP says so too", || async {
        status_over_http(&guarded, "127.0.0.1", &forged).await == (429, Some(1))
    })
    .await;
    assert!(list(&guarded, &guarded.admin).await.is_ok(), "others share the address");
    assert_eq!(status_over_http(&guarded, "127.0.0.1", &guarded.admin).await, (200, None));
    assert_eq!(status_over_http(&guarded, "127.0.0.2", &forged).await, (401, None));
    assert_eq!(status_over_http(&guarded, "127.0.0.2", &guarded.admin).await, (200, None));
    acceptance::eventually("the API of MCP registries says so in its own form", || async {
        let api = reqwest::Client::new().post(format!("{}/v0.1/publish", guarded.registry.url()));
        let answer = api.bearer_auth(&forged).send().await.expect("an answer");
        let is_problem = answer.headers()["content-type"] == "application/problem+json";
        // Without this header, a web page could not read the response.
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        assert_eq!(answer.headers()["access-control-allow-methods"], "GET, OPTIONS");
        let allowed = &answer.headers()["access-control-allow-headers"];
        assert_eq!(allowed, "Authorization, Content-Type");
        answer.status() == 429 && is_problem
    })
    .await;
}

#[tokio::test]
async fn revoked_and_expired_tokens_are_rejected() {
    let guarded = Guarded::start(&[]);
    let mut access = AccessServiceClient::new(guarded.channel(&guarded.admin).await);
    let create = |expire_time| v1::CreateTokenRequest {
        name: "ci".to_owned(),
        roles: vec![v1::AccessRole::Reader.into()],
        expire_time,
        ..Default::default()
    };
    let made = access.create_token(create(None)).await.expect("made").into_inner();
    assert!(list(&guarded, &made.secret).await.is_ok());
    let v1::ApiToken { id, create_time, .. } = made.token.expect("a token");
    access.revoke_token(v1::RevokeTokenRequest { id: id.clone() }).await.expect("revoked");
    assert_invalid(&guarded, &made.secret).await;
    let again = access.revoke_token(v1::RevokeTokenRequest { id }).await.expect_err("it has ended");
    assert_eq!(again.code(), Code::NotFound);

    let past = access.create_token(create(Some(prost_types::Timestamp::default()))).await;
    assert_eq!(past.expect_err("the past").code(), Code::InvalidArgument);

    let mut soon = create_time.expect("a time");
    soon.seconds += 3;
    let made = access.create_token(create(Some(soon))).await.expect("made").into_inner();
    assert!(list(&guarded, &made.secret).await.is_ok());
    tokio::time::sleep(Duration::from_millis(3100)).await;
    assert_invalid(&guarded, &made.secret).await;
}

#[tokio::test]
async fn token_command_administers_tokens_of_running_server() {
    let guarded = Guarded::start(&[]);
    let token = guarded.token("late", "team", "reader");
    assert!(list(&guarded, &token).await.is_ok(), "it is known at once");
    let listed = server(&guarded.database, &["token", "list"]);
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.contains("late") && listed.contains("platform"), "{listed}");
    assert!(!listed.contains(&token[17..]), "the list never has the text");
    assert!(server(&guarded.database, &["token", "revoke", &token[4..16]]).status.success());
    acceptance::eventually("the server refuses it", || async {
        list(&guarded, &token).await.is_err()
    })
    .await;
    assert_eq!(
        server(&guarded.database, &["token", "revoke", &token[4..16]]).status.code(),
        Some(1)
    );
    let all = server(&guarded.database, &["token", "list", "--all"]);
    assert!(String::from_utf8_lossy(&all.stdout).contains("revoked"));
}

#[tokio::test]
async fn no_secret_is_ever_logged() {
    let guarded = Guarded::start(&["--log", "trace"]);
    let forged = forged(&guarded.admin);
    list(&guarded, &guarded.admin).await.expect("let in");
    assert_invalid(&guarded, &forged).await;
    let mut access = AccessServiceClient::new(guarded.channel(&guarded.admin).await);
    let wanted = v1::CreateTokenRequest {
        name: "ci".to_owned(),
        roles: vec![v1::AccessRole::Reader.into()],
        ..Default::default()
    };
    let made = access.create_token(wanted).await.expect("made").into_inner();
    let log = guarded.registry.process.stderr();
    let denied = guarded.registry.process.logged(&["event=\"denied\"", &forged[4..16]]);
    assert!(log.contains("token-created") && !denied.is_empty(), "it is noted");
    for secret in [&guarded.admin, &forged, &made.secret] {
        assert!(!log.contains(&secret[17..60]), "a secret is in the log");
    }
}
