//! The SSRF guard: the addresses that may be dialed. It checks the resolved addresses of each
//! connection, because DNS answers can change.
//!
//! Private networks and loopback are allowed for targets: upstreams run there, and an operator
//! configured the address. They are not allowed for URLs of callers.

use std::{
    error::Error as StdError,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    vec,
};

use http::Uri;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

use crate::Addresses;

/// Metadata services of clouds, other than the link-local ones.
const METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// A blocked address.
#[derive(Debug, thiserror::Error)]
#[error("{address} is blocked: it is {what}; if the server really has this address, {remedy}")]
pub struct BlockedAddress {
    address: IpAddr,
    what: &'static str,
    remedy: &'static str,
}

impl BlockedAddress {
    /// Whether a failed connection was blocked.
    pub fn is_cause_of(error: &(dyn StdError + 'static)) -> bool {
        let mut cause = Some(error);
        while let Some(error) = cause {
            // The source of an I/O error skips the error inside it.
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if error.is::<Self>()
                || inner.and_then(<dyn StdError + Send + Sync>::downcast_ref::<Self>).is_some()
            {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

impl Addresses {
    /// Checks an IP address in the URL itself, which is not resolved. Names are checked at each
    /// connection.
    pub fn check(self, uri: &Uri) -> Result<(), BlockedAddress> {
        let host = uri.host().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        bare.parse().map_or(Ok(()), |address| judge(address, self))
    }
}

fn judge(address: IpAddr, addresses: Addresses) -> Result<(), BlockedAddress> {
    let (what, remedy) = match addresses {
        Addresses::Any => return Ok(()),
        Addresses::Usual => (what_is(address), "give its target `addresses: any`"),
        Addresses::Public => (
            what_is(address).or_else(|| private(address)),
            "allow it with `a2a.pushNotifications.addresses`",
        ),
    };
    what.map_or(Ok(()), |what| Err(BlockedAddress { address, what, remedy }))
}

/// The reason why an address is blocked.
fn what_is(address: IpAddr) -> Option<&'static str> {
    if METADATA.contains(&address) {
        return Some("a cloud metadata service");
    }
    match address {
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Some("an unspecified address"),
        IpAddr::V4(v4) if v4.is_link_local() => Some("link-local, like cloud metadata services"),
        IpAddr::V4(v4) if v4.is_multicast() => Some("multicast"),
        IpAddr::V4(v4) if v4.is_broadcast() => Some("broadcast"),
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) if v6.is_unspecified() => Some("an unspecified address"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("link-local"),
        IpAddr::V6(v6) if v6.is_multicast() => Some("multicast"),
        IpAddr::V6(v6) => inner(v6).and_then(|v4| what_is(v4.into())),
    }
}

/// The reason why an address is not one of the public internet, if it is no blocked one.
fn private(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [127, ..] => Some("loopback"),
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => {
                Some("a private network")
            }
            [192, 0, 0 | 2, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [240..=255, ..] => Some("reserved"),
            _ => None,
        },
        IpAddr::V6(v6) if v6.is_loopback() => Some("loopback"),
        IpAddr::V6(v6) => match (inner(v6), v6.segments()) {
            (Some(v4), _) => private(v4.into()),
            // The first block has tunnels and other protocols, the second is for documentation.
            (None, [0x2001, 0..0x200 | 0xdb8, ..] | [0x3fff, 0..0x1000, ..]) => Some("reserved"),
            (None, [0x2000..=0x3fff, ..]) => None,
            (None, _) => Some("a private network"),
        },
    }
}

/// The IPv4 address inside an IPv6 address: mapped, compatible, NAT64 (RFC 6052) or 6to4.
fn inner(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => return None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

/// The system's resolver without blocked addresses.
#[derive(Debug, Clone)]
pub struct Resolver {
    system: GaiResolver,
    addresses: Addresses,
}

impl Resolver {
    pub(super) fn new(addresses: Addresses) -> Self {
        Self { system: GaiResolver::new(), addresses }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (resolving, addresses) = (self.system.call(name), self.addresses);
        Box::pin(async move {
            let (mut good, mut refused) = (Vec::new(), None);
            for found in resolving.await? {
                match judge(found.ip(), addresses) {
                    Ok(()) => good.push(found),
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                Some(error) if good.is_empty() => Err(io::Error::other(error)),
                _ => Ok(good.into_iter()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_blocked() {
        for bad in [
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
            "::",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
        ] {
            let address = bad.parse().unwrap();
            assert!(judge(address, Addresses::Usual).is_err(), "{bad}");
            assert!(judge(address, Addresses::Any).is_ok(), "{bad}");
        }
        for good in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "93.184.216.34",
            "::1",
            "fd00::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "64:ff9b::5db8:d822",
        ] {
            assert!(judge(good.parse().unwrap(), Addresses::Usual).is_ok(), "{good}");
        }
    }

    #[test]
    fn only_public_addresses_are_public() {
        for bad in [
            "169.254.169.254",
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "240.0.0.1",
            "::1",
            "fd00::1",
            "fec0::1",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
        ] {
            assert!(judge(bad.parse().unwrap(), Addresses::Public).is_err(), "{bad}");
        }
        for good in [
            "93.184.216.34",
            "172.32.0.1",
            "192.0.1.1",
            "100.63.255.255",
            "2606:2800:220:1::1",
            "2a00::1",
            "::ffff:93.184.216.34",
            "64:ff9b::5db8:d822",
        ] {
            assert!(judge(good.parse().unwrap(), Addresses::Public).is_ok(), "{good}");
        }
    }

    #[test]
    fn ip_address_in_url_is_checked() {
        let is_good = |url: &str| Addresses::Usual.check(&url.parse().unwrap()).is_ok();
        assert!(is_good("http://127.0.0.1:1/mcp") && is_good("https://[::1]/mcp"));
        assert!(is_good("http://host.example/mcp"), "names are checked by the resolver");
        assert!(!is_good("http://169.254.169.254/latest") && !is_good("https://[fe80::1]:8/mcp"));
        let error = Addresses::Usual.check(&"http://[::ffff:a9fe:a9fe]/".parse().unwrap());
        let text = error.unwrap_err().to_string();
        insta::assert_snapshot!(
            text,
            @"::ffff:169.254.169.254 is blocked: it is link-local, like cloud metadata services; \
              if the server really has this address, give its target `addresses: any`"
        );
    }
}
