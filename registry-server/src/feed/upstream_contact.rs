//! Age of a relay's knowledge of its upstream registry.
//!
//! Ages of several relays add up without synchronized clocks.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use super::sessions::lock;

/// Time of the last contact with the registry, directly or through other relays.
#[derive(Debug)]
pub struct UpstreamContact(Mutex<Observation>);

#[derive(Debug)]
struct Observation {
    at: Instant,
    /// Age at that time.
    age: Duration,
}

impl UpstreamContact {
    /// Creates a contact of this age.
    pub fn new(age: Duration) -> Self {
        Self(Mutex::new(Observation { at: Instant::now(), age }))
    }

    /// Records a contact of this age, unless a later one is known.
    pub fn record(&self, age: Duration) {
        let mut latest = lock(&self.0);
        if age < latest.age() {
            *latest = Observation { at: Instant::now(), age };
        }
    }

    /// Age of the last contact.
    pub fn age(&self) -> Duration {
        lock(&self.0).age()
    }
}

impl Observation {
    fn age(&self) -> Duration {
        self.at.elapsed().saturating_add(self.age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contact_age_adds_up_through_relays() {
        let near = UpstreamContact::new(Duration::from_hours(1));
        let far = UpstreamContact::new(Duration::from_hours(1));
        near.record(Duration::from_secs(20));
        far.record(near.age());
        assert!(far.age() >= Duration::from_secs(20) && far.age() < Duration::from_hours(1));
        // An older contact does not replace a newer one.
        far.record(Duration::MAX);
        assert!(far.age() < Duration::from_hours(1));
    }
}
