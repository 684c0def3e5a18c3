//! The patterns of compositions over a [`StepRunner`] whose tools do what their arguments say.

#![expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]

mod cache;
mod delivery;
mod flow;
mod resilience;
mod saga;
mod unknown;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use gateway_policy::{CallOutcome, CallerIdentity};
use gateway_protocol::mcp::{Era, RawResult, ResultType};
use registry_core::{
    Key, Revision,
    spec::{Composition, Target},
};
use serde_json::{Value, json, value::RawValue};
use tempfile::TempDir;
use tokio::sync::Notify;

use super::*;

/// The scripted tools, and whether they can be repeated without harm.
const TOOLS: [(&str, bool); 11] = [
    ("echo", true),
    ("say", true),
    ("text", true),
    ("count", true),
    ("lose-safely", true),
    ("fail", false),
    ("wait", false),
    ("hold", false),
    ("flaky", false),
    ("lose", false),
    ("keep", false),
];

/// Compositions that can call each other, and the tools behind them.
#[derive(Debug, Clone)]
struct Composed {
    plans: Arc<BTreeMap<String, Arc<Plan>>>,
    state: Arc<CompositionState>,
    upstream: Scripted,
    owner: RunOwner,
    response_bytes: usize,
    /// The directory of the journal, if there is one.
    _dir: Option<Arc<TempDir>>,
}

fn composition(name: &str, spec: Value) -> (String, Value) {
    (name.to_owned(), spec)
}

/// An object with more members.
fn extended(mut object: Value, more: Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// One step of a pipeline.
fn step(id: &str, tool: &str, input: Value) -> Value {
    let mut step = json!({ "id": id, "operation": tool_of(tool) });
    if !input.is_null() {
        step["input"] = input;
    }
    step
}

fn tool_of(name: &str) -> Value {
    json!({ "tool": { "name": name } })
}

fn pipeline(steps: &[Value]) -> Value {
    json!({ "pipeline": { "steps": steps } })
}

/// A constant as input.
fn constant(value: Value) -> Value {
    json!({ "constant": value })
}

fn named(target: &Target) -> String {
    let Target::Tool(name) = target else { panic!("{target} is no tool") };
    name.as_str().to_owned()
}

impl Composed {
    fn start(compositions: Vec<(String, Value)>) -> Self {
        let part = |target: &Target| {
            let name = named(target);
            let is_repeatable = TOOLS.contains(&(name.as_str(), true));
            Part { is_read_only: false, is_repeatable, takes_text: false }
        };
        let plan = |(name, spec): (String, Value)| {
            let Composition { spec, uses } = Composition::parse(&spec).unwrap();
            let targets: BTreeSet<_> = uses.into_iter().map(|used| used.target).collect();
            let parts = targets.into_iter().map(|target| (target.clone(), part(&target)));
            (name, Arc::new(Plan::new(spec, parts.collect())))
        };
        let identity = CallerIdentity::Anonymous;
        let owner = RunOwner { identity, quota_key: None, revision: Revision(1) };
        Self {
            plans: Arc::new(compositions.into_iter().map(plan).collect()),
            state: Arc::default(),
            upstream: Scripted::default(),
            owner,
            response_bytes: 1 << 20,
            _dir: None,
        }
    }

    /// Returns compositions with a journal, which sagas need.
    fn with_journal(compositions: Vec<(String, Value)>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sagas = Sagas::open(&dir.path().join("registry.json")).unwrap();
        let state = Arc::new(CompositionState::new(sagas));
        Self { state, _dir: Some(Arc::new(dir)), ..Self::start(compositions) }
    }

    /// Returns the same compositions with another caller.
    fn by(&self, agent: &str) -> Self {
        let identity = CallerIdentity::Asserted { name: agent.into(), version: None };
        let quota_key = Some(agent.into());
        let owner = RunOwner { identity, quota_key, ..self.owner.clone() };
        Self { owner, ..self.clone() }
    }

    async fn run(
        &self,
        tool: &str,
        scope: Option<&RunScope>,
        input: &Value,
    ) -> (Result<RawResult, Failure>, Steps) {
        let key: Key = format!("tool/{tool}@1.0.0").parse().unwrap();
        let call = CompositionCall {
            tool: &key,
            plan: &self.plans[tool],
            runner: Arc::new(self.clone()),
            state: &self.state,
            owner: self.owner.clone(),
            scope,
            response_bytes: self.response_bytes,
            buffered: None,
        };
        call_composition(call, input).await
    }

    /// The result of a call that succeeds.
    async fn value(&self, tool: &str, arguments: Value) -> Value {
        let (result, _) = self.run(tool, None, &arguments).await;
        let result: Value = serde_json::from_str(result.unwrap().result.get()).unwrap();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
        result["structuredContent"].clone()
    }

    /// The step, reason and message of a call that fails.
    async fn failure(&self, tool: &str, arguments: Value) -> (String, String, String) {
        let failure = self.run(tool, None, &arguments).await.0.unwrap_err().to_value();
        let part = |name: &str| failure[name].as_str().unwrap().to_owned();
        (part("step"), part("reason"), part("message"))
    }

    async fn steps(&self, tool: &str, arguments: Value) -> Steps {
        self.run(tool, None, &arguments).await.1
    }

    /// Each call of a tool: step, tool, outcome.
    async fn calls(&self, tool: &str, arguments: Value) -> Vec<String> {
        let steps = self.steps(tool, arguments).await;
        let told =
            |call: &report::CallReport| format!("{} {} {}", call.step, call.tool, call.outcome);
        steps.calls.iter().map(told).collect()
    }
}

impl StepRunner for Composed {
    fn run<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, StepOutput> {
        Box::pin(async move {
            let tool = named(step.target);
            let arguments: Value = serde_json::from_str(step.arguments.get()).unwrap();
            if !self.plans.contains_key(&tool) {
                return StepOutput {
                    result: self.upstream.call(&tool, &arguments).await,
                    steps: None,
                };
            }
            let (result, steps) = Self::run(self, &tool, Some(step.scope), &arguments).await;
            let error = |failure: Failure| StepError {
                outcome: failure.outcome(),
                message: failure.message(),
                detail: failure.to_string(),
                effects: failure.effects(),
                retry_after: failure.retry_after(),
                rejects_result: false,
            };
            StepOutput { result: result.map_err(error), steps: Some(steps) }
        })
    }

    fn authorize_stored(&self, _: &ResultOrigin, _: &RunScope) -> Result<(), StepError> {
        Ok(())
    }

    fn may_reuse(&self, _: &ResultOrigin, _: &RunScope) -> bool {
        true
    }

    fn progress(&self, _: u32, _: &str, _: &str) {}

    fn detached(&self) -> Arc<dyn StepRunner> {
        Arc::new(self.clone())
    }
}

/// The calls that the tools have seen.
#[derive(Debug, Default)]
struct Seen {
    calls: Vec<(String, Value)>,
    /// The calls in progress, and their maximum.
    running: usize,
    most: usize,
    cancelled: usize,
}

impl Seen {
    /// The number of calls of a tool.
    fn count(&self, tool: &str) -> usize {
        self.calls.iter().filter(|(called, _)| called == tool).count()
    }
}

/// Tools that do what their arguments say.
#[derive(Debug, Clone, Default)]
struct Scripted {
    seen: Arc<Mutex<Seen>>,
    /// Notified after each change of `seen`.
    changed: Arc<Notify>,
    /// Ends a call of `hold`.
    released: Arc<Notify>,
}

/// A call in progress. Dropping it before its end cancels it.
struct Running(Scripted, bool);

impl Drop for Running {
    fn drop(&mut self) {
        let mut seen = self.0.seen();
        seen.running -= 1;
        seen.cancelled += usize::from(!self.1);
        drop(seen);
        self.0.changed.notify_waiters();
    }
}

impl Scripted {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Ends the call of `hold`.
    fn release(&self) {
        self.released.notify_one();
    }

    /// Waits until the calls meet a condition.
    async fn until(&self, condition: impl Fn(&Seen) -> bool) {
        let met = async {
            loop {
                let changed = self.changed.notified();
                if condition(&self.seen()) {
                    return;
                }
                changed.await;
            }
        };
        let met = tokio::time::timeout(Duration::from_secs(10), met).await;
        assert!(met.is_ok(), "the condition was not met: {:?}", self.seen());
    }

    /// The arguments of all calls of a tool.
    fn calls(&self, tool: &str) -> Vec<Value> {
        let seen = self.seen();
        seen.calls.iter().filter(|(t, _)| t == tool).map(|(_, a)| a.clone()).collect()
    }

    async fn call(&self, tool: &str, arguments: &Value) -> Result<RawResult, StepError> {
        let before = self.calls(tool).len() as u64;
        let mut running = {
            let mut seen = self.seen();
            seen.calls.push((tool.to_owned(), arguments.clone()));
            seen.running += 1;
            seen.most = seen.most.max(seen.running);
            Running(self.clone(), false)
        };
        self.changed.notify_waiters();
        let structured = |value: &Value| json!({ "structuredContent": value, "content": [] });
        let fails =
            |text: &str| json!({ "isError": true, "content": [{ "type": "text", "text": text }] });
        let result = match tool {
            "say" => structured(&arguments["value"]),
            "text" => json!({ "content": [{ "type": "text", "text": arguments["text"] }] }),
            "fail" => fails(arguments["message"].as_str().unwrap_or("no")),
            "wait" => {
                let ms = arguments["ms"].as_u64().unwrap();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                structured(&json!({ "waited": ms, "n": arguments["n"] }))
            }
            "hold" => {
                self.released.notified().await;
                structured(arguments)
            }
            "flaky" if before < arguments["failures"].as_u64().unwrap_or(2) => fails("not yet"),
            "flaky" | "count" => structured(&json!({ "n": before + 1 })),
            "lose" | "lose-safely" => {
                running.1 = true;
                return Err(lost());
            }
            _ => structured(arguments),
        };
        running.1 = true;
        let is_error = result["isError"] == true;
        let result = RawValue::from_string(result.to_string()).unwrap();
        let (result_type, era) = (ResultType::Complete, Era::Modern);
        Ok(RawResult { result, is_error, result_type, has_meta: false, era })
    }
}

/// The failure of a tool that may have run.
fn lost() -> StepError {
    StepError {
        outcome: CallOutcome::UpstreamFailed,
        message: "The outcome is unknown.".to_owned(),
        detail: "the upstream broke the protocol".to_owned(),
        effects: Effects::Unknown,
        retry_after: None,
        rejects_result: false,
    }
}

fn call_composition<'a>(
    call: CompositionCall<'a>,
    input: &'a Value,
) -> BoxFuture<'a, (Result<RawResult, Failure>, Steps)> {
    Box::pin(execute(call, input))
}
