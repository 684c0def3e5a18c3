//! Calls while all rights of their budget are idle at another gateway.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use registry_core::Amount;
use tokio::{task::JoinSet, time::sleep};

use super::{PRICE, bank::Bank, gateway::SpendingGateway, key};
use crate::{load, report::Report};

pub(super) const BUDGET: &str = "idle";
pub(super) const LIMIT: Amount = Amount::from_micros(10_000_000);
/// Pairs of gateways. Each pair has a budget of its own.
const PAIRS: usize = 16;
/// Rights are idle for this time before another gateway needs them.
const IDLE: Duration = Duration::from_millis(200);

pub(super) async fn measure(report: &mut Report, bank: &Bank, seconds: u64) {
    let budgets = (0..2 * PAIRS).map(|number| key(BUDGET, &format!("pair-{}", number / 2)));
    let fleet = bank.start_fleet(budgets).await;
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut loops = JoinSet::new();
    for pair in fleet.gateways().chunks_exact(2) {
        let needs = Needs { waits: load::histogram(), refused: 0 };
        loops.spawn(needs.alternate(pair[0].clone(), pair[1].clone(), end));
    }
    let (mut waits, mut refused) = (load::histogram(), 0);
    while let Some(one) = loops.join_next().await {
        let one = one.expect("a loop ends");
        waits.add(one.waits).expect("equal bounds");
        refused += one.refused;
    }
    report.add_alone(
        format!("calls while the rights are idle at another gateway, {PAIRS} pairs of gateways"),
        format!(
            "{} calls, {refused} refused; granted after {}, at most {:.0} ms",
            waits.len(),
            load::quantiles(&waits),
            load::quantile_ms(&waits, 1.0)
        ),
        "none refused, ≤ 500 ms",
    );
    fleet.stop().await;
}

/// Reservations of rights that are idle elsewhere.
struct Needs {
    waits: Histogram<u64>,
    refused: u64,
}

impl Needs {
    /// One gateway takes all rights, and the other needs some of them. Then they change roles.
    async fn alternate(
        mut self,
        mut holder: Arc<SpendingGateway>,
        mut other: Arc<SpendingGateway>,
        end: Instant,
    ) -> Self {
        while Instant::now() < end {
            self.need(&holder, LIMIT).await;
            self.need(&other, PRICE).await;
            std::mem::swap(&mut holder, &mut other);
        }
        self
    }

    async fn need(&mut self, gateway: &SpendingGateway, amount: Amount) {
        sleep(IDLE).await;
        let asked = Instant::now();
        match gateway.reserve(amount).await {
            Some(reserved) => {
                load::record(&mut self.waits, asked.elapsed());
                reserved.release();
            }
            None => self.refused += 1,
        }
    }
}
