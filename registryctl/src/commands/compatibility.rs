//! `compatibility check`: whether one version can replace another, with a counterexample if not.
//!
//! The comparison runs locally, with the code of the registry.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use registry_core::{
    Code, Digest, Document, Entity, Key, Kind,
    compatibility::{self, Outcome, compare},
    graph::ReplacementComparison,
    rules::{self, Proposed},
};
use schema_compat::compatibility::Budget;
use serde::Serialize;

use super::{Session, get, rejected, validate};
use crate::{
    batch::Batch,
    cli::{CheckCompatibilityArgs, Direction, Format},
    client::Client,
    comparison::ComparisonView,
    failure::Failure,
    report::Finding,
};

pub(super) async fn run(session: &Session, args: &CheckCompatibilityArgs) -> Result<(), Failure> {
    let (old, new) = args.versions.keys()?;
    if old.kind != new.kind {
        return Err(Failure::Usage(format!("{old} and {new} have different kinds")));
    }
    let mut documents = Documents::from_files(session, args)?;
    documents.read(session, &[&old, &new]).await?;
    let (before, after) = (documents.entity(&old)?, documents.entity(&new)?);
    let direction = match args.direction {
        Direction::Backward => compatibility::CompatibilityDirection::Backward,
        Direction::Forward => compatibility::CompatibilityDirection::Forward,
        Direction::Full => compatibility::CompatibilityDirection::Full,
    };
    let resolve = |key: &Key| documents.by_key.get(key).map(|document| document.entity());
    let comparison = compare(before, after, direction, &resolve, &mut Budget::for_pair());
    let compared = ReplacementComparison {
        old: old.version.clone(),
        new: new.version.clone(),
        found: comparison,
    };
    show(session, (&old, &new), &(&compared).into())?;
    match compared.found.outcome() {
        Outcome::Breaking => Err(Failure::Rejected(direction.broken(&old, &new))),
        Outcome::Identical | Outcome::Compatible | Outcome::Undecided => Ok(()),
    }
}

/// The documents of files and of the registry.
struct Documents {
    by_key: HashMap<Key, Arc<Document>>,
}

impl Documents {
    fn from_files(session: &Session, args: &CheckCompatibilityArgs) -> Result<Self, Failure> {
        let batch = Batch::read(&args.files)?;
        // References may be in the registry. Only invalid schemas prevent the comparison.
        let planned = rules::plan(&validate::empty(), batch.proposals()).diagnostics;
        let invalid = planned.iter().filter(|found| found.code == Code::SchemaInvalid);
        let report = batch.report(invalid.map(Finding::from).collect());
        if report.has_errors() {
            let summary = format!("not valid: {}", report.counts());
            return Err(rejected(session.screen, &report, summary));
        }
        let documents = batch.proposals().iter().filter_map(Proposed::document);
        let by_key = documents.map(|document| (document.key().clone(), Arc::clone(document)));
        Ok(Self { by_key: by_key.collect() })
    }

    /// Reads these entities and all schemas that they reference, from files or else from the registry.
    async fn read(&mut self, session: &Session, keys: &[&Key]) -> Result<(), Failure> {
        let mut client = None;
        let mut waiting: VecDeque<Key> = keys.iter().map(|key| (*key).clone()).collect();
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = waiting.pop_front() {
            if !seen.insert(key.clone()) {
                continue;
            }
            if !self.by_key.contains_key(&key) {
                let client = match &client {
                    Some(client) => client,
                    None => client.insert(session.connect().await?),
                };
                self.by_key.insert(key.clone(), fetch(client, &key).await?);
            }
            let edges = self.by_key[&key].edges();
            waiting.extend(edges.iter().filter(|edge| edge.kind == Kind::Schema).cloned());
        }
        Ok(())
    }

    fn entity(&self, key: &Key) -> Result<&Entity, Failure> {
        let document = self.by_key.get(key);
        document
            .map(|document| document.entity())
            .ok_or_else(|| Failure::invalid_response("no document"))
    }
}

async fn fetch(client: &Client, key: &Key) -> Result<Arc<Document>, Failure> {
    let record = get::fetch(client, key, None).await?;
    let digest = Digest::parse(&record.digest).map_err(Failure::invalid_response)?;
    let bytes = record.document.ok_or_else(|| Failure::invalid_response("no document"))?;
    let document = Document::verify(key.kind, bytes, digest).map_err(Failure::invalid_response)?;
    Ok(Arc::new(document))
}

fn show(session: &Session, (old, new): (&Key, &Key), view: &ComparisonView) -> Result<(), Failure> {
    let screen = session.screen;
    if screen.format == Format::Json {
        return screen.json(&CompatibilityView {
            old: old.to_string(),
            new: new.to_string(),
            view,
        });
    }
    screen.line(&format!("{old} -> {new}: {}", view.outcome))?;
    view.show(screen)
}

/// The JSON result.
#[derive(Serialize)]
struct CompatibilityView<'a> {
    old: String,
    new: String,
    #[serde(flatten)]
    view: &'a ComparisonView,
}
