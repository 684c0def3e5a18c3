//! Followers: the capability, and policies in scopes and behind relays.

use std::fs;

use acceptance::{Gateway, GatewayOptions, Registry, gateway::unreachable_targets};
use registry_proto::v1::{self, sync_request};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use super::{applied, bank, limit};

/// Opens a stream as a follower of an earlier version, which declares no capability.
async fn follow_as_earlier_version(
    registry: &Registry,
) -> Result<(mpsc::Sender<v1::SyncRequest>, Streaming<v1::SyncResponse>), Status> {
    let (says, said) = mpsc::channel(4);
    let hello = v1::ClientHello { gateway: "old".to_owned(), ..Default::default() };
    let hello = v1::SyncRequest { message: Some(sync_request::Message::Hello(hello)) };
    says.send(hello).await.expect("there is room");
    let stream = registry.sync().await.sync(ReceiverStream::new(said)).await?;
    Ok((says, stream.into_inner()))
}

fn assert_lacks_capability(status: &Status) {
    let reason = status.get_details_error_info().map(|info| info.reason);
    assert_eq!(
        (status.code(), reason.as_deref()),
        (Code::FailedPrecondition, Some("CAPABILITY_MISSING"))
    );
}

#[tokio::test]
async fn follower_without_policy_support_is_rejected() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let (_says, mut stream) = follow_as_earlier_version(&registry).await.expect("an answer");
    applied(&registry, &limit("1.0.0-rc.1", &json!({})));
    let (_second, _stream) = follow_as_earlier_version(&registry).await.expect("an answer");
    applied(&registry, &limit("1.0.0", &json!({})));
    let ended = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ends without a status"),
            Err(status) => break status,
        }
    };
    assert_lacks_capability(&ended);
    assert_lacks_capability(&follow_as_earlier_version(&registry).await.unwrap_err());
    registry.run(&["retire", "policy/limit@1.0.0", "--yes"]);
    assert!(follow_as_earlier_version(&registry).await.is_ok());
}

/// The cached copy of a gateway, once it is at a revision.
async fn copy_at(gateway: &Gateway, revision: u64) -> Value {
    let read = || {
        let text = fs::read_to_string(gateway.cache()).unwrap_or_default();
        serde_json::from_str::<Value>(&text).unwrap_or_default()
    };
    acceptance::eventually("the cache is current", || async { read()["revision"] == revision })
        .await;
    read()
}

fn names(copy: &Value) -> Vec<&str> {
    let policies = copy["policies"].as_array().map(Vec::as_slice).unwrap_or_default();
    policies.iter().map(|policy| policy["name"].as_str().expect("a text")).collect()
}

#[tokio::test]
async fn scope_contains_its_policies_and_owners() {
    let registry = Registry::start();
    let relay = registry.start_relay(&[]);
    applied(&registry, &bank());
    let policy = |name: &str, applies_to: Value| json!({ "name": name, "version": "1.0.0", "appliesTo": applies_to });
    let policies = [
        policy("about-alias", json!({ "tools": ["charge"] })),
        policy("about-caller", json!({ "callers": ["*"] })),
        policy("about-other", json!({ "tools": ["balance"] })),
        policy("about-server", json!({ "servers": ["bank"], "callers": ["nobody"] })),
    ];
    applied(&registry, &json!({ "schemaVersion": "2.0", "policies": policies }));
    let scoped = |address: &str| {
        Gateway::start(&GatewayOptions {
            source: format!("grpc://{address}\n  scope: [\"tool/pay@*\"]"),
            targets: unreachable_targets(),
            runtime: None,
            more: String::new(),
        })
    };
    let expected = ["about-alias", "about-caller", "about-server"];
    let gateways = [scoped(&registry.address), scoped(&relay.address)];
    for gateway in &gateways {
        gateway.ready().await;
        assert_eq!(names(&copy_at(gateway, 2).await), expected);
    }
    registry.run(&["transfer", "tool/pay", "payments", "--yes"]);
    registry.run(&["transfer", "tool/balance", "other", "--yes"]);
    applied(
        &registry,
        &json!({ "schemaVersion": "2.0",
        "policies": [policy("later", json!({ "tools": ["p*"] }))] }),
    );
    registry.run(&["retire", "policy/about-caller@1.0.0", "--yes"]);
    for gateway in &gateways {
        let copy = copy_at(gateway, 6).await;
        assert_eq!(names(&copy), ["about-alias", "about-server", "later"]);
        let settings = copy["settings"].as_array().expect("a list");
        assert_eq!(settings.len(), 1, "{settings:?}");
        assert_eq!(
            (&settings[0]["target"], &settings[0]["owner"]),
            (&json!("tool/pay"), &json!("payments"))
        );
    }
}
