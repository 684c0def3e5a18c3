//! Calls of a child process over stdio: direct, and through the gateway over HTTP.

use std::{
    collections::HashMap,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use acceptance::{Gateway, GatewayOptions, Registry, binary};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    sync::{mpsc, oneshot},
};

use super::{Hop, MODERN, drive, wait_for_tools};
use crate::{
    load::{self, Load},
    report::{Report, Row},
};

pub(super) async fn measure(report: &mut Report, registry: &Registry, seconds: u64) {
    let program = binary("demo-backend");
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: format!(
            "targets: [{{ server: bench-server, version: 1.0.0, \
             stdio: {{ command: {}, args: [--stdio, bench-server] }} }}]\n",
            program.display()
        ),
        runtime: Some("{ inputValidation: deny, undeclaredDependency: deny }".to_owned()),
        more: String::new(),
    });
    // The other servers have no target here, so their tools are not listed.
    wait_for_tools(&gateway, 2).await;
    let hop = Hop {
        name: "gateway before a child",
        url: gateway.mcp_url(),
        cpu: Box::new(|| gateway.process.cpu_seconds()),
    };
    for connections in [1, 16] {
        let params = json!({ "name": "echo", "arguments": { "payload": "x".repeat(1024) } });
        let direct = direct(connections, seconds, &params).await;
        let request = ("bench-agent", (MODERN, "tools/call", params));
        let through = drive(&hop, connections, seconds, request).await;
        report.add(Row {
            path: format!("tools/call of a child over stdio, 1 KiB, {connections} at once"),
            value: format!("gateway {}, {:.0} µs CPU", through.load.text(), through.cpu_us()),
            baseline: format!("direct to the child: {}", direct.text()),
            ratio: Some(through.load.per_second / direct.per_second),
            budget: "",
        });
    }
}

async fn direct(connections: usize, seconds: u64, params: &Value) -> Load {
    let mut child = Command::new(binary("demo-backend"));
    let conversation = Conversation::start(child.args(["--stdio", "bench-server"]));
    through(conversation, connections, seconds, params).await
}

/// This number of concurrent calls over one stdio connection.
pub(super) async fn through(
    conversation: Conversation,
    connections: usize,
    seconds: u64,
    params: &Value,
) -> Load {
    let conversation = Arc::new(conversation);
    let params = Arc::new(params.clone());
    let clients = vec![(conversation, params); connections];
    load::run(clients, seconds, |(conversation, params), _| async move {
        let answer = conversation.call(&params).await;
        assert!(answer.len() > 1024, "{answer}");
    })
    .await
}

/// A child process with concurrent requests.
pub(super) struct Conversation {
    _child: Child,
    next: AtomicU64,
    to_write: mpsc::UnboundedSender<String>,
    waiting: Arc<Mutex<HashMap<u64, oneshot::Sender<String>>>>,
}

impl Conversation {
    pub(super) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (to_write, mut lines) = mpsc::unbounded_channel::<String>();
        tokio::spawn(async move {
            let stdin = stdin.as_mut().expect("a pipe");
            while let Some(line) = lines.recv().await {
                stdin.write_all(line.as_bytes()).await.expect("it reads");
            }
        });
        let waiting = Arc::<Mutex<HashMap<u64, oneshot::Sender<String>>>>::default();
        let answered = Arc::clone(&waiting);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout.expect("a pipe")).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let id = serde_json::from_str::<Value>(&line).ok().and_then(|m| m["id"].as_u64());
                let waits = id.and_then(|id| answered.lock().expect("unharmed").remove(&id));
                if let Some(waits) = waits {
                    let _ = waits.send(line);
                }
            }
        });
        Self { _child: child, next: AtomicU64::new(1), to_write, waiting }
    }

    pub(super) async fn call(&self, params: &Value) -> String {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().expect("unharmed").insert(id, answer);
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.to_write.send(format!("{request}\n")).expect("it is written");
        answered.await.expect("an answer")
    }
}
