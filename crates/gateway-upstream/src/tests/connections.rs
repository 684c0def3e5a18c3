//! The connections to an upstream over HTTP/1.1: when they are reused, replaced and closed.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;

/// The same reply, after which the server closes the connection without notice.
fn last(reply: Reply) -> Reply {
    let Reply::Keep(pieces) = reply else { panic!("{reply:?} is not complete") };
    Reply::Close(pieces.concat())
}

#[tokio::test]
async fn closed_connection_is_replaced_silently() {
    let fake = modern_server(|seen| last(seen.result(&json!({})))).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    for calls in 1..=3 {
        upstreams.must_call("{}").await;
        assert_eq!(fake.seen("tools/call").len(), calls);
        eventually(|| async { fake.closed_connections() == calls }).await;
    }
}

#[tokio::test]
async fn connection_with_unread_body_is_not_reused() {
    let head = "HTTP/1.1 200 X\r\ncontent-type: text/html\r\ncontent-length: 1000\r\n\r\n<html>";
    let fake = modern_server(move |_| Reply::Hang(head.into())).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    for calls in 1..=2 {
        let error = upstreams.try_call("{}").await.unwrap_err();
        let is_media_type =
            matches!(error, Error::Protocol { what: ProtocolViolation::ContentType });
        assert!(is_media_type, "{error}");
        eventually(|| async { fake.cut_off() == calls }).await;
    }
}

#[tokio::test]
async fn connection_of_cancelled_call_is_not_reused() {
    let has_stalled = AtomicBool::new(false);
    let fake = modern_server(move |seen| {
        if has_stalled.swap(true, Ordering::Relaxed) {
            seen.result(&json!({}))
        } else {
            Reply::stall()
        }
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    {
        let call = upstreams.try_call("{}");
        let received = eventually(|| async { fake.seen("tools/call").len() == 1 });
        tokio::select! {
            _ = call => panic!("the server answered"),
            () = received => {}
        }
    }
    assert_eq!(upstreams.must_call("{}").await, "{}");
    eventually(|| async { fake.cut_off() == 1 }).await;
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let fake = modern_server(|seen| seen.result(&json!({}))).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    upstreams.must_call("{}").await;
    tokio::time::pause();
    eventually(|| async { fake.closed_connections() == fake.connections() }).await;
    tokio::time::resume();
    let before = fake.connections();
    assert_eq!(upstreams.must_call("{}").await, "{}");
    assert!(fake.connections() > before);
}
