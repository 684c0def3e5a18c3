//! The arguments of `diff`: two versions of one name, or two revisions of the registry.
//!
//! An argument with `..` and without `/` is a pair of revisions: kinds have no dots, and versions
//! no two dots in a row.

use clap::Args;
use registry_core::{Key, PointInTime, Revision};

use super::{EntityFilter, VersionPair, selector::parse_key};
use crate::failure::Failure;

const FORMS: &str = "\
Two versions:
  KIND NAME OLD NEW
  KIND/NAME OLD NEW
  KIND/NAME@OLD KIND/NAME@NEW
  KIND/NAME@OLD..NEW

Two points in history:
  A..B
  A..B KIND | KIND/NAME | KIND/NAME@VERSION
A and B are revisions (42), dates (2026-01-31, their end) or times (2026-01-31T12:00:00Z).
The default of A is the empty registry, that of B is now.";

const MORE: &str = "\
A registered version is compared with the newest lower version of its name. If A is later than B, the
differences are reversed.";

#[derive(Debug, Args)]
#[command(after_help = FORMS, after_long_help = format!("{FORMS}\n\n{MORE}"))]
pub(crate) struct DiffArgs {
    /// Two versions or two revisions, in one of the forms below
    #[arg(value_name = "OPERANDS", num_args = 1..=4, required = true)]
    operands: Vec<String>,
    /// Exit with 1 if there are differences
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DiffOperands {
    Versions(Key, Key),
    /// `None` as the second point in time: now.
    Revisions(PointInTime, Option<PointInTime>, Option<EntityFilter>),
}

impl DiffArgs {
    pub(crate) fn parse(self) -> Result<DiffOperands, Failure> {
        let is_range = |text: &str| !text.contains('/') && text.contains("..");
        match self.operands.as_slice() {
            [range] if is_range(range) => revisions(range, None),
            [range, filter] if is_range(range) => revisions(range, Some(filter.parse()?)),
            [versions] => version_range(versions),
            _ => {
                let (old, new) = VersionPair { versions: self.operands }.keys()?;
                Ok(DiffOperands::Versions(old, new))
            }
        }
    }
}

fn revisions(range: &str, filter: Option<EntityFilter>) -> Result<DiffOperands, Failure> {
    let (from, to) = range.split_once("..").unwrap_or((range, ""));
    let read = |text: &str| -> Result<Option<PointInTime>, Failure> {
        let text = Some(text).filter(|text| !text.is_empty());
        text.map(|text| text.parse().map_err(Failure::usage)).transpose()
    };
    let from = read(from)?.unwrap_or(PointInTime::Revision(Revision(0)));
    Ok(DiffOperands::Revisions(from, read(to)?, filter))
}

/// `KIND/NAME@OLD..NEW`.
fn version_range(text: &str) -> Result<DiffOperands, Failure> {
    let form = || {
        let forms = "A..B for two revisions, or KIND/NAME@OLD..NEW for two versions";
        Failure::Usage(format!("`{text}` is neither two revisions nor two versions; write {forms}"))
    };
    let (name, versions) = text.rsplit_once('@').ok_or_else(form)?;
    let (old, new) = versions.split_once("..").ok_or_else(form)?;
    let key = |version: &str| parse_key(&format!("{name}@{version}")).map_err(Failure::Usage);
    Ok(DiffOperands::Versions(key(old)?, key(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(operands: &[&str]) -> Option<String> {
        let operands = operands.iter().map(|text| (*text).to_owned()).collect();
        let parsed = DiffArgs { operands, exit_code: false }.parse().ok()?;
        Some(match parsed {
            DiffOperands::Versions(old, new) => format!("{old} {new}"),
            DiffOperands::Revisions(from, to, filter) => {
                let to = to.map_or_else(|| "now".to_owned(), |to| to.to_string());
                let filter = filter.map(|EntityFilter { kind, name, .. }| {
                    let name = name.map(|name| format!("/{name}")).unwrap_or_default();
                    format!(" {kind}{name}")
                });
                format!("{from} {to}{}", filter.unwrap_or_default())
            }
        })
    }

    #[test]
    fn version_operands_have_four_forms() {
        let both = Some("tool/fetch@1.0.0 tool/fetch@2.0.0-rc.1".to_owned());
        assert_eq!(read(&["tool", "fetch", "1.0.0", "2.0.0-rc.1"]), both);
        assert_eq!(read(&["tool/fetch", "1.0.0", "2.0.0-rc.1"]), both);
        assert_eq!(read(&["tool/fetch@1.0.0", "tool/fetch@2.0.0-rc.1"]), both);
        assert_eq!(read(&["tool/fetch@1.0.0..2.0.0-rc.1"]), both);
        assert_eq!(read(&["tool/a..b@1.0.0..2.0.0"]).unwrap(), "tool/a..b@1.0.0 tool/a..b@2.0.0");
    }

    #[test]
    fn revision_ranges_have_default_ends() {
        assert_eq!(read(&["3..7"]).unwrap(), "revision 3 revision 7");
        assert_eq!(read(&["3.."]).unwrap(), "revision 3 now");
        assert_eq!(read(&["..3"]).unwrap(), "revision 0 revision 3");
        assert_eq!(
            read(&["2026-01-31..2026-02-01T12:00:00Z"]).unwrap(),
            "2026-01-31T23:59:59.999Z 2026-02-01T12:00:00.000Z"
        );
        assert_eq!(read(&["3..7", "tools"]).unwrap(), "revision 3 revision 7 tool");
        assert_eq!(read(&["3..", "tool/fetch"]).unwrap(), "revision 3 now tool/fetch");
    }

    #[test]
    fn invalid_operands_are_rejected() {
        for bad in [
            &["3"][..],
            &["3...7"],
            &["3..x"],
            &["3..7", "gadget"],
            &["3..7", "tool", "fetch"],
            &["tool/fetch"],
            &["tool/fetch@1.0.0"],
            &["tool/fetch@1.0.0.."],
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
