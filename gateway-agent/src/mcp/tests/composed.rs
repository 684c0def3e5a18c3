//! Composed tools through the endpoint. The upstream's tools behave according to their arguments.

#![expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]

mod approved;
mod governed;
mod inspected;
mod nested;
mod questions;
mod recovery;
mod rules;
mod saga;
mod upstream;

use gateway_policy::{Access, RuntimeValidation};
use gateway_upstream::UpstreamLimits;
use serde_json::{Value, json};

use self::upstream::Scripted;
use super::harness::{Ask, Bench, Got, Setup, http};
use crate::testing::{Registered, tool};

const TOOLS: [&str; 9] = ["echo", "say", "text", "fail", "wait", "flaky", "lose", "count", "keep"];

/// A gateway with compositions and its upstream.
struct Composed {
    bench: Bench,
    upstream: Scripted,
}

/// A composition named `name` of any upstream tools.
fn composition(name: &str, spec: Value) -> Registered {
    with(name, spec, json!({}))
}

/// A composition named `name` with the given uses.
fn around(name: &str, other: &str, spec: Value) -> Registered {
    let mut outer = composition(name, spec);
    let depends = outer.document["depends"].as_array_mut().unwrap();
    depends.push(json!({ "type": "tool", "name": other, "version": "1.0.0" }));
    outer
}

/// A composition with additional members of its document.
fn with(name: &str, spec: Value, more: Value) -> Registered {
    let depends: Vec<_> = TOOLS
        .iter()
        .filter(|tool| spec.to_string().contains(&format!("\"{tool}\"")))
        .map(|tool| json!({ "type": "tool", "name": tool, "version": "1.0.0" }))
        .collect();
    let document = json!({ "name": name, "version": "1.0.0", "spec": spec, "depends": depends });
    let mut registered = tool(name, "1.0.0", json!({}));
    registered.document = extended(document, more);
    registered
}

/// These compositions and all upstream tools.
fn with_tools(compositions: Vec<Registered>) -> Vec<Registered> {
    let own = |name: &&str| {
        let is_safe = ["echo", "say", "text", "count"].contains(name);
        tool(name, "1.0.0", json!({ "annotations": { "idempotentHint": is_safe } }))
    };
    TOOLS.iter().map(own).chain(compositions).collect()
}

/// Merges members into an object.
fn extended(mut object: Value, more: Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

fn step(id: &str, tool: &str, input: Value) -> Value {
    let mut step = json!({ "id": id, "operation": { "tool": { "name": tool } } });
    if !input.is_null() {
        step["input"] = input;
    }
    step
}

fn pipeline(steps: &[Value]) -> Value {
    json!({ "pipeline": { "steps": steps } })
}

fn constant(value: Value) -> Value {
    json!({ "constant": value })
}

impl Composed {
    /// A gateway with these compositions and all upstream tools.
    async fn start(compositions: Vec<Registered>) -> Self {
        Self::start_with(Setup::default(), compositions).await
    }

    async fn start_with(setup: Setup, compositions: Vec<Registered>) -> Self {
        let (upstream, server) = Scripted::start().await;
        let limits = UpstreamLimits { call_timeout_ms: 5_000, ..setup.limits };
        let policy = RuntimeValidation { undeclared_dependency: Access::Deny, ..setup.policy };
        let setup = Setup { transport: Some(http(&server)), limits, policy, ..setup };
        let bench = Bench::start(setup, with_tools(compositions)).await;
        Self { bench, upstream }
    }

    async fn got(&self, tool: &str, arguments: Value) -> Got {
        self.bench.call("", tool, arguments).await
    }

    /// The structured result of a successful call.
    async fn value(&self, tool: &str, arguments: Value) -> Value {
        let got = self.got(tool, arguments).await;
        let result = got.result();
        assert_ne!(result["isError"], true, "{got:?}");
        let text = result["content"][0]["text"].as_str().unwrap();
        let structured = result["structuredContent"].clone();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured);
        structured
    }

    /// The error of a failed call: step, reason and message.
    async fn failure(&self, tool: &str, arguments: Value) -> (String, String, String) {
        let got = self.got(tool, arguments).await;
        let text = got.failure();
        assert_eq!(got.result().get("structuredContent"), None, "{got:?}");
        let error = got.result()["_meta"]["registry/failure"].clone();
        let part = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        assert!(text.contains(&part("message")), "{got:?}");
        (part("step"), part("reason"), part("message"))
    }

    /// The steps in `_meta`: step, tool, outcome.
    async fn calls(&self, tool: &str, arguments: Value) -> Vec<String> {
        let got = self.got(tool, arguments).await;
        let calls = got.result()["_meta"]["registry/steps"]["calls"].clone();
        let calls = calls.as_array().unwrap_or_else(|| panic!("{got:?}")).clone();
        let told = |call: &Value| {
            assert!(call["durationMs"].as_f64().unwrap() >= 0.0);
            let [step, tool, outcome] =
                ["step", "tool", "outcome"].map(|n| call[n].as_str().unwrap());
            format!("{step} {tool} {outcome}")
        };
        calls.iter().map(told).collect()
    }
}
