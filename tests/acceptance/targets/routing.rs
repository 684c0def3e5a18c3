//! Targets of registered versions, and a second server with the same tool names.

use acceptance::{
    Backend, CtlOutput, Gateway, GatewayOptions, ModernClient, Registry, binary, eventually,
};
use serde_json::{Value, json};

use crate::{
    deployment::{gateway_revision, readiness},
    scripted_server::{Script, ScriptedServer, json_answer},
};

/// The URL of one of the demo servers.
fn url(backend: &Backend, path: &str) -> String {
    format!("http://{}/{path}/mcp", backend.process.address())
}

/// Imports the demo backend's fetch server.
fn import(registry: &Registry, backend: &Backend, flags: &[&str]) -> CtlOutput {
    let url = url(backend, "fetch");
    registry.ctl(&[&["import", "mcp", &url], flags].concat())
}

fn applied(registry: &Registry, backend: &Backend, flags: &[&str]) -> CtlOutput {
    let done = import(registry, backend, &[flags, &["--apply", "--yes"]].concat());
    assert!(done.success(), "{done:?}");
    done
}

fn options(registry: &Registry, targets: &[(&str, &str, &str)]) -> GatewayOptions {
    let target = |(server, version, url): &(&str, &str, &str)| {
        format!("  - {{ server: {server}, version: \"{version}\", http: \"{url}\" }}\n")
    };
    let targets: String = targets.iter().map(target).collect();
    GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: format!("targets:\n{targets}"),
        runtime: None,
        more: "admin: 127.0.0.1:0\n".to_owned(),
    }
}

async fn caught_up(gateway: &Gateway, registry: &Registry) {
    let revision = registry.revision().await;
    eventually("the gateway catches up", || async {
        gateway_revision(gateway).await == Some(revision)
    })
    .await;
}

async fn fetches(client: &ModernClient) -> bool {
    let answer = client.call("fetch", json!({ "url": "https://example.com/" })).await;
    answer.message.get("result").is_some() && !answer.is_tool_error()
}

/// The warnings that `--check` prints about a running gateway's configuration.
fn checked(gateway: &Gateway) -> String {
    let checked = gateway.check();
    assert!(checked.success(), "{checked:?}");
    checked.stdout
}

#[tokio::test]
async fn second_server_with_same_tools_breaks_no_call() {
    let (registry, backend) = (Registry::start(), Backend::start());
    applied(&registry, &backend, &["--name", "first", "--version", "1.0.0"]);
    let fetch = url(&backend, "fetch");
    let gateway = Gateway::start(&options(&registry, &[("first", "1.0.0", &fetch)]));
    let client = ModernClient::anonymous(&gateway.mcp_url());
    caught_up(&gateway, &registry).await;
    eventually("the first server is called", || fetches(&client)).await;
    let before = client.tools().await;

    let second = ["--name", "second", "--version", "2.0.0"];
    let imported = import(&registry, &backend, &second);
    assert!(imported.success(), "{imported:?}");
    let planned = import(&registry, &backend, &[&second[..], &["--apply", "--dry-run"]].concat());
    let applied = applied(&registry, &backend, &second);
    for reported in [&imported, &planned, &applied] {
        let text = &reported.stderr;
        assert!(text.contains("warning[tool-name-shared]"), "{reported:?}");
        assert!(text.contains("server/second and server/first"), "{reported:?}");
        assert!(text.contains("--prefix") && text.contains("--rename"), "{reported:?}");
    }
    caught_up(&gateway, &registry).await;
    assert_eq!(client.tools().await, before, "the second server has no target");
    assert!(fetches(&client).await, "calls still reach the first server");
    eventually("the log names both servers", || async {
        !gateway.process.logged(&["tool-name-shared", "first", "second"]).is_empty()
    })
    .await;
    eventually("the cache has the second server", || async {
        std::fs::read_to_string(gateway.cache()).is_ok_and(|text| text.contains("second"))
    })
    .await;
    let checked = checked(&gateway);
    let named = ["warning[tool-name-shared]: ", "first", "second"];
    assert!(checked.lines().any(|line| named.iter().all(|part| line.contains(part))), "{checked}");
    assert!(checked.contains("note[no-target]: "), "{checked}");
}

#[test]
fn check_without_catalog_warns_and_names_remedy() {
    let registry = Registry::start();
    registry.apply_example();
    let directory = tempfile::tempdir().expect("a directory");
    let check = |source: &str| {
        let mut command = std::process::Command::new(binary("gateway-agent"));
        command.current_dir(&directory).args(["--check", "--registry", source]);
        CtlOutput::from(command.output().expect("the gateway runs"))
    };
    let warned = check(&format!("grpc://{}", registry.address));
    assert_eq!(warned.code, 0, "{warned:?}");
    let warning = "warning[not-checked]: tool routing was not checked: the cache \
                   ./cache/registry-v2.json has no catalog";
    assert!(warned.stdout.contains(warning), "{warned:?}");
    for remedy in ["`registryctl export --out registry.json`", "--registry file://./registry.json"]
    {
        assert!(warned.stdout.contains(remedy), "{warned:?}");
    }
    let file = directory.path().join("registry.json");
    registry.run(&["export", "--out", file.to_str().expect("UTF-8")]);
    let checked = check("file://./registry.json");
    assert!(!checked.stdout.contains("not-checked"), "{checked:?}");
    assert!(checked.stdout.contains("note[no-target]"), "{checked:?}");
}

#[test]
fn check_with_exported_file_judges_approvals_by_the_configured_source() {
    let directory = tempfile::tempdir().expect("a directory");
    let policy = json!({ "name": "pay", "version": "1.0.0", "approval": { "quorum": 2 } });
    let file = json!({ "schemaVersion": "2.0", "policies": [policy] });
    std::fs::write(directory.path().join("registry.json"), file.to_string()).expect("written");
    let checked = |source: &str| {
        let config = format!("registry: {{ source: \"{source}\" }}\n");
        std::fs::write(directory.path().join("gateway.yaml"), config).expect("written");
        let mut command = std::process::Command::new(binary("gateway-agent"));
        command.current_dir(&directory).args(["--config", "gateway.yaml", "--check"]);
        command.args(["--registry", "file://./registry.json"]);
        CtlOutput::from(command.output().expect("the gateway runs")).stdout
    };
    assert!(!checked("grpc://registry.test:7070").contains("approval-undecidable"));
    assert!(checked("file://./other.json").contains("warning[approval-undecidable]"));
}

#[tokio::test]
async fn prefix_and_rename_keep_upstream_tool_names() {
    let (registry, backend) = (Registry::start(), Backend::start());
    applied(&registry, &backend, &["--name", "first", "--version", "1.0.0"]);
    let upstream: Vec<String> = registry
        .json(&["list", "tool"])
        .as_array()
        .expect("a list")
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name").to_owned())
        .collect();
    let second = ["--name", "second", "--version", "1.0.0"];
    let conflict = import(&registry, &backend, &[&second[..], &["--apply", "--yes"]].concat());
    assert_eq!(conflict.code, 1, "{conflict:?}");
    assert!(conflict.stderr.contains("server/first"), "{conflict:?}");
    assert!(conflict.stderr.contains("--rename fetch=NAME"), "{conflict:?}");

    let flags = ["--prefix", "b_", "--rename", "fetch=get_page"];
    let done = applied(&registry, &backend, &[&second[..], &flags].concat());
    assert!(!done.stderr.contains("tool-name-shared"), "{done:?}");
    for name in &upstream {
        let registered = if name == "fetch" { "get_page".to_owned() } else { format!("b_{name}") };
        let key = format!("tool/{registered}@1.0.0");
        let text = registry.run(&["get", &key, "--document"]);
        let document: Value = serde_json::from_str(&text).expect("a document");
        assert_eq!(document["source"]["tool"], **name);
        assert_eq!(document["source"]["server"], "second");
    }
    let fetch = url(&backend, "fetch");
    let targets = [("first", "1.0.0", &*fetch), ("second", "1.0.0", &*fetch)];
    let gateway = Gateway::start(&options(&registry, &targets));
    caught_up(&gateway, &registry).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the renamed tool is called", || async {
        let answer = client.call("get_page", json!({ "url": "https://example.com/" })).await;
        answer.message.get("result").is_some() && !answer.is_tool_error()
    })
    .await;

    for (flags, reason) in [
        (&["--rename", "nothing=x"][..], "the server has no tool `nothing`; it has `fetch`"),
        (&["--rename", "fetch"], "SERVER_NAME=REGISTERED_NAME"),
        (&["--prefix", "a b"], "is not allowed in the name"),
        (&["--rename", "fetch=x", "--rename", "fetch=y"], "duplicate --rename of `fetch`"),
    ] {
        let refused = import(&registry, &backend, flags);
        assert!(!refused.success() && refused.stderr.contains(reason), "{flags:?}: {refused:?}");
    }
}

#[tokio::test]
async fn new_server_version_uses_previous_target_with_warning() {
    let (registry, backend) = (Registry::start(), Backend::start());
    let fetch = url(&backend, "fetch");
    applied(&registry, &backend, &["--name", "web", "--version", "1.0.0"]);
    let gateway = Gateway::start(&options(&registry, &[("web", "1.0.0", &fetch)]));
    applied(&registry, &backend, &["--name", "web", "--version", "1.1.0"]);
    caught_up(&gateway, &registry).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let version = async || {
        let tools = client.tools().await;
        let found = tools.iter().find(|tool| tool["name"] == "fetch");
        found.map(|tool| tool["_meta"]["registry/version"].clone()).unwrap_or_default()
    };
    eventually("the new version is listed", || async { version().await == "1.1.0" }).await;
    eventually("the new version is called", || fetches(&client)).await;

    let warning = "server/web@1.1.0 has no target and uses the target of server/web@1.0.0";
    eventually("the log warns", || async { gateway.process.stderr().contains(warning) }).await;
    let (_, ready) = readiness(&gateway.address).await;
    assert_eq!(ready["targets"][0]["usedFor"], json!(["1.1.0"]), "{ready}");
    let metrics = async || {
        let url = format!("http://{}/metrics", gateway.address);
        reqwest::get(url).await.expect("an answer").text().await.expect("text")
    };
    let gauge = "gateway_routing_findings{code=\"previous-target\"}";
    eventually("the metric tells", || async { metrics().await.contains(&format!("{gauge} 1\n")) })
        .await;
    eventually("--check warns", || async {
        checked(&gateway).contains(&format!("warning[previous-target]: {warning}"))
    })
    .await;

    let own = [("web", "1.0.0", &*fetch), ("web", "1.1.0", &*fetch)];
    gateway.configure(&options(&registry, &own));
    eventually("it has a target of its own", || async {
        readiness(&gateway.address).await.1["targets"][1]["version"] == "1.1.0"
    })
    .await;
    eventually("the warning is over", || async {
        metrics().await.contains(&format!("{gauge} 0\n"))
    })
    .await;
    assert!(!checked(&gateway).contains("previous-target"));
    eventually("it is called at its own target", || fetches(&client)).await;
}

/// A server with these tools that answers each call with this text.
fn server_of(tools: Value, text: &'static str) -> Script {
    std::sync::Arc::new(move |_, body| {
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let mut result = match asked["method"].as_str() {
            Some("server/discover") => {
                json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } })
            }
            Some("tools/list") => json!({ "tools": tools }),
            Some("tools/call") => json!({ "content": [{ "type": "text", "text": text }] }),
            _ => json!({}),
        };
        result["resultType"] = "complete".into();
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
        Some(json_answer(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })))
    })
}

/// The tool `zeta` with these required arguments; `build` is in its `_meta`.
fn zeta(required: &[&str], build: &str) -> Value {
    let properties: Value =
        required.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    let input = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "name": "zeta", "inputSchema": input, "_meta": { "test/build": build } })
}

/// Imports a server as this version of `server/up`.
fn import_up(registry: &Registry, server: &ScriptedServer, version: &str) {
    let flags = ["--name", "up", "--version", version, "--apply", "--yes"];
    let done = registry.ctl(&[&["import", "mcp", &server.url], &flags[..]].concat());
    assert!(done.success(), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn undeployed_version_changes_no_list_and_no_call() {
    let registry = Registry::start();
    let deployed = ScriptedServer::start(server_of(json!([zeta(&["a"], "one")]), "one")).await;
    let next = ScriptedServer::start(server_of(json!([zeta(&["a", "b"], "two")]), "two")).await;
    import_up(&registry, &deployed, "1.0.0");
    let own = [("up", "1.0.0", &*deployed.url)];
    let mut options = options(&registry, &own);
    options.runtime = Some("{ inputValidation: deny }".to_owned());
    let gateway = Gateway::start(&options);
    caught_up(&gateway, &registry).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let old_form = json!({ "a": "x" });
    eventually("the server is called", || async {
        client.call("zeta", old_form.clone()).await.text() == "one"
    })
    .await;
    let before = client.tools().await;
    import_up(&registry, &next, "2.0.0");
    caught_up(&gateway, &registry).await;
    let warning = "server/up@2.0.0 has no target and uses the target of server/up@1.0.0";
    eventually("the log warns", || async { gateway.process.stderr().contains(warning) }).await;
    assert_eq!(client.tools().await, before, "the deployed version is listed");
    assert_eq!(client.call("zeta", old_form.clone()).await.text(), "one");

    let both = [own[0], ("up", "2.0.0", &*next.url)];
    let targets = self::options(&registry, &both).targets;
    gateway.configure(&GatewayOptions { targets, ..options });
    eventually("the new version has a target", || async {
        client.call("zeta", json!({ "a": "x", "b": "y" })).await.text() == "two"
    })
    .await;
    assert!(client.call("zeta", old_form).await.is_tool_error());
    assert_eq!(client.tools().await[0]["_meta"]["registry/version"], "2.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_fallback_lists_tools_of_lower_version() {
    let registry = Registry::start();
    let known = zeta(&["a"], "one");
    let deployed = ScriptedServer::start(server_of(json!([known]), "one")).await;
    let neu = json!({ "name": "neu", "inputSchema": { "type": "object" } });
    let next = ScriptedServer::start(server_of(json!([known, neu]), "three")).await;
    import_up(&registry, &deployed, "1.0.0");
    import_up(&registry, &next, "3.0.0");
    let options = options(&registry, &[("up", "1.0.0", &deployed.url)]);
    let mut gateway = Gateway::start(&options);
    caught_up(&gateway, &registry).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let version = async || {
        let tools = client.tools().await;
        assert_eq!(tools.len(), 1, "{tools:?}");
        assert_eq!(tools[0]["name"], "zeta");
        tools[0]["_meta"]["registry/version"].as_str().map(str::to_owned)
    };
    eventually("the new version is listed at the target", || async {
        version().await.as_deref() == Some("3.0.0")
    })
    .await;
    eventually("the cache has both versions", || async {
        std::fs::read_to_string(gateway.cache()).is_ok_and(|text| text.contains("3.0.0"))
    })
    .await;

    drop(deployed);
    gateway.process.stop();
    gateway.restart(&options);
    caught_up(&gateway, &registry).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    assert_eq!(client.tool_names().await, ["zeta"], "the server at the target never had `neu`");
    let unknown = client.call("neu", json!({})).await;
    assert_eq!(unknown.error_code(), -32602, "{unknown:?}");
}

#[tokio::test]
async fn any_version_target_serves_versions_without_their_own() {
    let (registry, backend) = (Registry::start(), Backend::start());
    let fetch = url(&backend, "fetch");
    for version in ["1.0.0", "2.0.0"] {
        applied(&registry, &backend, &["--name", "web", "--version", version]);
    }
    let nowhere = "http://127.0.0.1:1/mcp";
    let any = options(&registry, &[("web", "*", &fetch), ("web", "1.0.0", nowhere)]);
    let gateway = Gateway::start(&any);
    caught_up(&gateway, &registry).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("2.0.0 uses the target for all versions", || fetches(&client)).await;
    let targets: Value = serde_json::from_str(&gateway.targets().await).expect("JSON");
    assert_eq!(targets["targets"][0]["server"], "server/web@*");
    assert!(!gateway.process.stderr().contains("previous-target"));
    let admin = gateway.admin_url();
    for action in [&["check"][..], &["stop", "--yes"], &["start", "--yes"]] {
        let version =
            registry.ctl(&[&["gateway", "--admin", &admin], action, &["web@2.0.0"]].concat());
        assert_eq!(version.code, 1, "{version:?}");
        assert!(version.stderr.contains("'server/web@*'"), "{version:?}");
    }
    assert!(registry.ctl(&["gateway", "--admin", &admin, "check", "web@*"]).success());
    let stop = registry.ctl(&["gateway", "--admin", &admin, "stop", "--yes", "web@*"]);
    assert!(stop.success(), "{stop:?}");
    assert!(!fetches(&client).await, "an operator stopped the target");

    gateway.configure(&options(&registry, &[("web", "*", nowhere), ("web", "2.0.0", &fetch)]));
    eventually("the exact version wins", || fetches(&client)).await;
}

#[tokio::test]
async fn target_of_unregistered_version_is_reported() {
    let (registry, backend) = (Registry::start(), Backend::start());
    registry.apply_example();
    let fetch = url(&backend, "fetch");
    let gateway = Gateway::start(&options(&registry, &[("fetch-server", "9.9.9", &fetch)]));
    caught_up(&gateway, &registry).await;
    let gauge = "gateway_routing_findings{code=\"target-unused\"} 1";
    eventually("the metric counts it", || gateway.has_metric(gauge)).await;
    eventually("--check reports the target and the server", || async {
        let checked = checked(&gateway);
        let has = |note: &str| {
            checked.lines().any(|line| line.starts_with(note) && line.contains("fetch-server"))
        };
        has("note[target-unused]: ") && has("note[no-target]: ")
    })
    .await;
}

#[tokio::test]
async fn tools_without_target_are_listed_to_no_caller() {
    let (registry, backend) = (Registry::start(), Backend::start());
    registry.apply_example();
    let fetch = url(&backend, "fetch");
    let gateway = Gateway::start(&options(&registry, &[("fetch-server", "1.2.3", &fetch)]));
    caught_up(&gateway, &registry).await;
    let anonymous = ModernClient::anonymous(&gateway.mcp_url());
    let agent = ModernClient::agent(&gateway.mcp_url(), "research-agent", "2.1.0");
    for tool in anonymous.tool_names().await {
        let used = registry.json(&["tree", &format!("tool/{tool}@{}", newest(&registry, &tool))]);
        let servers = used.to_string().matches("server/").count();
        let of_fetch = used.to_string().matches("server/fetch-server@").count();
        assert_eq!(servers, of_fetch, "{tool} needs another server: {used}");
    }
    assert_eq!(agent.tool_names().await, ["fetch"]);
    let unknown = anonymous.call("search_documents", json!({ "query": "x" })).await;
    assert_eq!(unknown.error_code(), -32602, "{unknown:?}");
    let declared = agent.call("search_documents", json!({ "query": "x" })).await;
    let message = declared.message["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(declared.error_code(), -32603, "{declared:?}");
    assert!(message.contains("server/document-service@"), "{declared:?}");
}

fn newest(registry: &Registry, tool: &str) -> String {
    let versions = registry.json(&["list", "tool", "--name", tool]);
    let last = versions.as_array().and_then(|all| all.last()).expect("a version");
    last["version"].as_str().expect("text").to_owned()
}
