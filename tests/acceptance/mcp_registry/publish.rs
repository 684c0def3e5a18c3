//! Publishing, statuses, validation, and permissions.

use acceptance::{Database, Registry, access::Guarded};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::{Api, OFFICIAL, OURS, complete, server};

/// The complete document with one member replaced.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = complete("com.example/docs", "1.0.0");
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap()[name] = value;
    document
}

#[tokio::test]
async fn published_version_is_immutable() {
    let api = Api::start();
    let document = complete("com.example/docs", "1.0.0");
    let first = api.post("/v0.1/publish", &document).await;
    assert_eq!(first.status, 200);
    let again = api.post("/v0.1/publish", &document).await;
    assert_eq!((again.status, again.text), (first.status, first.text));
    assert_eq!(api.registry.revision().await, 1, "the same again is no commit");
    let other = api.post("/v0.1/publish", &with("/title", json!("Other"))).await;
    assert_eq!(other.status, 400);
    let body = other.json();
    assert_eq!(body["errors"][0]["code"], "already-registered");
    assert_eq!(body["errors"][0]["location"], "body.version");
    let log = api.registry.ctl(&["log", "--output", "json"]);
    assert!(log.stdout.contains("MCP"), "{}", log.stdout);
}

/// Publishes over HTTP with a token, or without one.
async fn publish_as(guarded: &Guarded, token: Option<&str>, document: &Value) -> (u16, Value) {
    let request = reqwest::Client::new().post(format!("{}/v0.1/publish", guarded.registry.url()));
    let request = token.iter().fold(request.json(document), RequestBuilder::bearer_auth);
    let answer = request.send().await.expect("an answer");
    let (status, kind) = (answer.status().as_u16(), answer.headers()["content-type"].clone());
    let expected = if status == 200 { "application/json" } else { "application/problem+json" };
    assert_eq!(kind, expected, "{status}");
    (status, answer.json().await.expect("JSON"))
}

#[tokio::test]
async fn only_owner_publishes_under_name() {
    for database in Database::both().await {
        // Publishing needs credentials also if reading is public.
        let guarded = Guarded::start_on(&database.url(), &["--public-mcp-registry"]);
        let docs = guarded.token("ci-docs", "docs", "publisher");
        let search = guarded.token("ci-search", "search", "publisher");
        let reader = guarded.token("eve", "docs", "reader");
        let version = |version| server("com.example/docs", version);
        assert_eq!(publish_as(&guarded, Some(&docs), &version("1.0.0")).await.0, 200);
        let (status, problem) = publish_as(&guarded, Some(&search), &version("1.1.0")).await;
        assert_eq!((status, &problem["status"]), (403, &json!(403)), "{problem}");
        assert_eq!(problem["errors"][0]["code"], "not-owner", "{problem}");
        let detail = problem["detail"].as_str().expect("text");
        assert!(detail.contains("`docs`"), "{detail}");
        assert_eq!(problem["error"], detail);
        let (status, problem) = publish_as(&guarded, Some(&reader), &version("1.1.0")).await;
        assert!(status == 403 && problem["detail"].is_string(), "{problem}");
        let (status, problem) = publish_as(&guarded, None, &version("1.1.0")).await;
        assert!(status == 401 && problem["detail"].is_string(), "{problem}");
        assert_eq!(publish_as(&guarded, Some(&docs), &version("1.1.0")).await.0, 200);
        let log = guarded.registry.ctl(&["log", "--output", "json", "--token", &docs]);
        let log: Value = serde_json::from_str(&log.stdout).expect("JSON");
        let authors: Vec<_> = log.as_array().unwrap().iter().map(|c| &c["author"]).collect();
        assert_eq!(authors, ["ci-docs", "ci-docs"]);
        let longest = server(&format!("com.example/{}", "n".repeat(188)), "1.0.0");
        assert_eq!(publish_as(&guarded, Some(&docs), &longest).await.0, 200);
    }
}

#[tokio::test]
async fn longest_name_and_version_are_accepted() {
    for database in Database::both().await {
        let mut api = Api::of(Registry::start_on(&database.url()));
        let name = format!("com.example/{}", "n".repeat(188));
        let version = |bytes: usize| format!("1.0.0-{}", "x".repeat(bytes - 6));
        let longest = version(255);
        for version in [&longest, "2.0.0"] {
            api.publish(&name, version).await;
        }
        let longer = api.post("/v0.1/publish", &server(&name, &version(256))).await;
        assert!(longer.status.is_client_error() && longer.text.contains(" 255 "), "{longer:?}");
        api.registry.process.kill_9();
        api.registry.restart();
        let api = Api::of(api.registry);
        let first = api.get("/v0.1/servers?limit=1").await;
        assert_eq!(first.listed(), [format!("{name}@{longest}")]);
        let cursor = first.cursor().unwrap();
        let second = api.get(&format!("/v0.1/servers?limit=1&cursor={cursor}")).await;
        assert_eq!(second.listed(), [format!("{name}@2.0.0")]);
        let key = format!("server/{name}@{longest}");
        api.registry.run(&["deprecate", "--yes", &key, "--message", "long"]);
        assert!(api.registry.run(&["get", &key]).contains("deprecated"));
    }
}

/// A namespace belongs to its owner under `/v0.1` too. Names without a namespace that other teams
/// registered are not served in it, and do not block publishing.
#[tokio::test]
async fn bare_name_is_hidden_in_transferred_namespace() {
    let guarded = Guarded::start(&["--public-mcp-registry"]);
    let docs = guarded.token("ci-docs", "docs", "publisher");
    let search = guarded.token("ci-search", "search", "publisher");
    let ctl = |token: &str, arguments: &[&str]| {
        let done = guarded.registry.ctl(&[arguments, &["--token", token]].concat());
        assert!(done.success(), "{done:?}");
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let bare = |name: &str, token: &str| {
        let file = dir.path().join(name);
        let server = json!({ "name": name, "version": "1.0.0", "provides": [] });
        let registry = json!({ "schemaVersion": "2.0", "servers": [server] });
        std::fs::write(&file, registry.to_string()).expect("a file");
        ctl(token, &["apply", "-f", file.to_str().expect("UTF-8"), "--yes"]);
    };
    let served = async |name: &str| {
        let path = format!("/v0.1/servers/local.registry%2F{name}/versions/latest");
        let answer = reqwest::get(format!("{}{path}", guarded.registry.url())).await;
        answer.expect("an answer").status().as_u16()
    };
    bare("pay", &search);
    assert_eq!(served("pay").await, 200, "the namespace is nobody's");
    ctl(&guarded.admin, &["transfer", "--yes", "local.registry/*", "docs"]);
    bare("ship", &docs);
    assert_eq!((served("pay").await, served("ship").await), (404, 200));
    let theirs = server("local.registry/pay", "1.0.0");
    assert_eq!(publish_as(&guarded, Some(&docs), &theirs).await.0, 200);
    assert_eq!(served("pay").await, 200);
    assert_eq!(publish_as(&guarded, Some(&search), &theirs).await.0, 200, "no change");
    let more = server("local.registry/pay", "1.1.0");
    assert_eq!(publish_as(&guarded, Some(&search), &more).await.0, 403);
}

/// The replaced member, its value, the pointer of the finding, and a part of its message.
type Mistake = (&'static str, Value, &'static str, &'static str);

fn mistakes_of_a_server() -> Vec<Mistake> {
    let long = json!("x".repeat(101));
    let name = json!(format!("com.example/{}", "x".repeat(200)));
    let version =
        |text: &str| ("/version", json!(text), "body.version", "not an exact semantic version");
    let publisher = "io.modelcontextprotocol.registry/publisher-provided";
    let meta = "body._meta[\"io.modelcontextprotocol.registry/publisher-provided\"]";
    vec![
        ("/name", json!("docs"), "body.name", "no namespace"),
        ("/name", json!("a_b/docs"), "body.name", "`_` is not allowed in the namespace"),
        ("/name", json!("a/b/c"), "body.name", "`/`"),
        ("/name", name, "body.name", "the maximum is 200"),
        ("/description", long.clone(), "body.description", "the maximum is 100"),
        ("/description", json!(" "), "body.description", "empty"),
        ("/description", Value::Null, "body", "`description` is missing"),
        ("/title", long, "body.title", "101 characters"),
        version("^1.2.0"),
        version("1.x"),
        version("latest"),
        version("2024.01.02"),
        ("/version", json!(1), "body.version", "expected a string"),
        ("/$schema", json!("https://x/y.json"), "body.$schema", "not a schema"),
        ("/websiteUrl", json!("javascript:alert(1)"), "body.websiteUrl", "not a valid URL"),
        ("/repository/url", json!("x.example/y"), "body.repository.url", "not a valid URL"),
        ("/repository/source", Value::Null, "body.repository", "`source` is missing"),
        ("/icons/0/src", json!("http://x/i.png"), "body.icons[0].src", "https://"),
        ("/icons/0/theme", json!("blue"), "body.icons[0].theme", "blue"),
        ("/icons/0/sizes", json!(["big"]), "body.icons[0].sizes[0]", "not a size"),
        ("/_meta", json!({ publisher: { "x": "x".repeat(5_000) } }), meta, "the maximum is 4096"),
        ("/_meta", json!({ publisher: 1 }), meta, "an object"),
    ]
}

/// Invisible characters in texts, with the pointer of the finding.
fn hidden_texts() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let unseen = "invisible";
    vec![
        ("/description", json!("Good\u{202e}"), "body.description", unseen),
        ("/description", json!("two\nlines"), "body.description", unseen),
        ("/description", json!("a\u{1b}[31mred"), "body.description", unseen),
        ("/title", json!("zero\u{200b}width"), "body.title", unseen),
        ("/name", json!("com.example/a\u{200b}"), "body.name", unseen),
        ("/packages/0/identifier", json!("@x/\u{2066}y"), "body.packages[0].identifier", unseen),
    ]
}

fn mistakes_of_packages_and_remotes() -> Vec<Mistake> {
    let package = "body.packages[0]";
    let (version, hash) = ("body.packages[0].version", "body.packages[0].fileSha256");
    let transport = "body.packages[0].transport";
    let positional = "body.packages[0].packageArguments[0]";
    let flag = "body.packages[0].packageArguments[1].name";
    let default = "body.packages[0].environmentVariables[0].default";
    let (hint, name) =
        ("/packages/0/packageArguments/0/valueHint", "/packages/0/packageArguments/1/name");
    vec![
        ("/packages/0/version", json!("latest"), version, "not an exact package version"),
        ("/packages/0/version", json!(">=1.2.3"), version, "not an exact package version"),
        ("/packages/0/identifier", Value::Null, package, "`identifier` is missing"),
        ("/packages/0/registryType", json!("mcpb"), package, "`fileSha256` is missing"),
        ("/packages/0/fileSha256", json!("0".repeat(63)), hash, "not a SHA-256"),
        ("/packages/0/transport", json!({}), transport, "`type` is missing"),
        ("/packages/0/transport/type", json!("udp"), "body.packages[0].transport.type", "udp"),
        ("/packages/0/transport/type", json!("sse"), transport, "`url` is missing"),
        (hint, Value::Null, positional, "`value` or `valueHint`"),
        (name, json!("--port <n>"), flag, "not a flag"),
        ("/packages/0/environmentVariables/0/default", json!(80), default, "expected a string"),
        ("/remotes/0/type", json!("stdio"), "body.remotes[0].type", "stdio"),
        ("/remotes/0/url", json!("ftp://x"), "body.remotes[0].url", "http://"),
        ("/remotes/0/variables/tenant", json!(1), "body.remotes[0].variables.tenant", "an object"),
    ]
}

#[tokio::test]
async fn invalid_server_json_is_rejected_with_pointer() {
    let api = Api::start();
    let mistakes = mistakes_of_a_server().into_iter().chain(mistakes_of_packages_and_remotes());
    let mistakes = mistakes.chain(hidden_texts());
    for (pointer, value, location, message) in mistakes {
        let document = with(pointer, value);
        let answer = api.post("/v0.1/publish", &document).await;
        assert_eq!(answer.status, 422, "{pointer}: {answer:?}");
        let errors = answer.json()["errors"].clone();
        let found = errors.as_array().unwrap().iter().any(|error| {
            error["location"] == location
                && error["message"].as_str().unwrap().contains(message)
                && error["pointer"].is_string()
        });
        assert!(found, "{pointer}: {location}: {message}: {errors:#}");
        // Validation reports the same findings as publishing.
        let validated = api.post("/v0.1/validate", &document).await;
        assert_eq!((validated.status.as_u16(), &validated.json()["valid"]), (200, &json!(false)));
    }
    assert_eq!(api.registry.revision().await, 0, "nothing was registered");
}

#[tokio::test]
async fn oversized_and_cross_origin_bodies_are_rejected() {
    let api = Api::start();
    let good = server("com.example/docs", "1.0.0").to_string();
    let json = ("content-type", "application/json");
    let big = format!("{{\"name\": \"{}\"}}", "x".repeat(2 << 20));
    let twice = r#"{"name":"a/b","name":"a/c","version":"1.0.0","description":"x"}"#;
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let cases = [
        (vec![json], "{", 400),
        (vec![json], "", 400),
        (vec![json], twice, 400),
        (vec![json], &deep, 400),
        (vec![json], "[]", 422),
        (vec![json], &big, 413),
        (vec![("content-type", "text/plain")], &good, 415),
        (vec![], &good, 415),
        (vec![json, ("origin", "https://evil.example")], &good, 403),
    ];
    for (headers, body, status) in cases {
        let headers = &headers[..];
        let start: String = body.chars().take(40).collect();
        let answer = api.send("POST", "/v0.1/publish", headers, body).await;
        assert_eq!(answer.status.as_u16(), status, "{headers:?} {start}: {answer:?}");
        assert!(answer.json()["error"].is_string());
    }
    assert_eq!(api.registry.revision().await, 0);
    let headers = [("content-type", "application/json; charset=utf-8")];
    assert_eq!(api.send("POST", "/v0.1/publish", &headers, &good).await.status, 200);
}

#[tokio::test]
async fn status_maps_to_lifecycle() {
    let api = Api::start();
    for version in ["1.0.0", "2.0.0"] {
        api.publish("com.example/docs", version).await;
    }
    let one = "/v0.1/servers/com.example%2Fdocs/versions/1.0.0/status";
    let all = "/v0.1/servers/com.example%2Fdocs/status";
    let changed = api.patch(one, &json!({ "status": "deprecated", "statusMessage": "old" })).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let official = &changed.json()["_meta"][OFFICIAL];
    assert_eq!(
        (&official["status"], &official["statusMessage"]),
        (&json!("deprecated"), &json!("old"))
    );
    let shown = api.registry.ctl(&["get", "server/com.example/docs@1.0.0", "--output", "json"]);
    assert!(shown.stdout.contains("\"deprecated\"") && shown.stdout.contains("\"old\""));
    let long = "x".repeat(501);
    let refused = [
        (one, json!({ "status": "deprecated", "statusMessage": "old" }), 400),
        (one, json!({ "status": "active", "statusMessage": "why" }), 400),
        (one, json!({ "status": "retired" }), 400),
        (one, json!({ "status": "deleted", "statusMessage": "a\u{202e}" }), 400),
        (one, json!({}), 400),
        (one, json!({ "status": "deleted", "because": "x" }), 400),
        (one, json!({ "status": "deleted", "statusMessage": long }), 400),
        (
            "/v0.1/servers/com.example%2Fdocs/versions/9.0.0/status",
            json!({ "status": "deleted" }),
            404,
        ),
        ("/v0.1/servers/com.example%2Fnone/status", json!({ "status": "deleted" }), 404),
    ];
    for (path, body, status) in refused {
        let answer = api.patch(path, &body).await;
        assert_eq!(answer.status.as_u16(), status, "{path} {body}: {answer:?}");
    }
    let hidden = json!({ "status": "deleted", "statusMessage": "a\u{7}" });
    let errors = &api.patch(one, &hidden).await.json()["errors"];
    assert_eq!(errors[0]["location"], "body.statusMessage", "{errors:#}");
    let revision = api.registry.revision().await;
    let both = api.patch(all, &json!({ "status": "deleted", "statusMessage": "gone" })).await;
    assert_eq!(both.status, 200, "{both:?}");
    assert_eq!(both.json()["updatedCount"], 2);
    assert_eq!(both.json()["servers"].as_array().unwrap().len(), 2);
    assert_eq!(api.registry.revision().await, revision + 1, "all or none");
    assert!(api.get("/v0.1/servers").await.listed().is_empty());
    let again = api.patch(all, &json!({ "status": "deleted", "statusMessage": "gone" })).await;
    assert_eq!(again.status, 400, "nothing changes: {again:?}");
    let back = api.patch(one, &json!({ "status": "active" })).await;
    assert_eq!(back.status, 200);
    assert_eq!(api.get("/v0.1/servers").await.listed(), ["com.example/docs@1.0.0"]);
    let commits = api.registry.ctl(&["log"]).stdout;
    for verb in ["Deprecate", "Retire", "Restore"] {
        let why = format!("{verb} com.example/docs over the MCP registry API");
        assert!(commits.contains(&why), "{why}: {commits}");
    }
}

/// The same rules apply as for gRPC.
#[tokio::test]
async fn needed_server_is_not_deleted() {
    let api = Api::start();
    api.registry.apply_example();
    let path = "/v0.1/servers/local.registry%2Ffetch-server/versions/1.2.3/status";
    let refused = api.patch(path, &json!({ "status": "deleted" })).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let errors = refused.json()["errors"].clone();
    assert_eq!(errors[0]["code"], "still-needed", "{errors:#}");
    assert!(errors[0]["message"].as_str().unwrap().contains("tool/fetch@1.2.3"), "{errors:#}");
    assert!(api.get("/v0.1/servers?search=fetch").await.listed().len() == 1);
}

#[tokio::test]
async fn status_change_keeps_replacement() {
    let api = Api::start();
    for version in ["1.0.0", "2.0.0"] {
        api.publish("com.example/docs", version).await;
    }
    let key = "server/com.example/docs@1.0.0";
    let to = ["--replacement", "server/com.example/docs@2.0.0", "--sunset", "2030-01-31"];
    let ctl =
        api.registry.ctl(&[&["deprecate", "--yes", key, "--message", "old"], &to[..]].concat());
    assert!(ctl.success(), "{ctl:?}");
    let path = "/v0.1/servers/com.example%2Fdocs/versions/1.0.0";
    for (status, code) in [("deprecated", 200), ("deleted", 200), ("deleted", 400)] {
        let wanted = json!({ "status": status, "statusMessage": "older" });
        let changed = api.patch(&format!("{path}/status"), &wanted).await;
        assert_eq!(changed.status.as_u16(), code, "{changed:?}");
        let shown = api.get(&format!("{path}?include_deleted=true")).await.json();
        assert_eq!(shown["_meta"][OURS]["replacement"], "server/com.example/docs@2.0.0");
        assert_eq!(shown["_meta"][OURS]["sunsetDate"], "2030-01-31");
        assert_eq!(shown["_meta"][OFFICIAL]["statusMessage"], "older");
    }
    let active = api.patch(&format!("{path}/status"), &json!({ "status": "active" })).await.json();
    assert_eq!(active["_meta"][OURS].get("replacement"), None);
}

#[tokio::test]
async fn validation_changes_nothing() {
    let api = Api::start();
    let good = api.post("/v0.1/validate", &complete("com.example/docs", "1.0.0")).await;
    assert_eq!((good.status.as_u16(), good.json()), (200, json!({ "valid": true, "issues": [] })));
    let mut odd = complete("com.example/docs", "1.0.0");
    odd["registry_type"] = json!("npm");
    odd["_meta"]["com.example/x"] = json!(1);
    let warned = api.post("/v0.1/validate", &odd).await.json();
    assert_eq!(warned["valid"], true);
    assert_eq!(warned["issues"].as_array().unwrap().len(), 2, "{warned:#}");
    assert!(warned["issues"].as_array().unwrap().iter().all(|i| i["severity"] == "warning"));
    let bad = api.post("/v0.1/validate", &with("/packages/0/transport/type", json!("udp"))).await;
    let issue = &bad.json()["issues"][0];
    assert_eq!(issue["path"], "packages[0].transport.type");
    for member in ["type", "message", "severity", "reference"] {
        assert!(issue[member].is_string(), "{issue}");
    }
    let big = "x".repeat(2 << 20);
    for body in ["", "{", "7", "\"x\"", &big] {
        let answer = api.send("POST", "/v0.1/validate", &[], body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["valid"]), (200, &json!(false)));
        assert!(!answer.json()["issues"].as_array().unwrap().is_empty());
    }
    assert_eq!(api.registry.revision().await, 0);
}
