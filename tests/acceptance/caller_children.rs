//! One child process per caller, if configured: the callers that share a process, and the end of all
//! processes with the gateway, even if it crashes.

use std::{fs, path::Path, time::Duration};

use acceptance::{Gateway, GatewayOptions, ModernClient, eventually};
use serde_json::json;

/// A server that returns its process id.
const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in
  *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"]}';;
  *'"tools/list"'*) answer '{"tools":[{"name":"fetch","inputSchema":{}}]}';;
  *'"tools/call"'*) answer "{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"$$\"}]}";;
esac; done
"#;

async fn gateway(dir: &Path) -> Gateway {
    fs::write(dir.join("child.sh"), SERVER).expect("a script");
    let example = acceptance::root().join("examples/registry-v2.json");
    let child = format!("command: sh, args: [child.sh], cwd: \"{}\"", dir.display());
    let stdio = format!("stdio: {{ {child}, maxCallerChildren: 2 }}");
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: format!("targets: [{{ server: fetch-server, version: 1.2.3, {stdio} }}]\n"),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    gateway
}

/// The process that answers a caller.
async fn pid(gateway: &Gateway, agent: &str) -> u32 {
    let url = gateway.mcp_url();
    let client = match agent {
        "" => ModernClient::anonymous(&url),
        agent => ModernClient::agent(&url, agent, "1.0.0"),
    };
    let answer = client.call("fetch", json!({ "url": "http://x/" })).await;
    answer.text().parse().unwrap_or_else(|_| panic!("{answer:?}"))
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[tokio::test]
async fn agents_have_separate_child_processes() {
    for signal in ["TERM", "KILL"] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut gateway = gateway(dir.path()).await;
        let shared = pid(&gateway, "").await;
        let first = pid(&gateway, "team/one").await;
        let second = pid(&gateway, "team/two").await;
        assert!(shared != first && first != second && second != shared);
        assert_eq!(pid(&gateway, "").await, shared, "unauthenticated callers share a child");
        assert_eq!(pid(&gateway, "team/one").await, first);
        let third = pid(&gateway, "team/three").await;
        assert!(!is_alive(second) && is_alive(first), "the one that was idle longest is gone");
        gateway.process.signal(signal);
        gateway.process.wait(Duration::from_secs(10));
        eventually("all are gone", || async {
            ![shared, first, second, third].into_iter().any(is_alive)
        })
        .await;
    }
}
