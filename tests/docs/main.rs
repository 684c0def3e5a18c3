//! Generates the tables of `docs/reference` from the sources of the programs, and checks links and
//! sizes of all pages and the fields of compositions. `make reference` rewrites stale tables.

mod audit;
mod compositions;
mod config;
mod diagnostics;
mod gateway_errors;
mod grpc_errors;
mod pages;
mod scan;

/// Compares the names in a table with those in the code.
#[track_caller]
fn assert_same(what: &str, documented: &[&str], found: &[String]) {
    let missing: Vec<_> =
        found.iter().filter(|name| !documented.contains(&name.as_str())).collect();
    let stale: Vec<_> =
        documented.iter().filter(|name| !found.iter().any(|other| other == *name)).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "{what}: not in the table: {missing:?}; not in the code: {stale:?}"
    );
}
