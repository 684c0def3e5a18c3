//! HTTP request smuggling: however a request is framed, no unrequested call is made, and the
//! gateway continues to serve.

use std::sync::Arc;

use acceptance::ModernClient;
use serde_json::{Value, json};

use super::{CALL_HEAD, MODERN, Scene, exchange, modern_call, page, result_of, status};
use crate::scripted_server::json_answer;

async fn scene() -> Scene {
    let call = Arc::new(|_: &str, message: &Value| Some(json_answer(&result_of(message, &page()))));
    Scene::start(MODERN, "", call).await
}

/// A complete call, hidden behind another request.
fn smuggled() -> String {
    let body = modern_call("http://smuggled/").to_string();
    format!("{CALL_HEAD}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

#[tokio::test]
async fn request_smuggling_is_rejected() {
    let scene = scene().await;
    let (body, behind) = (modern_call("http://first/").to_string(), smuggled());
    let te = "Transfer-Encoding: chunked\r\n";
    let all = chunked(&body) + &behind;
    let length = format!("Content-Length: {}\r\n", all.len());
    let short = format!("Content-Length: {}\r\n", body.len());
    for (what, headers, rest) in [
        ("a length, then chunks", format!("{length}{te}"), all.clone()),
        ("chunks, then a length", format!("{te}{length}"), all.clone()),
        ("a short length and chunks", format!("Content-Length: 4\r\n{te}"), all.clone()),
        ("two lengths", format!("{short}{length}"), format!("{body}{behind}")),
        ("two lengths in one", "Content-Length: 4, 5\r\n".to_owned(), format!("{body}{behind}")),
        ("chunks that are none", "Transfer-Encoding: xchunked\r\n".to_owned(), all.clone()),
        ("chunks within", "Transfer-Encoding: chunked, gzip\r\n".to_owned(), all.clone()),
        ("a length with a sign", "Content-Length: +5\r\n".to_owned(), all.clone()),
        ("a negative length", "Content-Length: -1\r\n".to_owned(), all.clone()),
        ("a length in hexadecimal", "Content-Length: 0x10\r\n".to_owned(), all.clone()),
        ("a length beyond all", format!("Content-Length: {}0\r\n", u64::MAX), all.clone()),
        ("a name with a space", "Content-Length : 5\r\n".to_owned(), all.clone()),
        ("a chunk without a size", te.to_owned(), format!("zz\r\n{behind}")),
        ("a chunk beyond all", te.to_owned(), format!("fffffffffffffffff\r\n{behind}")),
    ] {
        let sent = format!("{CALL_HEAD}{headers}\r\n{rest}");
        let (answer, is_closed) = exchange(&scene.gateway, sent.as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{what}: {answer}");
        assert!(is_closed, "{what}: the connection is not used again");
        assert!(!scene.server.seen().contains("smuggled"), "{what}");
        // With both headers, the body is read as chunks, and the rest of the connection is not
        // read.
        let expected = if headers.contains("Length: ") && headers.contains(te) { 200 } else { 400 };
        assert_eq!(status(&answer), expected, "{what}: {answer}");
    }
    let old = CALL_HEAD.replacen("HTTP/1.1", "HTTP/1.0", 1);
    let (answer, _) = exchange(&scene.gateway, format!("{old}{te}\r\n{all}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.0 400") || status(&answer) == 400, "{answer}");
    assert!(!scene.server.seen().contains("smuggled"));
    let client = ModernClient::anonymous(&scene.gateway.mcp_url());
    assert!(!client.call("fetch", json!({ "url": "http://x/" })).await.is_tool_error());
}

/// The response to a call with these additional header lines.
async fn with_lines(scene: &Scene, head: &str, lines: &str) -> String {
    let body = modern_call("http://forbidden/").to_string();
    let sent = format!("{head}{lines}Content-Length: {}\r\n\r\n{body}", body.len());
    exchange(&scene.gateway, sent.as_bytes()).await.0
}

#[tokio::test]
async fn ambiguous_headers_are_rejected() {
    let scene = scene().await;
    for (what, lines, expected) in [
        ("two methods", "Mcp-Method: tools/list\r\n", 400),
        ("the same method twice", "mcp-method: tools/call\r\n", 400),
        ("two names", "Mcp-Name: other\r\n", 400),
        ("two versions", "Mcp-Protocol-Version: 2025-11-25\r\n", 400),
        ("two hosts", "Host: localhost\r\n", 403),
        ("a foreign host", "Host: evil.example\r\n", 403),
        ("a foreign page", "Origin: https://evil.example\r\n", 403),
        ("two pages", "Origin: http://localhost\r\nOrigin: https://evil.example\r\n", 403),
        ("a bare CR in a value", "X-A: b\rMcp-Method: tools/list\r\n", 400),
        ("a bare CR at the end", "X-A: b\r\r\n", 400),
        ("a bare LF that hides a method", "X-A: b\nMcp-Method: tools/list\r\n", 400),
        ("a zero byte", "X-A: b\0c\r\n", 400),
        ("a folded line", "X-A: b\r\n c\r\n", 400),
        ("a name with a space", "Mcp-Method : tools/call\r\n", 400),
        ("a name with a line", "X\nA: b\r\n", 400),
        ("no name", ": b\r\n", 400),
        ("no colon", "nonsense\r\n", 400),
    ] {
        let answer = with_lines(&scene, CALL_HEAD, lines).await;
        assert_eq!(status(&answer), expected, "{what}: {answer}");
    }
    let many = "X-A: b\r\n".repeat(200);
    let long = |bytes| format!("X-A: {}\r\n", "b".repeat(bytes));
    assert_eq!(status(&with_lines(&scene, CALL_HEAD, &long(15_000)).await), 200);
    for lines in [many, long(17_000), long(70_000)] {
        assert_eq!(status(&with_lines(&scene, CALL_HEAD, &lines).await), 431);
    }
    for (line, expected) in [
        ("POST http://evil.example/mcp HTTP/1.1", 200), // its `Host` says where it was sent
        ("POST /mcp/../mcp HTTP/1.1", 404),
        ("POST //mcp HTTP/1.1", 404),
        ("POST /mcp HTTP/1.1 HTTP/1.1", 400),
        ("POST /mcp HTTP/3.7", 400),
        ("POST /m cp HTTP/1.1", 400),
        ("CONNECT evil.example:80 HTTP/1.1", 404),
        ("TRACE /mcp HTTP/1.1", 405),
    ] {
        let head = CALL_HEAD.replacen("POST /mcp HTTP/1.1", line, 1);
        let answer = with_lines(&scene, &head, "").await;
        assert_eq!(status(&answer), expected, "{line}: {answer}");
    }
    let forbidden = scene.server.seen().matches("http://forbidden/").count();
    assert_eq!(forbidden, 2, "those that were accepted");
    let (settings, _) = exchange(&scene.gateway, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert_eq!(settings.as_bytes().get(3), Some(&4), "a frame with settings: {settings:?}");
    let (_, is_closed) = exchange(&scene.gateway, b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n").await;
    assert!(is_closed, "an invalid preface");
}
