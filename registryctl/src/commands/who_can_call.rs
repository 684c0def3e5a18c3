//! `who-can-call`: the agents that declare a tool, and whether policies deny their calls.

use std::collections::BTreeSet;

use policy::{CallContext, PartialDecision, Purpose};
use registry_core::{Entity, Kind, LifecycleState};
use serde::Serialize;

use super::{
    Session,
    policy::{decide::Decider, explain::not_found},
};
use crate::{
    cli::{Format, WhoCanCallArgs},
    failure::Failure,
    screen::TextTable,
    style::Paint,
};

/// The JSON result.
#[derive(Serialize)]
struct CallersView {
    revision: u64,
    agents: Vec<CallerView>,
}

/// An agent that declares the tool.
#[derive(Serialize)]
struct CallerView {
    agent: String,
    team: String,
    /// The version that it declares.
    tool: String,
    /// `allowed`, `denied`, or `depends`: on the arguments or the context of a call.
    access: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The policies that deny calls, or may deny them.
    policies: Vec<String>,
}

pub(super) async fn run(session: &Session, args: &WhoCanCallArgs) -> Result<(), Failure> {
    let decider = Decider::open(session, &args.catalog).await?;
    let missing = |message| not_found(message, &args.catalog);
    let named = decider.target(&args.tool, None).map_err(missing)?;
    let catalog = decider.catalog();
    let mut agents = Vec::new();
    for (key, record) in catalog.of_kind(Kind::Agent) {
        let Entity::Agent(agent) = record.document.entity() else { continue };
        if record.lifecycle.state == LifecycleState::Retired {
            continue;
        }
        for target in decider.declared_versions(agent, &named) {
            if args.tool.contains('@') && target.key() != named.key() {
                continue;
            }
            let policies = decider.applicable_policies(Some(key), &target);
            let action = target.called().action();
            let found = policies.map_or(PartialDecision::Allowed, |policies| {
                policies.decide_partially(action, &unknown_context(&BTreeSet::new()), &[])
            });
            let key_text =
                |policy: &registry_core::Key| format!("{}@{}", policy.name, policy.version);
            let (access, reason, policies) = match &found {
                PartialDecision::Allowed => ("allowed", None, Vec::new()),
                PartialDecision::Undecided(policies) => {
                    ("depends", None, policies.iter().map(key_text).collect())
                }
                PartialDecision::Denied(found) => {
                    ("denied", Some(found.reason.as_str()), vec![key_text(&found.policy)])
                }
            };
            agents.push(CallerView {
                agent: key.to_string(),
                team: catalog.owner_of(record).to_owned(),
                tool: target.text(),
                access,
                reason,
                policies,
            });
        }
    }
    show(session, &CallersView { revision: catalog.revision().0, agents })
}

/// A context without known members.
fn unknown_context(scopes: &BTreeSet<String>) -> CallContext<'_> {
    CallContext {
        issuer: "",
        subject: "",
        method: "",
        scopes,
        purpose: Purpose::Call,
        hops: 0,
        time: std::time::SystemTime::UNIX_EPOCH,
    }
}

fn show(session: &Session, view: &CallersView) -> Result<(), Failure> {
    let screen = session.screen;
    if screen.format == Format::Json {
        return screen.json(view);
    }
    if view.agents.is_empty() {
        return screen.line(
            "no registered agent declares it; gateways serve undeclared calls by default, and reject \
             them with `undeclaredDependency: deny`",
        );
    }
    let mut table = TextTable::new(&["ACCESS", "AGENT", "TEAM", "DECLARES", "POLICIES"]);
    for CallerView { agent, team, tool, access, reason, policies } in &view.agents {
        let access_text = match reason {
            Some(reason) => format!("{access} {reason}"),
            None => (*access).to_owned(),
        };
        let cells = [&access_text, agent, team, tool, &policies.join(", ")];
        match *access {
            "denied" => table.painted(Paint::Bad, cells),
            "depends" => table.painted(Paint::Careful, cells),
            _ => table.row(cells),
        }
    }
    screen.table(&table)
}
