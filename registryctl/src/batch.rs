//! A batch of changes from input files, which maps findings back to locations in the files.

mod cedar;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use mcp_registry::LocatedDocument;
use registry_core::{
    Catalog, Code, Diagnostic,
    registry_file::RegistryFile,
    rules::{self, Plan, Proposed, UnreadEntity},
    suggest::closest,
};
use serde_json::Value;

use crate::{
    failure::Failure,
    form,
    input::{self, Part, Source, SyntaxError},
    progress::Progress,
    report::{Finding, Level, Location, Report},
    style::printable,
    suggest,
};

/// The changes of all files, and the findings of reading them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    proposals: Vec<Proposed>,
    /// The origin of each proposal, if it comes from a file.
    origins: Vec<Option<Origin>>,
    sources: Vec<Arc<Source>>,
    /// The sources with entities that could not be read.
    incomplete: BTreeSet<usize>,
    unread: Vec<UnreadEntity>,
    findings: Vec<Finding>,
    /// Whether the sources are registry files.
    is_registry: bool,
}

/// The location of a change in a file.
#[derive(Debug, Clone)]
struct Origin {
    source: usize,
    pointer: String,
}

impl Batch {
    /// Reads files and directories, each file once. [`Batch::report`] returns the findings about their contents.
    pub(crate) fn read(names: &[PathBuf]) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for name in names {
            files.extend(input::expand(name)?);
            for directory in input::skipped(name) {
                if !names.contains(&directory) {
                    let shown = directory.display().to_string();
                    let shown = printable(&shown);
                    eprintln!(
                        "warning: {shown} is a subdirectory and is not read; add `-f {shown}`"
                    );
                }
            }
        }
        let mut seen = BTreeSet::new();
        files.retain(|file| seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone())));
        let progress = (files.len() > 1).then(|| Progress::bar("reading", files.len() as u64));
        let mut batch = Self::default();
        for file in files {
            let (source, warning) = Source::read_registry(&file)?;
            batch.add(source);
            if let Some(warning) = warning {
                let location = batch.sources.last().map(|source| Location::new(source, None));
                batch.findings.push(Finding { location, ..Finding::from(&warning) });
            }
            if let Some(progress) = &progress {
                progress.advance(1);
            }
        }
        Ok(batch)
    }

    /// The MCP servers of a `server.json`, or of the response of an MCP registry.
    pub(crate) fn from_server_json(source: Source) -> Self {
        let mut batch = Self::default();
        let source = Arc::new(source);
        batch.sources.push(Arc::clone(&source));
        let Some(value) = batch.value(&source) else { return batch };
        let mut diagnostics = Vec::new();
        for LocatedDocument { pointer, value, withdrawn } in mcp_registry::find(&value) {
            diagnostics.extend(withdrawn);
            let (document, found) = mcp_registry::imported(value);
            let in_document = |found: Diagnostic| Diagnostic {
                pointer: format!("{pointer}{}", found.pointer),
                ..found
            };
            diagnostics.extend(found.into_iter().map(in_document));
            if let Some(document) = document {
                batch.origins.push(Some(Origin { source: 0, pointer }));
                batch.proposals.push(Proposed::Register(Arc::new(document)));
            }
        }
        diagnostics.extend(mcp_registry::more_pages(&value));
        batch.findings.extend(in_file(&source, &diagnostics));
        batch
    }

    /// Parses a source. A syntax error becomes a finding.
    fn value(&mut self, source: &Arc<Source>) -> Option<Value> {
        match source.value() {
            Ok(value) => Some(value),
            Err(error) => {
                let help = error.help();
                let SyntaxError { position, message } = error;
                let found = Diagnostic::error(Code::DocumentInvalid, "", message);
                let found = Finding::from(&found.with_help(help));
                let location = Some(Location::new(source, position));
                self.findings.push(Finding { location, ..found });
                None
            }
        }
    }

    /// The batch of one registry file.
    pub(crate) fn from_source(source: Source) -> Self {
        let mut batch = Self::default();
        batch.add(source);
        batch
    }

    fn add(&mut self, source: Source) {
        let source = Arc::new(source);
        self.is_registry = true;
        self.sources.push(Arc::clone(&source));
        let index = self.sources.len() - 1;
        let Some(value) = self.value(&source) else {
            // The file may contain any entity.
            return self.unread.push(UnreadEntity::default());
        };
        let (file, problems) = RegistryFile::readable(&value);
        if problems.is_empty() {
            self.findings.extend(in_file(&source, file.warnings()));
        } else {
            let other = form::other_form(&value, source.name()).map(|(form, remedy)| {
                let message = format!("this is {form}, not a registry file");
                vec![Diagnostic::error(Code::DocumentInvalid, "", message).with_help(remedy)]
            });
            self.findings.extend(in_file(&source, &other.unwrap_or(problems)));
            self.incomplete.insert(index);
            self.unread.extend_from_slice(file.unread());
        }
        for (change, proposed) in file.proposals().iter().enumerate() {
            let pointer = file.pointer(change).unwrap_or_default().to_owned();
            self.origins.push(Some(Origin { source: index, pointer }));
            self.proposals.push(proposed.clone());
        }
    }

    /// The effect of the readable changes on a catalog.
    pub(crate) fn plan(&self, catalog: &Catalog) -> Plan {
        rules::plan_readable(catalog, &self.proposals, &self.unread)
    }

    /// The changes, in the order of the files.
    pub(crate) fn proposals(&self) -> &[Proposed] {
        &self.proposals
    }

    /// Replaces the proposals. An index of an old proposal keeps its origin.
    pub(crate) fn with_proposals(
        mut self,
        proposals: impl IntoIterator<Item = (Option<usize>, Proposed)>,
    ) -> Self {
        let origin = |from: usize| self.origins.get(from).cloned().flatten();
        (self.origins, self.proposals) =
            proposals.into_iter().map(|(from, new)| (from.and_then(origin), new)).unzip();
        self
    }

    /// The findings of reading the files and the given findings about the batch, with locations.
    /// Findings that may follow from unread entities are omitted.
    pub(crate) fn report(&self, about_batch: Vec<Finding>) -> Report {
        let mut by_source: BTreeMap<usize, Vec<Finding>> = BTreeMap::new();
        let mut findings = self.findings.clone();
        for found in about_batch {
            if !self.unread.is_empty() && is_about_absence(&found) {
                continue;
            }
            match found.change.and_then(|change| self.origins.get(change)?.as_ref()) {
                Some(Origin { source, .. }) if self.incomplete.contains(source) => {}
                Some(Origin { source, pointer }) => {
                    let pointer = format!("{pointer}{}", found.pointer);
                    by_source.entry(*source).or_default().push(Finding { pointer, ..found });
                }
                None => findings.push(found),
            }
        }
        for (source, found) in by_source {
            findings.extend(located(&self.sources[source], found));
        }
        let mut errors = findings.iter().filter(|found| found.severity == Level::Error).peekable();
        if errors.peek().is_some() && errors.all(is_repairable) {
            findings.extend(self.remedy());
        }
        Report::new(findings)
    }

    /// A hint that `import` repairs the file. One of several files cannot be judged alone.
    fn remedy(&self) -> Option<Finding> {
        let [source] = &self.sources[..] else { return None };
        let value = source.value().ok().filter(|_| self.is_registry)?;
        let found = registry_import::remedy(&value, source.name())?;
        let location = Some(Location::new(source, None));
        Some(Finding { location, ..Finding::from(&found) })
    }
}

/// Whether a changed file may resolve the error. The others depend on registered entities.
fn is_repairable(error: &Finding) -> bool {
    let registered = [
        Code::AlreadyRegistered,
        Code::BreakingChange,
        Code::NameArchived,
        Code::NotOwner,
        Code::OutsideScope,
        Code::PolicyIncompatible,
        Code::PolicyVersionRegresses,
        Code::RoleRequired,
        Code::StillNeeded,
    ];
    !registered.iter().any(|code| error.code == code.as_str())
}

/// Whether the finding says that no other entity refers to an entity, or matches it.
fn is_about_absence(found: &Finding) -> bool {
    let absence = [
        Code::SchemaUnused,
        Code::PolicySelectorUnmatched,
        Code::PolicyArgumentUndeclared,
        Code::PolicyUnsatisfiable,
        Code::BudgetUnpriced,
    ];
    absence.iter().any(|code| found.code == code.as_str())
}

fn in_file(source: &Arc<Source>, diagnostics: &[Diagnostic]) -> Vec<Finding> {
    located(source, diagnostics.iter().map(Finding::from).collect())
}

/// Adds locations and suggestions to findings whose pointers refer to the file.
fn located(source: &Arc<Source>, findings: Vec<Finding>) -> Vec<Finding> {
    let is_about_name = |found: &Finding| {
        is_unknown_field(found) || found.code == Code::SchemaKeywordUnknown.as_str()
    };
    let part = |found: &Finding| if is_about_name(found) { Part::Key } else { Part::Value };
    let parts: Vec<_> = findings.iter().map(|found| (&*found.pointer, part(found))).collect();
    let positions = if parts.is_empty() { Vec::new() } else { source.locate(&parts) };
    let positions = cedar::refine(source, &findings, positions);
    let locations: Vec<_> =
        positions.into_iter().map(|position| Location::new(source, position)).collect();
    findings
        .into_iter()
        .zip(locations)
        .map(|(found, location)| {
            let help = suggestion(&found, &location).or(found.help);
            Finding { help, location: Some(location), ..found }
        })
        .collect()
}

fn is_unknown_field(found: &Finding) -> bool {
    found.message.starts_with("unknown field `")
}

/// The likely intention behind an unknown field or an incomplete version.
fn suggestion(found: &Finding, location: &Location) -> Option<String> {
    let (_, last) = found.pointer.rsplit_once('/')?;
    if is_unknown_field(found) {
        let help = found.help.as_deref()?;
        let (_, fields) = help.rsplit_once(" are ")?;
        let similar = closest(last, fields.split(", "))?;
        return Some(format!("did you mean `{similar}`? {help}"));
    }
    if last != "version" || found.severity != Level::Error {
        return None;
    }
    let token = location.token()?;
    let written = token.trim_matches(['"', '\'']);
    let version = suggest::complete_version(written).filter(|version| version != written)?;
    Some(format!("write \"{version}\": a version has three numbers and is a string"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use registry_core::RegistryId;

    use super::*;
    use crate::style::Style;

    fn report(files: &[(&str, &str)]) -> String {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let batch = Batch::read(&[dir.path().to_owned()]).unwrap();
        let catalog = Catalog::empty(RegistryId::new("test"));
        let plan = batch.plan(&catalog);
        let report = batch.report(plan.diagnostics.iter().map(Finding::from).collect());
        report.render(Style::Plain).replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn findings_have_locations_in_their_file() {
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
    fn unread_entities_cause_no_findings_about_others() {
        let tool = |name: &str, more: &str| {
            format!(
                r##"{{ "name": "{name}", "version": "1.0.0", {more}
                "inputSchema": {{ "$ref": "#Parcel:1.0.0" }},
                "source": {{ "server": "post", "serverVersion": "1.0.0", "tool": "{name}" }} }}"##
            )
        };
        let file = |kind: &str, entities: &[String]| {
            format!(r#"{{ "schemaVersion": "2.0", "{kind}": [{}] }}"#, entities.join(", "))
        };
        let server = |version: &str| {
            format!(
                r#"{{ "name": "post", "version": "{version}", "provides": [
                {{ "tool": "quote", "version": "1.0.0" }}, {{ "tool": "label", "version": "1.0.0" }},
                {{ "tool": "absent", "version": "1.0.0" }} ] }}"#
            )
        };
        let schema = r#"{ "name": "Parcel", "version": "1.0.0", "schema": { "type": "object" } }"#;
        let unused = r#"{ "name": "Unused", "version": "1.0.0", "schema": {} }"#;
        let schemas = file("schemas", &[schema.to_owned(), unused.to_owned()]);
        let messages = |version: &str, misspelled: &str| {
            let tools = [tool("quote", ""), tool("label", misspelled)];
            let text = report(&[
                ("schemas.json", &schemas),
                ("servers.json", &file("servers", &[server(version)])),
                ("tools.json", &file("tools", &tools)),
            ]);
            let heads = text.lines().filter(|line| line.starts_with(['e', 'w']));
            heads.map(str::to_owned).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(messages("1.0.0", r#""ouputSchema": {},"#), @r"
        error[document-invalid]: unknown field `ouputSchema`
        error[provision-unknown]: the server provides tool/absent@1.0.0, which is not registered
        ");
        insta::assert_snapshot!(messages("1.0", ""), @r"
        error[version-invalid]: `1.0` is not an exact semantic version: unexpected end of input while parsing minor version number
        ");
        insta::assert_snapshot!(messages("1.0.0", ""), @r"
        error[provision-unknown]: the server provides tool/absent@1.0.0, which is not registered
        warning[schema-unused]: schema/Unused@1.0.0 is not referenced
        ");
    }

    #[test]
    fn invalid_files_have_locations_and_suggestions() {
        let text = report(&[
            ("a.json", "{ \"schemaVersion\": \"2.0\",\n  \"tools\": [ { \"nme\": \"x\" } ] }"),
            ("b.json", "{ \"schemaVersion\": "),
        ]);
        insta::assert_snapshot!(text, @r#"
        error[document-invalid]: the required field `name` is missing
         --> a.json:2:14
          |
        2 |   "tools": [ { "nme": "x" } ] }
          |              ^
          = help: add `name`

        error[document-invalid]: the required field `version` is missing
         --> a.json:2:14
          |
        2 |   "tools": [ { "nme": "x" } ] }
          |              ^
          = help: add `version`

        error[implementation-ambiguous]: a tool needs exactly one of `source` and `spec`, but has neither
         --> a.json:2:14
          |
        2 |   "tools": [ { "nme": "x" } ] }
          |              ^
          = help: keep `source` for an upstream tool or `spec` for a composition

        error[document-invalid]: unknown field `nme`
         --> a.json:2:16
          |
        2 |   "tools": [ { "nme": "x" } ] }
          |                ^^^^^
          = help: did you mean `name`? the valid fields are name, version, title, description, defaults, hideFields, source, spec, depends, inputSchema, outputSchema, outputTransform, annotations, execution, _meta, metadata

        error[document-invalid]: not valid JSON: EOF while parsing a value
         --> b.json:1:19
          |
        1 | { "schemaVersion":
          |                   ^
          = help: check the text there, or before it
        "#);
    }

    #[test]
    fn incomplete_versions_are_completed() {
        for (name, version) in [("a.yaml", "1.0"), ("a.yaml", "'1.0'"), ("a.yaml", "1")] {
            let file =
                format!("schemaVersion: '2.0'\nservers:\n  - name: a\n    version: {version}\n");
            let text = report(&[(name, &file)]);
            assert!(text.contains("\"1.0.0\""), "{version}: {text}");
        }
        let json = r#"{ "schemaVersion": "2.0", "servers": [{ "name": "a", "version": 1.20 }] }"#;
        let text = report(&[("a.json", json)]);
        assert!(text.contains("\"1.20.0\""), "{text}");
    }
}
