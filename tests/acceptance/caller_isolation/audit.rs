//! Audit events of resource requests.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{DECLARING, Scene, modern};

#[tokio::test]
async fn audit_records_only_authority_of_resource() {
    let method = |name: &str, params: &Value| match name {
        "resources/list" => Some(json!({ "resources": [] })),
        "resources/templates/list" => Some(json!({ "resourceTemplates": [] })),
        "resources/read" => {
            Some(json!({ "contents": [{ "uri": params["uri"], "text": "its content" }] }))
        }
        "completion/complete" => Some(json!({ "completion": { "values": ["x"] } })),
        _ => None,
    };
    let capabilities = json!({ "tools": {}, "resources": {}, "completions": {} });
    let scene = Scene::start(modern(capabilities, Arc::new(method)), "").await;
    let client = scene.client(DECLARING, json!({}));
    for (uri, kept) in [
        (
            "fetch-server+crm://eu.example:8080/people/ann-s3cret?key=s3cret#s3cret",
            "fetch-server+crm://eu.example:8080",
        ),
        ("fetch-server+crm://s3cret:s3cret@eu.example/x", "fetch-server+crm://eu.example"),
        ("fetch-server+person:ann-s3cret", "fetch-server+person:"),
        ("fetch-server+file:///home/s3cret", "fetch-server+file://"),
        ("other+x:s3cret", "other+x:"),
        ("s3cret", ""),
    ] {
        let reference = json!({ "type": "ref/resource", "uri": uri });
        let argument = json!({ "name": "id", "value": "s3cret" });
        let completion = json!({ "ref": reference, "argument": argument });
        let reading = json!({ "uri": uri });
        for (event, params) in [("resources/read", reading), ("completion/complete", completion)] {
            let told = format!("tool=\"{kept}\"");
            // On a busy machine, the upstream's capabilities can become known after it is up.
            acceptance::eventually(&format!("{event} of {uri} is {told}"), || async {
                client.request(event, params.clone()).await.expect("an answer");
                scene.audited(event).last().is_some_and(|last| last.contains(&told))
            })
            .await;
        }
    }
    let log = scene.gateway.process.stderr();
    assert!(!log.contains("s3cret"), "{log}");
}
