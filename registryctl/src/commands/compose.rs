//! `compose`: what a composition does and whether it fits together, and one call of it.
//!
//! Deliberately absent: judging flows, which the core's rules do; and sagas that went on without a
//! caller, which `gateway sagas` shows.

mod call;
mod outline;

use registry_core::{
    Entity,
    entity::Implementation,
    rules::{self, Proposed},
    spec::Spec,
};

use super::{Session, draw, rejected, show_findings, validate};
use crate::{
    batch::Batch,
    cli::{ComposeCheckArgs, ComposeCommand, Format, Output},
    failure::Failure,
    report::Finding,
    style::Paint,
};

pub(super) async fn run(session: &Session, command: &ComposeCommand) -> Result<(), Failure> {
    match command {
        ComposeCommand::Check(args) => check(session, args),
        ComposeCommand::Run(args) => call::run(session, args).await,
    }
}

/// A composition of a file.
struct Composition {
    tool: String,
    spec: Spec,
}

fn check(session: &Session, args: &ComposeCheckArgs) -> Result<(), Failure> {
    let screen = session.screen;
    let catalog = validate::known(screen, args.against.as_deref())?;
    let batch = Batch::read(&args.files)?;
    let planned = rules::plan(&catalog, batch.proposals());
    let report = batch.report(planned.diagnostics.iter().map(Finding::from).collect());
    if report.has_errors() {
        return Err(rejected(screen, &report, format!("not valid: {}", report.counts())));
    }
    let wanted = |tool: &str| args.tool.as_ref().is_none_or(|wanted| wanted == tool);
    let found: Vec<_> = batch.proposals().iter().filter_map(composition).collect();
    let found: Vec<_> = found.into_iter().filter(|one| wanted(&one.tool)).collect();
    if !matches!(session.globals.output, Output::Table | Output::Json) {
        let [one] = found.as_slice() else {
            let message = format!("{} compositions; a picture is of one: --tool NAME", found.len());
            return Err(Failure::Usage(message));
        };
        return draw(session, &outline::picture(&one.tool, &one.spec));
    }
    if screen.format == Format::Json {
        let all: Vec<_> = found.iter().map(|one| (&one.tool, outline::lines(&one.spec))).collect();
        return screen.json(&serde_json::json!({
            "compositions": all.iter().map(|(tool, lines)| serde_json::json!({
                "tool": tool, "steps": lines })).collect::<Vec<_>>(),
            "diagnostics": report.findings(),
        }));
    }
    show_findings(screen, &report);
    for Composition { tool, spec } in &found {
        screen.line(&screen.style.paint(Paint::Strong, tool.clone()))?;
        for line in outline::lines(spec) {
            screen.line(&format!("  {line}"))?;
        }
    }
    let counts = report.counts();
    let counts = if counts.is_empty() { String::new() } else { format!("; {counts}") };
    screen.line(&format!("valid: {} compositions{counts}", found.len()))
}

fn composition(proposed: &Proposed) -> Option<Composition> {
    let document = proposed.document()?;
    let Entity::Tool(tool) = document.entity() else { return None };
    let Implementation::Spec(spec) = &tool.implementation else { return None };
    Some(Composition { tool: tool.name.to_string(), spec: Spec::parse(spec).ok()? })
}
