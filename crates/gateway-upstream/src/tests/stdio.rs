//! Child processes without faults, in both eras.

use std::path::Path;

use super::*;

/// Responses that every script has: `$id` is the id, `$line` the whole request.
const PRELUDE: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
refuse() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}\n' "$id"; }
next() { IFS= read -r line && id=${line#*\"id\":} && id=${id%%,*}; }
"#;

/// A modern server; `$1` is run for each call, `$2` for everything else.
const MODERN: &str = r#"
while next; do case $line in
  *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"]}';;
  *'"tools/list"'*) answer "{\"tools\":[{\"name\":\"${tool:-t}\"}]}";;
  *'"tools/call"'*) CALL;;
  *) OTHER;;
esac; done
"#;

/// A legacy one.
const LEGACY: &str = r#"
while next; do case $line in
  *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{}}';;
  *'"tools/list"'*) answer '{"tools":[{"name":"t"}]}';;
  *'"tools/call"'*) CALL;;
  *'"server/discover"'*) DISCOVER;;
  *) OTHER;;
esac; done
"#;

pub(super) fn script(text: &str) -> TransportConfig {
    script_in(text, None)
}

pub(super) fn script_in(text: &str, cwd: Option<&Path>) -> TransportConfig {
    TransportConfig::Stdio {
        command: "sh".into(),
        args: vec!["-c".into(), format!("{PRELUDE}{text}")],
        env: [("CONFIGURED", "yes"), ("PATH", "/usr/bin:/bin")]
            .map(|(name, value)| (name.to_owned(), crate::secret::SecretSource::text(value)))
            .into(),
        cwd: cwd.map(Path::to_owned),
        limits: ChildLimits::default(),
        max_caller_children: None,
    }
}

pub(super) fn modern(call: &str) -> String {
    let other = r#"case $line in *'"initialize"'*) refuse;; esac"#;
    MODERN.replace("CALL", call).replace("OTHER", other)
}

fn legacy(discover: &str, other: &str) -> TransportConfig {
    let call = r#"answer '{"content":[]}'"#;
    let text = LEGACY.replace("CALL", call).replace("DISCOVER", discover).replace("OTHER", other);
    script(&text)
}

#[tokio::test]
async fn one_child_serves_all_calls() {
    let child = script(&modern(r#"answer "{\"pid\":$$}""#));
    let upstreams = start(child, limits(), TIMING);
    let calls = (0..50).map(|_| upstreams.must_call("{\n\"a\":\r\n1}"));
    let mut pids = futures_util::future::join_all(calls).await;
    pids.dedup();
    assert_eq!(pids.len(), 1, "{pids:?}");
    upstreams.until_up().await;
    assert!(matches!(upstreams.state(), TargetState::Up { speaks: "modern" }));
    assert_eq!(upstreams.listed(), ["t"]);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn responses_match_calls_in_any_order() {
    // The first call gets its response after the second, whose response contains its arguments.
    let call = r#"case $line in
        *first*) waiting=$id;;
        *) answer '{"n":2}'; id=$waiting; answer '{"n":1}';;
    esac"#;
    let upstreams = start(script(&modern(call)), limits(), TIMING);
    upstreams.until_up().await;
    let (first, second) =
        tokio::join!(upstreams.must_call(r#"{"a":"first"}"#), upstreams.must_call("{}"));
    assert_eq!((first.as_str(), second.as_str()), (r#"{"n":1}"#, r#"{"n":2}"#));
}

#[tokio::test]
async fn legacy_child_is_recognized_for_any_probe_reaction() {
    let limits = UpstreamLimits { connect_timeout_ms: 300, ..limits() };
    for discover in ["refuse", ":", "exit 1"] {
        let upstreams = start(legacy(discover, ":"), limits, TIMING);
        upstreams.until_up().await;
        assert!(matches!(upstreams.state(), TargetState::Up { speaks: "legacy" }), "{discover}");
        assert_eq!(upstreams.must_call("{}").await, r#"{"content":[]}"#);
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn modern_child_that_starts_slowly_is_recognized() {
    let initialize = r#"case $line in *'"initialize"'*)
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no",' "$id"
        printf '"data":{"supported":["2026-07-28"]}}}\n';;
    esac"#;
    let text = MODERN.replace("CALL", "answer '{}'").replace("OTHER", initialize);
    let limits = UpstreamLimits { connect_timeout_ms: 300, ..limits() };
    let upstreams = start(script(&format!("next\n{text}")), limits, TIMING);
    upstreams.until_up().await;
    assert!(matches!(upstreams.state(), TargetState::Up { speaks: "modern" }));
    assert_eq!(upstreams.must_call("{}").await, "{}");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn child_inherits_no_environment() {
    let call = r#"answer "{\"home\":\"$HOME\",\"path\":\"${PATH:+set}\",\"own\":\"$CONFIGURED\"}""#;
    let upstreams = start(script(&modern(call)), limits(), TIMING);
    assert_eq!(upstreams.must_call("{}").await, r#"{"home":"","path":"set","own":"yes"}"#);
}

#[tokio::test]
async fn changed_list_is_fetched_again() {
    let call = r#"tool=u
        printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
        answer '{}'"#;
    let upstreams = start(script(&modern(call)), limits(), TIMING);
    upstreams.until_up().await;
    assert_eq!(upstreams.listed(), ["t"]);
    upstreams.must_call("{}").await;
    eventually(|| async { upstreams.listed() == ["u"] }).await;
}

#[tokio::test]
async fn modern_child_gets_a_change_subscription() {
    let folder = tempfile::tempdir().unwrap();
    let text = MODERN.replace("CALL", ":").replace("OTHER", r#"printf '%s\n' "$line" >> other"#);
    let upstreams = start(script_in(&text, Some(folder.path())), limits(), TIMING);
    upstreams.until_up().await;
    let other = || std::fs::read_to_string(folder.path().join("other")).unwrap_or_default();
    eventually(|| async { other().contains("subscriptions/listen") }).await;
    assert!(other().contains(r#""notifications":{"toolsListChanged":true,"#), "{}", other());
}

#[tokio::test]
async fn questions_of_child_are_answered() {
    let call = r#"call=$id
        printf '{"jsonrpc":"2.0","id":"s","method":"roots/list"}\n'
        next; asked=$line
        id=$call; case $asked in
            *'"id":"s"'*'"code":-32601'*) answer '{"refused":true}';;
            *) answer '{"refused":false}';;
        esac"#;
    let upstreams = start(script(&modern(call)), limits(), TIMING);
    upstreams.until_up().await;
    assert_eq!(upstreams.must_call("{}").await, r#"{"refused":true}"#);
}

#[tokio::test]
async fn disconnect_cancels_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let text = MODERN.replace("CALL", "echo $id > called").replace(
        "OTHER",
        r#"case $line in *'"notifications/cancelled"'*) printf '%s' "$line" > cancelled;; esac"#,
    );
    let upstreams = start(script_in(&text, Some(folder.path())), limits(), TIMING);
    upstreams.until_up().await;
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    tokio::select! {
        _ = upstreams.try_call("{}") => panic!("nobody answered"),
        () = eventually(|| async { read("called").ends_with('\n') }) => {}
    }
    eventually(|| async { read("cancelled").ends_with('}') }).await;
    let expected = format!(r#""requestId":{},"#, read("called").trim());
    assert!(read("cancelled").contains(&expected), "{}", read("cancelled"));
}
