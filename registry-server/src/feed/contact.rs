//! The time of a relay's last contact with its registry.
//!
//! The time is an age, so ages of several relays add up without synchronized clocks.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use super::roster::lock;

/// When the registry was heard of last, by way of however many relays.
#[derive(Debug)]
pub struct Contact(Mutex<Heard>);

#[derive(Debug)]
struct Heard {
    at: Instant,
    /// How old the news was then.
    age: Duration,
}

impl Contact {
    /// The registry was heard of so long ago.
    pub fn new(age: Duration) -> Self {
        Self(Mutex::new(Heard { at: Instant::now(), age }))
    }

    /// Somebody says that it was heard of so long ago; that counts if nobody knew of anything later.
    pub fn heard(&self, age: Duration) {
        let mut heard = lock(&self.0);
        if age < heard.age() {
            *heard = Heard { at: Instant::now(), age };
        }
    }

    /// How old the latest news is.
    pub fn age(&self) -> Duration {
        lock(&self.0).age()
    }
}

impl Heard {
    fn age(&self) -> Duration {
        self.at.elapsed().saturating_add(self.age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_add_up_from_relay_to_relay() {
        let near = Contact::new(Duration::from_hours(1));
        let far = Contact::new(Duration::from_hours(1));
        near.heard(Duration::from_secs(20));
        far.heard(near.age());
        assert!(far.age() >= Duration::from_secs(20) && far.age() < Duration::from_hours(1));
        // What is known already is not forgotten.
        far.heard(Duration::MAX);
        assert!(far.age() < Duration::from_hours(1));
    }
}
