//! Operators list sagas and retry compensations.

use acceptance::ctl;
use serde_json::{Value, json};

use super::{Scene, eventually};

/// A saga whose compensation fails, and the gateway's admin address.
async fn failing_saga() -> (Scene, String) {
    let scene = Scene::start().await;
    scene.backend.break_releases(true);
    let client = scene.client();
    // The client does not wait for all attempts.
    let call = client.call("order", json!({ "order": 7, "fails": true }));
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), call).await;
    let admin = scene.gateway.admin_url();
    (scene, admin)
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_compensation_is_listed_and_retried() {
    let (scene, admin) = failing_saga().await;
    let run = |arguments: &[&str]| {
        ctl("http://127.0.0.1:1", &[&["gateway", "--admin", &admin], arguments].concat())
    };
    let shown = run(&["sagas"]);
    assert!(shown.success() && shown.stdout.contains("compensating"), "{shown:?}");
    // Seven attempts at each of two steps take about 26 s.
    eventually("the compensation is given up", || async {
        scene.status().await == "compensation_failed"
    })
    .await;
    let listed: Value =
        serde_json::from_str(&run(&["sagas", "--output", "json"]).stdout).expect("JSON");
    let id = listed["sagas"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(listed["sagas"][0]["left"], json!(["apples", "pears"]));
    let shown = run(&["sagas", "show", &id]);
    assert!(shown.stdout.contains("closed"), "{shown:?}");

    scene.backend.break_releases(false);
    let retried = run(&["sagas", "retry", "--yes", &id]);
    assert!(retried.success(), "{retried:?}");
    eventually("it is undone", || async { scene.status().await == "compensated" }).await;
    scene.backend.check_undone("after a retry");
    let shown = run(&["sagas", "show", &id]);
    for step in ["apples compensated", "pears compensated"] {
        assert!(shown.stdout.contains(step), "{step}: {shown:?}");
    }
    let again = run(&["sagas", "retry", "--yes", &id]);
    assert!(again.code == 1 && again.stderr.contains(&id), "{again:?}");
    let unknown = run(&["sagas", "show", "nobody"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("nobody"), "{unknown:?}");
}
