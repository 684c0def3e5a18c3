//! Full resync and validation of 100,000 entities.

use std::time::Instant;

use acceptance::Registry;
use registry_core::{Catalog, RegistryId, registry_file, rules};

use crate::{
    follow::Follower,
    reads,
    report::{Report, Row},
};

const TOOLS: usize = 99_000;

/// Measures the snapshot over the network, and parsing and validation in one process.
pub(crate) async fn measure(report: &mut Report) {
    let registry = Registry::start();
    let begin = Instant::now();
    reads::apply_all(&registry, TOOLS).await;
    let filled = begin.elapsed();
    let follower = Follower::connect(&registry).await;
    let begin = Instant::now();
    let catalog = follower.snapshot().await;
    let resync = begin.elapsed();
    let entities = catalog.len();
    report.add(Row {
        path: format!("full resync of {entities} entities, verified and applied"),
        value: format!("{:.2} s", resync.as_secs_f64()),
        baseline: format!("registering them: {:.1} s", filled.as_secs_f64()),
        ratio: Some(resync.as_secs_f64() / filled.as_secs_f64()),
        budget: "< 2 s",
    });
    validation(report, &catalog);
}

/// Writes the catalog as a registry file, parses it and validates all of it.
fn validation(report: &mut Report, catalog: &Catalog) {
    let bytes = registry_file::write_export(catalog);
    let begin = Instant::now();
    let file = registry_file::RegistryFile::parse(&bytes).expect("our own file");
    let read = begin.elapsed();
    let batch = file.proposals();
    let empty = Catalog::empty(RegistryId::new("bench"));
    let begin = Instant::now();
    let plan = rules::validate(&empty, batch);
    let validated = begin.elapsed();
    assert!(plan.is_acceptable(), "{:?}", plan.diagnostics.first());
    report.add_alone(
        format!("validating a file of {} entities ({} MB)", catalog.len(), bytes.len() / 1_000_000),
        format!("reading {:.2} s, rules {:.2} s", read.as_secs_f64(), validated.as_secs_f64()),
        "< 2 s",
    );
    let begin = Instant::now();
    let restored = registry_file::read_export(&bytes).expect("our own export");
    let restored_in = begin.elapsed();
    assert_eq!(restored.digest(), catalog.digest(), "the same catalog");
    report.add_alone(
        "loading the same from a verified cache",
        format!("{:.2} s", restored_in.as_secs_f64()),
        "",
    );
}
