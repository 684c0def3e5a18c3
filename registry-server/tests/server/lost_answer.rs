//! Loss of the database connection between a commit and its response.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use acceptance::postgres::database;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use crate::harness::{TestServer, new_schema, proven_log};

/// Name in the dropped commit, which occurs in the bytes of the append.
const STOLEN: &str = "StolenAnswer";

/// Proxy of the database. When armed, it forwards the append and closes the connection before the response.
struct Thief {
    address: String,
    armed: Arc<AtomicBool>,
}

impl Thief {
    async fn before(upstream: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let armed = Arc::new(AtomicBool::new(false));
        let trap = armed.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&upstream).await.unwrap();
                tokio::spawn(carry(client, server, trap.clone()));
            }
        });
        Self { address, armed }
    }
}

async fn carry(client: TcpStream, server: TcpStream, armed: Arc<AtomicBool>) {
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let answer = Arc::new(Answer::default());
    tokio::spawn(copy(from_server, to_client, answer.clone()));
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
        let mut windows = buffer[..count].windows(STOLEN.len());
        let is_append = windows.any(|text| text == STOLEN.as_bytes());
        let steal = is_append && armed.swap(false, Ordering::SeqCst);
        if steal {
            answer.is_stolen.store(true, Ordering::SeqCst);
        }
        if to_server.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        if steal {
            // The database has committed when it responds.
            answer.arrived.notified().await;
            return;
        }
    }
}

/// Response to the append.
#[derive(Default)]
struct Answer {
    is_stolen: AtomicBool,
    arrived: Notify,
}

/// Forwards responses, except the dropped one.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    answer: Arc<Answer>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if answer.is_stolen.load(Ordering::SeqCst) {
            return answer.arrived.notify_one();
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_with_a_lost_response_is_recognized() {
    let database = database().await;
    let Some((before, rest)) = database.url().split_once("127.0.0.1:") else {
        // The server of DATABASE_URL may be remote; the private cluster is on this host.
        return;
    };
    let (port, name) = rest.split_once('/').unwrap();
    let thief = Thief::before(format!("127.0.0.1:{port}")).await;
    let url = format!("{before}{}/{name}?sslmode=disable", thief.address);
    let registry = TestServer::with(&["--database", &url]).await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("A")).await.unwrap();

    thief.armed.store(true, Ordering::SeqCst);
    let answer = client.apply_changes(new_schema(STOLEN)).await.unwrap().into_inner();
    assert!(!thief.armed.load(Ordering::SeqCst), "the append was seen");
    assert_eq!((answer.revision, answer.committed), (2, true));
    assert_eq!(client.apply_changes(new_schema("C")).await.unwrap().into_inner().revision, 3);
    assert_eq!(proven_log(&registry).await.len(), 3);
}
