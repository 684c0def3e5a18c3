//! One budget that 100 gateways share: an ample one, and one that is spent during the load.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use registry_core::Amount;
use tokio::{task::JoinSet, time::sleep};

use super::{
    PRICE,
    bank::{Bank, Fleet, GATEWAYS},
    gateway::SpendingGateway,
    key,
};
use crate::{load, report::Report};

pub(super) const AMPLE_BUDGET: &str = "ample";
pub(super) const SCARCE_BUDGET: &str = "scarce";
/// The duration of a call. Each gateway has one call at a time.
const CALL: Duration = Duration::from_millis(10);
/// Calls per second of one gateway, at most.
const CALLS_PER_SECOND: u64 = 100;
/// The time after which gateways know their rates of spending.
const START: Duration = Duration::from_secs(3);
/// Maximum duration of the load that ends with the budget.
const LONGEST: Duration = Duration::from_mins(5);

/// A limit that all gateways spend in about this time.
pub(super) fn scarce_limit(seconds: u64) -> Amount {
    price_of(i64::try_from(GATEWAYS as u64 * CALLS_PER_SECOND * seconds).expect("a small number"))
}

fn price_of(calls: i64) -> Amount {
    PRICE.checked_mul(calls).expect("a small amount")
}

pub(super) async fn measure(report: &mut Report, bank: &Bank, seconds: u64) {
    let ample = std::iter::repeat_n(key(AMPLE_BUDGET, "fleet"), GATEWAYS);
    let fleet = bank.start_fleet(ample).await;
    let what =
        format!("one budget shared by {GATEWAYS} gateways, calls of {} ms", CALL.as_millis());
    let steady = Duration::from_secs(seconds);
    for (phase, duration) in [("first 3 s", START), ("after that", steady)] {
        let before = grants(&fleet);
        let spent = spend(&fleet, duration).await;
        let granted = grants(&fleet) - before;
        report.add_alone(format!("{what}: {phase}"), spent.text(granted), "");
    }
    fleet.stop().await;

    let scarce = std::iter::repeat_n(key(SCARCE_BUDGET, "fleet"), GATEWAYS);
    let fleet = bank.start_fleet(scarce).await;
    let spent = spend(&fleet, LONGEST).await;
    let limit = scarce_limit(seconds);
    let total = price_of(spent.calls);
    assert!(total <= limit, "{total} of {limit} spent");
    report.add_alone(
        format!("{what}, until {limit} are spent"),
        format!(
            "first call refused after {}, last after {total}; {}",
            price_of(spent.calls_before_refusal.unwrap_or(spent.calls)),
            spent.text(grants(&fleet)),
        ),
        "",
    );
    fleet.stop().await;
}

/// The calls of a load.
struct Spent {
    elapsed: Duration,
    calls: i64,
    /// The calls before the first refused one. `None`: none was refused.
    calls_before_refusal: Option<i64>,
    waits: Histogram<u64>,
}

impl Spent {
    #[expect(clippy::cast_precision_loss, reason = "counts of calls fit a double")]
    fn text(&self, grants: u64) -> String {
        let seconds = self.elapsed.as_secs_f64();
        let (calls, grants) = (self.calls as f64 / seconds, grants as f64 / seconds);
        let waits = load::quantiles(&self.waits);
        let longest = load::quantile_ms(&self.waits, 1.0);
        format!(
            "{calls:.0} reservations/s, waits {waits}, at most {longest:.0} ms; {grants:.0} grants/s"
        )
    }
}

/// Shared by the loops of a load.
#[derive(Default)]
struct Tally {
    calls: AtomicI64,
    calls_before_refusal: OnceLock<i64>,
}

/// The grants so far.
fn grants(fleet: &Fleet) -> u64 {
    fleet.gateways().iter().map(|gateway| gateway.grants()).sum()
}

/// Each gateway makes one call after the other, until the time is over or a call is refused.
async fn spend(fleet: &Fleet, duration: Duration) -> Spent {
    let tally = Arc::new(Tally::default());
    let begin = Instant::now();
    let mut loops = JoinSet::new();
    for gateway in fleet.gateways().iter().cloned() {
        loops.spawn(call(gateway, begin + duration, tally.clone()));
    }
    let mut waits = load::histogram();
    while let Some(one) = loops.join_next().await {
        waits.add(one.expect("a loop ends")).expect("equal bounds");
    }
    Spent {
        elapsed: begin.elapsed(),
        calls: tally.calls.load(Ordering::Relaxed),
        calls_before_refusal: tally.calls_before_refusal.get().copied(),
        waits,
    }
}

/// Returns the waits of reservations.
async fn call(gateway: Arc<SpendingGateway>, end: Instant, tally: Arc<Tally>) -> Histogram<u64> {
    let mut waits = load::histogram();
    while Instant::now() < end {
        let asked = Instant::now();
        let reserved = gateway.reserve(PRICE).await;
        load::record(&mut waits, asked.elapsed());
        let Some(reserved) = reserved else {
            tally.calls_before_refusal.get_or_init(|| tally.calls.load(Ordering::Relaxed));
            break;
        };
        tally.calls.fetch_add(1, Ordering::Relaxed);
        sleep(CALL).await;
        reserved.settle();
    }
    waits
}
