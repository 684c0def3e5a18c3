//! Validation of URLs for bills.
//!
//! Only plain web addresses are accepted: the formats require URIs, and a URL with credentials must
//! not be published.

use std::net::Ipv6Addr;

/// Whether it is an `http` or `https` URL by RFC 3986 without user information.
pub(super) fn is_web_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else { return false };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    is_authority(authority) && is_tail(tail)
}

fn is_authority(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            if address.parse::<Ipv6Addr>().is_err() {
                return false;
            }
            ("v6", port)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_host = !host.is_empty()
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok());
    is_host && is_port && !port.contains('+')
}

fn is_tail(tail: &str) -> bool {
    let bytes = tail.as_bytes();
    let is_escape = |at: usize| {
        bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    tail.bytes().filter(|b| *b == b'#').count() <= 1
        && bytes.iter().enumerate().all(|(at, byte)| match byte {
            b'%' => is_escape(at),
            byte => byte.is_ascii_alphanumeric() || b"-._~:/?#@!$&'()*+,;=".contains(byte),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_web_addresses_are_accepted() {
        for good in [
            "https://example.com",
            "http://localhost:8080/mcp",
            "http://my_service/a%20b?x=1&y=[0]".replace(['[', ']'], "").as_str(),
            "https://[::1]:7070/#top",
            "http://127.0.0.1",
        ] {
            assert!(is_web_address(good), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "ftp://example.com",
            "https://",
            "https:///path",
            "https://user:secret@example.com/",
            "https://example.com/a b",
            "https://example.com/{id}",
            "https://example.com/100%",
            "https://example.com:99999/",
            "https://example.com:+80/",
            "https://[::1/",
            "https://größe.example/",
            "https://example.com/#a#b",
            "javascript:alert(1)",
        ] {
            assert!(!is_web_address(bad), "{bad}");
        }
    }
}
