//! The address of an imported server as a `remotes` entry of its `server.json`, so that clients of the MCP
//! registry API can connect.

use std::net::IpAddr;

use serde_json::{Value, json};

/// Host suffixes of private networks.
const LOCAL_SUFFIXES: [&str; 6] =
    [".localhost", ".local", ".internal", ".lan", ".home.arpa", ".test"];

/// The remote of a streamable HTTP server at a public address. `None` for loopback and private
/// addresses, and for a URL with a query, a user or a password, which may be secret. `headers` are
/// the names of the headers that a client must send.
pub fn public_remote(url: &str, headers: &[String]) -> Option<Value> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    if url.contains(['?', '#']) || authority.contains('@') || !is_public(host_of(authority)?) {
        return None;
    }
    let mut remote = json!({ "type": "streamable-http", "url": url });
    if !headers.is_empty() {
        let secret = |name: &String| json!({ "name": name, "isRequired": true, "isSecret": true });
        remote["headers"] = headers.iter().map(secret).collect();
    }
    Some(remote)
}

fn host_of(authority: &str) -> Option<&str> {
    match authority.strip_prefix('[') {
        Some(address) => address.split_once(']').map(|(address, _)| address),
        None => authority.split(':').next().filter(|host| !host.is_empty()),
    }
}

fn is_public(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        return is_public_address(address);
    }
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    // A last label of digits (`127.1`, `0x7f.1`) is an address in another notation.
    let last = host.rsplit('.').next().unwrap_or_default();
    host.contains('.')
        && !last.starts_with(|c: char| c.is_ascii_digit())
        && !LOCAL_SUFFIXES.iter().any(|suffix| host.ends_with(suffix))
}

fn is_public_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            let is_reserved = first == 0 || first >= 240;
            !(address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_documentation()
                || is_shared
                || is_reserved)
        }
        // Global unicast, without the prefix for documentation.
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            first & 0xe000 == 0x2000 && (first, second) != (0x2001, 0xdb8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_kept() {
        for url in
            ["https://tools.example/mcp", "http://8.8.8.8:8080/", "https://[2606:4700::1]/mcp"]
        {
            let remote = public_remote(url, &[]).unwrap();
            assert_eq!(remote, json!({ "type": "streamable-http", "url": url }));
        }
        for url in [
            "http://127.0.0.1:8080/mcp",
            "http://localhost/mcp",
            "http://LOCALHOST./",
            "http://api.localhost/",
            "http://10.1.2.3/",
            "http://172.16.0.1/",
            "http://192.168.1.1/",
            "http://169.254.169.254/",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://[::1]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://127.1/",
            "http://0x7f000001/",
            "http://intranet/mcp",
            "https://docs.internal/mcp",
            "https://printer.local/",
            "https://user:pass@tools.example/",
            "https://tools.example/mcp?key=secret",
            "ftp://tools.example/",
            "tools.example",
            "https://",
            "",
        ] {
            assert_eq!(public_remote(url, &[]), None, "{url}");
        }
    }

    #[test]
    fn headers_are_named_without_their_values() {
        let remote =
            public_remote("https://tools.example/", &["Authorization".to_owned()]).unwrap();
        let expected = json!([{ "name": "Authorization", "isRequired": true, "isSecret": true }]);
        assert_eq!(remote["headers"], expected);
    }
}
