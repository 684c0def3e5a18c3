//! Patterns that move data: pipeline, scatter-gather, map-each.

use std::{borrow::Cow, collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    stream::{self, FuturesUnordered},
};
use registry_core::spec::{
    MapEach, Operation, Pipeline, ScatterGather, ScatterTarget,
    eval::{self, BindingContext, describe_kind},
};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::{
    Cause, Effects, Failure,
    failure::under,
    limits::{DEFAULT_CONCURRENCY, MAX_CONCURRENCY, MAX_ITEMS},
    run::Run,
};

impl Run {
    /// Runs the steps in order and returns the last result. The first failure ends the pipeline.
    pub(super) async fn pipeline(
        self: &Arc<Self>,
        pipeline: &Pipeline,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let mut results: BTreeMap<String, Value> = BTreeMap::new();
        let mut last: Option<&str> = None;
        let mut done = Effects::None;
        for step in &pipeline.steps {
            let at = under(at, &step.id);
            let failed = |failure: Failure| failure.with_effects(done);
            let given = match &step.input {
                Some(binding) => {
                    let scope = BindingContext { input, steps: &results, error: None };
                    Cow::Owned(
                        self.resolve_binding((binding, "input"), scope, &at).map_err(failed)?,
                    )
                }
                None => Cow::Borrowed(last.and_then(|id| results.get(id)).unwrap_or(input)),
            };
            let result = self.operate(&step.operation, &at, &given).await.map_err(failed)?;
            results.insert(step.id.clone(), result);
            done = done.max(self.plan.effects_of(&step.operation));
            last = Some(&step.id);
        }
        Ok(last.and_then(|id| results.remove(id)).unwrap_or_default())
    }

    /// Runs all targets concurrently with the same input. With `failFast` the first failure ends
    /// the pattern; otherwise failed targets are dropped.
    pub(super) async fn scatter(
        self: &Arc<Self>,
        scatter: &ScatterGather,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let targets = scatter.targets.iter().enumerate();
        let (run, limit) = self.with_time_limit();
        let mut running: FuturesUnordered<_> =
            targets.map(|(i, target)| numbered(i, run.target(target, (at, i), input))).collect();
        let deadline = scatter.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
        let mut ended: Vec<Option<StepResult>> = scatter.targets.iter().map(|_| None).collect();
        let mut late_after_ms = None;
        loop {
            let next = tokio::select! {
                biased;
                next = running.next() => next,
                () = until(deadline) => {
                    late_after_ms = scatter.timeout_ms.inspect(|ms| limit.pass(*ms));
                    break;
                }
            };
            let Some((i, outcome)) = next else { break };
            let is_over = scatter.fail_fast && outcome.is_err();
            ended[i] = Some(outcome);
            if is_over {
                break;
            }
        }
        drop(running);
        if !scatter.fail_fast {
            self.await_compensations().await;
        }
        self.aggregate(scatter, at, (ended, late_after_ms))
    }

    /// Aggregates the results. A target without an outcome was cancelled: by the timeout if that
    /// has passed, else by the failure of another target.
    fn aggregate(
        &self,
        scatter: &ScatterGather,
        at: &str,
        (ended, late_after_ms): (Vec<Option<StepResult>>, Option<u64>),
    ) -> Result<Value, Failure> {
        let both = scatter.targets.iter().zip(&ended);
        let effects = both.map(|(target, outcome)| match outcome {
            Some(Ok(_)) => self.plan.effects_of(&target.operation),
            Some(Err(failure)) => failure.effects(),
            None => self.plan.effects_if_interrupted(&target.operation),
        });
        let (effects, of) = (effects.max().unwrap_or(Effects::None), ended.len());
        let (mut arrived, mut first) = (Vec::new(), None);
        for (i, outcome) in ended.into_iter().enumerate() {
            match outcome {
                Some(Ok(value)) => arrived.push(value),
                Some(Err(failure)) if scatter.fail_fast => {
                    return Err(failure.with_effects(effects));
                }
                Some(Err(failure)) => {
                    self.report.dropped(&failure);
                    first = first.or(Some(failure));
                }
                None => {
                    if let Some(after_ms) = late_after_ms {
                        let cause = Cause::Timeout { after_ms, message: None };
                        self.report.dropped(&Failure::new(&target_path(at, i), cause));
                    }
                }
            }
        }
        if arrived.is_empty() {
            return Err(Failure::new(at, Cause::NoResults { of, first }).with_effects(effects));
        }
        eval::aggregate(&scatter.aggregation, arrived, &mut self.eval_budget())
            .map_err(|error| Failure::evaluation(at, "aggregation", error).with_effects(effects))
    }

    async fn target(
        self: &Arc<Self>,
        target: &ScatterTarget,
        (at, i): (&str, usize),
        input: &Value,
    ) -> Result<Value, Failure> {
        let at = target_path(at, i);
        let given = match &target.input {
            Some(binding) => {
                let scope = BindingContext { input, steps: &BTreeMap::new(), error: None };
                Cow::Owned(self.resolve_binding((binding, "input"), scope, &at)?)
            }
            None => Cow::Borrowed(input),
        };
        self.operate(&target.operation, &at, &given).await
    }

    async fn item(
        self: &Arc<Self>,
        each: &MapEach,
        (at, i): (&str, usize),
        item: &Value,
    ) -> Result<Value, Failure> {
        self.operate(&each.inner, &under(at, &i.to_string()), item).await
    }

    /// Runs the operation for each item and keeps the order. The first failure cancels the rest.
    pub(super) async fn map_each(
        self: &Arc<Self>,
        each: &MapEach,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let Value::Array(items) = input else {
            let reason = eval::Reason::NotAnArray { found: describe_kind(input) };
            let error = eval::Error { pointer: String::new(), reason };
            return Err(Failure::evaluation(at, "mapEach", error));
        };
        if items.len() > MAX_ITEMS {
            let (found, most) = (items.len(), MAX_ITEMS);
            return Err(Failure::new(at, Cause::TooManyItems { found, most }));
        }
        if matches!(each.inner, Operation::Call(_)) {
            self.check_calls(at, items.len())?;
        }
        let concurrency = each.max_concurrency.and_then(|most| usize::try_from(most).ok());
        let concurrency = concurrency.unwrap_or(DEFAULT_CONCURRENCY).min(MAX_CONCURRENCY);
        let mut results = vec![Value::Null; items.len()];
        let all = items.iter().enumerate();
        let all: Vec<_> =
            all.map(|(i, item)| numbered(i, self.item(each, (at, i), item))).collect();
        let mut running = stream::iter(all).buffer_unordered(concurrency);
        let mut effects = Effects::None;
        if concurrency > 1 && items.len() > 1 {
            // Other items are running when one fails.
            effects = self.plan.effects_if_interrupted(&each.inner);
        }
        while let Some((i, outcome)) = running.next().await {
            results[i] = outcome.map_err(|failure| failure.with_effects(effects))?;
            effects = effects.max(self.plan.effects_of(&each.inner));
        }
        drop(running);
        Ok(results.into())
    }
}

fn target_path(at: &str, target: usize) -> String {
    under(at, &format!("targets/{target}"))
}

type StepResult = Result<Value, Failure>;
type Numbered<'a> = Pin<Box<dyn Future<Output = (usize, StepResult)> + Send + 'a>>;

fn numbered<'a>(
    number: usize,
    running: impl Future<Output = StepResult> + Send + 'a,
) -> Numbered<'a> {
    Box::pin(async move { (number, running.await) })
}

/// Sleeps until the deadline; forever without one.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
