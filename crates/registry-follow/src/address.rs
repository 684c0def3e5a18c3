//! Addresses of a registry: `grpc(s)://host:port`, several servers separated by commas.

use std::net::Ipv6Addr;

use http::uri::Authority;

/// Maximum number of servers.
pub const MAX_SERVERS: usize = 16;

/// An invalid address. The text is not repeated, because it may contain credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidAddress {
    /// The text has another form.
    Form,
    /// This many servers, more than [`MAX_SERVERS`].
    TooMany(usize),
}

/// The servers of a registry, as `http(s)://host:port`.
pub fn addresses(url: &str) -> Result<Vec<String>, InvalidAddress> {
    let (first, servers) = url.split_once("://").ok_or(InvalidAddress::Form)?;
    let scheme = match first {
        "grpc" => "http",
        "grpcs" => "https",
        _ => return Err(InvalidAddress::Form),
    };
    // The scheme may be repeated, as in `grpc://a:1,grpc://b:2`.
    let repeated = format!("{first}://");
    let servers = servers.trim_end_matches('/').split(',').map(str::trim);
    let servers: Vec<&str> =
        servers.map(|server| server.strip_prefix(&*repeated).unwrap_or(server)).collect();
    if servers.len() > MAX_SERVERS {
        return Err(InvalidAddress::TooMany(servers.len()));
    }
    let read = |server: &str| {
        let authority: Authority = server.parse().map_err(|_| InvalidAddress::Form)?;
        let port = authority.port().ok_or(InvalidAddress::Form)?;
        let host = authority.host();
        if !is_host(host) || authority.as_str() != format!("{host}:{}", port.as_str()) {
            return Err(InvalidAddress::Form);
        }
        Ok(format!("{scheme}://{authority}"))
    };
    servers.into_iter().map(read).collect()
}

/// Whether the text is a name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.split('%').next().unwrap_or_default().parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['[', ']', ':']),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_lists_servers_with_ports() {
        assert_eq!(addresses("grpc://a:1").unwrap(), ["http://a:1"]);
        assert_eq!(addresses("grpcs://a:1, b:2/").unwrap(), ["https://a:1", "https://b:2"]);
        assert_eq!(addresses("grpc://a:1,grpc://b:2").unwrap(), ["http://a:1", "http://b:2"]);
        assert_eq!(addresses("grpc://a:1,grpcs://b:2"), Err(InvalidAddress::Form));
        assert_eq!(addresses("grpc://[::1]:2").unwrap(), ["http://[::1]:2"]);
        for bad in ["a:1", "http://a:1", "grpc://a", "grpc://", "grpc://u:p@a:1", "grpc://a:1,"]
            .into_iter()
            .chain(["grpc://:1", "grpc://[:]7:1", "grpc://[:]:1", "grpc://a:[:1:]:70"])
        {
            assert_eq!(addresses(bad), Err(InvalidAddress::Form), "{bad}");
        }
        let many = format!("grpc://{}", vec!["a:1"; MAX_SERVERS + 1].join(","));
        assert_eq!(addresses(&many), Err(InvalidAddress::TooMany(MAX_SERVERS + 1)));
    }
}
