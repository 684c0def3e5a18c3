//! Completed streams whose events all reached the client. They are evicted first.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gateway_policy::QuotaKey;

use super::Replay;

/// The streams, oldest first.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    next: u64,
    all: BTreeMap<u64, Arc<Replay>>,
    own: BTreeSet<(QuotaKey, u64)>,
}

impl Delivered {
    /// Adds a stream, and returns its position.
    pub(super) fn add(&mut self, replay: &Arc<Replay>) -> u64 {
        let place = self.next;
        self.next += 1;
        self.all.insert(place, replay.clone());
        self.own.insert((replay.principal.clone(), place));
        place
    }

    pub(super) fn remove(&mut self, principal: &QuotaKey, place: u64) -> Option<Arc<Replay>> {
        self.own.remove(&(principal.clone(), place));
        self.all.remove(&place)
    }

    pub(super) fn pop(&mut self) -> Option<Arc<Replay>> {
        let (place, replay) = self.all.pop_first()?;
        self.own.remove(&(replay.principal.clone(), place));
        Some(replay)
    }

    pub(super) fn pop_of(&mut self, principal: &QuotaKey) -> Option<Arc<Replay>> {
        let places = (principal.clone(), 0)..=(principal.clone(), u64::MAX);
        let (_, place) = self.own.range(places).next()?.clone();
        self.remove(principal, place)
    }
}
