//! Headers compared with arguments.

use serde_json::json;

use super::*;

const NAME: HeaderName = HeaderName::from_static("mcp-name");

fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

fn name(value: &[u8], body: &str) -> Result<(), Mismatch> {
    check_string(&headers(&[("mcp-name", value)]), &NAME, body, Encoding::Sentinel)
}

#[test]
fn names_are_compared_after_decoding() {
    assert_eq!(name(b"fetch", "fetch"), Ok(()));
    assert_eq!(name("=?base64?SGVsbG8sIOS4lueVjA==?=".as_bytes(), "Hello, 世界"), Ok(()));
    assert_eq!(name(b"=?base64?IHBhZGRlZCA=?=", " padded "), Ok(()));
    assert_eq!(name(b"=?base64?bGluZTEKbGluZTI=?=", "line1\nline2"), Ok(()));
    assert_eq!(name(b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="), Ok(()));
    assert_eq!(name(b"=?base64??=", ""), Ok(()));
    let different = Err(Mismatch::Different { header: NAME });
    assert_eq!(name(b"Fetch", "fetch"), different);
    assert_eq!(name(b"=?BASE64?ZmV0Y2g=?=", "fetch"), different, "the markers are lower case");
    assert_eq!(name(b"ZmV0Y2g=", "fetch"), different);
    let unreadable = Err(Mismatch::Unreadable { header: NAME });
    for bad in [&b"=?base64?ZmV0Y2g?="[..], b"=?base64?!!!!?=", b"=?base64?/w==?=", b"\xff"] {
        assert_eq!(name(bad, "fetch"), unreadable, "{bad:?}");
    }
    let plain = check_string(
        &headers(&[("mcp-name", b"=?base64?ZmV0Y2g=?=")]),
        &NAME,
        "fetch",
        Encoding::Plain,
    );
    assert_eq!(plain, different);
}

#[test]
fn header_must_occur_once() {
    let check = |pairs| check_string(&headers(pairs), &NAME, "a", Encoding::Sentinel);
    assert_eq!(check(&[]), Err(Mismatch::Missing { header: NAME }));
    let twice: &[(&'static str, &[u8])] = &[("mcp-name", b"a"), ("mcp-name", b"a")];
    assert_eq!(check(twice), Err(Mismatch::Repeated { header: NAME }));
}

/// Header values, arguments and results.
type Case = (&'static [&'static [u8]], Value, Result<(), Mismatch>);

#[test]
fn annotated_arguments_must_be_mirrored() {
    let header = HeaderName::from_static("mcp-param-p");
    let param = ParamHeader { header: header.clone(), path: vec!["deep".into(), "p".into()] };
    let check = |sent: &[&[u8]], argument: Value| {
        let pairs: Vec<_> = sent.iter().map(|value| ("mcp-param-p", *value)).collect();
        let arguments = json!({ "deep": argument, "p": "elsewhere" });
        check_params(&headers(&pairs), std::slice::from_ref(&param), arguments.as_object().unwrap())
    };
    let header = || header.clone();
    let ok = Ok(());
    let different = Err(Mismatch::Different { header: header() });
    let cases: [Case; 20] = [
        (&[b"eu"], json!({ "p": "eu" }), ok.clone()),
        (&[b"=?base64?ZXU=?="], json!({ "p": "eu" }), ok.clone()),
        (&[b"42"], json!({ "p": 42 }), ok.clone()),
        (&[b"42.0"], json!({ "p": 42 }), ok.clone()),
        (&[b"4.2e1"], json!({ "p": 42 }), ok.clone()),
        (&[b"true"], json!({ "p": true }), ok.clone()),
        (&[], json!({}), ok.clone()),
        (&[], json!({ "p": null }), ok.clone()),
        (&[], json!(5), ok),
        (&[b"us"], json!({ "p": "eu" }), different.clone()),
        (&[b"43"], json!({ "p": 42 }), different.clone()),
        (&[b"42"], json!({ "p": "42.0" }), different.clone()),
        (&[b"True"], json!({ "p": true }), different.clone()),
        (&[b"[1]"], json!({ "p": [1] }), different),
        (&[], json!({ "p": "eu" }), Err(Mismatch::Missing { header: header() })),
        (&[b"eu"], json!({}), Err(Mismatch::Unexpected { header: header() })),
        (&[b"null"], json!({ "p": null }), Err(Mismatch::Unexpected { header: header() })),
        (&[b"eu", b"eu"], json!({ "p": "eu" }), Err(Mismatch::Repeated { header: header() })),
        (&[b"\xff"], json!({ "p": "eu" }), Err(Mismatch::Unreadable { header: header() })),
        (&[b"=?base64?*?="], json!({ "p": "eu" }), Err(Mismatch::Unreadable { header: header() })),
    ];
    for (sent, argument, expected) in cases {
        assert_eq!(check(sent, argument.clone()), expected, "{sent:?} {argument}");
    }
}
