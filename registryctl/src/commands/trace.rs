//! `trace`: the AIO calls of a trace at all gateways.

use registry_proto::v1;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Session;
use crate::{
    cli::{Format, TraceArgs},
    client::{PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    view::time_text,
};

/// Gateways report only the calls of an execution graph.
const NO_CALLS: &str = "no AIO calls with this trace id; they can be older than --trace-retention of \
                        the registry, or belong to another account. For other calls, see `trace_id` \
                        in the audit log of the gateways, or `GET /admin/traces/ID` of a gateway";

/// The graph of a trace of one account.
#[derive(Debug, Serialize)]
struct Graph {
    trace_id: String,
    issuer: String,
    subject: String,
    calls: Vec<Call>,
}

#[derive(Debug, Serialize)]
struct Call {
    gateway: String,
    /// The members in the form of the gateway.
    #[serde(flatten)]
    members: Map<String, Value>,
}

pub(super) async fn run(session: &Session, args: TraceArgs) -> Result<(), Failure> {
    let TraceArgs { trace_id } = args;
    let mut wanted = v1::ListTraceCallsRequest {
        trace_id: trace_id.clone(),
        page_size: PAGE_SIZE,
        ..Default::default()
    };
    let client = session.connect().await?;
    let mut calls = Vec::new();
    loop {
        let page = client.answer(client.traces().list_trace_calls(request(wanted.clone()))).await?;
        calls.extend(page.calls);
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    if session.screen.format == Format::Json {
        return session.screen.json(&graphs(&trace_id, calls));
    }
    if calls.is_empty() {
        return session.screen.line(NO_CALLS);
    }
    session.screen.table(&table(calls))
}

/// The graphs of the accounts, in the order of their first calls.
fn graphs(trace_id: &str, calls: Vec<v1::TraceCall>) -> Vec<Graph> {
    let mut graphs: Vec<Graph> = Vec::new();
    for call in calls {
        let members = members(&call.call_json);
        let v1::TraceCall { gateway, issuer, subject, .. } = call;
        let call = Call { gateway, members };
        let is_of = |graph: &&mut Graph| graph.issuer == issuer && graph.subject == subject;
        if let Some(graph) = graphs.iter_mut().find(is_of) {
            graph.calls.push(call);
        } else {
            let trace_id = trace_id.to_owned();
            graphs.push(Graph { trace_id, issuer, subject, calls: vec![call] });
        }
    }
    graphs
}

fn table(calls: Vec<v1::TraceCall>) -> TextTable {
    let heading =
        ["START", "CALLER", "GATEWAY", "ID", "AGENT", "METHOD", "PROTOCOL", "STATUS", "MS", "COST"];
    let mut table = TextTable::new(&heading);
    for call in calls {
        let members = members(&call.call_json);
        let text = |name: &str| match members.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        // A step has the id of the call that runs it.
        let id = match text("parent") {
            parent if parent.is_empty() => text("id"),
            parent => format!("└ {parent}"),
        };
        table.row([
            time_text(call.start_time).unwrap_or_default(),
            call.subject,
            call.gateway,
            id,
            text("agent"),
            text("method"),
            text("protocol"),
            text("status"),
            text("duration_ms"),
            text("cost"),
        ]);
    }
    table
}

/// The members of a call. The registry stores objects only.
fn members(call: &str) -> Map<String, Value> {
    serde_json::from_str(call).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(subject: &str, call: &str) -> v1::TraceCall {
        let (issuer, gateway) = ("i".to_owned(), "g".to_owned());
        let (subject, call_json) = (subject.to_owned(), call.to_owned());
        v1::TraceCall { issuer, subject, gateway, call_json, ..Default::default() }
    }

    fn calls() -> Vec<v1::TraceCall> {
        vec![
            call("a", r#"{"id":1,"agent":"reader","method":"help","status":"ok"}"#),
            call("b", r#"{"id":"x","agent":"reader","method":"help","status":"error"}"#),
            call("a", r#"{"id":null,"parent":1,"agent":"reader","method":"list"}"#),
        ]
    }

    #[test]
    fn calls_are_grouped_by_account() {
        let graphs = graphs("t", calls());
        let facts: Vec<_> =
            graphs.iter().map(|graph| (graph.subject.as_str(), graph.calls.len())).collect();
        assert_eq!(facts, [("a", 2), ("b", 1)]);
        let shown = serde_json::to_value(&graphs[1]).unwrap();
        let call = &shown["calls"][0];
        assert_eq!((&shown["trace_id"], &call["gateway"]), (&"t".into(), &"g".into()));
        assert_eq!((&call["id"], &call["status"]), (&"x".into(), &"error".into()));
    }
}
