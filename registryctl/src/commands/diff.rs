//! `diff`: the differences of two versions of one entity, or of two revisions.

mod revisions;

use registry_core::Key;
use serde_json::Value;

use super::{Session, get};
use crate::{
    cli::{DiffArgs, DiffOperands, Format},
    diff::{Difference, diff},
    failure::Failure,
    screen::TextTable,
    style::Paint,
    view::short_value,
};

pub(super) async fn run(session: &Session, args: DiffArgs) -> Result<(), Failure> {
    let exit_code = args.exit_code;
    let found = match args.parse()? {
        DiffOperands::Versions(old, new) => versions(session, &old, &new).await?,
        DiffOperands::Revisions(from, to, filter) => {
            revisions::run(session, (from, to), filter.as_ref()).await?
        }
    };
    if found > 0 && exit_code { Err(Failure::Different) } else { Ok(()) }
}

/// Prints the differences of two documents, and returns their number.
async fn versions(session: &Session, old: &Key, new: &Key) -> Result<usize, Failure> {
    let client = session.connect().await?;
    let before = get::content(&get::fetch(&client, old, None).await?)?;
    let after = get::content(&get::fetch(&client, new, None).await?)?;
    let differences = diff(&before, &after);
    if session.screen.format == Format::Json {
        session.screen.json(&differences)?;
    } else if differences.is_empty() {
        session.screen.line(&format!("no difference between {old} and {new}"))?;
    } else {
        let mut table = TextTable::new(&["", "POINTER", "OLD", "NEW"]);
        for difference in &differences {
            let (mark, paint) = mark(difference.old.as_ref(), difference.new.as_ref());
            let Difference { pointer, old, new } = difference;
            table.painted(paint, [mark, pointer, &text(old.as_ref()), &text(new.as_ref())]);
        }
        session.screen.table(&table)?;
    }
    Ok(differences.len())
}

/// The mark and color of an added, removed or changed value.
fn mark<T>(old: Option<T>, new: Option<T>) -> (&'static str, Paint) {
    match (old, new) {
        (None, _) => ("+", Paint::Good),
        (_, None) => ("-", Paint::Bad),
        (Some(_), Some(_)) => ("~", Paint::Careful),
    }
}

fn text(value: Option<&Value>) -> String {
    value.map(short_value).unwrap_or_default()
}
