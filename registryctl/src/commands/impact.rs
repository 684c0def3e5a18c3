//! `impact`: the dependents that break if an entity is retired, deprecated or replaced.

use std::{fmt::Write as _, path::Path, sync::Arc};

use registry_core::{Document, Key, limits, rules::Proposed};
use registry_proto::v1::{self, analyze_impact_request::Plan};
use serde::Serialize;

use super::{Session, draw, lock, missing, rejected, why::count};
use crate::{
    batch::Batch,
    cli::{Format, ImpactArgs, Output, PlannedArgs},
    client::request,
    comparison::ComparisonView,
    diagram::{Diagram, Mark},
    failure::Failure,
    graph::{Graph, Node},
    report::{Finding, Report},
    screen::{Screen, TextTable},
    style::Paint,
    view::KeyView,
};

/// The JSON result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ImpactView {
    revision: u64,
    total: u64,
    breaking: u64,
    undecided: u64,
    unchecked: u64,
    truncated: bool,
    /// The comparison of the replacement with the replaced version.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<ComparisonView>,
    findings: Vec<Finding>,
    affected: Vec<AffectedView>,
    /// The policies that select the entity.
    policies: Vec<PolicyView>,
    /// For a policy: the entities that it selects.
    selected: Vec<Node>,
    selected_total: u64,
}

/// A policy that selects the entity.
#[derive(Serialize)]
struct PolicyView {
    #[serde(flatten)]
    key: KeyView,
    mode: &'static str,
}

/// A dependent of the changed entity.
#[derive(Serialize)]
struct AffectedView {
    #[serde(flatten)]
    node: Node,
    effect: &'static str,
    /// The path from the dependent to the changed entity.
    path: Vec<String>,
    paths: u64,
    findings: Vec<Finding>,
}

pub(super) async fn run(session: &Session, args: &ImpactArgs) -> Result<(), Failure> {
    let key = args.entity.key()?;
    let planned = planned(session.screen, &key, &args.planned)?;
    let client = session.connect().await?;
    let wanted = v1::AnalyzeImpactRequest {
        key: Some((&key).into()),
        max_affected: args.limit,
        at: args.as_of.message(),
        ..planned
    };
    let view = match client.answer(client.graph().analyze_impact(request(wanted))).await {
        Ok(answer) => ImpactView::from(answer),
        Err(failure) => {
            let (version, at) = (Some(&key.version), args.as_of.at);
            return Err(missing::explain(&client, failure, key.kind, &key.name, version, at).await);
        }
    };
    let screen = session.screen;
    if !matches!(session.globals.output, Output::Table | Output::Json) {
        let wanted = v1::GetDependentsRequest {
            keys: vec![(&key).into()],
            max_nodes: i32::try_from(limits::GRAPH_NODES).unwrap_or_default(),
            at: Some(lock::at(view.revision)),
            ..Default::default()
        };
        let answer = client.answer(client.graph().get_dependents(request(wanted))).await?;
        draw(session, &view.diagram(&key, &answer.graph.unwrap_or_default().into()))?;
        view.note_truncation();
    } else if screen.format == Format::Json {
        screen.json(&view)?;
    } else {
        view.show(screen)?;
        screen.line(&view.summary(&assumption(&key, &args.planned)))?;
    }
    view.verdict()
}

/// A request with the hypothetical change only.
fn planned(
    screen: Screen,
    key: &Key,
    planned: &PlannedArgs,
) -> Result<v1::AnalyzeImpactRequest, Failure> {
    let PlannedArgs { retire: _, deprecate, change, to } = planned;
    let plan = match (change, to) {
        (Some(file), _) => return replacement(screen, key, file),
        (None, Some(version)) => Plan::Version(version.to_string()),
        (None, None) if *deprecate => Plan::LifecycleState(v1::LifecycleState::Deprecated.into()),
        (None, None) => Plan::LifecycleState(v1::LifecycleState::Retired.into()),
    };
    Ok(v1::AnalyzeImpactRequest { plan: Some(plan), ..Default::default() })
}

/// The start of the summary, which names the change if no option does.
fn assumption(key: &Key, PlannedArgs { retire, deprecate, change, to }: &PlannedArgs) -> String {
    let is_chosen = *retire || *deprecate || change.is_some() || to.is_some();
    if is_chosen { String::new() } else { format!("if {key} is retired: ") }
}

/// A replacement by the version of the entity in a file, together with the file's other documents.
fn replacement(
    screen: Screen,
    key: &Key,
    file: &Path,
) -> Result<v1::AnalyzeImpactRequest, Failure> {
    let batch = Batch::read(&[file.to_owned()])?;
    let report = batch.report(Vec::new());
    if report.has_errors() {
        return Err(rejected(screen, &report, format!("invalid: {}", report.counts())));
    }
    let is_version =
        |new: &&Arc<Document>| (new.key().kind, &new.key().name) == (key.kind, &key.name);
    let documents = batch.proposals().iter().filter_map(Proposed::document);
    let (versions, others): (Vec<_>, Vec<_>) = documents.partition(is_version);
    let (name, file) = (format!("{}/{}", key.kind, key.name), file.display());
    match versions[..] {
        [document] => Ok(v1::AnalyzeImpactRequest {
            plan: Some(Plan::Document((&**document).into())),
            accompanying_documents: others.into_iter().map(|other| (&**other).into()).collect(),
            ..Default::default()
        }),
        [] => Err(Failure::Usage(format!("{file} has no version of {name}"))),
        _ => Err(Failure::Usage(format!(
            "{file} has several versions of {name}; remove all but one"
        ))),
    }
}

impl From<v1::AnalyzeImpactResponse> for ImpactView {
    fn from(response: v1::AnalyzeImpactResponse) -> Self {
        let v1::AnalyzeImpactResponse {
            findings,
            affected,
            total_count: total,
            breaking_count: breaking,
            undecided_count: undecided,
            unchecked_count: unchecked,
            truncated,
            revision,
            comparison,
            policies,
            selected,
            selected_count: selected_total,
        } = response;
        let comparison = comparison.map(ComparisonView::from);
        let findings = findings.iter().map(Finding::from).collect();
        let affected = affected.into_iter().map(AffectedView::from).collect();
        Self {
            revision,
            total,
            breaking,
            undecided,
            unchecked,
            truncated,
            comparison,
            findings,
            affected,
            policies: policies.into_iter().map(PolicyView::from).collect(),
            selected: selected.into_iter().map(Node::from).collect(),
            selected_total,
        }
    }
}

impl From<v1::SelectingPolicy> for PolicyView {
    fn from(policy: v1::SelectingPolicy) -> Self {
        let mode = match policy.mode() {
            v1::PolicyMode::Audit => "audit",
            v1::PolicyMode::Enforce | v1::PolicyMode::Unspecified => "enforce",
        };
        Self { key: policy.key.unwrap_or_default().into(), mode }
    }
}

impl From<v1::AffectedEntity> for AffectedView {
    fn from(affected: v1::AffectedEntity) -> Self {
        let v1::AffectedEntity { entity, path, path_count: paths, effect, findings } = affected;
        let effect = match v1::ImpactEffect::try_from(effect) {
            Ok(v1::ImpactEffect::Breaks) => "breaks",
            Ok(v1::ImpactEffect::Undecided) => "undecided",
            Ok(v1::ImpactEffect::Affected) => "affected",
            Ok(v1::ImpactEffect::Retired) => "retired",
            Ok(v1::ImpactEffect::Unchecked) => "unchecked",
            Ok(v1::ImpactEffect::Unspecified) | Err(_) => "unknown",
        };
        Self {
            node: entity.unwrap_or_default().into(),
            effect,
            path: path.into_iter().map(|key| KeyView::from(key).to_string()).collect(),
            paths,
            findings: findings.iter().map(Finding::from).collect(),
        }
    }
}

impl ImpactView {
    fn show(&self, screen: Screen) -> Result<(), Failure> {
        let about = self.affected.iter().flat_map(|affected| &affected.findings);
        let all = self.findings.iter().chain(about).cloned().collect();
        super::show_findings(screen, &Report::new(all));
        if let Some(comparison) = &self.comparison {
            screen.line(&format!("compatibility: {}", comparison.outcome))?;
            comparison.show(screen)?;
        }
        if !self.affected.is_empty() {
            let mut table = TextTable::new(&["EFFECT", "ENTITY", "PATHS", "VIA"]);
            for AffectedView { node, effect, path, paths, findings: _ } in &self.affected {
                let inner = path.get(1..path.len().saturating_sub(1)).unwrap_or_default();
                let cells = [*effect, &node.label(), &count(*paths), &inner.join(" → ")];
                match *effect {
                    "breaks" => table.painted(Paint::Bad, cells),
                    "undecided" => table.painted(Paint::Careful, cells),
                    "affected" => table.row(cells),
                    _ => table.painted(Paint::Dim, cells),
                }
            }
            screen.table(&table)?;
        }
        if !self.policies.is_empty() {
            let mut table = TextTable::new(&["MODE", "SELECTED BY"]);
            for PolicyView { key, mode } in &self.policies {
                table.row([*mode, &key.to_string()]);
            }
            screen.table(&table)?;
        }
        if !self.selected.is_empty() {
            let mut table = TextTable::new(&["SELECTS", "OWNER"]);
            for node in &self.selected {
                table.row([node.label(), node.owner.clone()]);
            }
            screen.table(&table)?;
        }
        self.note_truncation();
        Ok(())
    }

    fn note_truncation(&self) {
        if self.truncated {
            let selected = if self.selected_total > 0 {
                format!(" and {} of {} selected entities", self.selected.len(), self.selected_total)
            } else {
                String::new()
            };
            let shown = self.affected.len();
            eprintln!(
                "note: the output is truncated to {shown} of {} dependents{selected}; raise --limit",
                self.total
            );
        }
    }

    fn summary(&self, assumption: &str) -> String {
        let (breaking, total) = (self.breaking, self.total);
        let mut summary = format!("{assumption}{breaking} of {total} dependents break");
        if self.undecided > 0 {
            let _ = write!(summary, ", {} may break (undecided)", self.undecided);
        }
        if self.unchecked > 0 {
            let _ = write!(summary, ", {} not compared (too many)", self.unchecked);
        }
        if self.selected_total > 0 {
            let noun = if self.selected_total == 1 { "entity" } else { "entities" };
            let _ = write!(summary, "; the policy selects {} {noun}", self.selected_total);
        }
        summary
    }

    /// The dependents with one shortest path each, and all dependencies between these entities.
    fn diagram(&self, key: &Key, graph: &Graph) -> Diagram {
        let mut diagram = Diagram::new(format!("impact of a change of {key}"));
        for AffectedView { node, effect, path, .. } in &self.affected {
            let mark = if *effect == "breaks" { Mark::Breaks } else { Mark::Plain };
            diagram.add_node(&node.key.to_string(), node.lifecycle, mark);
            for step in path.windows(2) {
                diagram.add_edge(&step[0], &step[1]);
            }
        }
        let root = key.to_string();
        for policy in &self.policies {
            diagram.add_edge(&policy.key.to_string(), &root);
        }
        for node in &self.selected {
            diagram.add_node(&node.key.to_string(), node.lifecycle, Mark::Plain);
            diagram.add_edge(&root, &node.key.to_string());
        }
        diagram.add_node(&root, "active", Mark::Root);
        diagram.add_edges_between(graph);
        diagram
    }

    fn verdict(&self) -> Result<(), Failure> {
        let is_rejected = Report::new(self.findings.clone()).has_errors();
        match (self.breaking, is_rejected) {
            (0, false) => Ok(()),
            (0, true) => Err(Failure::Rejected("the change itself would be rejected".to_owned())),
            (breaking, _) => {
                let noun = if breaking == 1 { "dependent" } else { "dependents" };
                Err(Failure::Rejected(format!("{breaking} {noun} would break")))
            }
        }
    }
}
