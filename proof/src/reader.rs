//! A reader of single entities and complete lists at any server or relay.

use std::time::Duration;

use registry_core::{Key, Kind};
use tokio::time::{Instant, sleep};

use crate::{caller::Caller, rng::Rng, workload::KnownKeys};

pub(crate) struct Reader {
    pub(crate) caller: Caller,
    pub(crate) known: KnownKeys,
    pub(crate) rng: Rng,
}

impl Reader {
    pub(crate) async fn run(mut self, until: Instant) {
        while Instant::now() < until {
            let server = self.rng.below(self.caller.servers());
            if self.rng.chance(6) {
                self.caller.list(server).await;
            } else {
                let key = self.key();
                self.caller.get(server, &key).await;
            }
            let pause = self.rng.between(1, 25);
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// A registered key, or one that may be registered later.
    fn key(&mut self) -> Key {
        let guess = self.rng.chance(20);
        let known = if guess { None } else { self.known.any(&mut self.rng) };
        known.unwrap_or_else(|| {
            let (made, writer) = (self.rng.between(1, 40), self.rng.below(3));
            Key::parse(Kind::Schema, "Query", &format!("1.{made}.{writer}")).expect("a key")
        })
    }
}
