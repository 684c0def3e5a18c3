//! Socket addresses in flags and configuration files.

use std::net::SocketAddr;

use crate::visible::escape_invisible;

/// The text is not a socket address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an IP address with a port, such as 127.0.0.1:8080 or [::1]:8080")]
pub struct InvalidSocketAddress(String);

/// Parses an IP address with a port. Names are not resolved.
pub fn parse_socket_address(text: &str) -> Result<SocketAddr, InvalidSocketAddress> {
    text.parse().map_err(|_| InvalidSocketAddress(escape_invisible(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_addresses_need_ip_address_and_port() {
        for text in ["127.0.0.1:7070", "[::1]:0"] {
            assert_eq!(parse_socket_address(text).unwrap().to_string(), text);
        }
        for text in ["7070", "localhost:7070", "127.0.0.1", "::1:x", ""] {
            let invalid = InvalidSocketAddress(text.to_owned());
            assert_eq!(parse_socket_address(text), Err(invalid));
        }
    }
}
