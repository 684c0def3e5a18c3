//! Content negotiation.

use http::Request;

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut request = Request::builder();
    for (name, value) in pairs {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0.headers
}

#[test]
fn client_must_accept_both_response_types() {
    let media = |accept: &'static [&'static str]| {
        let mut pairs = vec![("content-type", "application/json"), ("mcp-session-id", "x")];
        pairs.extend(accept.iter().map(|value| ("accept", *value)));
        check_media(&headers(&pairs)).is_ok()
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
fn plain_request_gets_json() {
    let media = |accept: &[&'static str]| {
        let mut pairs = vec![("content-type", "application/json")];
        pairs.extend(accept.iter().map(|value| ("accept", *value)));
        check_media(&headers(&pairs))
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
fn body_must_be_json() {
    let media = |content: Option<&'static str>| {
        let mut pairs = vec![("accept", "*/*")];
        pairs.extend(content.map(|content| ("content-type", content)));
        check_media(&headers(&pairs))
    };
    assert_eq!(media(Some("application/json")), Ok(()));
    assert_eq!(media(Some("Application/Json ; charset=utf-8")), Ok(()));
    for bad in [None, Some("text/plain"), Some("application/jsonp"), Some("application/xml")] {
        assert_eq!(media(bad), Err(Rejection::MediaType), "{bad:?}");
    }
}
