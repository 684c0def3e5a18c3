//! Origins and hosts.

use http::Request;

use super::*;

fn parts(uri: &str, pairs: &[(&'static str, &'static str)]) -> Parts {
    let mut request = Request::builder().uri(uri);
    for (name, value) in pairs {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

const LOOPBACK: &str = "127.0.0.1:7080";

fn policy(listen: &str) -> OriginPolicy {
    OriginPolicy { listen: listen.parse().unwrap(), origins: Vec::new(), hosts: Vec::new() }
}

fn source(listen: &str, pairs: &[(&'static str, &'static str)]) -> Result<(), ForeignSource> {
    policy(listen).check(&parts("/mcp", pairs))
}

#[test]
fn configured_lists_replace_defaults() {
    let policy = OriginPolicy {
        origins: vec!["https://app.example".to_owned()],
        hosts: vec!["gateway.example".to_owned(), "other.example:8443".to_owned()],
        ..policy("0.0.0.0:7080")
    };
    let check = |pairs: &[(&'static str, &'static str)]| policy.check(&parts("/mcp", pairs));
    let host = ("host", "gateway.example:7080");
    assert_eq!(check(&[host, ("origin", "https://app.example")]), Ok(()));
    for origin in ["http://app.example", "https://app.example:444", "http://localhost"] {
        assert_eq!(check(&[host, ("origin", origin)]), Err(ForeignSource::Origin), "{origin}");
    }
    for good in ["Gateway.Example", "other.example:8443"] {
        assert_eq!(check(&[("host", good)]), Ok(()), "{good}");
    }
    for bad in ["other.example", "localhost", "evil.example"] {
        assert_eq!(check(&[("host", bad)]), Err(ForeignSource::Host), "{bad}");
    }
}

#[test]
fn only_local_pages_are_allowed() {
    let origin = |origin| source(LOOPBACK, &[("host", "localhost:7080"), ("origin", origin)]);
    for good in
        ["http://localhost", "http://localhost:3000", "https://127.0.0.1:1", "http://[::1]:8080"]
    {
        assert_eq!(origin(good), Ok(()), "{good}");
    }
    for bad in [
        "http://evil.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "null",
        "",
        "file://localhost",
        "localhost",
        "http://localhost@evil.example",
    ] {
        assert_eq!(origin(bad), Err(ForeignSource::Origin), "{bad}");
    }
    let both = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://e.x")];
    assert_eq!(source(LOOPBACK, &both), Err(ForeignSource::Origin));
}

#[test]
fn loopback_requires_local_host() {
    for good in
        ["localhost", "LOCALHOST:7080", "127.0.0.1:7080", "127.8.8.8", "[::1]", "[::1]:7080"]
    {
        assert_eq!(source(LOOPBACK, &[("host", good)]), Ok(()), "{good}");
    }
    for bad in [
        "evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "localhost:1@evil.example",
        "[::1]evil.example",
        "evil.example[::1]",
        "localhost:7080/",
        "10.0.0.1:7080",
        "::1",
        "[::1",
        "",
        "a b",
        "0.0.0.0",
    ] {
        assert_eq!(source(LOOPBACK, &[("host", bad)]), Err(ForeignSource::Host), "{bad}");
    }
    assert_eq!(source(LOOPBACK, &[]), Err(ForeignSource::Host));
    let two = [("host", "localhost"), ("host", "evil.example")];
    assert_eq!(source(LOOPBACK, &two), Err(ForeignSource::Host));
    let http2 = parts("http://localhost:7080/mcp", &[]);
    assert_eq!(policy(LOOPBACK).check(&http2), Ok(()));
    assert_eq!(source("0.0.0.0:7080", &[("host", "gateway.example")]), Ok(()));
}
