//! `import`: what is there already becomes registry-v2 documents, printed or written for a person
//! to review, with every repair; perhaps applied.

mod a2a;
mod fetch;
mod mcp;
mod mcp_servers;
mod names;
mod registry;
mod server_json;
mod targets;

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use registry_core::Kind;
use registry_import::{Draft, Imported, Repair, RepairedBy, UnlistedRepairs};
use serde::Serialize;
use serde_json::Value;

use super::{Session, apply, export::save, show_findings};
use crate::{
    batch::Batch,
    cli::{ApplyGuards, Format, ImportArgs, ImportFrom, ImportResultArgs},
    failure::Failure,
    input::Source,
    report::{Finding, Report},
    screen::Screen,
    style::{Paint, printable},
};

/// The most repairs that are shown to people at once.
const SHOWN: usize = 100;

/// The result for scripts.
#[derive(Serialize)]
struct Outcome<'a> {
    repairs: &'a [Repair],
    unlisted: UnlistedRepairs,
    /// Tool names that the registry has from other servers.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    diagnostics: &'a [Finding],
    written: &'a [PathBuf],
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Value>,
    #[serde(flatten)]
    source: Option<&'a mcp::Source>,
}

pub(super) async fn run(session: &Session, args: ImportArgs) -> Result<(), Failure> {
    let result = match &args.from {
        ImportFrom::Mcp(args) => &args.result,
        ImportFrom::McpServers(args) => &args.result,
        ImportFrom::A2a(args) => &args.result,
        ImportFrom::Registry(args) => &args.result,
        ImportFrom::ServerJson(args) => &args.result,
    };
    let means_apply = result.how.yes || result.how.dry_run || !result.how.message.is_empty();
    if means_apply && !result.apply {
        let message = "--yes, --dry-run and --message are about registering: add --apply";
        return Err(Failure::Usage(message.to_owned()));
    }
    let (imported, result) = match args.from {
        ImportFrom::Mcp(args) => {
            let (imported, source) = mcp::import(&args).await?;
            if let (Some(path), Some((server, target))) = (&args.targets, source.named_target()) {
                targets::write(path, &[(server.to_owned(), target.to_owned())])?;
            }
            let shared = if args.result.apply {
                // The plan reports them.
                Report::new(Vec::new())
            } else {
                names::shared(session, &imported.draft).await
            };
            return finish(session, imported, args.result, (Some(&source), &shared)).await;
        }
        ImportFrom::McpServers(args) => {
            let (imported, outcome) = mcp_servers::import(&args).await?;
            if outcome.is_err() && (args.result.apply || imported.draft.is_empty()) {
                // A part of a file is not registered.
                return outcome;
            }
            finish(session, imported, args.result, (None, &Report::new(Vec::new()))).await?;
            return outcome;
        }
        ImportFrom::A2a(args) => (a2a::import(&args).await?, args.result),
        ImportFrom::Registry(args) => (registry::import(&args)?, args.result),
        ImportFrom::ServerJson(args) => (server_json::import(session, &args).await?, args.result),
    };
    finish(session, imported, result, (None, &Report::new(Vec::new()))).await
}

/// Shows, writes and applies what was imported, as the user wants it.
async fn finish(
    session: &Session,
    imported: Imported,
    result: ImportResultArgs,
    (source, shared): (Option<&mcp::Source>, &Report),
) -> Result<(), Failure> {
    let Imported { mut draft, repairs, unlisted } = imported;
    let ImportResultArgs { out, managed_by, apply: is_applied, how, commit } = result;
    let screen = session.screen;
    if let Some(source) = &managed_by {
        draft.set_manager(source);
    }
    // With --apply, scripts get the result of that.
    if screen.format == Format::Table || is_applied {
        show_repairs(screen, &repairs, unlisted);
        show_findings(screen, shared);
    }
    if draft.is_empty() {
        let summary = "there is nothing that could be imported".to_owned();
        return Err(Failure::Rejected(summary));
    }
    let text = draft.write();
    let written =
        out.as_deref().map(|out| write(session, out, &draft)).transpose()?.unwrap_or_default();
    let is_printed = out.is_none() && !is_applied;
    match screen.format {
        Format::Json if !is_applied => {
            let file = is_printed.then(|| draft.to_value());
            let (diagnostics, written) = (shared.findings(), &written[..]);
            let repairs = &repairs[..];
            screen.json(&Outcome { repairs, unlisted, diagnostics, written, file, source })?;
        }
        Format::Json => {}
        Format::Table if is_printed => screen.bytes(&text)?,
        Format::Table => {
            for path in &written {
                screen.line(&format!("written: {}", path.display()))?;
            }
        }
    }
    if screen.format == Format::Table
        && let Some(source) = source
    {
        show_source(source, &draft);
    }
    if !is_applied {
        return Ok(());
    }
    let name = written.first().filter(|_| written.len() == 1);
    let name = name.map_or("<import>".to_owned(), |path| path.display().to_string());
    let text = String::from_utf8(text).map_err(Failure::usage)?;
    let batch = Batch::of(Source::made(&name, text));
    apply::apply_batch(session, batch, how, &ApplyGuards::default(), commit).await
}

/// Writes one file, or a file for each kind of which there is something.
fn write(session: &Session, out: &Path, draft: &Draft) -> Result<Vec<PathBuf>, Failure> {
    if out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        save(session, Some(out), &draft.write())?;
        return Ok(vec![out.to_owned()]);
    }
    fs::create_dir_all(out).map_err(|e| Failure::File {
        action: "create",
        path: out.to_owned(),
        reason: e.to_string(),
    })?;
    let mut written = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| !draft.documents(*kind).is_empty()) {
        let path = out.join(format!("{kind}s.json"));
        save(session, Some(&path), &draft.only(kind).write())?;
        written.push(path);
    }
    Ok(written)
}

/// Shows what a live server has, what of it was imported, and the gateway's target for it.
fn show_source(source: &mcp::Source, draft: &Draft) {
    let imported: Vec<_> = Kind::ALL
        .into_iter()
        .filter(|kind| !draft.documents(*kind).is_empty())
        .map(|kind| match draft.documents(kind).len() {
            1 => format!("1 {kind}"),
            many => format!("{many} {kind}s"),
        })
        .collect();
    let exposed = draft.servers.iter().filter_map(|server| server.get("exposes")?.as_array());
    let exposed: Vec<_> = exposed.flatten().filter_map(Value::as_str).collect();
    let exposed = if exposed.is_empty() { "nothing".to_owned() } else { exposed.join(", ") };
    let mut lines = vec![
        format!("found: {}", source.found()),
        format!("imported: {}", imported.join(", ")),
        format!("exposed beside tools: {exposed}"),
    ];
    if let Some(target) = &source.target {
        lines.push("target for the gateway's configuration:".to_owned());
        lines.push("targets:".to_owned());
        lines.push(format!("  - {target}"));
    }
    let text: String = lines.iter().map(|line| printable(line) + "\n").collect();
    // When standard error is gone, the documents still say what was imported.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Shows what a person must do, and then what was done.
fn show_repairs(screen: Screen, repairs: &[Repair], unlisted: UnlistedRepairs) {
    let mut lines = Vec::new();
    for Repair { pointer, what, how, by } in repairs.iter().take(SHOWN) {
        let (word, paint) = match by {
            RepairedBy::Person => ("look", Paint::Careful),
            RepairedBy::Import => ("repaired", Paint::Good),
        };
        let head = screen.errors.paint(paint, word);
        let (pointer, what, how) = (printable(pointer), printable(what), printable(how));
        lines.push(format!("{head}: {what}\n   at {pointer}: {how}"));
    }
    let count = |by| repairs.iter().filter(|repair| repair.by == by).count();
    if repairs.len() > SHOWN {
        let most = unlisted.person + unlisted.import;
        let all = if most == 0 { "all".to_owned() } else { format!("all but {most}") };
        lines.push(format!("and {} more; --output json has {all}", repairs.len() - SHOWN + most));
    }
    if !repairs.is_empty() {
        let look = count(RepairedBy::Person) + unlisted.person;
        let made = count(RepairedBy::Import) + unlisted.import;
        lines.push(format!("{made} repaired, {look} to look at\n"));
    }
    // When standard error is gone, the documents still say what was made.
    let _ = io::stderr().write_all(lines.join("\n").as_bytes());
}
