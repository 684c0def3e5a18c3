//! Compositions of different callers: cached results are not shared, and a token's scopes also
//! apply inside of a composition.

use acceptance::Backend;
use serde_json::json;

use super::*;
use crate::gateway_identity::{bearing, issuer::Issuer};

/// The example registry. Its research agent also declares compositions of `fetch`.
fn compositions_registry() -> Value {
    let mut catalog = exposing_registry();
    let depends = |name: &str| json!([{ "type": "tool", "name": name, "version": "1.0.0" }]);
    let cached = json!({ "cache": { "inner": { "tool": "search_documents" }, "keyPaths": ["$.query"],
        "ttlSeconds": 600 } });
    let around = json!({ "timeout": { "inner": { "tool": "cached" }, "durationMs": 60_000 } });
    let tools = catalog["tools"].as_array_mut().expect("tools");
    for (name, spec, used) in [("cached", cached, "search_documents"), ("around", around, "cached")]
    {
        tools.push(
            json!({ "name": name, "version": "1.0.0", "spec": spec, "depends": depends(used),
            "description": "Searches documents and caches the results" }),
        );
    }
    let agents = catalog["agents"].as_array_mut().expect("agents");
    let agent = agents.iter_mut().find(|agent| agent["name"] == "research-agent");
    let extensions = &mut agent.expect("it exists")["capabilities"]["extensions"];
    let declared = extensions[0]["params"]["depends"].as_array_mut().expect("dependencies");
    for name in ["cached", "around"] {
        declared.extend(depends(name).as_array().expect("a list").clone());
    }
    catalog
}

#[tokio::test]
async fn cached_results_and_scopes_are_per_person() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let dir = tempfile::tempdir().expect("a directory");
    let catalog = dir.path().join("registry.json");
    std::fs::write(&catalog, compositions_registry().to_string()).expect("a catalog");
    let identity = format!(
        "identity: {{ jwt: {}, scopes: {{ search_documents: [docs:read] }} }}\n",
        issuer.block("")
    );
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", catalog.display()),
        targets: backend.targets(),
        runtime: Some("{ unknownCaller: deny }".to_owned()),
        more: identity,
    });
    gateway.ready().await;
    let person = |name: &str, scope: &str| {
        let mut claims = Issuer::claims();
        claims["sub"] = json!(name);
        claims["scope"] = json!(scope);
        bearing(&gateway, &issuer.sign("k1", &claims))
    };
    let query = || json!({ "query": "gateway" });
    let alice = person("alice", "docs:read");
    eventually("the tools are listed", || async {
        alice.call("search_documents", query()).await.message["result"]["isError"] == false
    })
    .await;
    let asked = || {
        let log = gateway.process.stderr();
        log.lines()
            .filter(|line| line.contains("composition/step") && line.contains("search_doc"))
            .count()
    };
    for (who, steps) in [("alice", 1), ("alice", 1), ("bob", 2), ("bob", 2)] {
        let answer = person(who, "docs:read").call("cached", query()).await;
        assert_ne!(answer.result()["isError"], true, "{answer:?}");
        eventually("the step is in the log", || async { asked() == steps }).await;
    }
    for tool in ["search_documents", "cached", "around"] {
        let refused = person("alice", "other").call(tool, query()).await;
        assert_eq!(refused.status, 403, "{tool}: {refused:?}");
        assert!(refused.challenge.contains("scope=\"docs:read\""), "{refused:?}");
    }
    assert_eq!(asked(), 2);
}
