//! The header maps of read responses, for the next requests of the thread. A new map takes two
//! allocations.

use std::cell::RefCell;

use http::HeaderMap;

/// Maximum number of maps that a thread keeps.
const MAPS: usize = 64;
/// Maximum capacity of a kept map, in headers.
const HEADERS: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// An empty map with capacity for these headers.
pub(super) fn take(headers: usize) -> HeaderMap {
    let mut map = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
    map.reserve(headers);
    map
}

/// Keeps a map without its headers.
pub(super) fn put(mut map: HeaderMap) {
    map.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MAPS && map.capacity() <= HEADERS {
            spare.push(map);
        }
    });
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header::HOST};

    use super::*;

    #[test]
    fn kept_maps_are_empty_and_limited() {
        let mut used = HeaderMap::with_capacity(8);
        used.insert(HOST, HeaderValue::from_static("a"));
        let capacity = used.capacity();
        put(used);
        assert_eq!((take(1).capacity(), take(0).capacity()), (capacity, 0));
        put(HeaderMap::with_capacity(2 * HEADERS));
        assert_eq!(take(0).capacity(), 0);
        (0..=MAPS).for_each(|_| put(HeaderMap::new()));
        assert_eq!(SPARE.with_borrow(Vec::len), MAPS);
    }
}
