//! High availability: servers are replaced, databases restart, hang and fail over, connections die
//! silently, and no acknowledged commit and no delta is lost.

mod clients;
mod database;
mod failover;
mod listener;
mod servers;

use std::time::{Duration, Instant};

use acceptance::{Gateway, GatewayOptions, Registry};
use tokio::task::JoinHandle;

use crate::deployment::readiness;

/// A gateway with these servers as its source, in this order.
fn gateway_of(servers: &[&Registry]) -> Gateway {
    let addresses: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    let source = format!("grpc://{}", addresses.join(","));
    let (targets, more) = (String::new(), String::new());
    Gateway::start(&GatewayOptions { source, targets, runtime: None, more })
}

/// The value of a metric, or `None`.
async fn metric(address: &str, name: &str) -> Option<f64> {
    let answer = reqwest::get(format!("http://{address}/metrics")).await.expect("it answers");
    let text = answer.text().await.expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a number"))
}

/// Watches a gateway until stopped, and records the longest time without a live stream.
struct Watch {
    task: JoinHandle<Duration>,
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Watch {
    fn start(gateway: &Gateway) -> Self {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let address = gateway.address.clone();
        let task = tokio::spawn(async move {
            let (mut longest, mut since) = (Duration::ZERO, Instant::now());
            while stopped.try_recv().is_err() {
                if readiness(&address).await.1["source"] == "live" {
                    since = Instant::now();
                }
                longest = longest.max(since.elapsed());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            longest
        });
        Self { task, stop }
    }

    async fn longest_absence(self) -> Duration {
        let _ = self.stop.send(());
        self.task.await.expect("it watches")
    }
}
