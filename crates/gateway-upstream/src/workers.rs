//! Worker threads, one per core, each with its own runtime. All parts of a call (the connections to
//! the caller and to the upstream) stay on one thread, because wake-ups across threads cost more
//! than the rest of a call.

use std::{
    cell::Cell,
    io,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Maximum number of workers.
const MAX_WORKERS: usize = 64;

/// The number of indexes: one for each worker, and one for all other threads.
fn slot_count() -> usize {
    worker_count() + 1
}

/// The index of the current thread; 0 outside of the workers.
fn current_slot() -> usize {
    CURRENT.get()
}

fn worker_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS)
}

/// A value for each worker and one for all other threads. Workers that used one value would wait for
/// each other's changes of its reference count.
#[derive(Debug)]
pub(crate) struct PerWorker<T>(Box<[OnceLock<T>]>);

impl<T> Default for PerWorker<T> {
    fn default() -> Self {
        Self((0..slot_count()).map(|_| OnceLock::new()).collect())
    }
}

impl<T> PerWorker<T> {
    /// The value of the current thread, which is created at its first use.
    pub(crate) fn get_or_init(&self, create: impl FnOnce() -> T) -> &T {
        self.0[current_slot()].get_or_init(create)
    }
}

/// The workers. Dropping them stops the threads.
#[derive(Debug)]
pub struct WorkerRuntimes {
    handles: Vec<Handle>,
    next: AtomicUsize,
    _end: DropGuard,
}

impl WorkerRuntimes {
    /// Starts a thread for each core.
    pub fn start() -> io::Result<Self> {
        let end = CancellationToken::new();
        let handles =
            (1..slot_count()).map(|slot| worker(slot, end.clone())).collect::<Result<_, _>>();
        Ok(Self { handles: handles?, next: AtomicUsize::new(0), _end: end.drop_guard() })
    }

    /// Runs a future on the next worker.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len();
        self.handles[next].spawn(work);
    }
}

fn worker(slot: usize, end: CancellationToken) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name(format!("worker-{slot}")).spawn(move || {
        CURRENT.set(slot);
        runtime.block_on(end.cancelled());
    })?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    #[test]
    fn each_worker_has_its_own_value() {
        let workers = WorkerRuntimes::start().unwrap();
        let ((tell, told), values) = (mpsc::channel(), Arc::new(PerWorker::default()));
        let count = 2 * (slot_count() - 1);
        for _ in 0..count {
            let (tell, values) = (tell.clone(), Arc::clone(&values));
            workers.spawn(async move {
                let value = *values.get_or_init(current_slot);
                tell.send(value == current_slot()).unwrap();
            });
        }
        drop(tell);
        assert_eq!(told.iter().filter(|is_own| *is_own).count(), count);
    }

    #[test]
    fn work_is_distributed_in_turn() {
        let workers = WorkerRuntimes::start().unwrap();
        let (tell, told) = mpsc::channel();
        let count = slot_count() - 1;
        for _ in 0..2 * count {
            let tell = tell.clone();
            workers.spawn(async move { tell.send(current_slot()).unwrap() });
        }
        let mut slots: Vec<_> = (0..2 * count).map(|_| told.recv().unwrap()).collect();
        slots.sort_unstable();
        let wanted: Vec<_> = (1..=count).flat_map(|slot| [slot, slot]).collect();
        assert_eq!((slots, current_slot()), (wanted, 0));
    }
}
