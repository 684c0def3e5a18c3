//! Calls that ask their callers something: what they cost others meanwhile.

use std::time::Duration;

use serde_json::json;

use super::{DECLARING, OTHER, Scene, able, asking};

#[tokio::test]
async fn nobody_waits_for_the_answer_of_the_one_who_sees_whether_an_upstream_is_well_again() {
    let scene = Scene::start(asking(), "limits: { callTimeoutMs: 200 }\n").await;
    let [one, other] = [DECLARING, OTHER].map(|agent| scene.client(agent, able()));
    let call = async |client: &acceptance::ModernClient, url: &str| {
        client.call("fetch", json!({ "url": url })).await
    };
    for _ in 0..5 {
        let late = call(&other, "http://hangs/").await;
        assert!(late.text().contains("gave no result in 200 ms"), "{late:?}");
    }
    assert!(call(&other, "http://page/").await.text().contains("is spared"));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let asked = call(&one, "http://stays/").await;
    assert_eq!(asked.result()["resultType"], "input_required", "{asked:?}");
    assert_eq!(call(&other, "http://page/").await.text(), "a page", "at once");
}
