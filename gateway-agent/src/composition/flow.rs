//! Patterns that move data: pipeline, scatter-gather, map-each.
//!
//! Deliberately absent: filter and projection, which are pure (`registry_core::spec::eval`).

use std::{borrow::Cow, collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    stream::{self, FuturesUnordered},
};
use registry_core::spec::{
    MapEach, Pipeline, ScatterGather, ScatterTarget,
    eval::{self, Scope, describe_kind},
};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{
    AT_ONCE, Cause, Failure, ITEMS, MOST_AT_ONCE,
    run::{Run, under},
};

impl Run {
    /// In order; the first failure ends it; the result is the last step's.
    pub(super) async fn pipeline(
        self: &Arc<Self>,
        pipeline: &Pipeline,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let mut results: BTreeMap<String, Value> = BTreeMap::new();
        let mut last: Option<&str> = None;
        for step in &pipeline.steps {
            let at = under(at, &step.id);
            let given = match &step.input {
                Some(binding) => {
                    let scope = Scope { input, steps: &results, error: None };
                    Cow::Owned(self.bound((binding, "input"), scope, &at)?)
                }
                None => Cow::Borrowed(last.and_then(|id| results.get(id)).unwrap_or(input)),
            };
            let result = self.operate(&step.operation, &at, &given).await?;
            results.insert(step.id.clone(), result);
            last = Some(&step.id);
        }
        Ok(last.and_then(|id| results.remove(id)).unwrap_or_default())
    }

    /// All at once with the same input; what failed is dropped, unless the first failure is to end
    /// it.
    pub(super) async fn scatter(
        self: &Arc<Self>,
        scatter: &ScatterGather,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let of = scatter.targets.len();
        let mut arrived: Vec<Option<Value>> = vec![None; of];
        let (mut first, mut is_unknown) = (None, false);
        let targets = scatter.targets.iter().enumerate();
        let mut running: FuturesUnordered<_> =
            targets.map(|(i, target)| numbered(i, self.target(target, (at, i), input))).collect();
        let deadline = scatter.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
        loop {
            let ended = tokio::select! {
                biased;
                ended = running.next() => ended,
                () = until(deadline) => {
                    is_unknown = true;
                    break;
                }
            };
            match ended {
                None => break,
                Some((i, Ok(value))) => arrived[i] = Some(value),
                Some((_, Err(failure))) if scatter.fail_fast => return Err(failure),
                Some((_, Err(failure))) => {
                    is_unknown |= failure.is_unknown();
                    first = first.or(Some(failure));
                }
            }
        }
        drop(running);
        let arrived: Vec<Value> = arrived.into_iter().flatten().collect();
        if arrived.is_empty() {
            return Err(Failure::new(at, Cause::NothingArrived { of, first, is_unknown }));
        }
        eval::aggregate(&scatter.aggregation, arrived, &mut self.budget())
            .map_err(|error| Failure::evaluation(at, "aggregation", error))
    }

    async fn target(
        self: &Arc<Self>,
        target: &ScatterTarget,
        (at, i): (&str, usize),
        input: &Value,
    ) -> Result<Value, Failure> {
        let at = under(at, &format!("targets/{i}"));
        let given = match &target.input {
            Some(binding) => {
                let scope = Scope { input, steps: &BTreeMap::new(), error: None };
                Cow::Owned(self.bound((binding, "input"), scope, &at)?)
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

    /// One operation for each item; order kept, the first failure cancels the rest.
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
        if items.len() > ITEMS {
            let (found, most) = (items.len(), ITEMS);
            return Err(Failure::new(at, Cause::TooManyItems { found, most }));
        }
        let at_once = each.max_concurrency.and_then(|most| usize::try_from(most).ok());
        let at_once = at_once.unwrap_or(AT_ONCE).min(MOST_AT_ONCE);
        let mut results = vec![Value::Null; items.len()];
        let all = items.iter().enumerate();
        let all: Vec<_> =
            all.map(|(i, item)| numbered(i, self.item(each, (at, i), item))).collect();
        let mut running = stream::iter(all).buffer_unordered(at_once);
        while let Some((i, outcome)) = running.next().await {
            results[i] = outcome?;
        }
        drop(running);
        Ok(results.into())
    }
}

/// An outcome with its number.
type Numbered<'a> = Pin<Box<dyn Future<Output = (usize, Result<Value, Failure>)> + Send + 'a>>;

fn numbered<'a>(
    number: usize,
    running: impl Future<Output = Result<Value, Failure>> + Send + 'a,
) -> Numbered<'a> {
    Box::pin(async move { (number, running.await) })
}

/// At a moment, or never.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
