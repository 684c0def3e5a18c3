//! Tasks belong to a principal, not to the credential that it used.

use a2a::Version;
use axum::body::Body;
use http::{HeaderName, Request};
use registry_core::Digest;
use serde_json::{Value, json};

use super::harness::{A2aBench, caller, helper, message, rpc};
use crate::{
    identity::settings::{ApiKeyConfig, AuthenticationConfig},
    mcp::tests::harness::Setup,
    testing::Registered,
};

pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const CALLER_AGENT: HeaderName = HeaderName::from_static("x-caller-agent");
const VERSION: HeaderName = HeaderName::from_static("x-agent-version");

/// The configuration of API keys: key and agent.
pub(super) fn keys(keys: &[(&str, &str)]) -> AuthenticationConfig {
    let key = |(key, agent): &(&str, &str)| ApiKeyConfig {
        agent: (*agent).to_owned(),
        version: None,
        digest: Digest::compute(key.as_bytes()),
        scopes: Vec::new(),
    };
    let api_keys = keys.iter().map(key).collect();
    AuthenticationConfig { api_keys, ..AuthenticationConfig::default() }
}

/// A JSON-RPC request of 1.0 with an identity in headers.
pub(super) fn identified(
    headers: &[(HeaderName, &str)],
    (method, params): (&str, Value),
) -> Request<Body> {
    let mut request = rpc(Version::V1, "", (method, params));
    for (name, value) in headers {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

/// Another agent that declares the same skill as [`caller`].
fn neighbor() -> Registered {
    let mut neighbor = caller();
    neighbor.document["name"] = json!("b");
    neighbor
}

async fn started(bench: &A2aBench, headers: &[(HeaderName, &str)]) -> Value {
    let got = bench.got(identified(headers, ("SendMessage", message("go")))).await;
    got.result()["task"]["id"].clone()
}

async fn listed(bench: &A2aBench, headers: &[(HeaderName, &str)]) -> usize {
    let got = bench.got(identified(headers, ("ListTasks", json!({})))).await;
    got.result()["tasks"].as_array().unwrap().len()
}

#[tokio::test]
async fn task_survives_rotation_of_api_key() {
    let authentication = keys(&[("old", "a"), ("new", "a"), ("other", "b")]);
    let setup = Setup { authentication, ..Setup::default() };
    let bench = A2aBench::start_with(setup, [neighbor()]).await;
    let id = started(&bench, &[(API_KEY, "old")]).await;
    let get = || ("GetTask", json!({ "id": id }));
    assert_eq!(bench.got(identified(&[(API_KEY, "new")], get())).await.result()["id"], id);
    assert_eq!(listed(&bench, &[(API_KEY, "new")]).await, 1);
    let got = bench.got(identified(&[(API_KEY, "other")], get())).await;
    assert_eq!(got.error(), (200, -32001));
    assert_eq!(listed(&bench, &[(API_KEY, "other")]).await, 0);
}

#[tokio::test]
async fn task_is_independent_of_how_headers_name_agent() {
    let bench = A2aBench::start([]).await;
    let mut with_url = caller();
    with_url.document["url"] = json!("https://a.example/a2a");
    bench.bench.publish(2, vec![helper(), with_url, neighbor()]);
    let id = started(&bench, &[(CALLER_AGENT, "a")]).await;
    let get = || ("GetTask", json!({ "id": id }));
    for headers in [
        &[(CALLER_AGENT, "https://a.example/a2a")][..],
        &[(CALLER_AGENT, "a"), (VERSION, "1.0.0")],
        &[(CALLER_AGENT, "https://a.example/a2a"), (VERSION, "1.0.0")],
    ] {
        let got = bench.got(identified(headers, get())).await;
        assert_eq!(got.result()["id"], id, "{headers:?}");
        assert_eq!(listed(&bench, headers).await, 1, "{headers:?}");
    }
    let got = bench.got(identified(&[(CALLER_AGENT, "b")], get())).await;
    assert_eq!(got.error(), (200, -32001));
}

#[tokio::test]
async fn agent_receives_no_identity_of_its_caller() {
    let cookie = HeaderName::from_static("cookie");
    let by_key = [(API_KEY, "secret"), (cookie, "secret")];
    let by_name = [(CALLER_AGENT, "a"), (VERSION, "1.0.0")];
    for (api_keys, headers) in [(keys(&[("secret", "a")]), by_key), (keys(&[]), by_name)] {
        let setup = Setup { authentication: api_keys, ..Setup::default() };
        let bench = A2aBench::start_with(setup, []).await;
        started(&bench, &headers).await;
        let received = bench.agent.seen("SendMessage")[0].head.to_lowercase();
        for word in ["secret", "cookie", "x-api-key", "x-caller-agent", "x-agent-"] {
            assert!(!received.contains(word), "{word}: {received}");
        }
    }
}
