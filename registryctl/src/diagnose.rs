//! Diagnosis of failed connections to the registry: the likely mistake and its remedy.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::address::Address;

/// A server of the registry that cannot be reached.
#[derive(Debug)]
pub(crate) struct UnreachableServer {
    pub(crate) address: Address,
    pub(crate) reason: String,
}

/// Timeout of connecting, and of the first bytes of a response.
const PROBE: Duration = Duration::from_secs(1);
/// The client preface of HTTP/2 (RFC 9113, section 3.4) with an empty SETTINGS frame. TLS and some
/// HTTP/1.1 servers respond to it with an error in their own protocol.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A request of HTTP/1.1, for servers that close the connection at the preface.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// The bytes that identify a protocol.
const FIRST_BYTES: usize = 5;

/// A protocol, recognized by the first bytes of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tls,
    Http1,
    Http2,
    Unknown,
}

/// Causes that the error itself names, in lower case, with their remedies.
const CAUSES: [(&[&str], &str); 7] = [
    (
        &["lookup address", "name or service not known", "nodename nor servname", "dns error"],
        "check the host name in --registry or REGISTRY_URL",
    ),
    (
        &[
            "unknownissuer",
            "unknown issuer",
            "badsignature",
            // A trusted CA has the same name and a key of another type.
            "unsupportedsignaturealgorithmforpublickey",
        ],
        "the server's certificate is not signed by a trusted CA; pass the CA with --ca-cert FILE",
    ),
    (
        &["causedasendentity"],
        "the server's certificate is a CA certificate; issue one with basicConstraints=CA:FALSE",
    ),
    (
        &["notvalidforname", "not valid for name"],
        "the server's certificate is for another name; use a host name that it contains",
    ),
    (&["expired"], "the server's certificate has expired; renew it on the server"),
    (
        &["certificaterequired", "certificate required"],
        "the server requires a client certificate; pass --client-cert and --client-key",
    ),
    (
        &["no response within", "timed out", "handshake timeout", "deadline has elapsed"],
        "check host, port and firewall in --registry or REGISTRY_URL",
    ),
];

/// Causes of failed connections to live servers, with their remedies.
const LIVE_CAUSES: [(&str, &str); 4] = [
    ("Auth required", "the server requires credentials; pass --bearer-file or --header"),
    ("invalid HTTP version", "if the server uses TLS, write https:// in its URL"),
    ("InvalidContentType", "if the server does not use TLS, write http:// in its URL"),
    (
        "CaUsedAsEndEntity",
        "the server's certificate is a CA certificate; issue one with basicConstraints=CA:FALSE",
    ),
];
const LIVE_CA: &str = "set SSL_CERT_FILE to the CA bundle (PEM) that verifies the certificate of the \
                       server; --ca-cert is for the registry only";

/// The remedy for a failed connection to a live server, if its cause is known.
pub(crate) fn live_remedy(reason: &str) -> Option<&'static str> {
    if registry_tls::is_untrusted_ca(reason) {
        return Some(LIVE_CA);
    }
    LIVE_CAUSES.iter().find(|(cause, _)| reason.contains(cause)).map(|(_, remedy)| *remedy)
}

/// The reason of a failed connection to a live server, with the remedy if its cause is known.
pub(crate) fn with_live_remedy(reason: String) -> String {
    match live_remedy(&reason) {
        Some(remedy) => format!("{reason}; {remedy}"),
        None => reason,
    }
}

/// The remedy for failed connections to all servers. Only the first server with another cause than a
/// refused connection is probed.
pub(crate) async fn remedy(servers: &[UnreachableServer]) -> String {
    let is_refused =
        |server: &&UnreachableServer| server.reason.to_lowercase().contains("connection refused");
    let (refused, others): (Vec<_>, Vec<_>) = servers.iter().partition(is_refused);
    let mut remedies = Vec::new();
    if !refused.is_empty() {
        remedies.push(nothing_listens(&refused));
    }
    if let Some(UnreachableServer { address, reason }) = others.first() {
        let remedy = remedy_of(address, reason).await;
        let is_only = servers.len() == 1;
        remedies.push(if is_only { remedy } else { format!("{}: {remedy}", address.authority()) });
    }
    remedies.join("; ")
}

/// The remedy for refused connections.
fn nothing_listens(refused: &[&UnreachableServer]) -> String {
    let authorities: Vec<_> = refused.iter().map(|server| server.address.authority()).collect();
    let start = "start a registry with `registry-server`, or set another address with --registry or \
                 REGISTRY_URL";
    let mut ports = refused.iter().filter_map(|server| server.address.host_and_port());
    let remedy = match ports.find(|(_, port)| matches!(port, 80 | 443)) {
        Some((host, port)) if refused.len() == 1 => {
            return format!("nothing listens at port {port}; add the port, such as {host}:7070");
        }
        Some((host, _)) => format!("add a missing port, such as {host}:7070, or {start}"),
        None => start.to_owned(),
    };
    format!("nothing listens at {}; {remedy}", authorities.join(", "))
}

async fn remedy_of(address: &Address, reason: &str) -> String {
    let default = "--registry or REGISTRY_URL sets the address of the registry".to_owned();
    let reason = reason.to_lowercase();
    let matches = |causes: &[&str]| causes.iter().any(|cause| reason.contains(cause));
    if let Some((_, remedy)) = CAUSES.iter().find(|(causes, _)| matches(causes)) {
        return (*remedy).to_owned();
    }
    let mut protocol = probe(address, PREFACE).await;
    if protocol.is_none() {
        protocol = probe(address, REQUEST).await;
    }
    protocol.and_then(|protocol| mismatch(protocol, address)).unwrap_or(default)
}

/// The remedy for a server that speaks another protocol than the address says.
fn mismatch(protocol: Protocol, address: &Address) -> Option<String> {
    let authority = address.authority();
    match (protocol, address.is_tls()) {
        (Protocol::Tls, false) => Some(format!("this server speaks TLS; use https://{authority}")),
        (Protocol::Http1 | Protocol::Http2, true) => {
            Some(format!("this server speaks plain HTTP; use http://{authority}"))
        }
        (Protocol::Http1, false) => Some(format!(
            "the server at {authority} speaks HTTP/1.1 and is not a registry; the default port of a \
             registry is 7070"
        )),
        (Protocol::Unknown, _) => Some(format!(
            "the server at {authority} speaks another protocol and is not a registry; the default \
             port of a registry is 7070"
        )),
        (Protocol::Tls, true) | (Protocol::Http2, false) => None,
    }
}

/// Sends the first bytes of a client and recognizes the protocol of the response.
async fn probe(address: &Address, first: &[u8]) -> Option<Protocol> {
    timeout(2 * PROBE, response(address, first)).await.ok().flatten()
}

async fn response(address: &Address, first: &[u8]) -> Option<Protocol> {
    let (host, port) = address.host_and_port()?;
    let mut stream = timeout(PROBE, TcpStream::connect((host.as_str(), port))).await.ok()?.ok()?;
    stream.write_all(first).await.ok()?;
    let mut bytes = [0; FIRST_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        match timeout(PROBE, stream.read(&mut bytes[filled..])).await {
            Ok(Ok(read @ 1..)) => filled += read,
            _ => break,
        }
    }
    protocol(&bytes[..filled])
}

fn protocol(bytes: &[u8]) -> Option<Protocol> {
    match bytes {
        [] => None,
        // A record of the type alert (21) or handshake (22), version 3.x.
        [21 | 22, 3, ..] => Some(Protocol::Tls),
        [b'H', b'T', b'T', b'P', b'/', ..] => Some(Protocol::Http1),
        // A frame of the type SETTINGS or GOAWAY, with a length below 64 KiB.
        [0, _, _, 4 | 7, ..] => Some(Protocol::Http2),
        _ => Some(Protocol::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn server(address: &str, reason: &str) -> UnreachableServer {
        UnreachableServer { address: address.parse().unwrap(), reason: reason.to_owned() }
    }

    /// The remedy for a server that sends these bytes and closes.
    async fn remedy_for(scheme: &str, bytes: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; PREFACE.len()];
            stream.read_exact(&mut request).await.unwrap();
            stream.write_all(bytes).await.unwrap();
        });
        let failed = self::server(&format!("{scheme}://127.0.0.1:{port}"), "protocol error");
        let remedy = remedy(&[failed]).await;
        server.await.unwrap();
        remedy.replace(&port.to_string(), "PORT")
    }

    #[tokio::test]
    async fn scheme_mistakes_name_the_other_scheme() {
        assert_eq!(
            remedy_for("http", &[21, 3, 3, 0, 2, 2, 50]).await,
            "this server speaks TLS; use https://127.0.0.1:PORT"
        );
        for plain in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]] {
            assert_eq!(
                remedy_for("https", plain).await,
                "this server speaks plain HTTP; use http://127.0.0.1:PORT"
            );
        }
    }

    #[tokio::test]
    async fn other_protocols_are_named() {
        let http = remedy_for("http", b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        insta::assert_snapshot!(
            http,
            @"the server at 127.0.0.1:PORT speaks HTTP/1.1 and is not a registry; the default port \
              of a registry is 7070"
        );
        let ssh = remedy_for("http", b"SSH-2.0-OpenSSH_9.9\r\n").await;
        insta::assert_snapshot!(
            ssh,
            @"the server at 127.0.0.1:PORT speaks another protocol and is not a registry; the \
              default port of a registry is 7070"
        );
    }

    /// The reason of rustls if a trusted CA has the name of the issuer and a key of another type.
    const OTHER_KEY_TYPE: &str = "invalid peer certificate: \
         UnsupportedSignatureAlgorithmForPublicKeyContext { signature_algorithm_id: [6, 3, 43, \
         101, 112], public_key_algorithm_id: [6, 9] }";
    /// The reason of hyper when a server closes the connection.
    const CLOSED: &str = "broken pipe";

    #[tokio::test]
    async fn http1_is_recognized_after_closed_preface() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_exact(&mut [0; PREFACE.len()]).await.unwrap();
            drop(stream);
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_exact(&mut [0; REQUEST.len()]).await.unwrap();
            stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").await.unwrap();
        });
        let remedy = remedy(&[self::server(&address.to_string(), CLOSED)]).await;
        server.await.unwrap();
        assert_eq!(Some(remedy), mismatch(Protocol::Http1, &address));
    }

    #[test]
    fn causes_at_live_servers_have_remedies() {
        for (reason, expected) in [
            ("invalid HTTP version parsed", "https://"),
            ("received corrupt message of type InvalidContentType", "http://"),
            ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
            (OTHER_KEY_TYPE, "SSL_CERT_FILE"),
            ("Auth required", "--bearer-file"),
        ] {
            let text = with_live_remedy(reason.to_owned());
            assert!(text.starts_with(reason) && text.contains(expected), "{text}");
        }
        assert_eq!(with_live_remedy("timeout".to_owned()), "timeout");
    }

    #[tokio::test]
    async fn causes_have_remedies() {
        for (reason, expected) in [
            ("Connection refused (os error 111)", "start a registry with `registry-server`"),
            ("failed to lookup address information", "check the host name"),
            ("invalid peer certificate: UnknownIssuer", "--ca-cert FILE"),
            ("invalid peer certificate: BadSignature", "--ca-cert FILE"),
            (OTHER_KEY_TYPE, "--ca-cert FILE"),
            ("invalid peer certificate: NotValidForName", "another name"),
            ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "CA:FALSE"),
            ("received fatal alert: CertificateRequired", "--client-cert"),
        ] {
            let remedy = remedy(&[server("https://registry.test:7070", reason)]).await;
            assert!(remedy.contains(expected), "{reason}: {remedy}");
        }
    }

    #[tokio::test]
    async fn remedy_names_every_refused_server() {
        const REFUSED: &str = "connection refused (os error 111)";
        let refused =
            || ["https://a:7070", "https://b:7170"].map(|address| server(address, REFUSED));
        let all = remedy(&refused()).await;
        insta::assert_snapshot!(all, @"nothing listens at a:7070, b:7170; start a registry with `registry-server`, or set another address with --registry or REGISTRY_URL");
        let portless = server("https://c", REFUSED);
        let hinted = remedy(&refused().into_iter().chain([portless]).collect::<Vec<_>>()).await;
        insta::assert_snapshot!(hinted, @"nothing listens at a:7070, b:7170, c; add a missing port, such as c:7070, or start a registry with `registry-server`, or set another address with --registry or REGISTRY_URL");
        let unnamed = server("https://c:7270", "NotValidForName");
        let mixed = remedy(&refused().into_iter().chain([unnamed]).collect::<Vec<_>>()).await;
        insta::assert_snapshot!(mixed, @"nothing listens at a:7070, b:7170; start a registry with `registry-server`, or set another address with --registry or REGISTRY_URL; c:7270: the server's certificate is for another name; use a host name that it contains");
    }
}
