//! Changes the limit of one budget again and again: by new versions of its policy, and by adjustments.

use std::time::Duration;

use history_check::{BudgetEvent, budget_event::Book};
use tokio::time::{Instant, sleep};

use super::catalog::{PRICE, TOTAL, total_book, total_with_limit};
use crate::{fleet::Operator, rng::Rng};

/// Time limit of a new version.
const COMMIT: Duration = Duration::from_secs(2);

pub(super) struct Treasurer {
    operator: Operator,
    rng: Rng,
    /// Whether it registers versions. A restored database would lose them.
    registers: bool,
    book: Book,
    versions: u64,
    /// The highest limit of the policy that can be in force.
    limit: i64,
    /// The last adjustment, and those with an unknown outcome, which can still replace it.
    adjustment: i64,
    unknown: Vec<i64>,
}

impl Treasurer {
    pub(super) fn new(operator: Operator, rng: Rng, registers: bool) -> Self {
        let (book, limit) = (total_book(), TOTAL.limit);
        let unknown = Vec::new();
        Self { operator, rng, registers, book, versions: 0, limit, adjustment: 0, unknown }
    }

    /// Changes the limit until a time.
    pub(super) async fn run(mut self, until: Instant) {
        loop {
            let pause = self.rng.between(200, 900);
            sleep(Duration::from_millis(pause)).await;
            if Instant::now() > until {
                return;
            }
            let calls = i64::try_from(self.rng.between(1, 15)).unwrap_or(1);
            let change = if self.rng.chance(70) { calls * PRICE } else { -calls * PRICE };
            if self.registers && self.rng.chance(40) {
                self.register((self.limit + change).max(0)).await;
            } else {
                self.adjust(self.adjustment + change).await;
            }
        }
    }

    async fn register(&mut self, limit: i64) {
        self.versions += 1;
        self.note_requested(limit.max(self.limit), self.highest_adjustment());
        let policy = total_with_limit(limit, self.versions);
        let id = format!("limit-{}", self.versions);
        let revision = self.operator.apply(&id, &[policy], COMMIT).await;
        let Some(revision) = revision else {
            self.limit = self.limit.max(limit);
            return;
        };
        if self.operator.spread(revision).await {
            self.limit = limit;
            if let Some(exposed) = self.operator.exposed(&self.book).await {
                self.note_in_force(exposed);
            }
        } else {
            self.limit = self.limit.max(limit);
        }
    }

    async fn adjust(&mut self, adjustment: i64) {
        self.note_requested(self.limit, adjustment.max(self.highest_adjustment()));
        let server = self.rng.below(self.operator.servers.len());
        match self.operator.adjust(server, &self.book, adjustment).await {
            Some(exposed) => {
                self.adjustment = adjustment;
                self.note_in_force(exposed);
            }
            None => self.unknown.push(adjustment),
        }
    }

    fn highest_adjustment(&self) -> i64 {
        self.unknown.iter().copied().fold(self.adjustment, i64::max)
    }

    fn note_requested(&self, limit: i64, adjustment: i64) {
        let (book, limit) = (self.book.clone(), (limit + adjustment).max(0));
        self.operator.note(BudgetEvent::LimitRequested { book, limit });
    }

    fn note_in_force(&self, exposed: i64) {
        let limit = (self.limit + self.highest_adjustment()).max(0);
        let book = self.book.clone();
        self.operator.note(BudgetEvent::LimitInForce { book, limit, exposed });
    }
}
