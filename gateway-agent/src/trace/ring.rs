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

use super::SpanRecord;
use crate::trace::settings::RecentTraces;

/// Approximate overhead of a trace, in bytes.
const TRACE_BYTES: usize = 128;

/// The recent traces, ordered by their first span.
#[derive(Debug)]
pub(super) struct Ring {
    bounds: RecentTraces,
    stored: Mutex<StoredTraces>,
}

#[derive(Debug, Default)]
struct StoredTraces {
    order: VecDeque<TraceId>,
    traces: HashMap<TraceId, Trace>,
    bytes: usize,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    /// In the order of their ends.
    pub(crate) spans: Vec<Arc<SpanRecord>>,
    /// The number of spans beyond the limit.
    pub(crate) dropped: u64,
    bytes: usize,
}

impl Ring {
    pub(super) fn new(bounds: RecentTraces) -> Self {
        Self { bounds, stored: Mutex::default() }
    }

    pub(super) fn push(&self, record: Arc<SpanRecord>) {
        let stored = &mut *self.lock();
        let id = record.context.trace;
        let trace = stored.traces.entry(id).or_insert_with(|| {
            stored.order.push_back(id);
            stored.bytes += TRACE_BYTES;
            Trace { bytes: TRACE_BYTES, ..Trace::default() }
        });
        if trace.spans.len() < self.bounds.spans {
            let bytes = record.bytes();
            trace.bytes += bytes;
            stored.bytes += bytes;
            trace.spans.push(record);
        } else {
            trace.dropped += 1;
        }
        while stored.order.len() > self.bounds.traces || stored.bytes > self.bounds.bytes {
            let Some(oldest) = stored.order.pop_front() else { return };
            stored.bytes -= stored.traces.remove(&oldest).map_or(0, |trace| trace.bytes);
        }
    }

    pub(super) fn find(&self, id: TraceId) -> Option<Trace> {
        self.lock().traces.get(&id).cloned()
    }

    /// Newest first.
    pub(super) fn newest(&self, most: usize) -> Vec<(TraceId, Trace)> {
        let stored = self.lock();
        let found = |id: &TraceId| Some((*id, stored.traces.get(id)?.clone()));
        stored.order.iter().rev().take(most).filter_map(found).collect()
    }

    fn lock(&self) -> MutexGuard<'_, StoredTraces> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpanRecord {
    fn bytes(&self) -> usize {
        let Self { name, agent, server, client_trace, task_id, .. } = self;
        let texts = [agent, server, client_trace, task_id].into_iter().flatten();
        size_of::<Self>() + name.len() + texts.map(|text| text.len()).sum::<usize>()
    }
}
