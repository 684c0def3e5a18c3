//! The steps of compositions: each runs through the pipeline as its caller.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Error, Gateway, Passage, Passed, arguments::Arguments, input, pass};
use crate::{
    audit::{CallRecord, Lineage},
    composition::{self, BoxFuture, Failed, Owner, Step, StepOutput, StepRunner},
    jsonrpc::ObjectWriter,
    permit,
    policy::Denial,
    upstream::{Context, ResultType, Side},
    view::{Composed, Offer},
};

/// Calls a composed tool.
pub(super) async fn call(
    gateway: &Arc<Gateway>,
    composed: &Arc<Composed>,
    (offer, mut arguments): (&Offer, Arguments<'_>),
    passage: Passage<'_>,
    record: &mut CallRecord,
) -> Result<Passed, Error> {
    let trace = record.inward(&passage.context.trace);
    let owner = Owner { claim: passage.claim.clone(), principal: passage.principal.clone() };
    let runner = Runner {
        gateway: Arc::clone(gateway),
        composed: Arc::clone(composed),
        owner: owner.clone(),
        context: Context { trace, ..passage.context.without_tasks() },
        client: passage.side.cloned(),
        lineage: record.lineage(offer.key()),
    };
    let call = composition::Call {
        tool: offer.key(),
        plan: composed.plan(),
        runner: Arc::new(runner),
        memory: gateway.compositions(),
        owner,
        scope: passage.scope,
        response_bytes: gateway.settings().upstream.response_bytes,
        buffered: passage.context.buffered.as_ref(),
    };
    match composition::call(call, arguments.value()?).await {
        (Ok(result), steps) => Ok(Passed { result, steps: Some(steps) }),
        (Err(failure), steps) => Err(Error::Composition(Box::new(Failed { failure, steps }))),
    }
}

/// Runs the steps of one run of a composition.
#[derive(Debug, Clone)]
pub(super) struct Runner {
    pub(super) gateway: Arc<Gateway>,
    pub(super) composed: Arc<Composed>,
    pub(super) owner: Owner,
    /// The context of every step. Its trace is the span of the composition.
    pub(super) context: Context,
    /// The client of the composition, for progress and questions.
    pub(super) client: Option<Side>,
    pub(super) lineage: Lineage,
}

impl StepRunner for Runner {
    fn run<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, StepOutput> {
        Box::pin(async move {
            let tool = step.target.to_string();
            let Some(offer) = self.composed.part(step.target) else {
                let error = Error::from(Denial::NoSuchTool).to_step(&tool);
                return StepOutput { result: Err(error), steps: None };
            };
            let span = self.gateway.tracer().begin(&self.context.trace);
            let mut record = self.lineage.begin(&tool, step.arguments.get().len(), span);
            // The composition reads the result and drops it before the step ends.
            let context = self.context.of_step();
            match self.attempt(offer, (step, &context), &mut record).await {
                Ok(Passed { result, steps }) => {
                    record.answered(result.result.get().len());
                    StepOutput { result: Ok(result), steps }
                }
                Err(error) => {
                    error.record_in(&mut record);
                    let result = Err(error.to_step(&tool));
                    let steps = match error {
                        Error::Composition(inner) => Some(inner.steps),
                        _ => None,
                    };
                    StepOutput { result, steps }
                }
            }
        })
    }

    fn progress(&self, finished: u32, message: &str) {
        let Some(client) = &self.client else { return };
        let mut told = ObjectWriter::with_capacity(96);
        // The surface knows the client's token.
        told.raw("progressToken", "0").raw("progress", &finished.to_string());
        told.string("message", message);
        let told = RawValue::from_string(told.finish_string()).ok();
        client.try_tell("notifications/progress", told.as_deref());
    }

    fn detached(&self) -> Arc<dyn StepRunner> {
        Arc::new(Self { client: None, ..self.clone() })
    }
}

impl Runner {
    /// Calls the tool until it needs no more input of the caller.
    async fn attempt(
        &self,
        offer: &Arc<Offer>,
        (step, context): (Step<'_>, &Context),
        record: &mut CallRecord,
    ) -> Result<Passed, Error> {
        let mut params = Vec::new();
        let side = self.client.as_ref().map(Side::for_questions);
        for rounds in 0.. {
            let admission =
                permit::admit_step(self.gateway.policy(), &self.gateway.watchman().look(), offer)?;
            record.admitted(&admission);
            let passage = Passage {
                claim: &self.owner.claim,
                arguments: Some(step.arguments),
                params: &params,
                mirror: None,
                context,
                side: side.as_ref(),
                principal: &self.owner.principal,
                scope: Some(step.scope),
            };
            let passed = pass(&self.gateway, admission, &passage, record).await?;
            if passed.result.result_type != ResultType::InputRequired {
                return Ok(passed);
            }
            let side = side.as_ref().ok_or(Error::NothingWaits)?;
            input::ask(side, &passed.result, (&mut params, rounds)).await?;
        }
        Err(Error::NothingWaits)
    }
}
