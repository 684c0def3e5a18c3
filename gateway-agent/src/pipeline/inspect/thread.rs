//! Where texts are inspected: short ones on the thread of the connection, others on a worker and with
//! reserved memory.

use std::sync::Arc;

use gateway_policy::{BufferReservation, QuotaExceeded, QuotaKey};
use gateway_upstream::RequestContext;

use crate::{inspection::Inspection, pipeline::Gateway, workers::Workers};

/// Maximum size of a text that is inspected on the thread of the connection, in bytes: about 1 ms.
const MAX_INLINE_BYTES: usize = 64 * 1024;

/// The threads and the memory for the inspections of one caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InspectionThread<'a> {
    workers: &'a Workers,
    buffered: Option<&'a Arc<BufferReservation>>,
}

impl<'a> InspectionThread<'a> {
    pub(crate) fn of(gateway: &'a Gateway, context: &'a RequestContext) -> Self {
        Self::with(gateway, context.buffered.as_ref())
    }

    /// `buffered`: the memory of the request.
    pub(crate) fn with(gateway: &'a Gateway, buffered: Option<&'a Arc<BufferReservation>>) -> Self {
        Self { workers: gateway.workers(), buffered }
    }

    /// Inspects a text. A worker receives a copy of it.
    pub(crate) async fn inspect<T: Send + 'static>(
        self,
        inspection: &Arc<Inspection>,
        text: &str,
        inspect: impl FnOnce(&Inspection, &str) -> T + Send + 'static,
    ) -> Result<T, QuotaExceeded> {
        if text.len() <= MAX_INLINE_BYTES {
            return Ok(inspect(inspection, text));
        }
        let (inspection, text) = (Arc::clone(inspection), text.to_owned());
        self.run(text.len(), move || inspect(&inspection, &text)).await
    }

    /// Inspects texts of this size. The memory for a copy and a changed text is reserved while a worker
    /// runs.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        bytes: usize,
        inspect: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, QuotaExceeded> {
        if bytes <= MAX_INLINE_BYTES {
            return Ok(inspect());
        }
        let payer: &QuotaKey = self.buffered.map_or(&None, |buffered| buffered.quota_key());
        let reserved = self.buffered.map(|buffered| buffered.part());
        let inspect = move || -> Result<T, QuotaExceeded> {
            reserved.as_ref().map_or(Ok(()), |part| part.reserve(bytes.saturating_mul(2)))?;
            Ok(inspect())
        };
        // Boxed, because few texts are long, and the futures of all calls contain this one.
        Box::pin(self.workers.run(payer, inspect)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt as _;
    use gateway_policy::BufferPool;

    use super::*;

    #[tokio::test]
    async fn long_texts_are_inspected_on_workers_with_memory() {
        let (workers, buffers) = (Workers::with(1), Arc::new(BufferPool::default()));
        let buffered = Arc::new(buffers.open(Some("a".into()), 16 * MAX_INLINE_BYTES));
        let thread = InspectionThread { workers: &workers, buffered: Some(&buffered) };
        let (start, started) = mpsc::channel::<()>();
        let mut busy = Box::pin(workers.run(&None, move || started.recv().unwrap()));
        assert!(busy.as_mut().now_or_never().is_none());
        let short = Box::pin(thread.run(MAX_INLINE_BYTES, || 1));
        assert!(matches!(short.now_or_never(), Some(Ok(1))));
        let pool = Arc::clone(&buffers);
        let mut long = Box::pin(thread.run(MAX_INLINE_BYTES + 1, move || pool.total()));
        assert!(long.as_mut().now_or_never().is_none());
        assert_eq!(buffers.total(), 0, "a waiting inspection reserves nothing");
        start.send(()).unwrap();
        busy.await;
        assert_eq!(long.await.unwrap(), 2 * (MAX_INLINE_BYTES + 1));
        assert!(thread.run(3 * MAX_INLINE_BYTES, || ()).await.is_err());
        assert_eq!(buffers.total(), 0);
    }
}
