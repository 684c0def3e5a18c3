//! Policy modes and callers, through the endpoint.

use gateway_policy::{Access, RuntimeValidation, ValidationMode};
use registry_core::Digest;
use serde_json::json;

use super::{
    harness::{Ask, Bench, Setup},
    relayed::acceptable,
};
use crate::{
    identity::settings::IdentityConfig,
    testing::{Registered, agent, policy, server, tool},
};

fn entities() -> Vec<Registered> {
    vec![
        tool("own", "1.0.0", json!({})),
        tool("own", "2.0.0", json!({})),
        tool("other", "1.0.0", json!({})),
        agent("team/a", "1.0.0", &[("own", "1.0.0")]),
    ]
}

fn setup(unknown: Access, undeclared: Access) -> Setup {
    let strict = Setup::default();
    let policy = RuntimeValidation {
        unknown_caller: unknown,
        undeclared_dependency: undeclared,
        ..strict.policy
    };
    Setup { policy, ..strict }
}

#[tokio::test]
async fn denied_tool_equals_unknown_tool() {
    let bench = Bench::start(setup(Access::Deny, Access::Deny), entities()).await;
    bench.call("team/a", "own", json!({})).await.result();
    for agent in ["team/a", "stranger"] {
        let denied = bench.call(agent, "other", json!({})).await;
        let absent = bench.call(agent, "ghost", json!({})).await;
        assert_eq!(denied.error(), (200, -32602));
        assert_eq!(denied.text.replace("other", "X"), absent.text.replace("ghost", "X"));
        assert_eq!(denied.headers, absent.headers);
    }
    let list = bench.modern("stranger", "tools/list", json!({})).await.result();
    assert_eq!(list["tools"], json!([]));
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn retired_dependency_is_named_to_its_agent_only() {
    let registry = |server: Registered, more: Option<Registered>| -> Vec<Registered> {
        let own = tool("own", "1.0.0", json!({})).retired();
        let newer = tool("own", "2.0.0", json!({}));
        let agents = [agent("team/a", "1.0.0", &[("own", "1.0.0")]), agent("b", "1.0.0", &[])];
        [own, newer, server].into_iter().chain(agents).chain(more).collect()
    };
    let provider = || server("up", &["own"], &[]);
    let bench = Bench::start(setup(Access::Deny, Access::Deny), registry(provider(), None)).await;
    let denied = async |caller: &str| {
        let got = bench.call(caller, "own", json!({})).await;
        assert_eq!(got.error(), (200, -32602));
        got.json()["error"]["message"].as_str().unwrap().to_owned()
    };
    let retired = "The caller declares tool/own@1.0.0, which is retired. Declare another version";
    let named = denied("team/a").await;
    assert_eq!(named, format!("{retired}; the newest active one is 2.0.0."));
    for caller in ["b", "stranger"] {
        assert_eq!(denied(caller).await, "Unknown tool: own");
    }
    let hides = json!({ "authorization": { "cedar": "forbid (principal, action, resource);" } });
    bench.publish(2, registry(provider(), Some(policy("hides", hides))));
    assert_eq!(denied("team/a").await, format!("{retired}."));
    let of_retired_server = vec![
        tool("own", "1.0.0", json!({})),
        provider().retired(),
        agent("team/a", "1.0.0", &[("own", "1.0.0")]),
    ];
    bench.publish(3, of_retired_server);
    assert_eq!(denied("team/a").await, format!("{retired}.").replace("which", "whose server"));
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn warn_mode_allows_calls_but_not_listing() {
    let bench = Bench::start(setup(Access::Warn, Access::Warn), entities()).await;
    bench.call("team/a", "other", json!({})).await.result();
    bench.call("stranger", "own", json!({})).await.result();
    let list = bench.modern("team/a", "tools/list", json!({})).await.result();
    assert_eq!(list["tools"].as_array().unwrap().len(), 1, "lists are always scoped");
}

#[tokio::test]
async fn client_info_selects_agent_if_configured() {
    let mut setup = setup(Access::Deny, Access::Deny);
    setup.identity = IdentityConfig { trust_headers: false, scope_by_client_info: true };
    let bench = Bench::start(setup, entities()).await;
    let names =
        async |ask: Ask| bench.got(ask.build()).await.result()["tools"].as_array().unwrap().len();
    let mut ask = Ask::modern("tools/list", json!({})).by("team/a");
    assert_eq!(names(ask.clone()).await, 0, "the header is not believed, the client unknown");
    ask.body["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = json!("team/a");
    assert_eq!(names(ask).await, 1);
    let session = bench.initialize("").await;
    assert_eq!(names(Ask::legacy(&session, "tools/list", json!({}))).await, 1);
}

/// The upstream's definition differs from the registered one.
#[tokio::test]
async fn quarantined_tool_is_hidden_until_accepted() {
    let lists = r#"[{"name":"own","description":"Subtracts"}]"#.to_owned();
    let mut quarantine = setup(Access::Allow, Access::Deny);
    quarantine.policy.contract_drift = ValidationMode::Error;
    let own = tool("own", "1.0.0", json!({ "description": "Adds" }));
    let agents = agent("team/a", "1.0.0", &[("own", "1.0.0"), ("other", "1.0.0")]);
    let entities = vec![own, tool("other", "1.0.0", json!({})), agents];
    let bench = Bench::start(Setup { lists, ..quarantine }, entities).await;
    let names = async |caller| {
        let list = bench.modern(caller, "tools/list", json!({})).await.result();
        let tools = list["tools"].as_array().unwrap().clone();
        tools.into_iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>()
    };
    for caller in ["stranger", "team/a"] {
        assert_eq!(names(caller).await, ["other"]);
        let failure = bench.call(caller, "own", json!({})).await.failure();
        assert!(failure.contains("quarantined"), "{failure}");
    }
    assert_eq!(bench.call("team/a", "missing", json!({})).await.error(), (200, -32602));
    assert!(bench.calls().is_empty());
    let report = || serde_json::to_value(bench.contracts.report()).unwrap();
    acceptable(|| report()["tools"][0]["live"].is_string()).await;
    let report = report();
    let live = report["tools"][0]["live"].as_str().unwrap();
    let key = "tool/own@1.0.0".parse().unwrap();
    bench.contracts.accept(&key, Digest::parse(live).unwrap()).unwrap();
    for caller in ["stranger", "team/a"] {
        assert_eq!(names(caller).await, ["other", "own"]);
        bench.call(caller, "own", json!({})).await.result();
    }
    assert_eq!(bench.calls().len(), 2);
}
