//! Every server over Streamable HTTP on one address, in both protocol eras: stateless since
//! 2026-07-28 (answered as JSON), sessions before it (answered as SSE). The agents are at the same
//! address. TLS is not supported.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::agents::{self, HostedAgent};
use crate::hosted_server::HostedServer;

/// Time limit of running calls during shutdown.
const DRAIN: Duration = Duration::from_millis(700);

/// Serves until `stop`, and then waits briefly for running calls.
pub async fn serve(
    listener: TcpListener,
    servers: Vec<HostedServer>,
    agents: Vec<HostedAgent>,
    allowed_hosts: &[String],
    stop: CancellationToken,
) -> io::Result<()> {
    let app = router(servers, allowed_hosts, &stop);
    let app = agents.into_iter().fold(app, |routes, agent| routes.merge(agents::router(agent)));
    let app = app.merge(agents::bench::router());
    let listener = listener.tap_io(|stream| {
        // Small responses should not wait for an acknowledgment. A socket that rejects the option
        // still works.
        let _ = stream.set_nodelay(true);
    });
    let served = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
    let deadline = async {
        stop.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        outcome = served => outcome,
        () = deadline => Ok(()),
    }
}

/// The routes of the servers: one for each, and `GET /healthz`.
pub fn router(
    servers: Vec<HostedServer>,
    allowed_hosts: &[String],
    stop: &CancellationToken,
) -> Router {
    let health = Router::new().route("/healthz", get(|| async { "ok\n" }));
    servers.into_iter().fold(health, |routes, server| {
        let mut config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_cancellation_token(stop.child_token());
        config.allowed_hosts.extend_from_slice(allowed_hosts);
        let path = server.path();
        let sessions = Arc::new(LocalSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
        routes.route_service(path, service)
    })
}
