//! Responses that are not gRPC messages.

use axum::{Router, body::Body, http::Response, routing::post};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use gateway_agent::{cache::Cache, feed::SourceState};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;

use crate::{
    history::History,
    script::{Aborted, Following, hurried},
};

/// A server that answers every stream with these bytes.
async fn saying(bytes: &'static [u8]) -> (std::net::SocketAddr, Aborted) {
    let answer = move || async move {
        let body = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(bytes))]);
        Response::builder()
            .header("content-type", "application/grpc")
            .body(Body::from_stream(body.chain(stream::pending())))
            .expect("a response")
    };
    let router = Router::new().route("/registry.v1.SyncService/Sync", post(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = tonic::transport::Server::builder()
        .add_routes(Routes::from(router))
        .serve_with_incoming(TcpListenerStream::new(listener));
    (address, Aborted(tokio::spawn(async move { serving.await.expect("it serves") })))
}

#[tokio::test]
async fn invalid_bytes_are_rejected() {
    for (bytes, state) in [
        (&b"\0\0\0\0\x04\xff\xff\xff\xff"[..], SourceState::Rejected),
        (&b"\0\0\0\0\x03\x0a\x7f\x01"[..], SourceState::Rejected),
        // A length of 4 GiB, an unknown compression, a text.
        (&b"\0\xff\xff\xff\xff"[..], SourceState::Rejected),
        (&b"\x01\0\0\0\x01x"[..], SourceState::Down),
        (&b"HTTP/1.1 200 OK\r\n\r\n"[..], SourceState::Down),
    ] {
        let (address, _serving) = saying(bytes).await;
        let held = History::new("r", 2);
        let cache = Cache::in_memory(Some(held.head().clone()));
        let following = Following::start(address, cache, hurried());
        following.is(state).await;
        assert_eq!(following.cache.current().digest(), held.head().digest());
    }
}

#[tokio::test]
async fn server_without_grpc_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = tokio::spawn(async move {
        let router = Router::new().fallback(|| async { "hello" });
        axum::serve(listener, router).await.expect("it serves");
    });
    let _serving = Aborted(serving);
    let following = Following::start(address, Cache::in_memory(None), hurried());
    for _ in 0..500 {
        if following.status.report().state != SourceState::Connecting {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{:?}", following.status.report());
}
