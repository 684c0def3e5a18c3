//! `inspect`: credentials and personal data in a file, without the values.

use std::collections::HashMap;

use inspection::{
    Detector, DigestKey, Encoding, Findings, Inspector, InvalidJson, Part, Selection,
};
use registry_core::entity::policy::DataClass;
use serde::Serialize;
use uuid::Uuid;

use super::Session;
use crate::{
    cli::{Format, InspectArgs},
    failure::Failure,
    input::Source,
    screen::{Screen, TextTable},
};

/// The JSON result.
#[derive(Serialize)]
struct Outcome {
    format: &'static str,
    findings: Vec<FindingView>,
    /// The file has more findings.
    truncated: bool,
}

#[derive(Serialize)]
struct FindingView {
    class: &'static str,
    detector: &'static str,
    /// Of the string or number, or of the value in a text.
    line: usize,
    column: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    /// Equal values have equal numbers.
    value: usize,
}

#[derive(Serialize)]
struct DetectorView {
    name: &'static str,
    class: &'static str,
    opt_in: bool,
    finds: &'static str,
}

pub(super) fn run(session: &Session, args: &InspectArgs) -> Result<(), Failure> {
    let screen = session.screen;
    let Some(file) = &args.file else { return list(screen) };
    let outcome = inspect(&Source::read(file)?, &inspector(args))?;
    show(screen, &outcome)?;
    match (outcome.findings.len(), outcome.truncated) {
        (0, _) => Ok(()),
        (count, true) => Err(Failure::Rejected(format!("more than {count} findings"))),
        (1, false) => Err(Failure::Rejected("1 finding".to_owned())),
        (count, false) => Err(Failure::Rejected(format!("{count} findings"))),
    }
}

fn inspector(args: &InspectArgs) -> Inspector {
    let classes = args.classes.iter().copied();
    let selection =
        if args.classes.is_empty() { Selection::default() } else { Selection::of(classes) };
    let selection = args.detectors.iter().copied().fold(selection, Selection::with);
    // The digests are compared within one run.
    let mut key = [0; 32];
    key[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    key[16..].copy_from_slice(Uuid::new_v4().as_bytes());
    Inspector::new(selection, DigestKey::new(&key))
}

fn inspect(source: &Source, inspector: &Inspector) -> Result<Outcome, Failure> {
    let text = source.text();
    match inspector.json(text) {
        Ok(findings) => {
            let starts: Vec<_> = findings.list.iter().map(|found| found.token.start).collect();
            Ok(outcome(source, "json", &findings, &starts))
        }
        Err(InvalidJson::Syntax(_)) => {
            let findings = inspector.text(text);
            let starts: Vec<_> = findings.list.iter().map(|found| found.span.start).collect();
            Ok(outcome(source, "text", &findings, &starts))
        }
        Err(error @ InvalidJson::TooDeep(_)) => {
            Err(Failure::unreadable(source.name().as_ref(), error))
        }
    }
}

/// The findings with the positions of these bytes.
fn outcome(
    source: &Source,
    format: &'static str,
    findings: &Findings,
    starts: &[usize],
) -> Outcome {
    let is_json = format == "json";
    let mut values = HashMap::new();
    let positions = source.positions(starts);
    let views = findings.list.iter().zip(positions).map(|(finding, position)| {
        let next = values.len() + 1;
        FindingView {
            class: finding.class().as_str(),
            detector: finding.detector.name(),
            line: position.line,
            column: position.column,
            pointer: is_json.then(|| finding.pointer.to_string()),
            part: is_json.then_some(match finding.part {
                Part::Key => "key",
                Part::Value => "value",
            }),
            encoding: finding.encoding.map(|encoding| match encoding {
                Encoding::Base64 => "base64",
                Encoding::Percent => "percent",
            }),
            value: *values.entry(finding.digest).or_insert(next),
        }
    });
    Outcome { format, findings: views.collect(), truncated: findings.is_truncated }
}

fn show(screen: Screen, outcome: &Outcome) -> Result<(), Failure> {
    if screen.format == Format::Json {
        return screen.json(outcome);
    }
    if outcome.findings.is_empty() {
        return screen.line("no findings");
    }
    let mut table = TextTable::new(&["LINE", "COLUMN", "CLASS", "DETECTOR", "VALUE", "POINTER"]);
    for finding in &outcome.findings {
        let pointer = match (&finding.pointer, finding.part) {
            (Some(pointer), Some("key")) => format!("{pointer} (key)"),
            (Some(pointer), _) => pointer.clone(),
            (None, _) => String::new(),
        };
        let (class, detector) = (finding.class.to_owned(), finding.detector.to_owned());
        let (line, column) = (finding.line.to_string(), finding.column.to_string());
        table.row([line, column, class, detector, format!("#{}", finding.value), pointer]);
    }
    screen.table(&table)
}

fn list(screen: Screen) -> Result<(), Failure> {
    let all = Detector::all().map(|detector| DetectorView {
        name: detector.name(),
        class: detector.class().as_str(),
        opt_in: detector.is_opt_in() || detector.class() == DataClass::Network,
        finds: detector.finds(),
    });
    if screen.format == Format::Json {
        return screen.json(&all.collect::<Vec<_>>());
    }
    let mut table = TextTable::new(&["CLASS", "DETECTOR", "DEFAULT", "FINDS"]);
    for DetectorView { name, class, opt_in, finds } in all {
        table.row([class, name, if opt_in { "no" } else { "yes" }, finds]);
    }
    screen.table(&table)
}
