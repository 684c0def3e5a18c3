//! `registryctl import server-json`: from files, from URLs, from other registries.

use std::{fs, path::Path};

use acceptance::Registry;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Api, complete, server};

fn import(registry: &Registry, from: &str, more: &[&str]) -> acceptance::CtlOutput {
    registry.ctl(&[&["import", "server.json", from], more].concat())
}

fn written(dir: &Path, name: &str, value: &Value) -> String {
    let path = dir.join(name);
    fs::write(&path, format!("{value:#}")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn server_json_is_registered_after_plan() {
    let api = Api::start();
    let dir = tempfile::tempdir().unwrap();
    let document = complete("com.example/docs", "1.2.3");
    let file = written(dir.path(), "server.json", &document);
    let dry = import(&api.registry, &file, &["--apply", "--dry-run"]);
    assert!(dry.success() && dry.stdout.contains("register"), "{dry:?}");
    assert_eq!(api.registry.revision().await, 0);
    let done = import(&api.registry, &file, &["--apply", "--yes", "--message", "imported"]);
    assert!(done.success() && done.stdout.contains("revision 1"), "{done:?}");
    let served = api.get("/v0.1/servers/com.example%2Fdocs/versions/1.2.3").await;
    assert_eq!(served.json()["server"], document);
    let again = import(&api.registry, &file, &["--apply", "--yes", "--output", "json"]);
    assert_eq!(again.json()["committed"], false, "{again:?}");
    // The response of a registry that has withdrawn the server: it is imported with a warning.
    let official = json!({ "io.modelcontextprotocol.registry/official": { "status": "deleted" } });
    let answer = json!({ "server": document, "_meta": official });
    let withdrawn = written(dir.path(), "answer.json", &answer);
    let again = import(&api.registry, &withdrawn, &["--apply", "--yes", "--output", "json"]);
    assert_eq!(again.json()["committed"], false, "{again:?}");
    assert!(format!("{again:?}").contains("`deleted`"), "{again:?}");
    // The other option spelling, and JSON output.
    let other = ["import", "server-json", &file, "--apply", "--yes", "--output", "json"];
    let other = api.registry.ctl(&other);
    let outcome: Value = serde_json::from_str(&other.stdout).unwrap();
    assert_eq!((&outcome["accepted"], &outcome["committed"]), (&json!(true), &json!(false)));
}

#[tokio::test]
async fn server_json_mistake_is_located() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().unwrap();
    let mut document = complete("com.example/docs", "1.x");
    document["packages"][0]["version"] = json!("latest");
    document["title"] = json!("Doc\u{202e}uments");
    let file = written(dir.path(), "server.json", &document);
    let refused = import(&registry, &file, &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let directory = format!("{}/", dir.path().display());
    insta::assert_snapshot!("invalid-server-json", refused.stderr.replace(&directory, ""));
    let broken = dir.path().join("broken.json");
    fs::write(&broken, "{ \"name\": ").unwrap();
    let refused = import(&registry, broken.to_str().unwrap(), &[]);
    assert!(refused.code == 1 && refused.stderr.contains("broken.json"), "{refused:?}");
    let missing = import(&registry, "no-such-file.json", &[]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert_eq!(registry.revision().await, 0);
}

#[tokio::test]
async fn imported_server_json_is_written_for_review() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().unwrap();
    let file = written(dir.path(), "server.json", &complete("com.example/docs", "1.0.0"));
    let out = dir.path().join("registry.json");
    let wrote = import(&registry, &file, &["--out", out.to_str().unwrap()]);
    assert!(wrote.success(), "{wrote:?}");
    assert_eq!(registry.revision().await, 0);
    let valid = registry.ctl(&["validate", "-f", out.to_str().unwrap()]);
    assert!(valid.success(), "{valid:?}");
    registry.apply_file(&out);
    let direct = import(&registry, &file, &["--apply", "--yes", "--output", "json"]);
    assert_eq!(direct.json()["committed"], false, "the same entity: {direct:?}");
    let printed = import(&registry, &file, &[]);
    assert_eq!(printed.stdout, fs::read_to_string(&out).unwrap());
    for flag in ["--yes", "--dry-run"] {
        let unclear = import(&registry, &file, &[flag]);
        assert!(unclear.code == 2 && unclear.stderr.contains("require --apply"), "{unclear:?}");
    }
}

/// A list of documents, one of them in the format before September 2025.
#[tokio::test]
async fn old_format_and_lists_are_converted_and_served() {
    let api = Api::start();
    let dir = tempfile::tempdir().unwrap();
    let old = json!({
        "name": "com.example/files", "description": "Files", "version_detail": { "version": "1.0.2" },
        "packages": [{ "registry_name": "npm", "name": "@example/files", "version": "1.0.2", "runtime_hint": "npx",
            "environment_variables": [{ "name": "KEY", "is_required": true, "is_secret": true }] }],
        "remotes": [{ "transport_type": "sse", "url": "https://files.example/sse" }],
    });
    let list = json!([old, server("com.example/docs", "1.0.0")]);
    let file = written(dir.path(), "servers.json", &list);
    let done = import(&api.registry, &file, &["--apply", "--yes"]);
    assert!(done.success(), "{done:?}");
    assert!(done.stderr.contains("review: "), "{done:?}");
    let served =
        api.get("/v0.1/servers/com.example%2Ffiles/versions/1.0.2").await.json()["server"].clone();
    assert_eq!(
        served["packages"],
        json!([{ "registryType": "npm", "identifier": "@example/files", "version": "1.0.2", "runtimeHint": "npx",
            "environmentVariables": [{ "name": "KEY", "isRequired": true, "isSecret": true }],
            "transport": { "type": "stdio" } }])
    );
    assert_eq!(served["remotes"], json!([{ "type": "sse", "url": "https://files.example/sse" }]));
    assert_eq!(api.get("/v0.1/servers/com.example%2Fdocs/versions/1.0.0").await.status, 200);
}

/// A registry imports from another one: a server, a list, and its own entities.
#[tokio::test]
async fn one_registry_imports_from_another() {
    let (from, to) = (Api::start(), Api::start());
    from.registry.apply_example();
    let first = from.post("/v0.1/publish", &complete("com.example/docs", "1.0.0")).await;
    assert_eq!(first.status, 200);
    from.publish("com.example/docs", "1.1.0").await;
    let one = format!("{}/v0.1/servers/com.example%2Fdocs/versions/1.0.0", from.url);
    let done = import(&to.registry, &one, &["--apply", "--yes"]);
    assert!(done.success(), "{done:?}");
    let all = format!("{}/v0.1/servers?limit=100", from.url);
    let done = import(&to.registry, &all, &["--apply", "--yes"]);
    assert!(done.success(), "{done:?}");
    let list = async |api: &Api| {
        let list = api.get("/v0.1/servers?limit=100").await.json();
        let items = list["servers"].as_array().unwrap();
        items.iter().map(|item| item["server"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(list(&to).await, list(&from).await);
    let page = format!("{}/v0.1/servers?limit=3", from.url);
    let part = import(&to.registry, &page, &["--output", "json"]);
    let part: Value = serde_json::from_str(&part.stdout).unwrap();
    assert_eq!(part["file"]["servers"].as_array().unwrap().len(), 3);
    assert_eq!(part["repairs"][0]["by"], "person", "the list is incomplete");
}

/// Serves these bytes on every connection and returns the URL.
async fn answering(head: &'static str, body: Vec<u8>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let body = body.clone();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(&body).await;
            });
        }
    });
    format!("http://{address}/server.json")
}

#[tokio::test(flavor = "multi_thread")]
async fn url_import_is_limited_to_its_origin() {
    let registry = Registry::start();
    let document = server("com.example/docs", "1.0.0").to_string().into_bytes();
    let elsewhere =
        "HTTP/1.1 302 Found\r\nlocation: http://localhost:1/x\r\nconnection: close\r\n\r\n";
    let other_port = "HTTP/1.1 302 Found\r\nlocation: http://u:s3cret@127.0.0.1:1/x?token=s3cret\r\nconnection: close\r\n\r\n";
    let ok = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    let cases = [
        (answering(ok, document).await, 0, ""),
        (
            answering(elsewhere, Vec::new()).await,
            4,
            "redirect to another origin, http://localhost:1/x",
        ),
        (
            answering(other_port, Vec::new()).await,
            4,
            "redirect to another origin, http://127.0.0.1:1/x",
        ),
        (answering(ok, vec![b' '; 20 << 20]).await, 4, "larger than 16 MiB"),
        (answering(ok, vec![0xff, 0xfe]).await, 4, "not valid UTF-8"),
        (
            answering("HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n", Vec::new()).await,
            4,
            "404",
        ),
        ("http://127.0.0.1:1/x?token=s3cret".to_owned(), 3, "http://127.0.0.1:1/x: Connection ref"),
        ("http://user:s3cret@127.0.0.1:1/x".to_owned(), 2, "the URL contains credentials"),
        ("ftp://127.0.0.1/x".to_owned(), 2, "use http:// or https://"),
        ("file:///etc/passwd".to_owned(), 2, "use http:// or https://"),
    ];
    for (url, code, message) in cases {
        let done = import(&registry, &url, &["--apply", "--yes"]);
        assert_eq!(done.code, code, "{url}: {done:?}");
        assert!(done.stderr.contains(message), "{url}: {done:?}");
        assert!(!done.stderr.contains("s3cret"), "{url}: {done:?}");
    }
    assert_eq!(registry.revision().await, 1);
}
