//! Results of sagas.

use super::*;

pub(super) fn saga_step(id: &str, tool: &str, more: Value) -> Value {
    extended(json!({ "id": id, "name": id, "action": { "tool": { "name": tool } } }), more)
}

pub(super) fn undone_by(tool: &str, input: Value) -> Value {
    let mut more = json!({ "compensate": { "tool": { "name": tool } } });
    if !input.is_null() {
        more["compensateInput"] = input;
    }
    more
}

pub(super) fn saga(steps: &[Value], more: Value) -> Value {
    let body = extended(json!({ "steps": steps }), more);
    json!({ "saga": body })
}

fn fields(fields: Value) -> Value {
    json!({ "construct": { "fields": fields } })
}

/// The inputs of all compensations by `keep`, in order.
pub(super) fn undone(composed: &Composed) -> Vec<Value> {
    composed.upstream.calls("keep")
}

#[tokio::test]
async fn completed_saga_returns_output_or_results() {
    let steps = [
        saga_step("a", "echo", undone_by("keep", json!(null))),
        saga_step(
            "b",
            "say",
            json!({ "input": fields(json!({ "value": { "step": { "stepId": "a", "path": "$.x" } } })) }),
        ),
    ];
    let output = fields(
        json!({ "x": { "step": { "stepId": "b", "path": "$" } }, "status": { "constant": "completed" } }),
    );
    let composed = Composed::start(vec![
        composition("all", saga(&steps, json!({}))),
        composition("output", saga(&steps, json!({ "output": output }))),
    ])
    .await;
    assert_eq!(composed.value("all", json!({ "x": 7 })).await, json!({ "a": { "x": 7 }, "b": 7 }));
    assert_eq!(
        composed.value("output", json!({ "x": 7 })).await,
        json!({ "x": 7, "status": "completed" })
    );
    let got = composed.got("all", json!({ "x": 7 })).await.result();
    let told = &got["_meta"]["registry/steps"]["sagas"][0];
    assert_eq!(told["status"], "completed");
    assert_eq!(told["steps"][1], json!({ "id": "b", "outcome": "completed" }));
    assert!(undone(&composed).is_empty());
}

#[tokio::test]
async fn failed_saga_compensates_in_reverse_order() {
    let bound = fields(json!({
        "own": { "step": { "stepId": "a", "path": "$.x" } },
        "input": { "input": { "path": "$.x" } },
        "why": { "error": { "path": "$.message" } },
    }));
    let steps = [
        saga_step("a", "echo", undone_by("keep", bound)),
        saga_step("no-way-back", "echo", json!({ "input": constant(json!({ "n": 2 })) })),
        saga_step("b", "echo", {
            let mut more = undone_by("keep", json!(null));
            more["input"] = constant(json!({ "n": 3 }));
            more
        }),
        saga_step("c", "fail", {
            let mut more = undone_by("keep", json!(null));
            more["input"] = constant(json!({ "message": "out of stock" }));
            more
        }),
        saga_step("d", "echo", json!({})),
    ];
    let composed = Composed::start(vec![composition("order", saga(&steps, json!({})))]).await;
    let got = composed.got("order", json!({ "x": 1 })).await;
    let error = got.result()["_meta"]["registry/failure"].clone();
    assert_eq!(error["reason"], "saga-failed");
    let saga = &got.result()["_meta"]["registry/steps"]["sagas"][0];
    assert_eq!((&saga["status"], &saga["failedStep"]), (&json!("compensated"), &json!("c")));
    let outcomes: Vec<_> =
        saga["steps"].as_array().unwrap().iter().map(|s| s["outcome"].clone()).collect();
    assert_eq!(outcomes, ["compensated", "completed", "compensated", "failed", "not_run"]);
    assert_eq!(
        undone(&composed),
        [json!({ "n": 3 }), json!({ "own": 1, "input": 1, "why": "fail failed: out of stock" })]
    );
}

#[tokio::test]
async fn compensated_saga_is_not_compensated_again() {
    let source = json!({ "server": "up", "serverVersion": "1.0.0", "tool": "text" });
    let projected = json!({ "source": source,
        "outputTransform": { "mappings": { "x": { "path": "$" } } } });
    let told = undone_by("odd", constant(json!({ "text": "no JSON" })));
    let steps = [saga_step("a", "echo", told), saga_step("b", "fail", json!({}))];
    let mut order = composition("order", saga(&steps, json!({})));
    let odd = json!({ "type": "tool", "name": "odd", "version": "1.0.0" });
    order.document["depends"].as_array_mut().unwrap().push(odd);
    let composed = Composed::start(vec![tool("odd", "1.0.0", projected), order]).await;
    let got = composed.got("order", json!({})).await;
    assert_eq!(got.result()["_meta"]["registry/failure"]["reason"], "saga-failed");
    let saga = &got.result()["_meta"]["registry/steps"]["sagas"][0];
    assert_eq!(saga["status"], "compensated", "{saga}");
    assert_eq!(composed.upstream.calls("text").len(), 1);
}
