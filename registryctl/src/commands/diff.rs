//! `diff`: what is different between two versions of one entity.
//!
//! Deliberately absent: whether a difference breaks anybody.

use serde_json::Value;

use super::{Session, get};
use crate::{
    cli::{DiffArgs, Format},
    diff::{Difference, diff},
    failure::Failure,
    screen::TextTable,
    style::Paint,
    view::short_value,
};

pub(super) async fn run(session: &Session, args: &DiffArgs) -> Result<(), Failure> {
    let (old, new) = args.versions.keys()?;
    let client = session.connect().await?;
    let old = get::content(&get::fetch(&client, &old, None).await?)?;
    let new = get::content(&get::fetch(&client, &new, None).await?)?;
    show(session, &diff(&old, &new))
}

fn show(session: &Session, differences: &[Difference]) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(&differences);
    }
    let mut table = TextTable::new(&["", "POINTER", "OLD", "NEW"]);
    for Difference { pointer, old, new } in differences {
        let (mark, paint) = match (old, new) {
            (None, _) => ("+", Paint::Good),
            (_, None) => ("-", Paint::Bad),
            (Some(_), Some(_)) => ("~", Paint::Careful),
        };
        let text = |value: &Option<Value>| value.as_ref().map(short_value).unwrap_or_default();
        table.painted(paint, [mark, pointer, &text(old), &text(new)]);
    }
    session.screen.table(&table)
}
