//! The calls of all gateways: finished calls are reported to the registry, which stores them for some
//! time.
//!
//! Reports wait in bounded memory while the registry is unavailable. Calls that do not fit, and those
//! of a gateway that is killed, are missing in graphs.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_rpc::graph::{Call, Graph, summary};
use approval::Principal;
use ledger::LedgerError;
use metrics::counter;
use registry_follow::{TraceClient, TracePage, TracedCall};
use serde_json::value::RawValue;
use tokio::time::timeout;
use uuid::Uuid;

use super::{StoredCall, TraceKey};
use crate::reports::{ANSWER_LIMIT, WaitingReports, no_answer};

/// Maximum calls of a report.
const REPORTED_CALLS: usize = 500;
/// Maximum size of a report, in bytes.
const REPORT_BYTES: usize = 1024 * 1024;
/// Maximum size of the waiting calls, in bytes.
const WAITING_BYTES: usize = 8 * 1024 * 1024;
/// Maximum size of a reported value, in bytes. The registry has the digest of a longer one.
const VALUE_BYTES: usize = 4 * 1024;
/// Approximate memory of a waiting call without its texts, in bytes.
const CALL_BYTES: usize = 256;

/// The finished calls for the registry.
#[derive(Debug)]
pub(super) struct Fleet {
    client: TraceClient,
    /// The id of this process. With the number of a call it identifies the call.
    process: String,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: VecDeque<TracedCall>,
    bytes: usize,
}

impl Fleet {
    pub(super) fn new(client: TraceClient) -> Self {
        let process = Uuid::new_v4().simple().to_string();
        Self { client, process, waiting: Mutex::default() }
    }

    /// Adds a finished call to the next report.
    pub(super) fn add(&self, key: &TraceKey, StoredCall { number, mut call }: StoredCall) {
        call.input = reported(call.input);
        call.output = call.output.map(reported);
        let Some(started) = call.started else { return };
        // A call always serializes.
        let Ok(text) = serde_json::to_string(&call) else { return };
        let call = TracedCall {
            number,
            account: Arc::clone(&key.owner),
            trace_id: Arc::clone(&key.id),
            started,
            call: text,
        };
        if !self.waiting().add(call) {
            counter!(Self::LOST).increment(1);
        }
    }

    /// The graph of own calls and those that the registry has. `None`: there are none.
    pub(super) async fn merge(
        &self,
        own: Option<(Vec<StoredCall>, u64)>,
        owner: &Principal,
        id: &str,
    ) -> Option<Graph> {
        let listed = timeout(ANSWER_LIMIT, self.client.list(owner, id)).await;
        let listed = listed.unwrap_or_else(|_| Err(LedgerError::Unavailable(no_answer())));
        let (stored, incomplete) = match listed {
            Ok(TracePage { calls, has_more }) => (calls, has_more),
            Err(LedgerError::Unavailable(reason) | LedgerError::Rejected(reason)) => {
                tracing::warn!("the registry does not answer with the calls of a trace: {reason}");
                (Vec::new(), true)
            }
        };
        if own.is_none() && stored.is_empty() {
            return None;
        }
        let (own, omitted_calls) = own.unwrap_or_default();
        let known: HashSet<_> = own.iter().map(|call| call.number).collect();
        let is_other = |process: &str, number| process != self.process || !known.contains(&number);
        let others = stored.into_iter().filter(|call| is_other(&call.process, call.number));
        let others = others.filter_map(|call| serde_json::from_str::<Call>(&call.call).ok());
        let mut calls: Vec<_> = own.into_iter().map(|stored| stored.call).collect();
        calls.extend(others);
        calls.sort_by_key(|call| call.started);
        Some(Graph { trace_id: id.to_owned(), calls, omitted_calls, incomplete })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingReports for Fleet {
    type Report = Vec<TracedCall>;

    const INTERVAL: Duration = Duration::from_secs(1);
    const SUBJECT: &'static str = "trace";
    const LOST: &'static str = "gateway_trace_calls_lost_total";

    fn next(&self) -> Option<Vec<TracedCall>> {
        Some(self.waiting().next_report()).filter(|calls| !calls.is_empty())
    }

    async fn send(&self, calls: &Vec<TracedCall>) -> Result<(), LedgerError> {
        self.client.report(&self.process, calls).await
    }

    fn confirm(&self, calls: &Vec<TracedCall>) {
        self.waiting().remove(calls.len());
    }

    fn calls(calls: &Vec<TracedCall>) -> u64 {
        calls.len() as u64
    }

    fn waiting_calls(&self) -> u64 {
        self.waiting().calls.len() as u64
    }
}

impl Waiting {
    /// Adds a call. Returns whether it fits.
    fn add(&mut self, call: TracedCall) -> bool {
        let bytes = bytes_of(&call);
        let has_room = self.bytes + bytes <= WAITING_BYTES;
        if has_room {
            self.bytes += bytes;
            self.calls.push_back(call);
        }
        has_room
    }

    /// The oldest calls.
    fn next_report(&self) -> Vec<TracedCall> {
        let mut bytes = 0;
        let fits = |call: &&TracedCall| {
            bytes += bytes_of(call);
            bytes <= REPORT_BYTES
        };
        self.calls.iter().take(REPORTED_CALLS).take_while(fits).cloned().collect()
    }

    /// Removes reported calls.
    fn remove(&mut self, count: usize) {
        let removed: usize = self.calls.drain(..count).map(|call| bytes_of(&call)).sum();
        self.bytes -= removed;
    }
}

fn bytes_of(TracedCall { account, trace_id, call, .. }: &TracedCall) -> usize {
    let texts = account.issuer.len() + account.subject.len() + trace_id.len() + call.len();
    CALL_BYTES + texts
}

/// A value, or the digest of a long one.
fn reported(value: Box<RawValue>) -> Box<RawValue> {
    if value.get().len() > VALUE_BYTES { summary(value.get()) } else { value }
}

#[cfg(test)]
mod tests {
    use registry_core::Timestamp;

    use super::*;

    fn call(number: u64, bytes: usize) -> TracedCall {
        let (issuer, subject) = ("gateway-agent".to_owned(), "a".to_owned());
        TracedCall {
            number,
            account: Arc::new(Principal { issuer, subject, person: None }),
            trace_id: "t".into(),
            started: Timestamp::EPOCH,
            call: "x".repeat(bytes),
        }
    }

    #[test]
    fn waiting_calls_and_reports_are_bounded() {
        let mut waiting = Waiting::default();
        let added = (0..10_000).take_while(|number| waiting.add(call(*number, 8 * 1024))).count();
        assert!(added * 8 * 1024 <= WAITING_BYTES);
        let mut sent = Vec::new();
        loop {
            let report = waiting.next_report();
            if report.is_empty() {
                break;
            }
            assert!(report.len() <= REPORTED_CALLS);
            assert!(report.iter().map(bytes_of).sum::<usize>() <= REPORT_BYTES);
            sent.extend(report.iter().map(|call| call.number));
            waiting.remove(report.len());
        }
        assert!(sent.iter().copied().eq(0..added as u64));
        assert_eq!(waiting.bytes, 0);
    }

    #[test]
    fn long_values_are_reported_as_digest() {
        let raw = |text: String| RawValue::from_string(text).unwrap();
        let long = reported(raw(format!("\"{}\"", "x".repeat(VALUE_BYTES))));
        assert!(long.get().len() < 200, "{long}");
        assert_eq!(reported(raw("{}".to_owned())).get(), "{}");
    }
}
