//! `who-can-call`: the agents that declare a tool, an alias of it or a composition which calls one
//! of them, and whether policies deny their calls.

mod compositions;

use std::collections::{BTreeMap, BTreeSet};

use policy::{CallContext, PartialDecision, Purpose};
use registry_core::{Entity, Key, Kind, LifecycleState, entity::Dependency};
use serde::Serialize;

use self::compositions::CompositionDecisions;
use super::{
    Session,
    policy::{
        decide::{Decider, Target},
        explain::not_found,
    },
};
use crate::{
    cli::{Format, WhoCanCallArgs},
    failure::Failure,
    screen::TextTable,
    style::{Paint, printable},
};

/// The JSON result.
#[derive(Serialize)]
struct CallersView {
    revision: u64,
    agents: Vec<CallerView>,
    /// The tools and skills that the steps of a composition call. Decisions about the composition do
    /// not include their policies.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    steps: BTreeSet<String>,
}

/// An agent whose calls reach the tool.
#[derive(Serialize)]
struct CallerView {
    agent: String,
    team: String,
    /// The called version of the tool or of an alias.
    tool: String,
    /// `call` of a declared tool, or `step` or `compensation` of a declared composition.
    purpose: &'static str,
    /// The declared composition.
    #[serde(skip_serializing_if = "Option::is_none")]
    composition: Option<String>,
    #[serde(flatten)]
    access: AccessView,
}

/// The decision about the calls of an agent.
#[derive(Serialize)]
struct AccessView {
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
    let has_version = args.tool.contains('@');
    let mut targets = decider.versions_of(&named);
    targets.retain(|target| !has_version || target.key() == named.key());
    let aliases = targets.iter().flat_map(|target| decider.aliases_of(target));
    let aliases: BTreeMap<Key, Target> =
        aliases.map(|alias| (alias.key().clone(), alias)).collect();
    targets.extend(aliases.into_values());
    let catalog = decider.catalog();
    let calls = targets.iter().map(|target| (compositions::calling(catalog, target), target));
    let targets: Vec<_> = calls.collect();
    let mut agents = Vec::new();
    for (key, record) in catalog.of_kind(Kind::Agent) {
        let Entity::Agent(agent) = record.document.entity() else { continue };
        if record.lifecycle.state == LifecycleState::Retired {
            continue;
        }
        let (depends, _) = agent.depends();
        let depends: BTreeSet<_> = depends.iter().map(Dependency::key).collect();
        let view =
            |target: &Target, purpose: Purpose, composition: Option<&Key>, access| CallerView {
                agent: key.to_string(),
                team: catalog.owner_of(record).to_owned(),
                tool: target.text(),
                purpose: purpose.as_str(),
                composition: composition.map(ToString::to_string),
                access,
            };
        for (compositions, target) in &targets {
            let is_usable = decider.is_usable(target);
            if is_usable && decider.declares(key, target) {
                let found = decide(&decider, key, target, Purpose::Call);
                agents.push(view(target, Purpose::Call, None, AccessView::from(&found)));
            }
            let mut decisions = CompositionDecisions::new(&decider, key, target, compositions);
            let calls = compositions.keys().filter(|call| depends.contains(&call.composition));
            // Gateways compensate by a retired tool, but do not serve compositions with such a step.
            for call in calls.filter(|call| is_usable || call.purpose() == Purpose::Compensation) {
                let access = AccessView::from(&decisions.through(call));
                agents.push(view(target, call.purpose(), Some(&call.composition), access));
            }
        }
    }
    let usable = targets.iter().map(|(_, target)| *target).filter(|one| decider.is_usable(one));
    let steps = usable.flat_map(Target::steps).collect();
    show(session, &CallersView { revision: catalog.revision().0, agents, steps })
}

/// The decision about the calls of a tool or skill by an agent.
fn decide(decider: &Decider, agent: &Key, target: &Target, purpose: Purpose) -> PartialDecision {
    let policies = decider.applicable_policies(Some(agent), target);
    let action = target.called().action();
    policies.map_or(PartialDecision::Allowed, |policies| {
        policies.decide_partially(action, &context(purpose, &BTreeSet::new()), KNOWN)
    })
}

impl From<&PartialDecision> for AccessView {
    fn from(found: &PartialDecision) -> Self {
        let key_text = |policy: &Key| format!("{}@{}", policy.name, policy.version);
        let (access, reason, policies) = match found {
            PartialDecision::Allowed => ("allowed", None, Vec::new()),
            PartialDecision::Undecided(policies) => {
                ("depends", None, policies.iter().map(key_text).collect())
            }
            PartialDecision::Denied(found) => {
                ("denied", Some(found.reason.as_str()), vec![key_text(&found.policy)])
            }
        };
        Self { access, reason, policies }
    }
}

/// The known members of the context.
const KNOWN: &[&[&str]] = &[&["purpose"]];

/// A context with the members in [`KNOWN`].
fn context(purpose: Purpose, scopes: &BTreeSet<String>) -> CallContext<'_> {
    CallContext {
        issuer: "",
        subject: "",
        method: "",
        scopes,
        purpose,
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
    for CallerView { agent, team, tool, purpose, composition, access } in &view.agents {
        let AccessView { access, reason, policies } = access;
        let declared = match composition {
            Some(composition) => format!("{composition} ({purpose})"),
            None => tool.clone(),
        };
        let access_text = match reason {
            Some(reason) => format!("{access} {reason}"),
            None => (*access).to_owned(),
        };
        let cells = [&access_text, agent, team, &declared, &policies.join(", ")];
        match *access {
            "denied" => table.painted(Paint::Bad, cells),
            "depends" => table.painted(Paint::Careful, cells),
            _ => table.row(cells),
        }
    }
    screen.table(&table)?;
    if !view.steps.is_empty() {
        let steps: Vec<_> = view.steps.iter().map(String::as_str).collect();
        let note = format!(
            "note: gateways also decide each step of a composition; list the callers of its tools as \
             well: {}",
            steps.join(", ")
        );
        eprintln!("{}", printable(&note));
    }
    Ok(())
}
