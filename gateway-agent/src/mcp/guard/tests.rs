//! Origins, hosts and media types.

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

fn reach(listen: &str) -> Reach {
    Reach { listen: listen.parse().unwrap(), origins: Vec::new(), hosts: Vec::new() }
}

fn source(listen: &str, pairs: &[(&'static str, &'static str)]) -> Result<(), Rejection> {
    check_source(&parts("/mcp", pairs), &reach(listen))
}

#[test]
fn lists_of_origins_and_hosts_replace_the_defaults() {
    let reach = Reach {
        origins: vec!["https://app.example".to_owned()],
        hosts: vec!["gateway.example".to_owned(), "other.example:8443".to_owned()],
        ..reach("0.0.0.0:7080")
    };
    let check =
        |pairs: &[(&'static str, &'static str)]| check_source(&parts("/mcp", pairs), &reach);
    let host = ("host", "gateway.example:7080");
    assert_eq!(check(&[host, ("origin", "https://app.example")]), Ok(()));
    for origin in ["http://app.example", "https://app.example:444", "http://localhost"] {
        assert_eq!(check(&[host, ("origin", origin)]), Err(Rejection::ForeignOrigin), "{origin}");
    }
    for good in ["Gateway.Example", "other.example:8443"] {
        assert_eq!(check(&[("host", good)]), Ok(()), "{good}");
    }
    for bad in ["other.example", "localhost", "evil.example"] {
        assert_eq!(check(&[("host", bad)]), Err(Rejection::ForeignHost), "{bad}");
    }
}

#[test]
fn only_web_pages_of_this_machine_may_call() {
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
        assert_eq!(origin(bad), Err(Rejection::ForeignOrigin), "{bad}");
    }
    let both = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://e.x")];
    assert_eq!(source(LOOPBACK, &both), Err(Rejection::ForeignOrigin));
}

#[test]
fn on_loopback_the_host_must_be_this_machine() {
    for good in ["localhost", "LOCALHOST:7080", "127.0.0.1:7080", "127.8.8.8", "[::1]:7080"] {
        assert_eq!(source(LOOPBACK, &[("host", good)]), Ok(()), "{good}");
    }
    for bad in ["evil.example", "localhost.evil.example", "10.0.0.1:7080", "", "a b", "0.0.0.0"] {
        assert_eq!(source(LOOPBACK, &[("host", bad)]), Err(Rejection::ForeignHost), "{bad}");
    }
    assert_eq!(source(LOOPBACK, &[]), Err(Rejection::ForeignHost));
    let two = [("host", "localhost"), ("host", "evil.example")];
    assert_eq!(source(LOOPBACK, &two), Err(Rejection::ForeignHost));
    let http2 = parts("http://localhost:7080/mcp", &[]);
    assert_eq!(check_source(&http2, &reach(LOOPBACK)), Ok(()));
    assert_eq!(source("0.0.0.0:7080", &[("host", "gateway.example")]), Ok(()));
}

#[test]
fn the_client_must_read_both_kinds_of_answer() {
    let media = |accept: &'static [&'static str]| {
        let mut pairs = vec![("content-type", "application/json"), ("mcp-session-id", "x")];
        pairs.extend(accept.iter().map(|value| ("accept", *value)));
        check_media(&parts("/mcp", &pairs).headers).is_ok()
    };
    assert!(media(&["application/json, text/event-stream"]));
    assert!(media(&["text/event-stream;q=0.5", "Application/JSON; charset=utf-8"]));
    assert!(media(&["*/*"]) && media(&["application/*, text/*"]));
    assert!(!media(&[]) && !media(&[""]) && !media(&["application/json"]));
    assert!(!media(&["text/event-stream"]) && !media(&["text/html, application/xml"]));
    assert!(!media(&["application/json, text/event-stream;q=0"]));
    assert!(!media(&["application/json;q=0.0, text/event-stream"]));
}

#[test]
fn plain_request_is_answered_in_json() {
    let media = |accept: &[&'static str]| {
        let mut pairs = vec![("content-type", "application/json")];
        pairs.extend(accept.iter().map(|value| ("accept", *value)));
        check_media(&parts("/mcp", &pairs).headers)
    };
    for good in [&[][..], &["*/*"], &["application/json"]] {
        assert_eq!(media(good), Ok(()), "{good:?}");
    }
    let needed = "application/json";
    for bad in [&["text/event-stream"][..], &["application/json;q=0"], &[""]] {
        assert_eq!(media(bad), Err(Rejection::NotAcceptable { needed }), "{bad:?}");
    }
}

#[test]
fn the_body_must_be_json() {
    let media = |content: Option<&'static str>| {
        let mut pairs = vec![("accept", "*/*")];
        pairs.extend(content.map(|content| ("content-type", content)));
        check_media(&parts("/mcp", &pairs).headers)
    };
    assert_eq!(media(Some("application/json")), Ok(()));
    assert_eq!(media(Some("Application/Json ; charset=utf-8")), Ok(()));
    for bad in [None, Some("text/plain"), Some("application/jsonp"), Some("application/xml")] {
        assert_eq!(media(bad), Err(Rejection::MediaType), "{bad:?}");
    }
}
