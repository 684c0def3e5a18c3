//! Relays: replicas of the log that serve reads and streams, and cannot forge states for followers
//! with the registry's key.

mod scope_limits;
mod staging;
mod sync_proxy;
mod verification;

use std::{fs, path::Path, process::Command};

use acceptance::{
    Gateway, GatewayOptions, ModernClient, Registry, binary, gateway::unreachable_targets, root,
};
use registry_core::{
    Catalog, Record,
    registry_file::{read_export, write_export},
};

use crate::deployment::{gateway_revision, readiness};

/// The public key of a registry's signatures.
fn key_of(registry: &Registry) -> String {
    registry.run(&["audit", "key"]).trim().to_owned()
}

fn following_options(server: &Registry, more: &str) -> GatewayOptions {
    let source = format!("grpc://{}\n  {more}", server.address);
    let (targets, more) = (unreachable_targets(), String::new());
    GatewayOptions { source, targets, runtime: None, more }
}

/// A gateway that serves only states signed by this key.
fn pinned_options(server: &Registry, key: &str, more: &str) -> GatewayOptions {
    following_options(server, &format!("key: {key}\n  {more}"))
}

async fn reaches(gateway: &Gateway, revision: u64) {
    acceptance::eventually("the gateway is connected", || async {
        gateway_revision(gateway).await == Some(revision)
    })
    .await;
}

const AGENT: &str = "scope: [\"agent/research-agent@*\"]";

#[tokio::test]
async fn relays_serve_registry_state_and_reject_writes() {
    let registry = Registry::start();
    registry.apply_example();
    let key = key_of(&registry);
    let near = registry.start_relay(&["--follow-key", &key]);
    let far = near.start_relay(&[]);
    let whole = Gateway::start(&pinned_options(&far, &key, ""));
    let part = Gateway::start(&pinned_options(&far, &key, AGENT));
    reaches(&whole, 1).await;
    reaches(&part, 1).await;

    registry.apply_file(&root().join("examples/new-version.json"));
    reaches(&whole, 2).await;
    reaches(&part, 2).await;
    let agent = ModernClient::agent(&part.mcp_url(), "research-agent", "2.2.0");
    assert!(!agent.tool_names().await.is_empty());
    for question in
        [&["log", "--output", "json"][..], &["list", "tool"], &["get", "tool/fetch@1.2.3"]]
    {
        assert_eq!(far.run(question), registry.run(question), "{question:?}");
    }
    let file = root().join("examples/registry-v2.json");
    let refused = far.ctl(&["deprecate", "--yes", "tool/fetch@1.2.3"]);
    assert!(refused.has_code("READ_ONLY_RELAY") && !refused.success(), "{refused:?}");
    assert!(refused.stderr.contains(&near.address), "{refused:?}");
    let unsigned = far.ctl(&["audit", "key"]);
    let there = format!("--registry http://{}", near.address);
    assert!(unsigned.stderr.contains(&there) && !unsigned.success(), "{unsigned:?}");
    let planned = far.ctl(&["apply", "--dry-run", "-f", &file.display().to_string()]);
    assert!(planned.success(), "{planned:?}");
    let (_, ready) = readiness(&far.admin_address()).await;
    assert!(ready["status"] == "ready" && ready.to_string().contains(&near.address), "{ready}");
}

#[tokio::test]
async fn relay_works_without_registry() {
    let mut registry = Registry::start();
    registry.apply_example();
    let key = key_of(&registry);
    let mut relay = registry.start_relay(&[]);
    let part = Gateway::start(&pinned_options(&relay, &key, AGENT));
    reaches(&part, 1).await;
    registry.process.kill_9();
    // Without its registry, the relay serves a new follower of everything, and scopes that were
    // followed before.
    for more in ["", AGENT] {
        let new = Gateway::start(&pinned_options(&relay, &key, more));
        reaches(&new, 1).await;
    }
    relay.process.kill_9();
    relay.restart();
    let new = Gateway::start(&pinned_options(&relay, &key, ""));
    reaches(&new, 1).await;
    acceptance::eventually("the relay says that its registry is away", || async {
        readiness(&relay.address).await.1["status"] == "degraded"
    })
    .await;
    registry.restart();
    registry.apply_file(&root().join("examples/new-version.json"));
    reaches(&new, 2).await;
    reaches(&part, 2).await;
}

/// A server with the registry's whole log, but another signing key.
fn forging_server(original: &Registry, dir: &Path) -> Registry {
    let file = dir.join("registry.db");
    let copy = format!("VACUUM INTO '{}'", file.display());
    let run = |program: &Path, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).output().expect("it runs");
        assert!(done.status.success(), "{done:?}");
    };
    let source = original.database().strip_prefix("sqlite:").expect("a file").to_owned();
    let python = format!(
        "import sqlite3; sqlite3.connect('{source}').execute(\"{}\")",
        copy.replace('"', "\\\"")
    );
    run(Path::new("python3"), &["-c", &python]);
    let database = format!("sqlite:{}", file.display());
    let key = acceptance::registry::checkpoint_key(&database);
    let key = key.to_str().expect("text");
    run(
        &binary("registry-server"),
        &["checkpoint-key", "replace", "--database", &database, "--checkpoint-key", key],
    );
    Registry::start_on(&database)
}

#[tokio::test]
async fn forged_and_omitted_content_is_rejected() {
    let registry = Registry::start();
    registry.apply_example();
    let key = key_of(&registry);
    let dir = tempfile::tempdir().expect("a directory");
    let forger = forging_server(&registry, dir.path());
    forger.apply_file(&root().join("examples/new-version.json"));

    // A new gateway accepts nothing from it, and a gateway with the registry's state keeps it.
    let fresh = Gateway::start(&pinned_options(&forger, &key, ""));
    let mut honest = Gateway::start(&pinned_options(&registry, &key, ""));
    reaches(&honest, 1).await;
    honest.process.stop();
    honest.restart(&pinned_options(&forger, &key, ""));
    let scoped = Gateway::start(&pinned_options(&forger, &key, AGENT));
    for gateway in [&fresh, &honest, &scoped] {
        acceptance::eventually("what the forger says is refused", || async {
            gateway.metrics().await.contains("gateway_sync_nacks_total ")
        })
        .await;
    }
    assert_eq!(gateway_revision(&honest).await, Some(1));
    assert_eq!(gateway_revision(&fresh).await.unwrap_or(0), 0);
    // A relay rejects it too.
    let mut relay = registry.start_relay(&[]);
    acceptance::eventually("the relay has it", || async { relay.revision().await == 1 }).await;
    relay.process.stop();
    let follow = format!("grpc://{}", forger.address);
    let fooled = Registry::start_with(relay.database(), &["--follow", &follow]);
    let foreign = forger.run(&["audit", "key"]);
    acceptance::eventually("the relay refuses", || async {
        readiness(&fooled.admin_address()).await.1.to_string().contains(foreign.trim())
    })
    .await;
    assert_eq!(fooled.revision().await, 1);
}

#[tokio::test]
async fn edited_cache_with_matching_digests_is_rejected() {
    let mut registry = Registry::start();
    registry.apply_example();
    let key = key_of(&registry);
    let options = pinned_options(&registry, &key, "");
    let mut gateway = Gateway::start(&options);
    reaches(&gateway, 1).await;
    acceptance::eventually("it is on disk", || async { gateway.cache().exists() }).await;
    registry.process.kill_9();
    gateway.process.stop();
    let bytes = fs::read(gateway.cache()).expect("a cache");
    let true_one = read_export(&bytes).expect("an export");
    // One entity is removed. The file is consistent except for its signature.
    let records: Vec<Record> =
        true_one.iter().skip(1).map(|(_, record)| (**record).clone()).collect();
    let (revision, chain) = (true_one.revision(), true_one.chain());
    let forged = Catalog::restore(true_one.registry().clone(), revision, chain, records)
        .with_attestation(true_one.attestation().copied());
    read_export(&write_export(&forged)).expect("its digests fit");
    fs::write(gateway.cache(), write_export(&forged)).expect("written");
    let _ = fs::remove_file(gateway.cache().with_extension("json.previous"));
    gateway.restart(&options);
    assert_eq!(readiness(&gateway.address).await.0, 503);
    assert_eq!(gateway_revision(&gateway).await.unwrap_or(0), 0);
    // The gateway starts with its own unedited cache.
    gateway.process.stop();
    fs::write(gateway.cache(), bytes).expect("written");
    gateway.restart(&options);
    reaches(&gateway, 1).await;
}
