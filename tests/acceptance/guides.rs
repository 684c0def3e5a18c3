//! The files, commands and configurations of the guides in `docs/` work.

use std::{fs, path::Path};

use acceptance::{
    Backend, Gateway, GatewayOptions, ModernClient, Registry, binary, ctl, eventually, root,
    tls::Authority,
};
use serde_json::{Value, json};

/// No registry listens here.
const NOWHERE: &str = "http://127.0.0.1:1";

/// The code blocks of a page in this language.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).expect("a page");
    let fence = format!("```{language}\n");
    let block = |rest: &str| rest.split("\n```").next().unwrap_or_default().to_owned();
    text.split(&fence).skip(1).map(block).collect()
}

/// The options of a documented configuration with a test's registry file and backend.
fn options(config: &str, file: &Path, backend: &Backend) -> GatewayOptions {
    let value = |key: &str| {
        let mut lines = config.lines().map(str::trim_start);
        lines.find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
    };
    let startup = value("startup:").map(|startup| format!("\n    startup: {startup}"));
    let runtime = value("runtime:").map(|runtime| runtime + &startup.unwrap_or_default());
    let targets = &config[config.find("targets:").expect("targets")..];
    GatewayOptions {
        source: format!("file://{}", file.display()),
        targets: targets.replace("127.0.0.1:7090", &backend.process.address()) + "\n",
        runtime,
        more: String::new(),
    }
}

async fn assert_lists(client: &ModernClient, tools: &[&str]) {
    eventually(&format!("{tools:?} are listed"), || async { client.tool_names().await == tools })
        .await;
}

#[tokio::test]
async fn migration_guide_works_with_running_gateway() {
    let page = "docs/migration/v1-to-v2.md";
    let (backend, dir) = (Backend::start(), tempfile::tempdir().expect("a directory"));
    let [old, file] = ["v1.json", "registry.json"].map(|name| dir.path().join(name));
    let [old_path, path] = [&old, &file].map(|path| path.to_str().expect("UTF-8"));
    let [before, schemas, servers, agents] =
        <[String; 4]>::try_from(blocks(page, "json")).expect("four files");
    let [first, observed, enforced] =
        <[String; 3]>::try_from(blocks(page, "yaml")).expect("three files");

    fs::write(&old, before).expect("written");
    let legacy = ctl(NOWHERE, &["validate", "-f", old_path]);
    assert!(legacy.success() && legacy.stderr.contains("warning["), "{legacy:?}");
    let converted = ctl(NOWHERE, &["import", "registry", old_path, "--out", path]);
    assert!(converted.success(), "{converted:?}");
    let valid = |expected: &str| {
        let valid = ctl(NOWHERE, &["validate", "-f", path]);
        assert!(valid.success(), "{expected}: {valid:?}");
    };
    valid("converted");
    let mut gateway = Gateway::start(&options(&first, &file, &backend));
    gateway.ready().await;
    let anonymous = ModernClient::anonymous(&gateway.mcp_url());
    let agent = ModernClient::agent(&gateway.mcp_url(), "researcher", "1.0.0");
    eventually("the converted tool is listed", || async {
        anonymous.tool_names().await.contains(&"search".to_owned())
    })
    .await;

    fs::write(&file, schemas).expect("written");
    valid("phase 1");
    eventually("the registered schema is listed", || async {
        let tools = anonymous.tools().await;
        tools[0]["inputSchema"]["properties"]["query"]["minLength"] == 1
    })
    .await;
    fs::write(&file, servers).expect("written");
    valid("phase 2");
    assert_lists(&anonymous, &["list_documents", "search"]).await;
    fs::write(&file, agents).expect("written");
    valid("phase 3");
    gateway.configure(&options(&observed, &file, &backend));
    assert_lists(&agent, &["search"]).await;
    assert_lists(&anonymous, &["list_documents", "search"]).await;
    let undeclared = agent.call("list_documents", json!({})).await;
    assert!(!undeclared.is_tool_error() && undeclared.message["error"].is_null());

    let config = options(&enforced, &file, &backend);
    gateway.configure(&config);
    assert_lists(&anonymous, &[]).await;
    assert_lists(&agent, &["search"]).await;
    let undeclared = agent.call("list_documents", json!({})).await;
    assert_eq!(undeclared.error_code(), -32602);
    assert!(agent.call("search", json!({ "query": "" })).await.is_tool_error());
    let found = agent.call("search", json!({ "query": "gateway" })).await;
    assert!(found.message["result"]["structuredContent"]["results"].is_array(), "{found:?}");

    let registry = Registry::start();
    registry.apply_file(&file);
    gateway.process.stop();
    // The cache belongs to the registry of the file.
    for suffix in ["", ".previous", ".log", ".pins"] {
        let _ = fs::remove_file(format!("{}{suffix}", gateway.cache().display()));
    }
    gateway.restart(&GatewayOptions { source: format!("grpc://{}", registry.address), ..config });
    gateway.ready().await;
    assert_lists(&agent, &["search"]).await;
    assert_eq!(gateway.snapshots(), 1);
}

#[test]
fn user_guide_files_are_registered_in_order() {
    let (registry, dir) = (Registry::start(), tempfile::tempdir().expect("a directory"));
    let files = blocks("docs/user-guide/registry-v2.md", "json");
    assert_eq!(files.len(), 4, "a skeleton, a tool, a composition and an agent");
    for (i, text) in files.iter().enumerate() {
        let file = dir.path().join(format!("{i}.json"));
        fs::write(&file, text).expect("written");
        if i == 0 {
            let skeleton: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(skeleton["schemaVersion"], "2.0");
        } else {
            registry.apply_file(&file);
        }
    }
    registry.run(&["why", "agent/travel-agent@1.0.0", "schema/CityQuery@1.0.0"]);
    let retired = registry.ctl(&["retire", "tool/get_weather@1.0.0"]);
    assert!(retired.code == 1 && retired.stderr.contains("still-needed"), "{retired:?}");
}

#[test]
fn topology_configurations_pass_check() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let server = authority.server();
    let here = dir.path().display().to_string();
    for secret in ["registry-token", "agent-key", "admin-token", "central-token"] {
        fs::write(dir.path().join(secret), "0123456789abcdef0123456789abcdef").expect("written");
    }
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    fs::write(dir.path().join("session-key"), key).expect("written");
    let local = json!({ "schemaVersion": "2.0", "servers": [
        { "name": "files", "version": "1.0.0", "provides": [] },
        { "name": "central", "version": "1.0.0", "provides": [] }] });
    fs::write(dir.path().join("local-registry.json"), local.to_string()).expect("written");
    let configurations = blocks("docs/topologies.md", "yaml");
    assert_eq!(configurations.len(), 4, "one per topology");
    let registry_key = "registry/0192d3c4-5678-7abc-8def-0123456789ab+17935893+\
                        AQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    for (i, text) in configurations.iter().enumerate() {
        let text = text
            .replace("/etc/gateway/tls/server.pem", &server.certificate.display().to_string())
            .replace("/etc/gateway/tls/server.key", &server.key.display().to_string())
            .replace("/etc/gateway/tls/callers.pem", &authority.ca.display().to_string())
            .replace("/etc/gateway", &here)
            .replace("/run/secrets", &here)
            .replace("/var/cache/gateway", &format!("{here}/cache-{i}"))
            .replace("registry/ID+HASH+KEY", registry_key);
        let file = dir.path().join(format!("gateway-{i}.yaml"));
        fs::write(&file, &text).expect("written");
        let mut check = std::process::Command::new(binary("gateway-agent"));
        check.arg("--config").arg(&file).arg("--check").current_dir(dir.path());
        let checked = acceptance::CtlOutput::from(check.output().expect("it runs"));
        assert!(checked.success(), "{text}\n{checked:?}");
    }
}
