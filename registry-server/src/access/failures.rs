//! How often each address may fail to prove who it is.
//!
//! Past that, what fails there is answered by when to come again: it makes nobody look at the
//! database or ask the identity provider, and writes no line of log. What is valid still passes,
//! because many callers may share an address (a proxy, a mesh), and nobody guesses 256 random bits.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    time::Instant,
};

use registry_tls::client_network;

use super::{Denied, RateLimit};

/// Failures a second that each address may go on with.
const PER_SECOND: NonZeroU32 = NonZeroU32::MIN;
/// Failures of an address before that rate holds.
const BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(59);

/// The failures of each address.
#[derive(Debug)]
pub struct Failures(RateLimit<IpAddr>);

/// Whether somebody else may be asked about what is not known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Yes.
    Yes,
    /// No: the caller has failed too often.
    No,
}

impl Default for Failures {
    fn default() -> Self {
        Self(RateLimit::new(PER_SECOND, BURST))
    }
}

impl Failures {
    /// Whether a caller at this address is worth asking somebody else.
    pub(super) fn ask(&self, address: Option<SocketAddr>, now: Instant) -> Ask {
        if self.0.has_room(&network(address), now) { Ask::Yes } else { Ask::No }
    }

    /// Notes a failure, and gives what the caller hears: the same, or when to come again.
    pub(super) fn note(&self, address: Option<SocketAddr>, denied: Denied, now: Instant) -> Denied {
        match denied {
            Denied::Invalid(_) => {
                self.0.take(&network(address), now).map_or_else(Denied::Failing, |()| denied)
            }
            _ => denied,
        }
    }
}

/// Whose failures they are. Callers without an address are all one.
pub(super) fn network(address: Option<SocketAddr>) -> IpAddr {
    address.map_or(Ipv6Addr::UNSPECIFIED.into(), |address| client_network(address.ip()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    #[test]
    fn who_fails_too_often_hears_when_to_come_again_and_nobody_else_does() {
        let (failures, now) = (Failures::default(), Instant::now());
        let invalid = || Denied::Invalid("a test".to_owned());
        let (bad, good) = (Some(at("2001:db8::1")), Some(at("2001:db8:0:1::1")));
        for _ in 0..BURST.get() {
            assert_eq!(failures.ask(bad, now), Ask::Yes);
            assert_eq!(failures.note(bad, invalid(), now), invalid());
        }
        assert_eq!(failures.ask(Some(at("2001:db8::2")), now), Ask::No);
        let second = Duration::from_secs(1);
        assert_eq!(failures.note(bad, invalid(), now), Denied::Failing(second));
        assert_eq!(failures.note(bad, Denied::Missing, now), Denied::Missing);
        assert_eq!(failures.note(good, invalid(), now), invalid());
        assert_eq!(failures.note(bad, invalid(), now + second), invalid());
    }
}
