//! Without its database, the registry serves readers and rejects publishers.

use acceptance::{Registry, postgres::PrivateCluster};

use super::{Api, server};

#[tokio::test]
async fn reads_continue_without_database() {
    let mut cluster = PrivateCluster::durable().await;
    let database = cluster.create_database("mcp_registry").await;
    let api = Api::of(Registry::start_on(&database));
    for version in ["1.0.0", "1.1.0"] {
        api.publish("com.example/docs", version).await;
    }
    let paths = [
        "/v0.1/servers",
        "/v0.1/servers?search=docs&version=latest&limit=1",
        "/v0.1/servers/com.example%2Fdocs/versions",
        "/v0.1/servers/com.example%2Fdocs/versions/latest",
    ];
    let mut before = Vec::new();
    for path in paths {
        before.push(api.get(path).await.text);
    }
    cluster.kill_9().await;
    for round in 0..3 {
        for (path, before) in paths.iter().zip(&before) {
            let answer = api.get(path).await;
            assert_eq!(answer.status, 200, "{round} {path}");
            assert_eq!(answer.text, *before);
        }
        let published = api.post("/v0.1/publish", &server("com.example/docs", "2.0.0")).await;
        assert_eq!(published.status, 503, "{published:?}");
        assert_eq!(published.header("content-type"), "application/problem+json");
    }
    cluster.restart().await;
    acceptance::eventually("publishing works again", || async {
        api.post("/v0.1/publish", &server("com.example/docs", "2.0.0")).await.status == 200
    })
    .await;
    let latest = api.get("/v0.1/servers/com.example%2Fdocs/versions/latest").await.json();
    assert_eq!(latest["server"]["version"], "2.0.0");
}
