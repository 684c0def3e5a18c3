//! `compose`: checks and runs compositions.

mod call;
mod outline;

use std::collections::BTreeMap;

use registry_core::{
    Catalog, Key,
    entity::{Hints, Implementation, Tool, ToolEffect},
    rules::Proposed,
    spec::Spec,
};
use serde_json::json;

use super::{Session, draw, rejected, show_findings, validate};
use crate::{
    batch::Batch,
    cli::{ComposeCheckArgs, ComposeCommand, Format, Output},
    failure::Failure,
    style::Paint,
};

pub(super) async fn run(session: &Session, command: &ComposeCommand) -> Result<(), Failure> {
    match command {
        ComposeCommand::Check(args) => check(session, args),
        ComposeCommand::Run(args) => call::run(session, args).await,
    }
}

/// A composition of a file.
struct Composition<'b> {
    tool: &'b Tool,
    spec: Spec,
    hints: Hints,
}

fn check(session: &Session, args: &ComposeCheckArgs) -> Result<(), Failure> {
    let screen = session.screen;
    let catalog = validate::against(screen, args.against.as_deref())?;
    let batch = Batch::read(&args.files.names())?;
    let planned = batch.plan(&catalog);
    let report = batch.report(validate::findings(&planned.diagnostics, args.against.is_none()));
    if report.has_errors() {
        return Err(rejected(screen, &report, format!("invalid: {}", report.counts())));
    }
    let wanted = |tool: &str| args.tool.as_ref().is_none_or(|wanted| wanted == tool);
    let found: Vec<_> = compositions(&catalog, batch.proposals())
        .into_iter()
        .filter(|one| wanted(one.tool.name.as_str()))
        .collect();
    if let (Some(tool), []) = (&args.tool, found.as_slice()) {
        return Err(Failure::Usage(format!("the files have no composition named `{tool}`")));
    }
    if !matches!(session.globals.output, Output::Table | Output::Json) {
        let [one] = found.as_slice() else {
            let message = format!(
                "a diagram shows one composition, and the files have {}; use --tool NAME",
                found.len()
            );
            return Err(Failure::Usage(message));
        };
        return draw(session, &outline::diagram(one.tool.name.as_str(), &one.spec));
    }
    if screen.format == Format::Json {
        let all: Vec<_> = found
            .iter()
            .map(|one| {
                json!({ "tool": one.tool.name, "version": one.tool.version,
                    "steps": outline::lines(&one.spec),
                    "annotations": one.hints.to_annotations() })
            })
            .collect();
        return screen.json(&json!({ "compositions": all, "diagnostics": report.findings() }));
    }
    show_findings(screen, &report);
    for Composition { tool, spec, hints } in &found {
        let name = screen.style.paint(Paint::Strong, tool.name.to_string());
        screen.line(&format!("{name} (annotations: {})", describe(*hints)))?;
        for line in outline::lines(spec) {
            screen.line(&format!("  {line}"))?;
        }
    }
    let counts = report.counts();
    let counts = if counts.is_empty() { String::new() } else { format!("; {counts}") };
    let what = if found.len() == 1 { "composition" } else { "compositions" };
    screen.line(&format!("valid: {} {what}{counts}", found.len()))
}

fn compositions<'b>(catalog: &'b Catalog, batch: &'b [Proposed]) -> Vec<Composition<'b>> {
    let documents = batch.iter().filter_map(Proposed::document);
    let new: BTreeMap<&Key, &Tool> = documents
        .filter_map(|document| Some((document.key(), document.entity().as_tool()?)))
        .collect();
    let find = |key: &Key| match new.get(key) {
        Some(tool) => Some(*tool),
        None => catalog.find(key)?.document.entity().as_tool(),
    };
    let mut known = BTreeMap::new();
    let mut found = Vec::new();
    for tool in new.values() {
        let Implementation::Spec(spec) = &tool.implementation else { continue };
        let Ok(spec) = Spec::parse(spec) else { continue };
        let hints = Hints::registered(tool, &find, &mut known);
        found.push(Composition { tool, spec, hints });
    }
    found
}

/// The annotations in words.
fn describe(hints: Hints) -> String {
    let effect = match hints.effect {
        ToolEffect::Reads => "read-only",
        ToolEffect::Adds => "not destructive",
        ToolEffect::Destroys => "destructive",
    };
    let idempotent = if hints.is_idempotent { ", idempotent" } else { "" };
    format!("{effect}{idempotent}")
}
