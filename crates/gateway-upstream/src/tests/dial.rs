//! Blocked addresses: the server is listening and gets no connection.

use super::*;

/// The kernel treats `0` and similar addresses as this machine, so a connection would succeed.
#[tokio::test]
async fn blocked_addresses_get_no_connection() {
    for host in ["0.0.0.0", "[::ffff:0.0.0.0]", "0", "0x0.0"] {
        let fake = modern_server(|seen| seen.result(&serde_json::json!({}))).await;
        let url = format!("http://{host}:{}/mcp", fake.address().port());
        let upstreams = start(http_at(&url), limits(), TIMING);
        let error = upstreams.try_call("{}").await.unwrap_err().to_string();
        assert!(error.contains("unspecified"), "{error}");
        assert!(error.contains("addresses"), "{error}");
        assert_eq!(fake.connections(), 0, "{host}");
        upstreams.shutdown().await;

        let mut told = http_at(&url);
        let TransportConfig::Http { addresses, .. } = &mut told else { panic!() };
        *addresses = Addresses::Any;
        let upstreams = start(told, limits(), TIMING);
        assert_eq!(upstreams.must_call("{}").await, "{}", "{host}");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = modern_server(|seen| seen.result(&serde_json::json!({}))).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("http://{}/mcp", elsewhere.address());
        let fake = modern_server(move |_| {
            let head =
                format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
            Reply::Keep(vec![head.into_bytes()])
        })
        .await;
        let upstreams = start(transport(&fake), limits(), TIMING);
        upstreams.until_up().await;
        let error = upstreams.try_call("{}").await.unwrap_err();
        assert!(
            matches!(error, Error::Protocol { what: ProtocolViolation::Status(s) } if s == status)
        );
        assert_eq!(fake.seen("tools/call").len(), 1);
        upstreams.shutdown().await;
    }
    assert_eq!(elsewhere.connections(), 0);
}
