//! A writer of batches with request ids, at any server, retried until the outcome is known. Some
//! have no id, some a base revision, and some are sent twice.

use std::time::Duration;

use history_check::event::Answer;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    caller::{Caller, Submission},
    rng::Rng,
    workload::{KnownKeys, Workload},
};

/// The number of attempts per request.
const ATTEMPTS: usize = 6;

pub(crate) struct Writer {
    pub(crate) index: usize,
    pub(crate) caller: Caller,
    pub(crate) known: KnownKeys,
    pub(crate) rng: Rng,
    /// Whether the first batch is large.
    pub(crate) bulk: bool,
    /// The longest pause between two batches, in milliseconds.
    pub(crate) pause: u64,
    /// The highest acknowledged revision.
    pub(crate) told: watch::Sender<u64>,
}

impl Writer {
    pub(crate) async fn run(mut self, until: Instant) {
        let mut world = Workload::new(self.index, self.known.clone());
        let mut number = 0;
        if self.bulk {
            let batch = Workload::bulk(&mut self.rng);
            self.settle(&Submission { batch, id: Some("bulk".to_owned()), base: None }, until)
                .await;
        }
        while Instant::now() < until {
            number += 1;
            let batch = world.next(&mut self.rng);
            let id = format!("writer-{}-{number}", self.index);
            let id = (!self.rng.chance(10)).then_some(id);
            let base = self.rng.chance(15).then(|| *self.told.borrow());
            self.settle(&Submission { batch, id, base }, until).await;
            let pause = self.rng.between(0, self.pause);
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Sends a request until its outcome is known or the time is over.
    async fn settle(&mut self, submission: &Submission, until: Instant) {
        for attempt in 0..ATTEMPTS {
            let server = self.rng.below(self.caller.servers());
            let answer = self.caller.apply(server, submission).await;
            if let Answer::Applied { revision, .. } = answer {
                self.note(submission, revision);
                let is_repeated = submission.id.is_some() && self.rng.chance(8);
                if attempt == 0 && is_repeated {
                    let server = self.rng.below(self.caller.servers());
                    self.caller.apply(server, submission).await;
                }
                return;
            }
            if submission.id.is_none() || !is_worth_another(&answer) || Instant::now() > until {
                return;
            }
            sleep(Duration::from_millis(50 << attempt.min(2))).await;
        }
    }

    fn note(&self, submission: &Submission, revision: u64) {
        self.known.add(&submission.batch);
        self.told.send_if_modified(|told| {
            let is_higher = *told < revision;
            *told = revision.max(*told);
            is_higher
        });
    }
}

/// Whether the outcome is unknown, or a retry may have another one.
fn is_worth_another(answer: &Answer) -> bool {
    match answer {
        Answer::Unknown { .. } => true,
        Answer::Refused { reason } => {
            !["VALIDATION_FAILED", "BASE_REVISION_MISMATCH", "REQUEST_ID_REUSED", "INVALID_REQUEST"]
                .contains(&reason.as_str())
        }
        _ => false,
    }
}
