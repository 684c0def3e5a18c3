//! The arguments of `diff`: two versions of one name, or two revisions of the registry.
//!
//! A text without a `/` and with `..` is two revisions; no kind has dots, and no version has two in
//! a row.

use clap::Args;
use registry_core::{Key, PointInTime, Revision};

use super::{About, VersionPair};
use crate::failure::Failure;

const FORMS: &str = "\
Two versions:
  KIND NAME OLD NEW
  KIND/NAME OLD NEW
  KIND/NAME@OLD KIND/NAME@NEW
  KIND/NAME@OLD..NEW

Two points in history, each a revision like 42, a day like 2026-01-31 (its end) or a time like
2026-01-31T12:00:00Z; without B: now; without A: from the beginning:
  A..B
  A..B KIND | KIND/NAME | KIND/NAME@VERSION

What was registered is compared with the newest lower version of its name. Where A is later than B,
the differences are the reverse ones.";

#[derive(Debug, Args)]
#[command(after_help = FORMS)]
pub(crate) struct DiffArgs {
    /// Two versions, or two revisions: see below
    #[arg(value_name = "WHAT", num_args = 1..=4, required = true)]
    what: Vec<String>,
    /// End with 1 where something is different
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Compared {
    /// Two documents.
    Versions(Key, Key),
    /// Two states of the registry; the second one may be the present.
    Revisions(PointInTime, Option<PointInTime>, Option<About>),
}

impl DiffArgs {
    /// What the user named.
    pub(crate) fn compared(self) -> Result<Compared, Failure> {
        let range = |text: &str| !text.contains('/') && text.contains("..");
        match self.what.as_slice() {
            [points] if range(points) => revisions(points, None),
            [points, about] if range(points) => revisions(points, Some(about.parse()?)),
            [versions] => both(versions),
            _ => {
                let (old, new) = VersionPair { versions: self.what }.keys()?;
                Ok(Compared::Versions(old, new))
            }
        }
    }
}

fn revisions(points: &str, about: Option<About>) -> Result<Compared, Failure> {
    let (from, to) = points.split_once("..").unwrap_or((points, ""));
    let read = |text: &str| -> Result<Option<PointInTime>, Failure> {
        let text = Some(text).filter(|text| !text.is_empty());
        text.map(|text| text.parse().map_err(Failure::usage)).transpose()
    };
    let from = read(from)?.unwrap_or(PointInTime::Revision(Revision(0)));
    Ok(Compared::Revisions(from, read(to)?, about))
}

/// `KIND/NAME@OLD..NEW`.
fn both(text: &str) -> Result<Compared, Failure> {
    let form = || {
        let forms = "A..B for two revisions, or KIND/NAME@OLD..NEW for two versions";
        Failure::Usage(format!("`{text}` does not say what to compare; write {forms}"))
    };
    let (name, versions) = text.rsplit_once('@').ok_or_else(form)?;
    let (old, new) = versions.split_once("..").ok_or_else(form)?;
    let key = |version: &str| format!("{name}@{version}").parse().map_err(Failure::usage);
    Ok(Compared::Versions(key(old)?, key(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(what: &[&str]) -> Option<String> {
        let what = what.iter().map(|text| (*text).to_owned()).collect();
        let compared = DiffArgs { what, exit_code: false }.compared().ok()?;
        Some(match compared {
            Compared::Versions(old, new) => format!("{old} {new}"),
            Compared::Revisions(from, to, about) => {
                let to = to.map_or_else(|| "now".to_owned(), |to| to.to_string());
                let name = |name: Option<registry_core::Name>| name.map(|name| format!("/{name}"));
                let about = about.map(|About { kind, name: of, .. }| {
                    format!(" {kind}{}", name(of).unwrap_or_default())
                });
                format!("{from} {to}{}", about.unwrap_or_default())
            }
        })
    }

    #[test]
    fn two_versions_are_named_in_every_way() {
        let both = Some("tool/fetch@1.0.0 tool/fetch@2.0.0-rc.1".to_owned());
        assert_eq!(read(&["tool", "fetch", "1.0.0", "2.0.0-rc.1"]), both);
        assert_eq!(read(&["tool/fetch", "1.0.0", "2.0.0-rc.1"]), both);
        assert_eq!(read(&["tool/fetch@1.0.0", "tool/fetch@2.0.0-rc.1"]), both);
        assert_eq!(read(&["tool/fetch@1.0.0..2.0.0-rc.1"]), both);
        assert_eq!(read(&["tool/a..b@1.0.0..2.0.0"]).unwrap(), "tool/a..b@1.0.0 tool/a..b@2.0.0");
    }

    #[test]
    fn two_revisions_are_open_at_either_end() {
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
    fn anything_else_is_refused() {
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
