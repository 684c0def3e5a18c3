//! `sbom diff`: the differences of two SBOMs, from files or from the registry.
//!
//! Files are not validated. Parts that cannot be read are not compared.

use std::fs;

use registry_core::PointInTime;
use registry_sbom::{Change, Difference, Format, Inventory, compare, read};
use serde_json::{Value, json};

use super::{Session, export};
use crate::{
    cli::{Format as Output, SbomDiffArgs, SbomSource},
    failure::Failure,
    screen::TextTable,
    style::Paint,
};

pub(super) async fn run(session: &Session, args: SbomDiffArgs) -> Result<(), Failure> {
    let SbomDiffArgs { old, new, old_at, new_at } = args;
    let old = inventory(session, &old, old_at).await?;
    let new = inventory(session, &new, new_at).await?;
    let found = compare(&old, &new);
    show(session, &found)?;
    if found.is_empty() { Ok(()) } else { Err(Failure::Different) }
}

async fn inventory(
    session: &Session,
    source: &SbomSource,
    at: Option<PointInTime>,
) -> Result<Inventory, Failure> {
    match source {
        SbomSource::File(path) if at.is_some() => {
            let path = path.display();
            Err(Failure::Usage(format!(
                "{path} is a file; --old-at and --new-at require the registry"
            )))
        }
        SbomSource::Registry(root) => {
            let client = session.connect().await?;
            let bytes = export::fetch(&client, root.as_ref(), Format::CycloneDx16, at).await?;
            read(&bytes).map_err(Failure::invalid_response)
        }
        SbomSource::File(path) => {
            let bytes = fs::read(path).map_err(|e| Failure::unreadable(path, e))?;
            read(&bytes).map_err(|e| Failure::unreadable(path, e))
        }
    }
}

fn show(session: &Session, found: &[Difference]) -> Result<(), Failure> {
    if session.screen.format == Output::Json {
        let view = |d: &Difference| -> Value {
            json!({ "name": d.name, "change": d.change.as_str(), "old": d.old, "new": d.new })
        };
        return session.screen.json(&found.iter().map(view).collect::<Vec<_>>());
    }
    if found.is_empty() {
        return Ok(());
    }
    let mut table = TextTable::new(&["", "NAME", "CHANGE", "OLD", "NEW"]);
    for Difference { name, change, old, new } in found {
        let (mark, paint) = match change {
            Change::Added => ("+", Paint::Good),
            Change::Removed => ("-", Paint::Bad),
            _ => ("~", Paint::Careful),
        };
        let (old, new) = (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
        table.painted(paint, [mark, name, change.as_str(), old, new]);
    }
    session.screen.table(&table)
}
