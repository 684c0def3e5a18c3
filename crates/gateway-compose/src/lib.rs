//! Compositions of tools and agents: the executor of a registered `spec`.
//!
//! Each call of a composed tool is a [`Run`] of its [`Plan`]. Steps are called through a
//! [`StepRunner`]. The number of calls, the size of values and everything remembered between calls are
//! bounded.

mod cache;
mod call;
mod clock;
mod delivery;
mod execute;
mod failure;
mod flow;
mod history;
mod idempotent;
mod limits;
mod plan;
mod recovery;
mod report;
mod resilience;
mod run;
mod runner;
mod saga;
mod sagas;
mod scope;
mod state;
mod step;
mod step_error;
#[cfg(test)]
mod tests;

pub use self::{
    call::CompositionCall,
    execute::{CompositionError, ShownFailure, execute},
    failure::{Cause, Failure},
    history::{SagaEnd, SagaStatus, StepOutcome},
    plan::{Part, Plan},
    recovery::{recover, retry},
    report::Steps,
    runner::{
        BoxFuture, ResultOrigin, ResumedSaga, RunOwner, SagaHost, Step, StepOutput, StepRunner,
    },
    sagas::{RetryError, SagaDetail, SagaList, Sagas},
    scope::{RunScope, StepRequest},
    state::CompositionState,
    step_error::{Effects, StepError},
};
