//! The ledger of a gateway without a registry: in memory, and in a file beside the cache.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use atomic_file::{Access, with_suffix};
use ledger::{
    Answer, Ledger, LedgerError, LedgerFuture, MemoryLedger, Recall, Report, budget::OfflineLimits,
};
use registry_core::{Catalog, Timestamp};
use tokio::{
    sync::{Mutex, watch},
    task::spawn_blocking,
};

use super::{clock::SpendingClock, rules::BudgetRules};

/// The time after which a process without an answer stops reserving.
const OFFLINE_FOR: Duration = Duration::from_hours(1);
/// The time after which an ended process certainly spends nothing more.
const LONGEST_CALL: Duration = Duration::from_hours(1);
/// Maximum age of totals in the file. Grants and the ends of processes are written at once.
const WRITE_INTERVAL: Duration = Duration::from_mins(1);

/// A ledger for this gateway alone.
#[derive(Debug)]
pub struct LocalLedger {
    path: PathBuf,
    catalog: watch::Receiver<Arc<Catalog>>,
    clock: SpendingClock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ledger: MemoryLedger,
    rules: BudgetRules,
    /// Whether a grant or the end of a process is not in the file.
    is_unsaved: bool,
    saved_at: Timestamp,
}

impl LocalLedger {
    /// Opens the ledger beside a cache. A file that cannot be read is an error: without it, the
    /// spending before is unknown.
    pub fn open(
        cache: &Path,
        catalog: watch::Receiver<Arc<Catalog>>,
        clock: SpendingClock,
    ) -> io::Result<Self> {
        let path = with_suffix(cache, ".ledger");
        let now = clock.wall();
        let ledger = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| damaged(&path, &e))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let limits = OfflineLimits { offline_for: OFFLINE_FOR, longest_call: LONGEST_CALL };
                MemoryLedger::new(limits, now)
            }
            Err(e) => return Err(e),
        };
        let rules = BudgetRules::new(&catalog.borrow(), None);
        let state = State { ledger, rules, is_unsaved: false, saved_at: now };
        Ok(Self { path, catalog, clock, state: Mutex::new(state) })
    }

    async fn answer(&self, gateway: &str, report: &Report) -> Result<Answer, LedgerError> {
        let mut state = self.state.lock().await;
        let now = self.clock.wall();
        let catalog = self.catalog.borrow().clone();
        if !state.rules.is_of(&catalog) {
            state.rules = BudgetRules::new(&catalog, Some(&state.rules));
        }
        let State { ledger, rules, .. } = &mut *state;
        let reply = ledger.report(gateway, report, |key| rules.find(key), now)?;
        state.is_unsaved |= must_be_saved(report, &reply.answer);
        if state.is_unsaved || now.since(state.saved_at) >= WRITE_INTERVAL {
            state.ledger.expire(now);
            let bytes = serde_json::to_vec(&state.ledger);
            let bytes = bytes.map_err(|e| LedgerError::Unavailable(e.to_string()))?;
            self.save(bytes).await?;
            (state.is_unsaved, state.saved_at) = (false, now);
        }
        Ok(reply.answer)
    }

    async fn save(&self, bytes: Vec<u8>) -> Result<(), LedgerError> {
        let path = self.path.clone();
        let write = move || atomic_file::replace(&path, &bytes, Access::OwnerOnly);
        let written = spawn_blocking(write).await.map_err(io::Error::other).flatten();
        written.map_err(|e| {
            LedgerError::Unavailable(format!("cannot write {}: {e}", self.path.display()))
        })
    }
}

fn damaged(path: &Path, error: &serde_json::Error) -> io::Error {
    let path = path.display();
    let reason = format!("{path} is damaged: {error}; delete it to start again at the crash marks");
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Whether a crash before the next write would lose rights, or the end of a process.
fn must_be_saved(report: &Report, answer: &Answer) -> bool {
    let mut accounts = report.accounts.iter().zip(&answer.accounts);
    let is_news = accounts.any(|(reported, answered)| {
        let granted = answered.result.as_ref().map(|state| state.grant.granted);
        reported.is_final || granted.is_ok_and(|granted| granted > reported.totals.granted)
    });
    is_news || !report.ended.is_empty()
}

impl Ledger for LocalLedger {
    fn report<'a>(&'a self, gateway: &'a str, report: &'a Report) -> LedgerFuture<'a, Answer> {
        Box::pin(self.answer(gateway, report))
    }

    /// There is no other gateway whose calls could need the rights.
    fn recall<'a>(&'a self, _gateway: &'a str) -> LedgerFuture<'a, Recall> {
        Box::pin(std::future::pending())
    }
}
