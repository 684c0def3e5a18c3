//! An agent over gRPC with TLS. Its server requires ALPN.

use acceptance::{Process, tls::Authority};

use super::{Agent, Scene, sdks::grpc_agent, skill};

#[tokio::test(flavor = "multi_thread")]
async fn agent_over_grpc_is_called_with_tls() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let agent = Process::run("grpc-tls", dir.path(), grpc_agent(&authority.server()));
    let agent = agent.unwrap_or_else(|e| panic!("{e}"));
    let tls = format!("tls: {{ caFile: \"{}\" }}", authority.ca.display());
    let url = format!("https://{}", agent.address());
    let target = Agent::new("writer", &url, vec![skill("echo")]).over_grpc().with_option(&tls);
    let scene = Scene::start(&[target], "").await;
    let answer = scene.caller("caller", "writer").send("echo", "hello").await;
    assert_eq!(answer.result()["message"]["parts"][0]["text"], "hello");
}
