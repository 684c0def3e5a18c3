//! A running gateway keeps its state if files are missing or targets are removed.

use super::*;

const FETCHING: &str = "server/fetch-server@1.2.3";

/// A server whose `fetch` returns at once.
async fn upstream() -> ScriptedServer {
    let page = json!({ "content": [{ "type": "text", "text": "fetched" }] });
    ScriptedServer::start(tools(&["fetch"], move |_| Some(page.clone()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_configuration_changes_nothing() {
    let upstream = upstream().await;
    let gateway = Gateway::start(&options(&http("fetch-server", &upstream.url), "{}", ""));
    gateway.ready().await;
    eventually("it is up", || async { state(&gateway, FETCHING) == "up" }).await;
    let cache = gateway.cache();
    let file = cache.ancestors().nth(2).expect("a directory").join("gateway.yaml");
    let aside = file.with_extension("aside");
    std::fs::rename(&file, &aside).expect("it is moved away");
    let refused = ctl(&gateway, &["reload", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("1 problem;"), "{refused:?}");
    let (admin, directory) =
        (gateway.admin_url(), format!("{}/", file.parent().expect("a directory").display()));
    let message = refused.stderr.replace(&admin, "ADMIN").replace(&directory, "");
    insta::assert_snapshot!("deleted-configuration", message);
    assert_eq!(fetch(&gateway, "https://example.com/").await.text(), "fetched");
    assert_eq!(state(&gateway, FETCHING), "up");
    std::fs::rename(&aside, &file).expect("it is put back");
    assert!(ctl(&gateway, &["reload", "--yes"]).success());
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_of_removed_target_are_zero() {
    let slow_server = SlowServer::start().await;
    let fetching = http("fetch-server", &slow_server.upstream.url);
    let gateway = Gateway::start(&options(&fetching, "{}", ""));
    gateway.ready().await;
    eventually("it is up", || async { state(&gateway, FETCHING) == "up" }).await;
    let slow = tokio::spawn(slow_call(gateway.mcp_url()));
    eventually("it is busy", || async { targets(&gateway).to_string().contains(r#""running":1"#) })
        .await;
    let gauges = async || {
        let metrics = reqwest::get(format!("{}/metrics", gateway.url())).await.expect("metrics");
        let metrics = metrics.text().await.expect("text");
        let lines = metrics.lines().filter(|line| line.contains(FETCHING));
        let gauge = |line: &&str| line.starts_with("gateway_target_") && !line.ends_with(" 0");
        lines.filter(gauge).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(gauges().await.len(), 2, "it is up and busy: {:?}", gauges().await);
    gateway.configure(&options("", "{}", ""));
    assert!(ctl(&gateway, &["reload", "--yes"]).success());
    assert_eq!(gauges().await, Vec::<String>::new());
    slow_server.let_go();
    assert_eq!(slow.await.expect("it ends").text(), "fetched");
}

#[tokio::test(flavor = "multi_thread")]
async fn target_without_secret_file_is_down() {
    let (upstream, dir) = (upstream().await, tempfile::tempdir().expect("a directory"));
    let file = dir.path().join("secret");
    std::fs::write(&file, "s3cret").expect("a file");
    let target = format!(
        "{{ server: fetch-server, version: 1.2.3, http: \"{}\", headers: {{ X-Key: {{ file: {} }} }} }}",
        upstream.url,
        file.display()
    );
    let gateway = Gateway::start(&options(&target, "{}", ""));
    gateway.ready().await;
    eventually("it is up", || async { state(&gateway, FETCHING) == "up" }).await;
    let operate =
        |what: &str| assert!(ctl(&gateway, &[what, "--yes", "fetch-server@1.2.3"]).success());
    operate("stop");
    std::fs::remove_file(&file).expect("it is removed");
    operate("start");
    eventually("it is down", || async { state(&gateway, FETCHING) == "down" }).await;
    let shown = targets(&gateway).to_string();
    assert!(shown.contains("/secret"), "{shown}");
    assert!(fetch(&gateway, "https://example.com/").await.is_tool_error());
    std::fs::write(&file, "s3cret").expect("a file");
    operate("start");
    eventually("it is up again", || async { state(&gateway, FETCHING) == "up" }).await;
    assert_eq!(fetch(&gateway, "https://example.com/").await.text(), "fetched");
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_upstream_is_detected_within_ten_seconds() {
    let hangs = Arc::<AtomicBool>::default();
    let (works, told) = (tools(&["fetch"], |_| None), Arc::clone(&hangs));
    let upstream =
        ScriptedServer::start(Arc::new(
            move |head: &str, body: &str| {
                if told.load(SeqCst) { None } else { works(head, body) }
            },
        ));
    let upstream = upstream.await;
    let gateway = Gateway::start(&options(&http("fetch-server", &upstream.url), "{}", ""));
    gateway.ready().await;
    eventually("it is up", || async { state(&gateway, FETCHING) == "up" }).await;
    hangs.store(true, SeqCst);
    let limit = Duration::from_secs(10);
    eventually_within(limit, "the target is down", || async { state(&gateway, FETCHING) != "up" })
        .await;
    let shown = targets(&gateway).to_string();
    assert!(shown.contains("4000 ms"), "{shown}");
}
