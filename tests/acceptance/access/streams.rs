//! Sync streams end with the credentials that opened them, and clients with other credentials
//! resume.

use std::time::{Duration, Instant};

use acceptance::{
    Database, Gateway, GatewayOptions,
    access::{Guarded, server},
};
use registry_proto::v1::{
    self, access_service_client::AccessServiceClient, sync_request,
    sync_service_client::SyncServiceClient,
};
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

/// Opens a stream and reads its first message.
pub(super) async fn open(guarded: &Guarded, token: &str) -> Streaming<v1::SyncResponse> {
    let hello = v1::ClientHello { gateway: "g".to_owned(), ..Default::default() };
    let hello = v1::SyncRequest { message: Some(sync_request::Message::Hello(hello)) };
    let mut client = SyncServiceClient::new(guarded.channel(token).await);
    let mut stream = client.sync(tokio_stream::iter([hello])).await.expect("let in").into_inner();
    stream.message().await.expect("a message").expect("a snapshot");
    stream
}

/// Reads until the stream ends and returns its status.
pub(super) async fn end_of(mut stream: Streaming<v1::SyncResponse>) -> Status {
    let reading = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended without a reason"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reading).await.expect("the stream ends")
}

pub(super) fn assert_ended(status: &Status) {
    let reason = status.get_details_error_info().expect("an ErrorInfo").reason;
    assert_eq!((status.code(), &*reason), (Code::Unauthenticated, "CREDENTIALS_INVALID"));
}

/// A follower chooses its name. The authenticated principal is listed with it.
#[tokio::test]
async fn follower_is_listed_with_authenticated_principal() {
    let guarded = Guarded::start(&[]);
    let eve = guarded.token("eve", "docs", "reader");
    let _stream = open(&guarded, &eve).await;
    let shown =
        guarded.registry.ctl(&["fleet", "list", "--output", "json", "--token", &guarded.admin]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!((&shown[0]["gateway"], &shown[0]["principal"]), (&"g".into(), &"eve".into()));
}

#[tokio::test]
async fn stream_ends_when_its_token_is_revoked() {
    for database in Database::both().await {
        let guarded = Guarded::start_on(&database.url(), &["--heartbeat-interval", "1s"]);
        let token = guarded.token("gateway-1", "platform", "gateway");
        let mut other = open(&guarded, &guarded.admin).await;
        let stream = open(&guarded, &token).await;
        let revoked = server(&guarded.database, &["token", "revoke", &token[4..16]]);
        assert!(revoked.status.success());
        let began = Instant::now();
        assert_ended(&end_of(stream).await);
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        for _ in 0..3 {
            other.message().await.expect("it goes on").expect("a message");
        }
    }
}

#[tokio::test]
async fn stream_ends_when_its_token_expires() {
    let guarded = Guarded::start(&[]);
    let mut access = AccessServiceClient::new(guarded.channel(&guarded.admin).await);
    let now = jsonwebtoken::get_current_timestamp();
    let soon =
        prost_types::Timestamp { seconds: i64::try_from(now).expect("a time") + 3, nanos: 0 };
    let wanted = v1::CreateTokenRequest {
        name: "g".to_owned(),
        roles: vec![v1::AccessRole::Gateway.into()],
        expire_time: Some(soon),
        ..Default::default()
    };
    let made = access.create_token(wanted).await.expect("made").into_inner();
    let stream = open(&guarded, &made.secret).await;
    assert_ended(&end_of(stream).await);
    let late = jsonwebtoken::get_current_timestamp() - now;
    assert!((3..=5).contains(&late), "{late} s");
}

/// A gateway resumes at once when its token file is replaced.
#[tokio::test]
async fn gateway_resumes_with_replaced_token_file() {
    let guarded = Guarded::start(&[]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("token");
    let old = guarded.token("gateway-1", "platform", "gateway");
    std::fs::write(&file, &old).expect("a file");
    let source = format!("grpc://{}\n  tokenFile: {}", guarded.registry.address, file.display());
    let (targets, runtime) = (String::new(), None);
    let gateway = Gateway::start(&GatewayOptions { source, targets, runtime, more: String::new() });
    gateway.ready().await;
    std::fs::write(&file, guarded.token("gateway-1", "platform", "gateway")).expect("a file");
    assert!(server(&guarded.database, &["token", "revoke", &old[4..16]]).status.success());
    acceptance::eventually("it lost the stream", || async {
        !gateway.process.logged(&["WARN", "Unauthenticated"]).is_empty()
    })
    .await;
    let ctl = ["fleet", "list", "--token", &guarded.admin, "--output", "json"];
    acceptance::eventually("it follows again", || async {
        guarded.registry.ctl(&ctl).stdout.contains("gatewayVersion")
    })
    .await;
}
