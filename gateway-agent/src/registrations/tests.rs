//! Registrations, compared with catalogs.

use std::time::Duration;

use agent_rpc::registration::{Endpoint, EndpointProtocol, Registration};
use futures_util::FutureExt as _;
use gateway_upstream::DataAgentTransport;
use registry_core::scope::Scope;
use serde_json::{Value, json, value::RawValue};

use super::*;
use crate::testing::{Registered, catalog, registered, tool};

fn registration(agent_id: &str, functions: &Value) -> Registration {
    let names: Vec<_> = functions.as_object().unwrap().keys().collect();
    let params = json!({ "agent_id": agent_id,
        "capabilities": { "tools": names, "schema": functions, "resources": ["ohlcv"],
            "constraints": { "timeout": 5, "memory": "128MB" } } });
    let raw = RawValue::from_string(params.to_string()).unwrap();
    Registration::read(Some(&raw)).unwrap()
}

fn extractor() -> Registration {
    let extract =
        json!({ "input": { "symbol": "string" }, "output": { "features": "list[float]" } });
    registration("extractor", &json!({ "extract": extract }))
}

fn submission<'a>(registration: &'a Registration, owner: &'a str) -> Submission<'a> {
    Submission { registration, owner, account: "issuer subject" }
}

/// The entities of a version that an account registered.
fn entities(registration: &Registration, owner: &str, version: &str) -> Vec<Registered> {
    let documents = documents(submission(registration, owner), &Version::parse(version).unwrap());
    let kinds = [Kind::Server, Kind::Tool, Kind::Agent];
    let all = kinds.into_iter().flat_map(|kind| {
        documents.0.documents(kind).iter().map(move |it| registered(kind, it.clone()))
    });
    all.collect()
}

#[test]
fn first_registration_has_valid_entities() {
    let extractor = extractor();
    let planned = plan(&catalog(1, Vec::new()), submission(&extractor, "o"), None).unwrap();
    let Planned::Version { server, last: None } = planned else { panic!("{planned:?}") };
    assert_eq!(server.to_string(), "server/extractor@1.0.0");
    let documents = documents(submission(&extractor, "o"), &server.version);
    let keys: Vec<_> =
        documents.parse().unwrap().iter().map(|document| document.key().to_string()).collect();
    assert_eq!(
        keys,
        ["server/extractor@1.0.0", "tool/extractor.extract@1.0.0", "agent/extractor@1.0.0"]
    );
    let tool = &documents.0.tools[0];
    assert_eq!(tool["inputSchema"]["properties"], json!({ "symbol": { "type": "string" } }));
    let kept = &documents.0.servers[0]["metadata"][DATA_AGENT_METADATA];
    assert_eq!(
        (&kept["constraints"]["memory"], &kept["resources"]),
        (&json!("128MB"), &json!(["ohlcv"]))
    );
}

#[test]
fn equal_content_is_unchanged_and_other_is_next_patch() {
    let extractor = extractor();
    let catalog = catalog(1, entities(&extractor, "o", "1.0.0"));
    let unchanged = plan(&catalog, submission(&extractor, "o"), None).unwrap();
    assert_eq!(unchanged, Planned::Unchanged("server/extractor@1.0.0".parse().unwrap()));

    let other = json!({ "input": { "symbol": "string", "interval": "optional[string]" } });
    let other = registration("extractor", &json!({ "extract": other }));
    let planned = plan(&catalog, submission(&other, "o"), None).unwrap();
    let (server, last) = ("server/extractor@1.0.1".parse().unwrap(), unchanged_key());
    assert_eq!(planned, Planned::Version { server, last: Some(last) });
}

fn unchanged_key() -> Key {
    "server/extractor@1.0.0".parse().unwrap()
}

#[test]
fn names_of_other_owners_are_taken() {
    let extractor = extractor();
    let own = catalog(1, entities(&extractor, "o", "1.0.0"));
    let refused = plan(&own, submission(&extractor, "another"), None).unwrap_err();
    assert!(matches!(refused, NotRegistered::Taken { kind: Kind::Server, .. }), "{refused}");

    let by_hand = catalog(
        1,
        vec![registered(
            Kind::Server,
            json!({
        "name": "extractor", "version": "1.0.0", "provides": [] }),
        )],
    );
    let refused = plan(&by_hand, submission(&extractor, "o"), None).unwrap_err();
    assert!(matches!(refused, NotRegistered::Taken { kind: Kind::Server, .. }), "{refused}");

    let tool = catalog(1, vec![tool("extractor.extract", "1.0.0", json!({}))]);
    let refused = plan(&tool, submission(&extractor, "o"), None).unwrap_err();
    assert!(matches!(refused, NotRegistered::Taken { kind: Kind::Tool, .. }), "{refused}");
}

#[test]
fn name_that_differs_only_in_case_is_rejected() {
    let known = catalog(1, entities(&extractor(), "o", "1.0.0"));
    let functions = json!({ "extract": { "input": { "symbol": "string" } } });
    let similar = registration("Extractor", &functions);
    let rejected = NotRegistered::SimilarName("server/extractor@1.0.0".parse().unwrap());
    for owner in ["o", "another"] {
        assert_eq!(plan(&known, submission(&similar, owner), None), Err(rejected.clone()));
    }
    let other = registration("extractor2", &functions);
    assert!(plan(&known, submission(&other, "another"), None).is_ok());
}

#[test]
fn tool_agent_execute_is_taken() {
    let agent = registration("agent", &json!({ "execute": { "input": {} } }));
    let refused = plan(&catalog(1, Vec::new()), submission(&agent, "o"), None).unwrap_err();
    assert!(matches!(refused, NotRegistered::Taken { kind: Kind::Tool, .. }), "{refused}");
}

#[test]
fn retired_registration_is_not_restored() {
    let extractor = extractor();
    let retired = entities(&extractor, "o", "1.0.0").into_iter().map(Registered::retired);
    let catalog = catalog(1, retired.collect());
    let refused = plan(&catalog, submission(&extractor, "o"), None).unwrap_err();
    assert!(matches!(refused, NotRegistered::Retired(_)), "{refused}");
    let settings =
        DataAgentSettings { registration: SelfRegistration::Accept, endpoints: Vec::new() };
    assert!(data_agents(&catalog, &settings).is_empty());
}

#[test]
fn names_of_configured_targets_are_taken() {
    let extractor = extractor();
    for kind in [Kind::Server, Kind::Agent] {
        let refused = plan(&catalog(1, Vec::new()), submission(&extractor, "o"), Some(kind));
        let taken = NotRegistered::Taken { kind, name: extractor.agent_id.name().clone() };
        assert_eq!(refused, Err(taken));
    }
    let own = catalog(1, entities(&extractor, "o", "1.0.0"));
    let later = plan(&own, submission(&extractor, "o"), Some(Kind::Server));
    assert_eq!(later, Ok(Planned::Unchanged(unchanged_key())));
}

#[test]
fn agents_without_allowed_transport_keep_their_names() {
    let extractor = extractor();
    let catalog = catalog(1, entities(&extractor, "o", "1.0.0"));
    let agents = data_agents(&catalog, &DataAgentSettings::default());
    assert_eq!(agents, [(extractor.agent_id.name().clone(), None)].into());
}

#[test]
fn agent_with_endpoint_has_the_registered_functions() {
    let mut extractor = extractor();
    let url = "https://a.example/rpc".to_owned();
    let protocol = EndpointProtocol::Execute;
    extractor.endpoint = Some(Endpoint { url: url.clone(), protocol });
    let catalog = catalog(1, entities(&extractor, "o", "1.0.0"));
    let mut settings = DataAgentSettings {
        registration: SelfRegistration::Accept,
        endpoints: vec!["https://a.example".to_owned()],
    };
    let agents = data_agents(&catalog, &settings);
    let transport = &agents[extractor.agent_id.name()];
    let Some(DataAgentTransport::Endpoint(endpoint)) = transport else { panic!("{transport:?}") };
    assert_eq!((&endpoint.url, endpoint.call_timeout), (&url, Some(Duration::from_secs(5))));
    let functions = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let own = content::functions(&extractor).unwrap();
    assert_eq!(functions(&endpoint.functions), functions(own.get()));

    settings.endpoints.clear();
    let agents = data_agents(&catalog, &settings);
    assert_eq!(agents[extractor.agent_id.name()], None, "the origin is not allowed");
}

#[test]
fn removed_functions_are_retired() {
    let both = json!({ "a": { "input": {} }, "b": { "input": {} } });
    let both = registration("extractor", &both);
    let catalog = catalog(1, entities(&both, "o", "1.0.0"));
    let one = registration("extractor", &json!({ "a": { "input": {} } }));
    let version = Version::parse("1.0.1").unwrap();
    let new = documents(submission(&one, "o"), &version).parse().unwrap();
    let removed = removed_tools(&catalog, Some(&unchanged_key()), &new);
    assert_eq!(removed, ["tool/extractor.b@1.0.0".parse().unwrap()]);
}

#[test]
fn endpoints_match_by_exact_origin() {
    let settings = DataAgentSettings {
        registration: SelfRegistration::Accept,
        endpoints: vec!["https://a.example".to_owned(), "http://127.0.0.1:9000".to_owned()],
    };
    for (endpoint, is_allowed) in [
        ("https://a.example/mcp", true),
        ("http://127.0.0.1:9000/rpc?x=1", true),
        ("https://a.example:443/mcp", false),
        ("http://a.example/mcp", false),
        ("https://a.example.evil/mcp", false),
        ("https://a.example@evil/mcp", false),
        ("https://user@a.example/mcp", false),
        ("file:///etc/passwd", false),
        ("a.example", false),
    ] {
        assert_eq!(settings.allows(endpoint), is_allowed, "{endpoint}");
    }
}

#[tokio::test]
async fn local_registrations_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agents.json");
    let extractor = extractor();
    let documents = documents(submission(&extractor, "o"), &Version::parse("1.0.0").unwrap());
    let store = Arc::new(LocalRegistrations::open(file.clone()).unwrap());
    let name = extractor.agent_id.name();
    store.put(name, documents.clone()).await.unwrap();
    let opened = LocalRegistrations::open(file.clone()).unwrap();
    let agents = opened.subscribe().borrow().clone();
    assert_eq!(agents.keys().collect::<Vec<_>>(), [name]);
    assert_eq!(agents[name].tools[0]["name"], "extractor.extract");
    std::fs::write(&file, "[").unwrap();
    assert!(LocalRegistrations::open(file).is_err());
}

#[tokio::test]
async fn registrations_of_other_agents_do_not_wait() {
    let registrations = Registrations::none();
    let [a, b] = ["a", "b"].map(|name| Name::parse(Kind::Server, name).unwrap());
    let first = registrations.lock(&a).await;
    let _other = registrations.lock(&b).await;
    let mut second = std::pin::pin!(registrations.lock(&a));
    assert!(second.as_mut().now_or_never().is_none(), "the agent is being registered");
    drop(first);
    let _second = second.await;
}

#[test]
fn agents_outside_of_the_scope_are_not_stored() {
    let scoped = |root: &str| {
        let scope = Scope::from_roots(&[root]).unwrap();
        Catalog::clone(&catalog(1, Vec::new())).with_scope(Arc::new(scope))
    };
    let extractor = extractor();
    let planned = |root: &str| plan(&scoped(root), submission(&extractor, "o"), None);
    let outside = NotRegistered::OutsideScope("server/extractor@*".to_owned());
    assert_eq!(planned("server/other@*"), Err(outside));
    assert!(matches!(planned("server/extractor@*"), Ok(Planned::Version { .. })));
}

#[tokio::test]
async fn write_of_disconnected_caller_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agents.json");
    let store = Arc::new(LocalRegistrations::open(file.clone()).unwrap());
    let [a, b] =
        ["a", "b"].map(|agent_id| registration(agent_id, &json!({ "f": { "input": {} } })));
    let version = Version::parse("1.0.0").unwrap();
    let documents = |registration| documents(submission(registration, "o"), &version);
    let first = store.put(a.agent_id.name(), documents(&a));
    // The write has begun, and its caller is gone.
    let _ = first.now_or_never();
    store.put(b.agent_id.name(), documents(&b)).await.unwrap();
    let mut agents = store.subscribe();
    let both = agents.wait_for(|agents| agents.len() == 2);
    tokio::time::timeout(Duration::from_secs(10), both).await.unwrap().unwrap();
    let opened = LocalRegistrations::open(file).unwrap();
    assert_eq!(opened.subscribe().borrow().len(), 2);
}

#[test]
fn sizes_of_agents_and_accounts_are_limited() {
    let members: Map<_, _> = (0..900).map(|i| (format!("m{i}"), json!("string"))).collect();
    let functions = (0..60).map(|i| (format!("f{i}"), json!({ "input": members })));
    let large = registration("large", &Value::Object(functions.collect()));
    let empty = catalog(1, Vec::new());
    assert_eq!(plan(&empty, submission(&large, "o"), None), Err(NotRegistered::TooLarge));

    let extractor = extractor();
    let own = catalog(1, entities(&extractor, "o", "1.0.0"));
    let other = Name::parse(Kind::Server, "other").unwrap();
    let used = used_by(&own, "o", &other);
    assert!(used.agents == 1 && used.bytes > content::size_of(&extractor).unwrap());
    assert_eq!(used.check_room(ACCOUNT_BYTES - used.bytes), Ok(()));
    assert_eq!(used.check_room(ACCOUNT_BYTES), Err(NotRegistered::TooLarge));
    assert_eq!(used_by(&own, "o", extractor.agent_id.name()).agents, 0, "it is replaced");
    assert_eq!(used_by(&own, "another", &other).agents, 0);
}

#[test]
fn retired_agents_use_no_quota() {
    let extractor = extractor();
    let retired = entities(&extractor, "o", "1.0.0").into_iter().map(Registered::retired);
    let other = Name::parse(Kind::Server, "other").unwrap();
    let used = used_by(&catalog(1, retired.collect()), "o", &other);
    assert_eq!((used.agents, used.bytes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn new_content_of_an_account_has_a_rate() {
    let registrations = Registrations::none();
    for _ in 0..REGISTRATIONS {
        registrations.check_rate("o").unwrap();
    }
    assert_eq!(registrations.check_rate("o"), Err(NotRegistered::TooFast));
    registrations.check_rate("another").unwrap();
    tokio::time::advance(PERIOD).await;
    registrations.check_rate("o").unwrap();
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_caller_have_a_rate() {
    let registrations = Registrations::none();
    let [caller, other]: [QuotaKey; 2] = ["a", "b"].map(|name| Some(name.into()));
    for _ in 0..MESSAGES {
        assert!(!registrations.is_flooding(&caller));
    }
    assert!(registrations.is_flooding(&caller) && !registrations.is_flooding(&other));
    tokio::time::advance(MESSAGES_PERIOD).await;
    assert!(!registrations.is_flooding(&caller));
}
