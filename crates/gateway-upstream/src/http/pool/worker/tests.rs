//! The connections of one worker, without a server.

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

use super::*;

const IDLE: Duration = Duration::from_secs(4);

fn worker() -> Arc<WorkerPool> {
    Arc::new(WorkerPool::new(HeaderValue::from_static("host"), IDLE))
}

/// A connection over HTTP/1.1, and its other end.
async fn connection() -> (Connection, DuplexStream) {
    let (near, far) = duplex(1024);
    let (sender, task) = http1::handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(task);
    let mut connection = Connection::Http1(sender);
    connection.ready().await.unwrap();
    (connection, far)
}

async fn http2_connection() -> (Connection, DuplexStream) {
    let (near, far) = duplex(1024);
    let builder = http2::Builder::new(TokioExecutor::new());
    let (sender, task) = builder.handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(task);
    (Connection::Http2(sender), far)
}

#[tokio::test]
async fn released_connection_goes_to_first_waiting_request() {
    let (worker, (connection, _server)) = (worker(), connection().await);
    let [cancelled, mut first, mut second] = [(); 3].map(|()| worker.wait());
    drop(cancelled);
    worker.release(connection);
    assert!(first.try_recv().is_ok() && second.try_recv().is_err());
    assert!(worker.take().is_none());
}

#[tokio::test(start_paused = true)]
async fn connection_expires_when_no_request_uses_it() {
    let (worker, (connection, mut server)) = (worker(), connection().await);
    worker.release(connection);
    for _ in 0..3 {
        sleep(IDLE / 2).await;
        let connection = worker.take().expect("a used connection stays open");
        worker.release(connection);
    }
    sleep(IDLE + Duration::from_millis(100)).await;
    assert!(worker.take().is_none());
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0, "the connection is closed");
}

#[tokio::test(start_paused = true)]
async fn closed_connection_is_not_taken() {
    let worker = worker();
    let ((open, _server), (closed, server)) = (connection().await, connection().await);
    worker.release(open);
    worker.release(closed);
    drop(server);
    // The task of the connection runs before the paused clock advances.
    sleep(Duration::from_millis(1)).await;
    assert!(worker.take().is_some_and(|connection| connection.is_ready()));
    assert!(worker.take().is_none());
}

#[tokio::test]
async fn http2_connection_is_shared() {
    let (worker, (connection, _server)) = (worker(), http2_connection().await);
    let mut waiting = [(); 2].map(|()| worker.wait());
    worker.put(connection);
    assert!(waiting.iter_mut().all(|waiting| waiting.try_recv().is_ok()));
    let (superfluous, _server) = http2_connection().await;
    worker.put(superfluous);
    assert!(worker.take().is_some() && worker.take().is_some());
    assert_eq!(worker.lock().idle.len(), 1);
}
