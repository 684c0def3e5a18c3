//! The task that talks to the ledger and writes the crash marks.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ledger::{
    AccountAnswer, Answer, Ledger, LedgerError, Refusal, Report,
    spender::{BootTime, Demands},
};
use registry_core::Amount;
use tokio::{
    task::spawn_blocking,
    time::{Interval, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Spending, lock, mark_file::MarkFile, metric::BudgetSeries};

/// Interval of updates without waiting calls.
const TICK: Duration = Duration::from_secs(1);
/// A process with accounts reports at least this often, so that the ledger considers it reachable.
const HEARTBEAT: Duration = Duration::from_secs(4);
/// A process without accounts reports this often, so that it learns of a new generation of the
/// ledger before the others wait for it.
const IDLE_CONTACT: Duration = Duration::from_secs(30);
/// Maximum number of reports about earlier processes that precede a report of this process.
const ENDED_REPORTS: usize = 8;
/// Delay before reports about earlier processes are repeated that the ledger rejected.
const END_RETRY: Duration = Duration::from_secs(4);
/// Maximum time that the ledger takes to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Delay before a request of waiting calls is repeated, while other gateways return rights.
const REPEAT: Duration = Duration::from_millis(20);
/// Delay before a failed wait for recalls is repeated.
const RECALL_RETRY: Duration = Duration::from_secs(1);

/// Reports spending to the ledger, and writes the crash marks.
#[derive(Debug)]
pub struct Reporter {
    spending: Arc<Spending>,
    file: MarkFile,
    gateway: String,
}

/// The state of the reports.
#[derive(Debug, Default)]
struct Reports {
    /// The last report. `None`: there was nothing to report yet.
    last_at: Option<BootTime>,
    /// The last time when the ledger rejected the end of an earlier process.
    end_rejected_at: Option<BootTime>,
    /// Whether the last answer rejected spending.
    has_rejection: bool,
    series: BudgetSeries,
}

impl Reports {
    /// Whether reports about earlier processes can be sent.
    fn can_end(&self, now: BootTime) -> bool {
        self.end_rejected_at.is_none_or(|at| now.since(at) >= END_RETRY)
    }

    /// Logs the first rejection of an end. The ledger answers, and may accept the end later: a process
    /// of another owner must have stopped.
    fn note_rejected_end(&mut self, report: &Report, reason: &LedgerError, now: BootTime) {
        if self.end_rejected_at.replace(now).is_none() {
            let process = report.process;
            tracing::warn!(%process, "the ledger does not end an earlier process, retrying: {reason}");
        }
    }

    /// Logs the first of consecutive answers that reject spending.
    fn note_rejections(&mut self, report: &Report, answer: &Answer) {
        let accounts = report.accounts.iter().zip(&answer.accounts);
        let rejected = accounts.filter(|(reported, _)| reported.totals.settled > Amount::ZERO);
        let mut rejected =
            rejected.filter_map(|(_, answered)| Some((answered, answered.result.as_ref().err()?)));
        let first = rejected.next();
        let had_rejection = std::mem::replace(&mut self.has_rejection, first.is_some());
        if let Some((AccountAnswer { budget, epoch, .. }, reason)) =
            first.filter(|_| !had_rejection)
        {
            tracing::warn!(
                %budget, %epoch,
                "the ledger rejected the spending of this gateway, `registryctl budget show` does not \
                 contain it: {reason}"
            );
        }
    }
}

impl Reporter {
    pub(super) fn new(spending: Arc<Spending>, file: MarkFile, gateway: &str) -> Self {
        Self { spending, file, gateway: gateway.to_owned() }
    }

    /// Reports until `stop`, which must follow the end of all calls. Then closes the accounts.
    pub async fn run(self, ledger: Arc<dyn Ledger>, stop: CancellationToken) {
        // Without budgets there is nothing to write or to report.
        tokio::select! {
            () = self.spending.wake.notified() => self.spending.wake.notify_one(),
            () = stop.cancelled() => return,
        }
        let mut reports = Reports::default();
        let working = async {
            // A slow ledger does not delay the crash marks of allowances.
            tokio::join!(self.write(&stop), self.report(&*ledger, &mut reports, &stop));
        };
        tokio::select! {
            () = self.follow_recalls(&*ledger) => {}
            () = working => {}
        }
        // Results that arrive later have no effect.
        self.spending.tasks.clear();
        self.spending.spender.stop();
        // The exact spending replaces the crash marks, so that the next process charges no more. The
        // final report returns the other rights.
        self.write_marks(&mut false).await;
        self.exchange(&*ledger, &mut reports).await;
        let Spending { spender, clock, .. } = &*self.spending;
        if spender.needs_mark(&Demands::new(), clock.boot()) {
            // The answer had another owner.
            self.write_marks(&mut false).await;
        }
    }

    async fn follow_recalls(&self, ledger: &dyn Ledger) {
        loop {
            match ledger.recall(&self.gateway).await {
                Ok(recall) => {
                    let Spending { spender, clock, wake_writer, .. } = &*self.spending;
                    spender.recall(&recall, &self.spending.demands(), clock.boot());
                    // Rights return after their crash marks.
                    wake_writer.notify_one();
                    self.spending.wake.notify_one();
                }
                Err(e) => {
                    tracing::debug!("no recalls from the ledger: {e}");
                    sleep(RECALL_RETRY).await;
                }
            }
        }
    }

    async fn report(&self, ledger: &dyn Ledger, reports: &mut Reports, stop: &CancellationToken) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.next_report(&mut ticks, reports, stop).await {
            self.exchange(ledger, reports).await;
            self.spending.wake_writer.notify_one();
        }
    }

    /// Waits for the next report. Returns whether to continue.
    async fn next_report(
        &self,
        ticks: &mut Interval,
        reports: &mut Reports,
        stop: &CancellationToken,
    ) -> bool {
        let spending = &self.spending;
        // A ledger that does not answer gets one report per interval.
        let is_available = spending.is_available();
        let repeats = is_available && !lock(&spending.waiting).is_empty();
        tokio::select! {
            () = stop.cancelled() => return false,
            () = spending.wake.notified(), if is_available => {}
            () = sleep(REPEAT), if repeats => {}
            _ = ticks.tick() => {
                spending.tasks.expire(spending.clock.boot());
                spending.spender.tick(&spending.demands(), spending.clock.boot());
                reports.series.update(spending);
            }
        }
        true
    }

    /// Writes the crash marks when calls need higher ones, or returned rights need lower ones.
    async fn write(&self, stop: &CancellationToken) {
        let spending = &self.spending;
        let mut has_failed = false;
        loop {
            if spending.spender.needs_mark(&spending.demands(), spending.clock.boot()) {
                self.write_marks(&mut has_failed).await;
            }
            let retry =
                async { if has_failed { sleep(TICK).await } else { std::future::pending().await } };
            tokio::select! {
                () = stop.cancelled() => return,
                () = spending.wake_writer.notified() => {}
                () = retry => {}
            }
        }
    }

    /// Writes the crash marks. `has_failed`: whether the last write failed.
    async fn write_marks(&self, has_failed: &mut bool) {
        let Spending { spender, clock, .. } = &*self.spending;
        let marks = spender.marks(&self.spending.demands(), clock.boot(), clock.wall());
        let file = self.file.clone();
        let write = move || file.write(&marks).map(|()| marks);
        match spawn_blocking(write).await.map_err(io::Error::other).flatten() {
            Ok(marks) => {
                *has_failed = false;
                spender.marks_written(&marks);
                self.spending.notify_progress();
                // The first file lets the process open accounts.
                self.spending.wake.notify_one();
            }
            Err(e) if !std::mem::replace(has_failed, true) => {
                tracing::error!(
                    path = %self.file.path().display(),
                    "cannot write the crash marks of budgets, calls with a price are rejected: {e}. \
                     Make the directory writable; the gateway retries every second"
                );
            }
            Err(_) => {}
        }
    }

    /// Sends reports if there is news, and applies the answers.
    async fn exchange(&self, ledger: &dyn Ledger, reports: &mut Reports) {
        let Spending { spender, clock, .. } = &*self.spending;
        let mut ended = Vec::new();
        if reports.can_end(clock.boot()) {
            ended = spender.ended_reports();
            ended.truncate(ENDED_REPORTS);
        }
        let mut failure = None;
        for report in &ended {
            // The first report starts the interval of contacts.
            reports.last_at.get_or_insert_with(|| clock.boot());
            let number = lock(&self.spending.waiting).start_report();
            match self.send(ledger, reports, report, number).await {
                Ok(()) => {}
                Err(e @ LedgerError::Rejected(_)) => {
                    reports.note_rejected_end(report, &e, clock.boot());
                }
                Err(e) => {
                    failure = Some(e);
                    break;
                }
            }
        }
        let sent_at = clock.boot();
        let (number, demands) = {
            let mut waiting = lock(&self.spending.waiting);
            (waiting.start_report(), waiting.demands())
        };
        let report = spender.report(&demands, sent_at);
        let has_news = !report.accounts.is_empty() || !report.ended.is_empty();
        if has_news || self.is_due(reports, sent_at) {
            reports.last_at = Some(sent_at);
            failure = self.send(ledger, reports, &report, number).await.err();
        } else if ended.is_empty() {
            return;
        }
        self.set_available(failure);
        self.spending.notify_progress();
    }

    /// Sends a report, and applies the answer.
    async fn send(
        &self,
        ledger: &dyn Ledger,
        reports: &mut Reports,
        report: &Report,
        number: u64,
    ) -> Result<(), LedgerError> {
        let Spending { spender, clock, .. } = &*self.spending;
        let sent_at = clock.boot();
        let reported = spender.reported_generation();
        let answer = timeout(ANSWER_LIMIT, ledger.report(&self.gateway, report)).await;
        let late = || format!("no answer within {} s", ANSWER_LIMIT.as_secs());
        let answer = answer.map_err(|_| LedgerError::Unavailable(late()))??;
        let now = clock.boot();
        if spender.answer(report, &answer, sent_at, now) {
            reports.note_rejections(report, &answer);
            let was_awaited = reported < Some(answer.generation);
            self.note_refusals(report, &answer, number, was_awaited);
        }
        *lock(&self.spending.answered_at) = Some(now);
        Ok(())
    }

    /// Whether a report without news is due.
    fn is_due(&self, reports: &Reports, now: BootTime) -> bool {
        let Some(last_at) = reports.last_at else { return false };
        let spender = &self.spending.spender;
        // Calls depend on the return of a ledger that does not answer.
        let is_idle = spender.accounts().is_empty() && self.spending.is_available();
        let interval = if is_idle { IDLE_CONTACT } else { HEARTBEAT };
        spender.is_awaited() || now.since(last_at) >= interval
    }

    /// `was_awaited`: whether the ledger lacked a complete report of this process when it answered.
    fn note_refusals(&self, report: &Report, answer: &Answer, number: u64, was_awaited: bool) {
        let mut waiting = lock(&self.spending.waiting);
        for (reported, answered) in report.accounts.iter().zip(&answer.accounts) {
            if reported.want.is_none_or(|want| want.minimum.is_none()) {
                continue;
            }
            let Ok(state) = &answered.result else {
                // The ledger has no account.
                waiting.refuse(&reported.budget, number);
                continue;
            };
            let Some(refusal) = state.grant.refusal else { continue };
            waiting.decline(&reported.budget, number);
            if refusal == Refusal::Recovering {
                waiting.recover(&reported.budget, number);
            }
            if is_lasting(refusal, was_awaited) {
                waiting.refuse(&reported.budget, number);
            }
        }
    }

    /// Records whether the ledger answered. `failure`: the reason if it did not.
    fn set_available(&self, failure: Option<LedgerError>) {
        let is_available = failure.is_none();
        if self.spending.is_available.swap(is_available, Ordering::AcqRel) == is_available {
            return;
        }
        self.spending.spender.set_available(is_available);
        match failure {
            None => tracing::info!("the ledger of budgets answers again"),
            Some(reason) => tracing::warn!(
                "the ledger of budgets does not answer, calls can spend only granted rights and \
                 the allowances of `onUnavailable`: {reason}"
            ),
        }
    }
}

/// Whether a repetition of the request would be refused, too.
fn is_lasting(refusal: Refusal, was_awaited: bool) -> bool {
    match refusal {
        Refusal::Exhausted => true,
        // The recovery may wait for this process only. The ledger grants first, and then stores that a
        // report was complete.
        Refusal::Recovering => !was_awaited,
        // A new account replaces one that is closed or whose window is over.
        Refusal::Recalling | Refusal::OutsideWindow | Refusal::Closed => false,
    }
}
