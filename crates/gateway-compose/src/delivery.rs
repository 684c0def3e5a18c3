//! Patterns that hand something to another tool: dead letter and claim check.

use std::sync::Arc;

use registry_core::spec::{ClaimCheck, DeadLetter};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Cause, Effects, Failure, failure::under, run::Run};

impl Run {
    /// Sends a failed operation and its input to the dead-letter tool.
    pub(super) async fn dead_letter(
        self: &Arc<Self>,
        letter: &DeadLetter,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let most = letter.max_attempts.unwrap_or(1);
        let (mut attempts, mut effects) = (1, Effects::None);
        let failure = loop {
            let failure = match self.operate(&letter.inner, at, input).await {
                Ok(value) => return Ok(value),
                Err(failure) => failure.with_effects(effects),
            };
            effects = failure.effects();
            self.await_compensations().await;
            let is_repeatable = !failure.is_unknown() || self.plan.is_repeatable(&letter.inner);
            if attempts >= most || !is_repeatable {
                break failure;
            }
            if let Some(backoff) = letter.backoff {
                sleep(backoff.delay(attempts)).await;
            }
            attempts += 1;
        };
        let report = json!({ "input": input, "error": failure.to_value(), "attempts": attempts });
        let place = under(at, "deadLetterTool");
        match self.call(&letter.dead_letter_tool, &place, &report).await {
            Ok(_) if letter.rethrow => Err(failure),
            Ok(value) => Ok(value),
            Err(letter) => Err(Failure::new(at, Cause::DeadLetter { failure, letter })),
        }
    }

    /// Stores the payload and passes the reference of the store to the inner operation.
    pub(super) async fn claim_check(
        self: &Arc<Self>,
        check: &ClaimCheck,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let reference = self.call(&check.store_tool, &under(at, "storeTool"), input).await?;
        let stored = self.plan.effects_of_call(&check.store_tool);
        let result = self.operate(&check.inner, at, &reference).await;
        let result = result.map_err(|failure| failure.with_effects(stored))?;
        if !check.retrieve_at_end {
            return Ok(result);
        }
        let done = stored.max(self.plan.effects_of(&check.inner));
        let place = under(at, "retrieveTool");
        let retrieved = self.call(&check.retrieve_tool, &place, &reference).await;
        retrieved.map_err(|failure| failure.with_effects(done))
    }
}
