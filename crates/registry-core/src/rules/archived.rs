//! `name-archived`: a new version of an archived name.

use super::proposal::NewEntity;
use crate::{
    catalog::Catalog,
    diagnostic::{Code, Diagnostic},
};

pub(super) fn check(catalog: &Catalog, new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let (kind, name) = (new.key().kind, &new.key().name);
    if catalog.settings().is_archived(kind, name) {
        let message = format!("{kind}/{name} is archived and accepts no new versions");
        let problem = Diagnostic::error(Code::NameArchived, "/name", message);
        let help = format!("register it under another name, or unarchive {kind}/{name} first");
        new.report(found, problem.with_help(help));
    }
}
