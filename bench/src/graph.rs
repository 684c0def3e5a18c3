//! Graph queries with 100,000 entities over gRPC: exact get, closure, dependents, impact, resolve.

use acceptance::Registry;
use registry_core::Key;
use registry_proto::v1::{
    self, analyze_impact_request::Plan, graph_service_client::GraphServiceClient,
};
use tonic::transport::Channel;

use crate::{
    load::{self, Load},
    reads,
    report::{Report, Row},
    sample,
};

const TOOLS: usize = 99_000;
const CLIENTS: usize = 8;
/// The number of tools of the queried agent.
const DECLARED: usize = 100;

/// Measures each query separately.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let registry = Registry::start();
    reads::apply_all(&registry, TOOLS).await;
    let mut changes = sample::own();
    changes.push(sample::agent("bench-agent", DECLARED + sample::OWN_TOOLS.len()));
    registry.client().await.apply_changes(sample::request(changes)).await.expect("accepted");
    let one = reads::gets(&registry, seconds, "1.0.0").await;
    report.add_alone(
        format!("exact get of {TOOLS} tools, {} clients", reads::CLIENTS),
        one.text(),
        "≥ 20,000/s",
    );
    let questions = [
        Question::Closure("agent/bench-agent@1.0.0"),
        Question::Retire("tool/tool_000007@1.0.0"),
        Question::Retire("server/server-0@1.0.0"),
        Question::Retire("schema/Query0@1.0.0"),
        Question::Resolve,
    ];
    for question in questions {
        let load = ask(&registry, seconds, question).await;
        report.add(Row {
            path: format!("{}, {CLIENTS} clients, {TOOLS} tools", question.text()),
            value: load.text(),
            baseline: format!("exact get: {:.0}/s", one.per_second),
            ratio: Some(load.per_second / one.per_second),
            budget: "",
        });
    }
}

#[derive(Debug, Clone, Copy)]
enum Question {
    Closure(&'static str),
    Retire(&'static str),
    Resolve,
}

impl Question {
    fn text(self) -> String {
        match self {
            Self::Closure(key) => format!("closure of {key} ({DECLARED} tools)"),
            Self::Retire(key) => format!("impact of retiring {key}"),
            Self::Resolve => "resolve of a range".to_owned(),
        }
    }
}

async fn ask(registry: &Registry, seconds: u64, question: Question) -> Load {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(registry.graph().await);
    }
    load::run(clients, seconds, move |client, _| answer(client, question)).await
}

async fn answer(mut client: GraphServiceClient<Channel>, question: Question) {
    match question {
        Question::Closure(root) => {
            let keys = vec![key(root)];
            let request = v1::GetDependenciesRequest { keys, ..Default::default() };
            let answer = client.get_dependencies(request).await.expect("an answer").into_inner();
            assert!(answer.graph.expect("a graph").total_count > DECLARED as u64);
        }
        Question::Retire(what) => {
            let plan = Plan::LifecycleState(v1::LifecycleState::Retired.into());
            let request = v1::AnalyzeImpactRequest {
                key: Some(key(what)),
                plan: Some(plan),
                max_affected: 100,
                ..Default::default()
            };
            client.analyze_impact(request).await.expect("an answer");
        }
        Question::Resolve => {
            let requirement = v1::VersionRequirement {
                kind: v1::EntityKind::Tool.into(),
                name: sample::tool_name(4_711),
                constraint: "^1".to_owned(),
            };
            let request = v1::ResolveVersionsRequest {
                requirements: vec![requirement],
                ..Default::default()
            };
            client.resolve_versions(request).await.expect("an answer");
        }
    }
}

fn key(text: &str) -> v1::EntityKey {
    let key: Key = text.parse().expect("a key");
    (&key).into()
}
