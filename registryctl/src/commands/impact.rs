//! `impact`: what would break if an entity were retired, deprecated or replaced.

use std::{fmt::Write as _, path::Path};

use registry_core::{Key, limits, rules::Proposed};
use registry_proto::v1::{self, impact_request::Plan};
use serde::Serialize;

use super::{Session, draw, lock, rejected, why::count};
use crate::{
    batch::Batch,
    cli::{Format, ImpactArgs, Output, PlannedArgs},
    client::request,
    comparison::ComparisonView,
    failure::Failure,
    graph::{Graph, Node},
    picture::{Mark, Picture},
    report::{Finding, Report},
    screen::{Screen, TextTable},
    style::Paint,
    view::KeyView,
};

/// The result for scripts.
#[derive(Serialize)]
struct ImpactView {
    revision: u64,
    total: u64,
    breaking: u64,
    undecided: u64,
    unchecked: u64,
    truncated: bool,
    /// How a replacement compares with what it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<ComparisonView>,
    findings: Vec<Finding>,
    affected: Vec<AffectedView>,
}

/// A dependent of what is changed.
#[derive(Serialize)]
struct AffectedView {
    #[serde(flatten)]
    node: Node,
    effect: &'static str,
    /// From the dependent to what is changed.
    path: Vec<String>,
    paths: u64,
    findings: Vec<Finding>,
}

pub(super) async fn run(session: &Session, args: &ImpactArgs) -> Result<(), Failure> {
    let key = args.entity.key()?;
    let plan = plan(session.screen, &key, &args.planned)?;
    let client = session.connect().await?;
    let wanted = v1::ImpactRequest {
        key: Some((&key).into()),
        plan: Some(plan),
        limit: args.limit,
        at: args.at.message(),
    };
    let answer = client.answer(client.graph().impact(request(wanted))).await?;
    let view = ImpactView::from(answer);
    let screen = session.screen;
    if !matches!(session.globals.output, Output::Table | Output::Json) {
        let wanted = v1::GetDependentsRequest {
            keys: vec![(&key).into()],
            depth: None,
            limit: u32::try_from(limits::GRAPH_NODES).unwrap_or_default(),
            at: Some(lock::at(view.revision)),
        };
        let answer = client.answer(client.graph().get_dependents(request(wanted))).await?;
        draw(session, &view.picture(&key, &answer.graph.unwrap_or_default().into()))?;
        view.note();
    } else if screen.format == Format::Json {
        screen.json(&view)?;
    } else {
        view.show(screen)?;
    }
    view.verdict()
}

fn plan(screen: Screen, key: &Key, planned: &PlannedArgs) -> Result<Plan, Failure> {
    let PlannedArgs { retire: _, deprecate, change, to } = planned;
    Ok(match (change, to) {
        (Some(file), _) => Plan::Document(replacement(screen, key, file)?),
        (None, Some(version)) => Plan::Version(version.to_string()),
        (None, None) if *deprecate => Plan::Lifecycle(v1::LifecycleState::Deprecated.into()),
        (None, None) => Plan::Lifecycle(v1::LifecycleState::Retired.into()),
    })
}

/// The version of this name that a file has.
fn replacement(screen: Screen, key: &Key, file: &Path) -> Result<v1::Entity, Failure> {
    let batch = Batch::read(&[file.to_owned()])?;
    let report = batch.report(Vec::new());
    if report.has_errors() {
        return Err(rejected(screen, &report, format!("not readable: {}", report.counts())));
    }
    let named =
        |proposed: &&Proposed| (proposed.key().kind, &proposed.key().name) == (key.kind, &key.name);
    let mut documents = batch.proposals().iter().filter(named).filter_map(Proposed::document);
    let (name, file) = (format!("{}/{}", key.kind, key.name), file.display());
    let document = documents
        .next()
        .ok_or_else(|| Failure::Usage(format!("{file} has no version of {name}")))?;
    match documents.next() {
        None => Ok(document.entity().into()),
        Some(_) => Err(Failure::Usage(format!("{file} has several versions of {name}; leave one"))),
    }
}

impl From<v1::ImpactResponse> for ImpactView {
    fn from(response: v1::ImpactResponse) -> Self {
        let v1::ImpactResponse {
            findings,
            affected,
            total,
            breaking,
            undecided,
            unchecked,
            truncated,
            revision,
            comparison,
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
        }
    }
}

impl From<v1::AffectedEntity> for AffectedView {
    fn from(affected: v1::AffectedEntity) -> Self {
        let v1::AffectedEntity { entity, path, paths, effect, findings } = affected;
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
            screen.line(&format!("what it promises: {}", comparison.outcome))?;
            comparison.show(screen)?;
        }
        if !self.affected.is_empty() {
            let mut table = TextTable::new(&["EFFECT", "ENTITY", "PATHS", "BY WAY OF"]);
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
        self.note();
        screen.line(&self.summary())
    }

    /// Says that it is not everything.
    fn note(&self) {
        if self.truncated {
            let shown = self.affected.len();
            eprintln!("note: {shown} of {} dependents are shown, or not all findings", self.total);
        }
    }

    fn summary(&self) -> String {
        let mut summary = format!("{} of {} dependents break", self.breaking, self.total);
        if self.undecided > 0 {
            let _ = write!(summary, ", {} may (undecided)", self.undecided);
        }
        if self.unchecked > 0 {
            let _ = write!(summary, ", {} were not compared (too many)", self.unchecked);
        }
        summary
    }

    /// The dependents with one shortest path each, and what else in that needs each other.
    fn picture(&self, key: &Key, graph: &Graph) -> Picture {
        let mut picture = Picture::new(format!("what a change of {key} breaks"));
        for AffectedView { node, effect, path, .. } in &self.affected {
            let mark = if *effect == "breaks" { Mark::Breaks } else { Mark::Plain };
            picture.add_node(&node.key.to_string(), node.lifecycle, mark);
            for step in path.windows(2) {
                picture.add_edge(&step[0], &step[1]);
            }
        }
        picture.add_node(&key.to_string(), "active", Mark::Root);
        picture.add_within(graph);
        picture
    }

    fn verdict(&self) -> Result<(), Failure> {
        let refused = Report::new(self.findings.clone()).has_errors();
        match (self.breaking, refused) {
            (0, false) => Ok(()),
            (0, true) => Err(Failure::Rejected("the change itself would be refused".to_owned())),
            (breaking, _) => {
                let noun = if breaking == 1 { "dependent" } else { "dependents" };
                Err(Failure::Rejected(format!("{breaking} {noun} would break")))
            }
        }
    }
}
