//! Upstreams with real sockets and processes.

mod agent_operations;
mod agents;
mod connections;
mod data_agents;
mod departures;
mod dial;
mod grpc_agents;
mod http;
mod http_faults;
mod http_sessions;
mod overload;
mod stdio;
mod stdio_faults;
mod stdio_own;

use std::{
    collections::BTreeMap,
    future::Future,
    time::{Duration, Instant},
};

use gateway_policy::{
    AuthMethod, Authorized, CallerIdentity, Facts, RuntimeValidation, Standing, SubjectToken,
    authorize,
};
use gateway_protocol::mcp::Method;
use gateway_testkit::{McpServer, Received, Reply, Server, json_reply, late, raw_reply, sse_reply};
use serde_json::value::RawValue;

use super::*;
use crate::{Addresses, ChildLimits, TransportConfig, secret::SecretSource};

/// Short delays. Limits that no test should reach are generous.
const TIMING: Timing = Timing {
    relist: Duration::from_mins(10),
    check: Duration::from_mins(10),
    retry_first: Duration::from_millis(30),
    retry_longest: Duration::from_millis(60),
    stable: Duration::from_secs(10),
    grace: Duration::from_millis(300),
    idle: Duration::from_mins(5),
    answer: Duration::from_mins(5),
};

fn limits() -> UpstreamLimits {
    UpstreamLimits {
        response_bytes: 64 * 1024,
        connect_timeout_ms: 2_000,
        list_timeout_ms: 5_000,
        call_timeout_ms: 5_000,
        ..UpstreamLimits::default()
    }
}

/// The token of an authenticated caller.
pub(super) fn subject_token(principal: &str, token: &str) -> SubjectToken {
    let claim = CallerIdentity::Verified {
        agent: None,
        auth_method: AuthMethod::Token,
        principal: principal.into(),
        log_name: None,
        credentials: Box::default(),
    };
    SubjectToken::new(&claim, token).unwrap()
}

fn key() -> Key {
    "server/under-test@1.0.0".parse().unwrap()
}

/// The permission to call a tool or skill.
fn permit(server: &Key, subject: &str) -> Permit {
    let facts = Facts {
        policy: RuntimeValidation::default(),
        standing: Standing::Declared,
        stale: None,
        is_quarantined: false,
    };
    let Authorized { permit, .. } = authorize(facts, server, subject).unwrap();
    permit
}

/// A target at a URL without credentials.
pub(crate) fn http_at(url: &str) -> TransportConfig {
    let (url, headers, addresses) = (url.to_owned(), BTreeMap::new(), Addresses::Usual);
    TransportConfig::Http { url, headers, auth: None, tls: None, addresses, is_grpc: false }
}

/// A target with credentials.
fn transport(server: &Server) -> TransportConfig {
    let mut transport = http_at(&server.url());
    let TransportConfig::Http { headers, .. } = &mut transport else { unreachable!() };
    headers.insert("Authorization".to_owned(), SecretSource::text("Bearer ours"));
    transport
}

/// The tool `t`.
const TOOLS: &str = r#"[{"name":"t","inputSchema":{}}]"#;

fn modern() -> McpServer {
    McpServer::modern().with_tools(TOOLS)
}

fn legacy() -> McpServer {
    McpServer::legacy().with_tools(TOOLS)
}

/// Starts a modern server with the tool `t` and scripted calls.
async fn modern_server(call: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Server {
    modern().start(call).await
}

/// Starts a legacy server with the tool `t` and scripted calls.
async fn legacy_server(call: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Server {
    legacy().start(call).await
}

/// One target, started.
fn start(transport: TransportConfig, limits: UpstreamLimits, timing: Timing) -> Arc<Upstreams> {
    Upstreams::start_with(&[target_of(key(), transport)], limits, timing)
}

fn target_of(server: Key, transport: TransportConfig) -> TargetConfig {
    TargetConfig {
        server: server.into(),
        prefix: Prefix::parse("").unwrap(),
        exposes: None,
        tenant: None,
        transport,
        timeout: None,
        auto_start: true,
    }
}

impl Upstreams {
    /// Calls the tool `t`.
    async fn try_call(&self, arguments: &str) -> Result<RawResult, Error> {
        let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
        let context = RequestContext::default();
        let request = Request::plain(Method::CallTool, &[], &context);
        self.send(permit(&key(), "t"), Request { arguments: Some(&arguments), ..request }).await
    }

    /// Calls the tool `t`, which must succeed. Returns the raw result.
    async fn must_call(&self, arguments: &str) -> String {
        self.try_call(arguments).await.unwrap().result.get().to_owned()
    }

    fn state(&self) -> TargetState {
        self.health().remove(0).state
    }

    async fn until_up(&self) {
        eventually(|| async { matches!(self.state(), TargetState::Up { .. }) }).await;
    }

    /// Waits until the target is down. Returns the reason.
    async fn until_down(&self) -> String {
        eventually(|| async { matches!(self.state(), TargetState::Down { .. }) }).await;
        let TargetState::Down { error, .. } = self.state() else { panic!("the target is up") };
        error
    }

    fn listed(&self) -> Vec<String> {
        let all = self.definitions().borrow().clone();
        let names = |tools: &Arc<Tools>| tools.iter().map(|(name, _)| name.to_owned()).collect();
        all.find(&key()).map(names).unwrap_or_default()
    }
}

/// Waits until a condition is met, at most 10 s.
async fn eventually<F: Future<Output = bool>>(condition: impl Fn() -> F) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < Duration::from_secs(10), "the condition was not met in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn unknown_and_invalid_targets_are_rejected() {
    let none = Upstreams::start(&[], limits());
    assert!(
        matches!(none.try_call("{}").await, Err(Error::NotConfigured { server }) if server == key())
    );
    assert!(none.health().is_empty());

    let upstreams = start(http_at("ftp://x"), limits(), TIMING);
    let error = upstreams.try_call("{}").await.unwrap_err();
    insta::assert_snapshot!(
        error,
        @"could not reach server/under-test@1.0.0: `ftp://x` is not an http or https URL"
    );
    eventually(|| async { matches!(upstreams.state(), TargetState::Down { .. }) }).await;
    upstreams.shutdown().await;
}
