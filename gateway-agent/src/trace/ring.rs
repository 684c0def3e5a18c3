//! Recent traces, limited in number, spans and bytes. The oldest are evicted.
//!
//! They are lost when the process ends.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use gateway_protocol::trace_context::TraceId;

use super::Record;
use crate::trace::settings::RecentTraces;

/// Approximate overhead of a trace, in bytes.
const TRACE_BYTES: usize = 128;

/// The recent traces, ordered by their first span.
#[derive(Debug)]
pub(super) struct Ring {
    bounds: RecentTraces,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    order: VecDeque<TraceId>,
    traces: HashMap<TraceId, Trace>,
    bytes: usize,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    /// In the order of their ends.
    pub(crate) spans: Vec<Arc<Record>>,
    /// The number of spans beyond the limit.
    pub(crate) dropped: u64,
    bytes: usize,
}

impl Ring {
    pub(super) fn new(bounds: RecentTraces) -> Self {
        Self { bounds, kept: Mutex::default() }
    }

    pub(super) fn push(&self, record: Arc<Record>) {
        let kept = &mut *self.lock();
        let id = record.context.trace;
        let trace = kept.traces.entry(id).or_insert_with(|| {
            kept.order.push_back(id);
            kept.bytes += TRACE_BYTES;
            Trace { bytes: TRACE_BYTES, ..Trace::default() }
        });
        if trace.spans.len() < self.bounds.spans {
            let bytes = record.bytes();
            trace.bytes += bytes;
            kept.bytes += bytes;
            trace.spans.push(record);
        } else {
            trace.dropped += 1;
        }
        while kept.order.len() > self.bounds.traces || kept.bytes > self.bounds.bytes {
            let Some(oldest) = kept.order.pop_front() else { return };
            kept.bytes -= kept.traces.remove(&oldest).map_or(0, |trace| trace.bytes);
        }
    }

    pub(super) fn find(&self, id: TraceId) -> Option<Trace> {
        self.lock().traces.get(&id).cloned()
    }

    /// Newest first.
    pub(super) fn newest(&self, most: usize) -> Vec<(TraceId, Trace)> {
        let kept = self.lock();
        let found = |id: &TraceId| Some((*id, kept.traces.get(id)?.clone()));
        kept.order.iter().rev().take(most).filter_map(found).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn bytes(&self) -> usize {
        let texts = [Some(&self.name), self.agent.as_ref(), self.server.as_ref()];
        size_of::<Self>() + texts.into_iter().flatten().map(|text| text.len()).sum::<usize>()
    }
}
