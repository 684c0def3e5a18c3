//! `file://`: plain files and exports, changed, invalid and restored.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use gateway_agent::{
    cache::Cache,
    config::{Args, Config},
    feed::{Feed, SourceState, Status},
    freshness::{MaxStaleness, StalenessMonitor},
    source::{self, ContentRejected, Discovery},
};
use gateway_upstream::Upstreams;
use registry_core::registry_file::write_export;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{disk::place, history::History};

pub(crate) struct Watching {
    pub(crate) cache: Cache,
    pub(crate) status: Status,
    pub(crate) stop: CancellationToken,
    pub(crate) ended: JoinHandle<Result<(), ContentRejected>>,
}

impl Watching {
    pub(crate) fn start(source: &str, cache: Cache, more: &str) -> Self {
        let yaml = format!("registry:\n  source: \"{source}\"\n  pollInterval: 50ms\n{more}");
        let config = Config::parse(Path::new("test.yaml"), &yaml, &Args::default());
        let config = config.expect("a configuration");
        let (status, stop) =
            (Status::new(source, Path::new("cache.json")), CancellationToken::new());
        let feed = Feed {
            cache: cache.clone(),
            staleness: StalenessMonitor::new(cache.clone(), MaxStaleness::default()),
            status: status.clone(),
            catalog_verifier: config.registry.catalog_verifier(),
            stop: stop.clone(),
        };
        let ended = tokio::spawn(async move {
            let upstreams = Upstreams::start(&[], config.limits);
            let servers = watch::channel(Arc::default()).1;
            let agents = watch::channel(Arc::default()).1;
            let discovery = Discovery::new(servers, agents, upstreams, PathBuf::new());
            source::follow(&config.registry.source, config.name, discovery, feed).await
        });
        Self { cache, status, stop, ended }
    }

    pub(crate) async fn until(&self, wanted: impl Fn(&Self) -> bool) {
        for _ in 0..500 {
            if wanted(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("not reached: {:?}, {:?}", self.cache.current().revision(), self.status.report());
    }

    pub(crate) async fn serves(&self, revision: u64) {
        self.until(|w| w.cache.current().revision().0 == revision).await;
        self.until(|w| w.status.report().state == SourceState::Live).await;
    }

    pub(crate) async fn refuses(&self, expected: &str) {
        self.until(|w| w.status.report().reason.is_some_and(|r| r.contains(expected))).await;
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A plain file with these schemas.
pub(crate) fn plain(names: &[&str]) -> String {
    let schema = |name| json!({ "name": name, "version": "1.0.0", "schema": { "type": "string" } });
    let schemas: Vec<Value> = names.iter().map(schema).collect();
    json!({ "schemaVersion": "2.0", "schemas": schemas }).to_string()
}

/// A plain file whose only server provides an unregistered tool.
pub(crate) fn incomplete() -> String {
    let server = json!({ "name": "s", "version": "1.0.0",
        "provides": [{ "tool": "gone", "version": "1.0.0" }] });
    json!({ "schemaVersion": "2.0", "servers": [server] }).to_string()
}

#[tokio::test]
async fn plain_file_is_followed_and_invalid_one_ignored() {
    let (_dir, path) = place();
    fs::write(&path, plain(&["A"])).expect("written");
    let source = format!("file://{}", path.display());
    let watching = Watching::start(&source, Cache::in_memory(None), "");
    watching.serves(1).await;
    fs::write(&path, plain(&["A", "B"])).expect("written");
    watching.serves(2).await;
    let good = watching.cache.current();
    let registered: Vec<_> = good.iter().map(|(_, record)| record.registered.0).collect();
    assert_eq!(registered, [1, 2], "each entity is dated to when it was first seen");
    for (bad, expected) in [
        ("{ not json".to_owned(), "not valid JSON"),
        (incomplete(), "provision-unknown"),
        (plain(&["A B"]), "name-invalid"),
    ] {
        fs::write(&path, bad).expect("written");
        watching.refuses(expected).await;
        assert_eq!(watching.cache.current().digest(), good.digest());
    }
    fs::remove_file(&path).expect("removed");
    watching.until(|w| w.status.report().state == SourceState::Down).await;
    fs::write(&path, plain(&["A", "B"])).expect("written");
    watching.serves(2).await;
    assert_eq!(watching.cache.current().digest(), good.digest());
    fs::write(&path, plain(&["B"])).expect("written");
    watching.serves(3).await;
    assert_ne!(watching.cache.current().chain(), good.chain());
}

#[tokio::test]
async fn yaml_file_is_the_catalog_of_its_json() {
    let (dir, json) = place();
    let yaml = dir.path().join("registry.yaml");
    fs::write(&json, plain(&["A"])).expect("written");
    let schema = "schemas:\n  - { name: A, version: 1.0.0, schema: { type: string } }\n";
    fs::write(&yaml, format!("# One schema.\nschemaVersion: \"2.0\"\n{schema}")).expect("written");
    let mut digests = Vec::new();
    for path in [&json, &yaml] {
        let source = format!("file://{}", path.display());
        let watching = Watching::start(&source, Cache::in_memory(None), "");
        watching.serves(1).await;
        digests.push(watching.cache.current().digest());
        fs::write(path, "schemas: [").expect("written");
        let syntax = if path == &yaml { "not valid YAML: " } else { "not valid JSON: " };
        watching.refuses(syntax).await;
    }
    assert_eq!(digests[0], digests[1]);
}

#[tokio::test]
async fn unchanged_file_keeps_revision_after_restart() {
    let (_dir, path) = place();
    fs::write(&path, plain(&["A", "B"])).expect("written");
    let source = format!("file://{}", path.display());
    let first = Watching::start(&source, Cache::in_memory(None), "");
    first.serves(1).await;
    let catalog = (*first.cache.current()).clone();
    let digest = catalog.digest();
    let second = Watching::start(&source, Cache::in_memory(Some(catalog)), "");
    second.serves(1).await;
    assert_eq!(second.cache.current().digest(), digest);
}

#[tokio::test]
async fn invalid_first_file_ends_without_cache() {
    let (_dir, path) = place();
    fs::write(&path, incomplete()).expect("written");
    let source = format!("file://{}", path.display());
    let mut watching = Watching::start(&source, Cache::in_memory(None), "");
    let ended = timeout(Duration::from_secs(10), &mut watching.ended).await.expect("it ends");
    let message = ended.expect("no panic").expect_err("it is refused").to_string();
    assert!(message.contains("error[provision-unknown]"), "{message}");
    assert!(message.contains("\"/servers/0/provides/0\""), "{message}");
    let more = "  validation: { startup: { missingEntity: warn } }\n";
    Watching::start(&source, Cache::in_memory(None), more).serves(1).await;
    let cached = History::new("file", 3);
    let cache = Cache::in_memory(Some(cached.head().clone()));
    let watching = Watching::start(&source, cache, "");
    watching.refuses("provision-unknown").await;
    assert_eq!(watching.cache.current().digest(), cached.head().digest());
}

#[tokio::test]
async fn export_is_followed_forward_only() {
    let (_dir, path) = place();
    let history = History::new("r", 5);
    fs::write(&path, write_export(history.at(3))).expect("written");
    let source = format!("file://{}", path.display());
    let watching = Watching::start(&source, Cache::in_memory(None), "");
    watching.serves(3).await;
    fs::write(&path, write_export(history.at(5))).expect("written");
    watching.serves(5).await;
    let mut forked = History::new("r", 4);
    forked.grow(99);
    let mut edited = String::from_utf8(write_export(history.at(5))).expect("text");
    edited = edited.replacen("\"revision\":5", "\"revision\":6", 1);
    for (bad, expected) in [
        (write_export(history.at(4)), "revision 4, but revision 5 is already served"),
        (
            write_export(History::new("other", 9).head()),
            "registry `other`, but the cache belongs to `r`",
        ),
        (write_export(forked.head()), "the history differs"),
        (edited.into_bytes(), "digest mismatch"),
        (plain(&["A"]).into_bytes(), "registry `file`, but the cache belongs to `r`"),
    ] {
        fs::write(&path, bad).expect("written");
        watching.refuses(expected).await;
        assert_eq!(watching.cache.current().digest(), history.head().digest());
    }
    fs::write(&path, write_export(history.at(5))).expect("written");
    watching.serves(5).await;
}
