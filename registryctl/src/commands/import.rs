//! `import`: converts existing definitions into registry-v2 documents, which are printed, written or applied.

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

use super::{Session, apply, export::save_file, show_findings};
use crate::{
    batch::Batch,
    cli::{
        ApplyPolicy, Format, ImportArgs, ImportFrom, ImportMcpServersArgs, ImportRegistryArgs,
        ImportResultArgs, ImportServerJsonArgs, ProgramEnvironment, ToolPrefix,
    },
    failure::Failure,
    form::{self, Form},
    input::Source,
    report::{Finding, Report},
    screen::Screen,
    style::{Paint, printable},
};

/// Maximum number of printed repairs.
const SHOWN: usize = 100;

/// The JSON result.
#[derive(Serialize)]
struct Outcome<'a> {
    repairs: &'a [Repair],
    unlisted: UnlistedRepairs,
    /// Tool names that other servers have in the registry.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    diagnostics: &'a [Finding],
    written: &'a [PathBuf],
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Value>,
    #[serde(flatten)]
    source: Option<&'a mcp::Source>,
}

pub(super) async fn run(session: &Session, args: ImportArgs) -> Result<(), Failure> {
    let from = match args.from {
        Some(from) => from,
        None => detected(args.file, args.program, args.result)?,
    };
    let result = match &from {
        ImportFrom::Mcp(args) => &args.result,
        ImportFrom::McpServers(args) => &args.result,
        ImportFrom::A2a(args) => &args.result,
        ImportFrom::Registry(args) => &args.result,
        ImportFrom::ServerJson(args) => &args.result,
    };
    let ImportResultArgs { apply, options, .. } = result;
    let is_commit_option =
        options.confirm.yes || options.confirm.dry_run || !options.message.is_empty();
    if is_commit_option && !apply {
        let message = "--yes, --dry-run and --message require --apply";
        return Err(Failure::Usage(message.to_owned()));
    }
    let no_findings = Report::new(Vec::new());
    let (imported, result) = match from {
        ImportFrom::Mcp(args) => {
            let (imported, source) = mcp::import(&args).await?;
            if let (Some(path), Some((server, target))) = (&args.targets, source.named_target()) {
                targets::write(path, &[(server.to_owned(), target.to_owned())])?;
            }
            let shared = if args.result.apply {
                // The plan contains these findings.
                no_findings
            } else {
                names::shared(session, &imported.draft).await
            };
            return finish(session, imported, args.result, (Some(&source), &shared)).await;
        }
        ImportFrom::McpServers(args) => {
            let (imported, outcome) = mcp_servers::import(&args).await?;
            if outcome.is_err() && (args.result.apply || imported.draft.is_empty()) {
                // A partial import is not registered.
                return outcome;
            }
            finish(session, imported, args.result, (None, &no_findings)).await?;
            return outcome;
        }
        ImportFrom::A2a(args) => {
            let (imported, source) = a2a::import(&args).await?;
            return finish(session, imported, args.result, (Some(&source), &no_findings)).await;
        }
        ImportFrom::Registry(args) => (registry::import(&args)?, args.result),
        ImportFrom::ServerJson(args) => (server_json::import(session, &args).await?, args.result),
    };
    finish(session, imported, result, (None, &no_findings)).await
}

/// The subcommand for the form of a file.
fn detected(
    file: Option<PathBuf>,
    program: ProgramEnvironment,
    result: ImportResultArgs,
) -> Result<ImportFrom, Failure> {
    let Some(file) = file else {
        let message = "name a file, or a source: mcp, mcp-servers, a2a, registry or server-json";
        return Err(Failure::Usage(message.to_owned()));
    };
    if file == Path::new("-") {
        let message =
            "the form of standard input is not detected; name it, such as `import registry -`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let is_url =
        ["http://", "https://"].iter().any(|scheme| file.to_string_lossy().starts_with(scheme));
    if is_url {
        let message = "name the source of the URL: `import mcp URL`, `import a2a URL` or \
                       `import server-json URL`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let form = form::detect(&Source::read(&file)?)?;
    eprintln!("note: {} is {}", file.display(), form.description());
    Ok(match form {
        Form::Registry => ImportFrom::Registry(ImportRegistryArgs { file, result }),
        Form::McpServers => ImportFrom::McpServers(ImportMcpServersArgs {
            file,
            targets: None,
            tool_prefix: ToolPrefix::Never,
            tools_only: false,
            program,
            result,
        }),
        Form::ServerJson => {
            let from = file.display().to_string();
            ImportFrom::ServerJson(ImportServerJsonArgs { from, result })
        }
    })
}

/// Prints, writes and applies the imported documents.
async fn finish(
    session: &Session,
    imported: Imported,
    result: ImportResultArgs,
    (source, shared): (Option<&mcp::Source>, &Report),
) -> Result<(), Failure> {
    let Imported { mut draft, repairs, unlisted, added: _, corrected: _ } = imported;
    let ImportResultArgs { out, force, managed_by, apply: is_applied, options, commit } = result;
    let screen = session.screen;
    if let Some(source) = &managed_by {
        draft.set_manager(source);
    }
    // With --apply, the JSON result is that of the apply.
    if screen.format == Format::Table || is_applied {
        show_repairs(screen, &repairs, unlisted);
        show_findings(screen, shared);
    }
    if draft.is_empty() {
        let summary = "the source has nothing to import".to_owned();
        return Err(Failure::Rejected(summary));
    }
    let text = draft.write();
    let written =
        out.as_deref().map(|out| write(out, &draft, force)).transpose()?.unwrap_or_default();
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
    let batch = Batch::from_source(Source::generated(&name, text));
    apply::apply_batch(session, batch, options, &ApplyPolicy::default(), commit).await
}

/// Writes one file, or one file per kind. Without `force`, existing files with other content fail
/// the import before anything is written.
fn write(out: &Path, draft: &Draft, force: bool) -> Result<Vec<PathBuf>, Failure> {
    let is_file = out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let files = if is_file {
        vec![(out.to_owned(), draft.write())]
    } else {
        let kinds = Kind::ALL.into_iter().filter(|kind| !draft.documents(*kind).is_empty());
        let file = |kind: Kind| (out.join(format!("{kind}s.json")), draft.only(kind).write());
        kinds.map(file).collect()
    };
    if !force {
        require_unchanged(&files)?;
    }
    if !is_file {
        fs::create_dir_all(out).map_err(|e| Failure::File {
            action: "create",
            path: out.to_owned(),
            reason: e.to_string(),
        })?;
    }
    for (path, content) in &files {
        save_file(path, content)?;
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// Fails if files exist with other content.
fn require_unchanged(files: &[(PathBuf, Vec<u8>)]) -> Result<(), Failure> {
    let mut different = Vec::new();
    for (path, content) in files {
        match fs::read(path) {
            Ok(existing) if existing == *content => {}
            Ok(_) => different.push(path.display().to_string()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Failure::unreadable(path, e)),
        }
    }
    if different.is_empty() {
        return Ok(());
    }
    let message = format!("files exist with other content: {}", different.join(", "));
    let help = "write to another place with --out, or replace them with --force";
    Err(Failure::Usage(message).with_help(help.to_owned()))
}

/// Prints the features of a live server, the imported documents, and the gateway's target.
fn show_source(source: &mcp::Source, draft: &Draft) {
    let imported: Vec<_> = Kind::ALL
        .into_iter()
        .filter(|kind| !draft.documents(*kind).is_empty())
        .map(|kind| match draft.documents(kind).len() {
            1 => format!("1 {kind}"),
            many => format!("{many} {}", kind.plural()),
        })
        .collect();
    let imported = format!("imported: {}", imported.join(", "));
    let mut lines = if let Some(found) = source.found() {
        let exposed = draft.servers.iter().filter_map(|server| server.get("exposes")?.as_array());
        let exposed: Vec<_> = exposed.flatten().filter_map(Value::as_str).collect();
        let exposed = if exposed.is_empty() { "none".to_owned() } else { exposed.join(", ") };
        let exposed = format!("exposed in addition to tools: {exposed}");
        vec![format!("found: {found}"), imported, exposed]
    } else {
        vec![imported]
    };
    if let Some(target) = &source.target {
        lines.push("target for the gateway's configuration:".to_owned());
        lines.push("targets:".to_owned());
        lines.push(format!("  - {target}"));
    }
    let text: String = lines.iter().map(|line| printable(line) + "\n").collect();
    // If standard error is closed, the documents are still complete.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints open decisions and repairs.
fn show_repairs(screen: Screen, repairs: &[Repair], unlisted: UnlistedRepairs) {
    let mut lines = Vec::new();
    for Repair { pointer, what, how, by } in repairs.iter().take(SHOWN) {
        let (word, paint) = match by {
            RepairedBy::Person => ("review", Paint::Careful),
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
        lines.push(format!("and {} more; --output json lists {all}", repairs.len() - SHOWN + most));
    }
    if !repairs.is_empty() {
        let review = count(RepairedBy::Person) + unlisted.person;
        let made = count(RepairedBy::Import) + unlisted.import;
        lines.push(format!("{made} repaired, {review} to review\n"));
    }
    // If standard error is closed, the documents are still complete.
    let _ = io::stderr().write_all(lines.join("\n").as_bytes());
}
