//! Parallel map over all cores, for verifying and validating large files and batches.

use std::{num::NonZero, panic::resume_unwind, thread};

/// Below this number of items, threads cost more than they save.
const MANY: usize = 64;

/// Applies `work` to each item and preserves their order. Panics propagate to the caller.
pub fn map<T: Send, R: Send>(mut items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    // Counting the cores reads files.
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    let cores = if items.len() < MANY { 1 } else { cores() };
    if cores == 1 {
        return items.into_iter().map(work).collect();
    }
    let part = items.len().div_ceil(cores);
    let mut results = Vec::with_capacity(items.len());
    let each = |items: Vec<T>| items.into_iter().map(&work).collect::<Vec<R>>();
    thread::scope(|scope| {
        let mut running = Vec::with_capacity(cores);
        let mut rest = items.split_off(part);
        while !rest.is_empty() {
            let later = rest.split_off(part.min(rest.len()));
            let these = std::mem::replace(&mut rest, later);
            running.push(scope.spawn(move || each(these)));
        }
        results.extend(each(items));
        for thread in running {
            results.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
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
