//! `validate`: the rules of the registry, offline, against an empty registry or an export.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use policy::PolicyBreaks;
use registry_core::{
    Catalog, Commit, Diagnostic, RegistryId, SealedCommit, Timestamp,
    registry_file::{InvalidExport, read_export},
    rules::{self, Proposed},
};
use registry_proto::convert;
use serde::Serialize;

use super::{Session, rejected, show_findings};
use crate::{
    batch::Batch,
    cli::{Format, ValidateArgs},
    failure::Failure,
    input::Source,
    plan::Plan,
    report::{Finding, Report},
    screen::Screen,
};

/// The end of the help for a reference to an entity that the files do not contain.
const ABSENT_HELP: &str = "if it is registered, add `--against` with a file of `registryctl export`, \
                           or check with `registryctl apply --dry-run`";

/// The JSON result.
#[derive(Serialize)]
struct Outcome<'a> {
    accepted: bool,
    plan: &'a Plan,
    diagnostics: &'a [Finding],
}

pub(super) fn run(session: &Session, args: &ValidateArgs) -> Result<(), Failure> {
    let screen = session.screen;
    let catalog = against(screen, args.against.as_deref())?;
    let batch = Batch::read(&args.files.names())?;
    let (planned, report) = check(&catalog, &batch, args.against.is_none());
    if report.has_errors() {
        return Err(rejected(screen, &report, format!("invalid: {}", report.counts())));
    }
    let plan = Plan::new(convert::plan(batch.proposals(), &planned));
    show(screen, &plan, &report)
}

/// The effect of a batch on a catalog, and the findings. `is_alone`: no file has the registered entities.
fn check(catalog: &Catalog, batch: &Batch, is_alone: bool) -> (rules::Plan, Report) {
    let mut planned = batch.plan(catalog);
    policy::check(catalog, batch.proposals(), PolicyBreaks::Reject, &mut planned);
    let report = batch.report(findings(&planned.diagnostics, is_alone));
    (planned, report)
}

fn show(screen: Screen, plan: &Plan, report: &Report) -> Result<(), Failure> {
    if screen.format == Format::Json {
        return screen.json(&Outcome { accepted: true, plan, diagnostics: report.findings() });
    }
    show_findings(screen, report);
    let counts = report.counts();
    let counts = if counts.is_empty() { String::new() } else { format!("; {counts}") };
    screen.line(&format!("valid: {}{counts}", plan.counts()))
}

/// The findings of a check without a registry. `is_alone`: no file has the registered entities.
pub(super) fn findings(found: &[Diagnostic], is_alone: bool) -> Vec<Finding> {
    let about_files =
        |found: &Diagnostic| Finding::from(&rules::about_files(found.clone(), ABSENT_HELP));
    if is_alone {
        found.iter().map(about_files).collect()
    } else {
        found.iter().map(Finding::from).collect()
    }
}

/// The catalog of the file of `--against`, or an empty one.
pub(super) fn against(screen: Screen, file: Option<&Path>) -> Result<Catalog, Failure> {
    file.map_or_else(|| Ok(empty()), |path| catalog(screen, path))
}

pub(super) fn empty() -> Catalog {
    Catalog::empty(RegistryId::new("offline"))
}

/// The catalog of a verified export or of a valid registry file.
fn catalog(screen: Screen, path: &Path) -> Result<Catalog, Failure> {
    let (source, warning) = Source::read_registry(path)?;
    if let Some(Diagnostic { message, .. }) = warning {
        return Err(Failure::File { action: "use", path: path.to_owned(), reason: message });
    }
    match read_export(source.text().as_bytes()) {
        Ok(catalog) => Ok(catalog),
        // Not an export: it may be a registry file.
        Err(InvalidExport::Unreadable(_)) => {
            with_batch(screen, empty(), &Batch::from_source(source))
        }
        Err(damaged) => {
            Err(Failure::File { action: "use", path: path.to_owned(), reason: damaged.to_string() })
        }
    }
}

/// The catalog of one verified export, or of valid registry files, which can change the entities of a
/// file.
pub(super) fn catalog_of(
    screen: Screen,
    files: &[PathBuf],
    against: Option<&Path>,
) -> Result<Catalog, Failure> {
    match (files, against) {
        ([file], None) if file.is_file() => catalog(screen, file),
        _ => with_batch(screen, self::against(screen, against)?, &Batch::read(files)?),
    }
}

/// The catalog with the changes of a valid batch.
pub(super) fn with_batch(
    screen: Screen,
    mut catalog: Catalog,
    batch: &Batch,
) -> Result<Catalog, Failure> {
    let (planned, report) = check(&catalog, batch, catalog.is_empty());
    if report.has_errors() {
        return Err(rejected(screen, &report, format!("invalid: {}", report.counts())));
    }
    let commit = Commit {
        revision: catalog.revision().next(),
        author: "offline".to_owned(),
        committed_at: Timestamp::default(),
        changes: planned.changes().cloned().collect(),
        ..Commit::default()
    };
    let documents = batch.proposals().iter().zip(&planned.effects).filter_map(registered);
    SealedCommit::seal(&catalog.chain(), commit, documents.collect())
        .map_err(|e| e.to_string())
        .and_then(|sealed| catalog.apply(&sealed).map_err(|e| e.to_string()))
        .map_err(|reason| Failure::Rejected(format!("cannot apply the files: {reason}")))?;
    Ok(catalog)
}

/// The document of a proposal that has an effect.
fn registered(
    (proposed, effect): (&Proposed, &Option<registry_core::Change>),
) -> Option<Arc<registry_core::Document>> {
    match (proposed, effect) {
        (Proposed::Register(document), Some(_)) => Some(Arc::clone(document)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{check, empty};
    use crate::{
        batch::Batch,
        input::{FILE_BYTES, Source},
        report::Report,
    };

    const DOCUMENTS: &str = include_str!("../../../registry-dsl/tests/corpus/documents.jsonl");
    const GOLDEN: &str = include_str!("../../../registry-dsl/tests/corpus/golden.jsonl");

    /// The hint of [`Batch::report`] at another command, which golden files do not have.
    const HINT: &str = "`registryctl import registry";

    fn lines(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The findings as in golden files, which have no places, because these depend on the layout of a text.
    fn findings(report: &Report) -> Value {
        let is_hint = |found: &Value| {
            let help = found["help"].as_str().unwrap_or_default();
            found["pointer"] == "" && help.contains(HINT)
        };
        let mut found = serde_json::to_value(report.findings()).unwrap();
        let list = found.as_array_mut().unwrap();
        list.retain(|found| !is_hint(found));
        for found in list {
            let members = found.as_object_mut().unwrap();
            for place in ["file", "line", "column"] {
                members.remove(place);
            }
        }
        found
    }

    /// `registry-dsl` compares the module of the rules with the same findings.
    #[test]
    fn corpus_of_registry_dsl_has_golden_findings() {
        let (documents, golden) = (lines(DOCUMENTS), lines(GOLDEN));
        assert_eq!(documents.len(), golden.len());
        for (number, (document, golden)) in (1..).zip(documents.iter().zip(&golden)) {
            let text = document["text"].as_str().unwrap();
            let source = Source::read_stdin(&mut text.as_bytes(), FILE_BYTES).unwrap();
            let batch = Batch::from_source(source);
            let (_, report) = check(&empty(), &batch, true);
            let found = json!({ "name": document["name"], "diagnostics": findings(&report) });
            assert_eq!(
                found, *golden,
                "line {number} of golden.jsonl; if the change is intended, run `cargo build && cd registry-dsl && \
                 node scripts/golden.mjs ../target/debug/registryctl`"
            );
        }
    }
}
