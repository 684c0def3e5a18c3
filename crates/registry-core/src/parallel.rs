//! Parallel map over all cores, for verifying and validating large files and batches.

use std::{
    num::NonZero,
    panic::resume_unwind,
    sync::{LazyLock, Mutex, PoisonError},
    thread,
};

/// Below this number of items, threads cost more than they save.
const MANY: usize = 64;
/// Parts per thread. A thread that starts late or is interrupted takes fewer parts.
const PARTS: usize = 16;

/// The number of cores. Counting them reads files.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));

/// Applies `work` to each item and preserves their order. Panics propagate to the caller.
pub fn map<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let count = items.len();
    if count < MANY || *CORES == 1 {
        return items.into_iter().map(work).collect();
    }
    let threads = count.min(*CORES);
    let length = count.div_ceil(threads * PARTS);
    let rest = Mutex::new(items.into_iter().enumerate());
    let take_parts = || {
        let mut results = Vec::new();
        loop {
            let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
            let part: Vec<_> = rest.by_ref().take(length).collect();
            drop(rest);
            let Some((first, _)) = part.first() else { break results };
            results
                .push((*first, part.into_iter().map(|(_, item)| work(item)).collect::<Vec<_>>()));
        }
    };
    let mut parts = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take_parts)).collect();
        let mut parts = take_parts();
        for other in others {
            parts.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        parts
    });
    parts.sort_unstable_by_key(|(first, _)| *first);
    let mut results = Vec::with_capacity(count);
    for (_, part) in parts {
        results.extend(part);
    }
    results
}

#[cfg(test)]
mod tests {
    use super::{MANY, map};

    #[test]
    fn map_preserves_order() {
        for count in [0, 1, MANY - 1, MANY, MANY + 1, 1_000] {
            let doubled = map((0..count).collect(), |item| 2 * item);
            assert_eq!(doubled, (0..count).map(|item| 2 * item).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "not this one")]
    fn map_propagates_panics() {
        map((0..MANY).collect(), |item| assert!(item != MANY - 1, "not this one"));
    }
}
