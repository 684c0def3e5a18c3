//! Rate limit of failed authentication attempts of each address.
//!
//! Above the limit, a failed attempt causes no database query, no request to the identity provider and no
//! log line. Valid credentials still work, because many callers may share an address behind a proxy, and
//! tokens have 256 random bits.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    time::Instant,
};

use registry_tls::client_network;

use super::{Denied, RateLimit};

/// Failed attempts per second of an address.
const FAILURES_PER_SECOND: NonZeroU32 = NonZeroU32::MIN;
/// Failed attempts of an address before the rate applies.
const BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(59);

/// Counts the failed attempts of each address.
#[derive(Debug)]
pub struct Failures(RateLimit<IpAddr>);

/// Whether authentication may query the database or the identity provider for unknown credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Queries are allowed.
    Allowed,
    /// Only local data is used, because the address has failed too often.
    LocalOnly,
}

impl Default for Failures {
    fn default() -> Self {
        Self(RateLimit::new(FAILURES_PER_SECOND, BURST))
    }
}

impl Failures {
    /// Whether authentication of a caller at this address may query other systems.
    pub(super) fn lookup(&self, address: Option<SocketAddr>, now: Instant) -> Lookup {
        if self.0.has_room(&network(address), now) { Lookup::Allowed } else { Lookup::LocalOnly }
    }

    /// Records a failed attempt. Returns the error for the caller: the same one, or a rate limit error.
    pub(super) fn record(
        &self,
        address: Option<SocketAddr>,
        denied: Denied,
        now: Instant,
    ) -> Denied {
        match denied {
            Denied::Invalid(_) => self
                .0
                .take(&network(address), now)
                .map_or_else(Denied::TooManyFailures, |()| denied),
            _ => denied,
        }
    }
}

/// Address whose failures are counted together. Callers without an address share one counter.
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
    fn failure_limit_applies_to_one_network() {
        let (failures, now) = (Failures::default(), Instant::now());
        let invalid = || Denied::Invalid("a test".to_owned());
        let (bad, good) = (Some(at("2001:db8::1")), Some(at("2001:db8:0:1::1")));
        for _ in 0..BURST.get() {
            assert_eq!(failures.lookup(bad, now), Lookup::Allowed);
            assert_eq!(failures.record(bad, invalid(), now), invalid());
        }
        assert_eq!(failures.lookup(Some(at("2001:db8::2")), now), Lookup::LocalOnly);
        let second = Duration::from_secs(1);
        assert_eq!(failures.record(bad, invalid(), now), Denied::TooManyFailures(second));
        assert_eq!(failures.record(bad, Denied::Missing, now), Denied::Missing);
        assert_eq!(failures.record(good, invalid(), now), invalid());
        assert_eq!(failures.record(bad, invalid(), now + second), invalid());
    }
}
