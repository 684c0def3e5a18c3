//! Limits of scopes between a relay and its registry: followers receive the reason of a rejection,
//! and unused scopes are released.

use std::time::{Duration, Instant};

use acceptance::{Gateway, Registry, eventually_within};
use registry_core::Scope;
use registry_proto::v1::{ClientHello, SyncRequest, sync_request::Message};
use tonic::Status;
use tonic_types::StatusExt as _;

use super::{AGENT, key_of, pinned_options, reaches};
use crate::deployment::gateway_revision;

const TOOL: &str = "scope: [\"tool/fetch@*\"]";

/// A registry that signs one scope per follower, and its relay.
fn limited_registry(dir: &tempfile::TempDir) -> (Registry, Registry) {
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let registry = Registry::start_with(&database, &["--max-scopes-per-caller", "1"]);
    registry.apply_example();
    let relay = registry.start_relay(&["--follow-key", &key_of(&registry)]);
    (registry, relay)
}

/// The status of a follower whose scope is rejected.
async fn refused(server: &Registry, root: &str) -> Status {
    let scope = Scope::from_roots(&[root]).expect("a scope");
    let hello = ClientHello {
        gateway: "one more".to_owned(),
        scope: Some((&scope).into()),
        ..ClientHello::default()
    };
    let hello = SyncRequest { message: Some(Message::Hello(hello)) };
    let mut client = server.sync().await;
    let mut stream = match client.sync(tokio_stream::iter([hello])).await {
        Ok(stream) => stream.into_inner(),
        Err(status) => return status,
    };
    loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ends without a reason"),
            Err(status) => return status,
        }
    }
}

#[tokio::test]
async fn scope_beyond_upstream_limit_is_rejected_with_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let (registry, relay) = limited_registry(&dir);
    let key = key_of(&registry);
    let first = Gateway::start(&pinned_options(&relay, &key, AGENT));
    reaches(&first, 1).await;
    let far = relay.start_relay(&["--follow-key", &key]);
    acceptance::eventually("the second relay is connected", || async { far.revision().await == 1 })
        .await;
    for server in [&relay, &far] {
        let began = Instant::now();
        let status = tokio::time::timeout(Duration::from_secs(20), refused(server, "tool/fetch@*"));
        let status = status.await.expect("an answer");
        let reason = status.get_details_error_info().map(|info| info.reason);
        assert_eq!(reason.as_deref(), Some("UPSTREAM_SCOPE_LIMIT"), "{status:?}");
        assert!(status.message().contains("--max-scopes-per-caller"), "{status:?}");
        assert!(began.elapsed() < Duration::from_secs(8), "at once");
    }
    let second = Gateway::start(&pinned_options(&relay, &key, TOOL));
    acceptance::eventually("a gateway logs why", || async {
        second.process.stderr().contains("--max-scopes-per-caller")
    })
    .await;
    assert_eq!(gateway_revision(&first).await, Some(1));
}

#[tokio::test]
async fn unused_scope_is_released() {
    let dir = tempfile::tempdir().expect("a directory");
    let (registry, relay) = limited_registry(&dir);
    let key = key_of(&registry);
    let mut first = Gateway::start(&pinned_options(&relay, &key, AGENT));
    reaches(&first, 1).await;
    first.process.stop();
    let second = Gateway::start(&pinned_options(&relay, &key, TOOL));
    let limit = Duration::from_secs(100);
    eventually_within(limit, "the first gateway's place is released", || async {
        gateway_revision(&second).await == Some(1)
    })
    .await;
}
