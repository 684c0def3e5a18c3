//! `http(s)://`: polling with `ETag`, and failures.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use gateway_agent::{cache::Cache, feed::SourceState};
use registry_core::registry_file::write_export;
use tokio::net::TcpListener;

use crate::{
    files::{Watching, incomplete, plain},
    history::History,
    script::Aborted,
};

#[derive(Clone)]
struct Site {
    content: Arc<Mutex<(StatusCode, String, Vec<u8>)>>,
    answered: Arc<AtomicUsize>,
    unchanged: Arc<AtomicUsize>,
}

impl Site {
    async fn start(content: impl Into<Vec<u8>>) -> (Self, SocketAddr, Aborted) {
        let content = (StatusCode::OK, "\"1\"".to_owned(), content.into());
        let site = Self {
            content: Arc::new(Mutex::new(content)),
            answered: Arc::default(),
            unchanged: Arc::default(),
        };
        let router = Router::new().route("/registry.json", get(answer)).with_state(site.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = async move { axum::serve(listener, router).await.expect("it serves") };
        (site, address, Aborted(tokio::spawn(serving)))
    }

    fn put(&self, status: StatusCode, tag: &str, content: impl Into<Vec<u8>>) {
        *self.content.lock().expect("unpoisoned") = (status, tag.to_owned(), content.into());
    }
}

async fn answer(State(site): State<Site>, headers: HeaderMap) -> Response {
    let (status, tag, content) = site.content.lock().expect("unpoisoned").clone();
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    if status == StatusCode::OK && known == Some(tag.as_str()) {
        site.unchanged.fetch_add(1, Ordering::SeqCst);
        return StatusCode::NOT_MODIFIED.into_response();
    }
    site.answered.fetch_add(1, Ordering::SeqCst);
    (status, [(header::ETAG, tag)], content).into_response()
}

#[tokio::test]
async fn url_is_read_only_when_changed() {
    let history = History::new("r", 4);
    let (site, address, _serving) = Site::start(write_export(history.at(2))).await;
    let url = format!("http://{address}/registry.json");
    let watching = Watching::start(&url, Cache::in_memory(None), "");
    watching.serves(2).await;
    watching.until(|_| site.unchanged.load(Ordering::SeqCst) >= 3).await;
    assert_eq!(site.answered.load(Ordering::SeqCst), 1);
    site.put(StatusCode::OK, "\"2\"", write_export(history.at(4)));
    watching.serves(4).await;
    site.put(StatusCode::INTERNAL_SERVER_ERROR, "", "down");
    watching.refuses("unexpected HTTP status 500").await;
    assert_eq!(watching.status.report().state, SourceState::Down);
    site.put(StatusCode::OK, "\"3\"", "<html>");
    watching.refuses("not valid JSON").await;
    let seen = site.unchanged.load(Ordering::SeqCst);
    watching.until(|_| site.unchanged.load(Ordering::SeqCst) > seen + 1).await;
    assert_eq!(watching.status.report().state, SourceState::Rejected, "304 does not make it good");
    site.put(StatusCode::OK, "\"4\"", write_export(history.at(3)));
    watching.refuses("revision 3, but revision 4 is already served").await;
    assert_eq!(watching.cache.current().digest(), history.head().digest());
    site.put(StatusCode::OK, "\"5\"", write_export(history.at(4)));
    watching.serves(4).await;
}

#[tokio::test]
async fn plain_file_is_followed_over_http() {
    let (site, address, _serving) = Site::start(plain(&["A"])).await;
    let url = format!("http://{address}/registry.json");
    let watching = Watching::start(&url, Cache::in_memory(None), "");
    watching.serves(1).await;
    site.put(StatusCode::OK, "\"2\"", plain(&["A", "B"]));
    watching.serves(2).await;
    site.put(StatusCode::OK, "\"3\"", incomplete());
    watching.refuses("provision-unknown").await;
    assert_eq!(watching.cache.current().revision().0, 2);
}

#[tokio::test]
async fn unreachable_url_is_down() {
    let watching = Watching::start("http://127.0.0.1:9/registry.json", Cache::in_memory(None), "");
    watching.until(|w| w.status.report().state == SourceState::Down).await;
    assert!(!watching.ended.is_finished());
}
