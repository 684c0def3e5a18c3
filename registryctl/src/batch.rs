//! The files of one run as one batch, and the way back from a change to its place in a file.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use mcp_registry::LocatedDocument;
use registry_core::{
    Code, Diagnostic,
    registry_file::{FileError, RegistryFile},
    rules::Proposed,
};
use serde_json::Value;

use crate::{
    failure::Failure,
    input::{self, Source, SyntaxError},
    progress::Progress,
    report::{Finding, Level, Place, Report},
};

/// What all files together want, and what is wrong with them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    proposals: Vec<Proposed>,
    /// Of each proposal that is written in a file.
    origins: Vec<Option<Origin>>,
    sources: Vec<Arc<Source>>,
    findings: Vec<Finding>,
    /// Whether the sources are registry files.
    is_registry: bool,
}

/// Where a change comes from.
#[derive(Debug, Clone)]
struct Origin {
    source: usize,
    pointer: String,
}

impl Batch {
    /// Reads files and directories. What is wrong inside of them is found in [`Batch::report`].
    pub(crate) fn read(names: &[PathBuf]) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for name in names {
            files.extend(input::expand(name)?);
        }
        let progress = (files.len() > 1).then(|| Progress::bar("reading", files.len() as u64));
        let mut batch = Self::default();
        for file in files {
            batch.add(Source::read(&file)?);
            if let Some(progress) = &progress {
                progress.advance(1);
            }
        }
        Ok(batch)
    }

    /// Takes the MCP servers of a `server.json`, or of what an MCP registry answered.
    pub(crate) fn of_server_json(source: Source) -> Self {
        let mut batch = Self::default();
        let source = Arc::new(source);
        batch.sources.push(Arc::clone(&source));
        let Some(value) = batch.value(&source) else { return batch };
        let mut diagnostics = Vec::new();
        for LocatedDocument { pointer, value, withdrawn } in mcp_registry::find(&value) {
            diagnostics.extend(withdrawn);
            let (document, found) = mcp_registry::imported(value);
            let place = |found: Diagnostic| Diagnostic {
                pointer: format!("{pointer}{}", found.pointer),
                ..found
            };
            diagnostics.extend(found.into_iter().map(place));
            if let Some(document) = document {
                batch.origins.push(Some(Origin { source: 0, pointer }));
                batch.proposals.push(Proposed::Register(Arc::new(document)));
            }
        }
        diagnostics.extend(mcp_registry::more_pages(&value));
        batch.findings.extend(in_file(&source, &diagnostics));
        batch
    }

    /// What a source holds; if it is no JSON or YAML, that is a finding.
    fn value(&mut self, source: &Arc<Source>) -> Option<Value> {
        match source.value() {
            Ok(value) => Some(value),
            Err(error) => {
                let help = error.help();
                let SyntaxError { position, message } = error;
                let found = Diagnostic::error(Code::DocumentInvalid, "", message);
                let found = Finding::from(&found.with_help(help));
                self.findings.push(Finding { place: Some(Place::new(source, position)), ..found });
                None
            }
        }
    }

    /// Takes what an import made.
    pub(crate) fn of(source: Source) -> Self {
        let mut batch = Self::default();
        batch.add(source);
        batch
    }

    fn add(&mut self, source: Source) {
        let source = Arc::new(source);
        self.is_registry = true;
        self.sources.push(Arc::clone(&source));
        let index = self.sources.len() - 1;
        let Some(value) = self.value(&source) else { return };
        match RegistryFile::from_value(&value) {
            Ok(file) => {
                self.findings.extend(in_file(&source, file.warnings()));
                for (change, proposed) in file.proposals().iter().enumerate() {
                    let pointer = file.pointer(change).unwrap_or_default().to_owned();
                    self.origins.push(Some(Origin { source: index, pointer }));
                    self.proposals.push(proposed.clone());
                }
            }
            Err(FileError { diagnostics }) => {
                self.findings.extend(in_file(&source, &diagnostics));
            }
        }
    }

    /// What is wanted, in the order of the files.
    pub(crate) fn proposals(&self) -> &[Proposed] {
        &self.proposals
    }

    /// The same with other proposals, each with its place among those of now if it has one.
    pub(crate) fn replaced(
        mut self,
        proposals: impl IntoIterator<Item = (Option<usize>, Proposed)>,
    ) -> Self {
        let origin = |from: usize| self.origins.get(from).cloned().flatten();
        (self.origins, self.proposals) =
            proposals.into_iter().map(|(from, new)| (from.and_then(origin), new)).unzip();
        self
    }

    /// What reading the files found, and these findings about the batch, each with its place.
    pub(crate) fn report(&self, about_batch: Vec<Finding>) -> Report {
        let mut by_source: BTreeMap<usize, Vec<Finding>> = BTreeMap::new();
        let mut findings = self.findings.clone();
        for found in about_batch {
            match found.change.and_then(|change| self.origins.get(change)?.as_ref()) {
                Some(Origin { source, pointer }) => {
                    let pointer = format!("{pointer}{}", found.pointer);
                    by_source.entry(*source).or_default().push(Finding { pointer, ..found });
                }
                None => findings.push(found),
            }
        }
        for (source, found) in by_source {
            findings.extend(placed(&self.sources[source], found));
        }
        if findings.iter().any(|found| found.severity == Level::Error) {
            findings.extend(self.remedy());
        }
        Report::new(findings)
    }

    /// That the import repairs the only file. Of several files, one may need what another has.
    fn remedy(&self) -> Option<Finding> {
        let [source] = &self.sources[..] else { return None };
        let value = source.value().ok().filter(|_| self.is_registry)?;
        let found = registry_import::remedy(&value, source.name())?;
        Some(Finding { place: Some(Place::new(source, None)), ..Finding::from(&found) })
    }
}

fn in_file(source: &Arc<Source>, diagnostics: &[Diagnostic]) -> Vec<Finding> {
    placed(source, diagnostics.iter().map(Finding::from).collect())
}

/// Gives findings, whose pointers lead into the file, their positions.
fn placed(source: &Arc<Source>, findings: Vec<Finding>) -> Vec<Finding> {
    let pointers: Vec<_> = findings.iter().map(|found| found.pointer.as_str()).collect();
    let positions = if pointers.is_empty() { Vec::new() } else { source.locate(&pointers) };
    let place = |position| Some(Place::new(source, position));
    findings
        .into_iter()
        .zip(positions)
        .map(|(found, position)| Finding { place: place(position), ..found })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use registry_core::{Catalog, RegistryId, rules};

    use super::*;
    use crate::style::Style;

    fn report(files: &[(&str, &str)]) -> String {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let batch = Batch::read(&[dir.path().to_owned()]).unwrap();
        let catalog = Catalog::empty(RegistryId::new("test"));
        let plan = rules::plan(&catalog, batch.proposals());
        let report = batch.report(plan.diagnostics.iter().map(Finding::from).collect());
        report.render(Style::Plain).replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn a_finding_points_into_the_file_that_it_is_about() {
        let good = r#"{ "schemaVersion": "2.0", "schemas": [
            { "name": "A", "version": "1.0.0", "schema": { "type": "string" } } ] }"#;
        let bad = "schemaVersion: '2.0'\nservers:\n  - name: docs\n    version: 1.0.0\n    \
                   provides:\n      - { tool: get_user, version: 1.0.0 }\n";
        let text = report(&[("a.json", good), ("b.yaml", bad)]);
        assert!(text.contains("error[provision-unknown]: "), "{text}");
        assert!(text.contains("--> b.yaml:6:9\n"), "{text}");
        assert!(
            text.contains("6 |       - { tool: get_user, version: 1.0.0 }\n  |         ^\n"),
            "{text}"
        );
    }

    #[test]
    fn what_is_no_registry_file_is_shown_where_it_breaks() {
        let text = report(&[
            ("a.json", "{ \"schemaVersion\": \"2.0\",\n  \"tools\": [ { \"nme\": \"x\" } ] }"),
            ("b.json", "{ \"schemaVersion\": "),
        ]);
        assert!(text.contains("unknown field `nme`"), "{text}");
        assert!(text.contains("--> a.json:2:23\n"), "{text}");
        assert!(text.contains("not valid JSON"), "{text}");
        assert!(text.contains("--> b.json:1:"), "{text}");
    }
}
