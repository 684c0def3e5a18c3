//! Recovery of interrupted sagas at start, and retries by operators.

use std::{collections::BTreeMap, time::Duration};

use axum::body::Body;
use gateway_upstream::{ChildLimits, TransportConfig};
use http::Request;
use tower::ServiceExt as _;

use super::{
    saga::{saga, saga_step, undone, undone_by},
    *,
};
use crate::{admin::sagas, pipeline::recover_sagas, testing::agent};

impl Composed {
    /// The response of the admin route: status and JSON body.
    async fn admin(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = Request::builder().method(method).uri(format!("/admin/sagas{path}"));
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let answer = sagas::router(self.bench.handle.clone()).oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// The only saga with its history.
    async fn only(&self) -> Value {
        let (_, listed) = self.admin("GET", "", "").await;
        let [saga] = listed["sagas"].as_array().unwrap().as_slice() else { panic!("{listed}") };
        self.admin("GET", &format!("/{}", saga["id"].as_str().unwrap()), "").await.1
    }

    async fn retried(&self, id: &Value) -> (u16, Value) {
        self.admin("POST", "/retry", &json!({ "saga": id }).to_string()).await
    }

    async fn until_status(&self, status: &str) {
        for _ in 0..500 {
            if self.only().await["saga"]["status"] == status {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it is not {status}: {}", self.only().await);
    }
}

#[tokio::test]
async fn interrupted_saga_is_compensated_once_servers_connect() {
    let mut slow = undone_by("keeps", json!(null));
    slow["compensateOnUnknown"] = json!(true);
    slow["input"] = constant(json!({ "ms": 4_000 }));
    let steps = [
        saga_step("a", "echoes", undone_by("keeps", json!(null))),
        saga_step("s", "waits", slow),
        saga_step("never", "echoes", json!({})),
    ];
    // Servers of its inner compositions.
    let parts = [("keeps", "keep"), ("echoes", "echo"), ("waits", "wait")];
    let mut slow = composition("slow", saga(&steps, json!({})));
    slow.document["depends"] =
        parts.map(|(name, _)| json!({ "type": "tool", "name": name, "version": "1.0.0" })).into();
    let part = |(name, of)| composition(name, pipeline(&[step("only", of, json!(null))]));
    let composed = Composed::start(parts.into_iter().map(part).chain([slow]).collect()).await;
    let gateway = &composed.bench.gateway;
    let server = "server/up@1.0.0".parse().unwrap();
    let interrupted = async {
        composed.upstream.until(|seen| seen.calls.iter().any(|(tool, _)| tool == "wait")).await;
        let before = composed.only().await["saga"].clone();
        assert_eq!(before["status"], "running");
        assert_eq!(composed.retried(&before["id"]).await.0, 409, "it is still running");
        assert!(gateway.upstreams().stop(&server));
        recover_sagas(gateway);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let waits = composed.only().await;
        assert_eq!(waits["saga"]["status"], "compensating");
        let states = [0, 1].map(|i| waits["history"]["steps"][i]["state"].clone());
        assert_eq!(states, ["completed", "unknown"], "nothing is tried before its server is there");
        assert!(gateway.upstreams().resume(&server));
    };
    let ((_, reason, _), ()) =
        tokio::join!(composed.failure("slow", json!({ "x": 1 })), interrupted);
    assert_eq!(reason, "saga-failed");
    assert_eq!(undone(&composed), [json!({ "ms": 4_000 }), json!({ "x": 1 })]);
    // Completed sagas are not compensated.
    recover_sagas(gateway);
    assert_eq!(composed.only().await["saga"]["status"], "compensated");
}

#[tokio::test]
async fn failed_compensation_is_retried_by_operator() {
    let order = |undo: Value| {
        let steps =
            [saga_step("a", "echo", undone_by("keep", undo)), saga_step("b", "fail", json!({}))];
        with_tools(vec![composition("order", saga(&steps, json!({})))])
    };
    let composed = Composed::start(Vec::new()).await;
    composed.bench.publish(2, order(json!({ "path": "$.missing" })));
    composed.failure("order", json!({ "x": 1 })).await;
    let shown = composed.only().await["saga"].clone();
    assert_eq!((&shown["status"], &shown["left"]), (&json!("compensation_failed"), &json!(["a"])));
    assert_eq!((&shown["tool"], &shown["failedStep"]), (&json!("tool/order@1.0.0"), &json!("b")));

    // The catalog first lacks the tool, and then has a repaired compensation.
    composed.bench.publish(3, Vec::new());
    assert_eq!(composed.retried(&shown["id"]).await.0, 202);
    composed.until_status("compensating").await;
    composed.bench.publish(4, order(json!(null)));
    composed.until_status("compensated").await;
    assert_eq!(undone(&composed), [json!({ "x": 1 })]);
    let ended = composed.only().await["history"]["end"].clone();
    assert_eq!(ended["error"]["message"], "fail failed: no", "why it failed is still known");

    assert_eq!(composed.retried(&shown["id"]).await.0, 409, "no compensation failed");
    assert_eq!(composed.retried(&json!("nobody")).await.0, 404);
    assert_eq!(composed.admin("GET", "/nobody", "").await.0, 404);
    assert_eq!(composed.admin("POST", "/retry", "{}").await.0, 400);
}

/// A server that records the process that answered.
const CHILD: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in
  *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"]}';;
  *'"tools/list"'*) answer '{"tools":[]}';;
  *'"tools/call"'*) echo $$ >> calls; answer '{"resultType":"complete","content":[]}';;
esac; done
"#;

#[tokio::test]
async fn retry_uses_child_process_of_caller() {
    let dir = tempfile::tempdir().unwrap();
    let transport = TransportConfig::Stdio {
        command: "sh".into(),
        args: vec!["-c".to_owned(), CHILD.to_owned()],
        env: BTreeMap::new(),
        cwd: Some(dir.path().to_owned()),
        limits: ChildLimits::default(),
        max_caller_children: Some(2),
    };
    let catalog = |undo: Value| {
        let failing = json!({ "input": { "path": "$.missing" } });
        let steps =
            [saga_step("a", "keep", undone_by("keep", undo)), saga_step("b", "keep", failing)];
        let order = composition("order", saga(&steps, json!({})));
        with_tools(vec![order, agent("team/a", "1.0.0", &[("order", "1.0.0")])])
    };
    let limits = UpstreamLimits { call_timeout_ms: 5_000, ..UpstreamLimits::default() };
    let setup = Setup { transport: Some(transport), limits, ..Setup::default() };
    let bench = Bench::start(setup, catalog(json!({ "path": "$.missing" }))).await;
    let composed = Composed { bench, upstream: Scripted::default() };
    composed.bench.call("team/a", "order", json!({})).await.failure();
    composed.bench.publish(2, catalog(json!(null)));
    assert_eq!(composed.retried(&composed.only().await["saga"]["id"]).await.0, 202);
    composed.until_status("compensated").await;
    let calls = std::fs::read_to_string(dir.path().join("calls")).unwrap();
    let [done, undone] = calls.lines().collect::<Vec<_>>()[..] else { panic!("{calls}") };
    assert_eq!(done, undone);
}
