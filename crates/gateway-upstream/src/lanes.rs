//! Threads that serve callers, one for each core, each with a runtime of its own: what belongs to
//! one call, its caller's connection and the upstream's, stays on one thread. Between threads a
//! call would be woken up and moved several times, which costs more than the rest of it.

use std::{
    cell::Cell,
    io,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Most lanes, whatever the machine has.
const MOST: usize = 64;

/// How many places there are: one for each lane, and one for everything else.
pub(crate) fn places() -> usize {
    lanes() + 1
}

/// The place of the running thread; 0 outside of the lanes.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

fn lanes() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MOST)
}

/// The lanes; they end when this is dropped.
#[derive(Debug)]
pub struct Lanes {
    handles: Vec<Handle>,
    next: AtomicUsize,
    _end: DropGuard,
}

impl Lanes {
    /// Starts a thread for each core.
    pub fn start() -> io::Result<Self> {
        let end = CancellationToken::new();
        let handles = (1..places()).map(|place| lane(place, end.clone())).collect::<Result<_, _>>();
        Ok(Self { handles: handles?, next: AtomicUsize::new(0), _end: end.drop_guard() })
    }

    /// Runs something on the next lane.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len();
        self.handles[next].spawn(work);
    }
}

fn lane(place: usize, end: CancellationToken) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name(format!("lane-{place}")).spawn(move || {
        CURRENT.set(place);
        runtime.block_on(end.cancelled());
    })?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_to_all_lanes_in_turn() {
        let lanes = Lanes::start().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let count = places() - 1;
        for _ in 0..2 * count {
            let tell = tell.clone();
            lanes.spawn(async move { tell.send(current()).unwrap() });
        }
        let mut places: Vec<_> = (0..2 * count).map(|_| told.recv().unwrap()).collect();
        places.sort_unstable();
        let wanted: Vec<_> = (1..=count).flat_map(|place| [place, place]).collect();
        assert_eq!((places, current()), (wanted, 0));
    }
}
