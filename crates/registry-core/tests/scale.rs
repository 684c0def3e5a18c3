//! Time measurements with large inputs; ignored by default.
//!
//! `cargo test --release -p registry-core --test scale -- --ignored --nocapture`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use registry_core::{
    Catalog, Commit, Document, Kind, RegistryFile, RegistryId, SealedCommit, Timestamp,
    registry_file::{read_export, write, write_export},
    rules::{Proposed, plan, validate},
};
use serde_json::{Value, json};

/// The allocator of the programs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the CPU time of this thread, which is independent of other load.
fn timed<T>(what: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    let (start, busy) = (Instant::now(), busy());
    let done = work();
    let busy = self::busy().zip(busy).map(|(after, before)| after.saturating_sub(before));
    let took = busy.unwrap_or_else(|| start.elapsed());
    println!("{what}: {took:?} ({:?} on the wall)", start.elapsed());
    (done, took)
}

/// The CPU time of this thread according to Linux.
fn busy() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

fn document(kind: Kind, value: &Value) -> Proposed {
    Proposed::Register(Arc::new(Document::parse(kind, value).unwrap()))
}

/// A tool with a schema of five properties.
fn tool(i: usize, server: usize) -> Proposed {
    let schema = json!({
        "type": "object",
        "properties": {
            (format!("query{i}")): { "type": "string", "minLength": 1, "description": "what to find" },
            "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 10 },
            "tags": { "type": "array", "items": { "type": "string" } },
            "mode": { "enum": ["fast", "exact"] },
            "page": { "type": "object", "properties": { "after": { "type": "string" } } },
        },
        "required": [format!("query{i}")],
    });
    let source = json!({
        "server": format!("server-{server}"), "serverVersion": "1.0.0", "tool": format!("tool_{i}"),
    });
    let tool = json!({
        "name": format!("tool_{i}"), "version": "1.0.0", "description": "a tool that finds things",
        "source": source, "inputSchema": schema,
    });
    document(Kind::Tool, &tool)
}

fn server(server: usize, tools: impl Iterator<Item = usize>) -> Proposed {
    let provides: Vec<_> =
        tools.map(|i| json!({ "tool": format!("tool_{i}"), "version": "1.0.0" })).collect();
    let name = format!("server-{server}");
    document(Kind::Server, &json!({ "name": name, "version": "1.0.0", "provides": provides }))
}

/// Servers with 100 tools each.
fn batch(tools: usize) -> Vec<Proposed> {
    let servers = (0..tools.div_ceil(100)).map(|s| server(s, s * 100..tools.min((s + 1) * 100)));
    servers.chain((0..tools).map(|i| tool(i, i / 100))).collect()
}

fn applied(batch: &[Proposed]) -> Catalog {
    let mut catalog = Catalog::empty(RegistryId::new("scale"));
    let changes = validate(&catalog, batch).effects.into_iter().flatten().collect();
    let documents = batch.iter().filter_map(|proposed| match proposed {
        Proposed::Register(document) => Some(document.clone()),
        Proposed::SetLifecycle { .. } => None,
    });
    let commit = Commit {
        revision: catalog.revision().next(),
        author: "scale".to_owned(),
        committed_at: Timestamp::from_millis(0),
        changes,
        ..Commit::default()
    };
    let sealed = SealedCommit::seal(&catalog.chain(), commit, documents.collect()).unwrap();
    catalog.apply(&sealed).unwrap();
    catalog
}

#[test]
#[ignore = "measures; run in release"]
fn batch_of_thousand_tools() {
    let batch = batch(1_000);
    let empty = Catalog::empty(RegistryId::new("scale"));
    let (first, _) = timed("plan 1,000 tools (first, meta-schema cold)", || plan(&empty, &batch));
    assert!(first.is_acceptable(), "{:?}", first.diagnostics);
    let (_, took) = timed("plan 1,000 tools", || plan(&empty, &batch));
    assert!(took < Duration::from_millis(100), "{took:?}");
}

#[test]
#[ignore = "measures; run in release"]
fn catalog_of_hundred_thousand_entities() {
    let (batch, _) = timed("build documents", || batch(100_000));
    let (catalog, _) = timed("validate and apply", || applied(&batch));
    let (bytes, _) = timed("write export", || write_export(&catalog));
    println!("{} entities, {} MiB", catalog.len(), bytes.len() >> 20);
    let (_, plain_took) = timed("the same bytes as a JSON value, for comparison", || {
        serde_json::from_slice::<Value>(&bytes).unwrap()
    });
    let (read, took) = timed("read export, verified", || read_export(&bytes).unwrap());
    assert_eq!(read.digest(), catalog.digest());
    let (plain, _) = timed("write file", || write(&catalog));
    let (file, _) = timed("read file", || RegistryFile::parse(&plain).unwrap());
    let empty = Catalog::empty(RegistryId::new("scale"));
    timed("validate file", || assert!(validate(&empty, file.proposals()).is_acceptable()));
    // Verification and indexing cost little more than parsing.
    assert!(took < 2 * plain_took, "{took:?}");
}
