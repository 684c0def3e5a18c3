//! `setting-invalid`: the settings of a commit.

use crate::{
    catalog::Catalog,
    diagnostic::{Code, Diagnostic},
    limits,
    setting::{Selector, Setting, SettingChange},
    visible::has_invisible_characters,
};

/// The effective settings in order, and the problems of the others.
pub(super) fn plan_settings(
    catalog: &Catalog,
    wanted: &[SettingChange],
) -> (Vec<SettingChange>, Vec<Diagnostic>) {
    let found: Vec<_> = wanted.iter().filter_map(|change| problem(catalog, change)).collect();
    let mut settings = catalog.settings().clone();
    let mut changes = Vec::new();
    for change in wanted {
        if settings.would_change(change) {
            settings.apply(change, catalog.revision());
            changes.push(change.clone());
        }
    }
    (changes, found)
}

fn problem(
    catalog: &Catalog,
    SettingChange { target, setting }: &SettingChange,
) -> Option<Diagnostic> {
    let (message, help) = match (setting, target) {
        (Setting::Archived(_), Selector::Name(kind, name)) => {
            catalog.versions(*kind, name).next().is_none().then(|| {
                let help = "check kind and name; only registered names can be archived";
                (format!("{target} has no versions"), help)
            })?
        }
        (Setting::Archived(_), _) => (
            format!("`{target}` does not select a single name"),
            "archive each name separately, like tool/fetch",
        ),
        (Setting::Owner(_), Selector::Everything) => {
            let help = "assign a name or a namespace, like team/*";
            ("`*` cannot have an owner".to_owned(), help)
        }
        (Setting::Owner(owner), _) if !fits(owner) => {
            let most = limits::AUTHOR_BYTES;
            let help = "name a team or a person";
            (format!("an owner must have 1 to {most} bytes without invisible characters"), help)
        }
        (Setting::Owner(_) | Setting::Compatibility(_), _) => return None,
    };
    let place = format!("setting of {target}: {message}");
    Some(Diagnostic::error(Code::SettingInvalid, "", place).with_help(help))
}

fn fits(owner: &str) -> bool {
    !owner.is_empty() && owner.len() <= limits::AUTHOR_BYTES && !has_invisible_characters(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{catalog, server};

    fn plan(wanted: &[(&str, Setting)]) -> (String, String) {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(target, setting)| SettingChange {
                target: target.parse().unwrap(),
                setting: setting.clone(),
            })
            .collect();
        let (changes, found) = plan_settings(&catalog(&[server("s", &[])]), &wanted);
        let lines = |texts: Vec<String>| texts.join("\n");
        (
            lines(changes.iter().map(ToString::to_string).collect()),
            lines(found.iter().map(|found| found.message.clone()).collect()),
        )
    }

    #[test]
    fn plan_settings_omits_unchanged() {
        let twice = Setting::Archived(true);
        let wanted = [
            ("server/s", Setting::Archived(false)),
            ("server/s", twice.clone()),
            ("server/s", twice),
            ("acme/*", Setting::Owner("acme".into())),
            ("*", Setting::Compatibility(None)),
        ];
        let (changes, found) = plan(&wanted);
        assert_eq!((&*changes, &*found), ("archive server/s\nowner of acme/*: acme", ""));
    }

    #[test]
    fn plan_settings_rejects_invalid() {
        let wanted = [
            ("server/t", Setting::Archived(true)),
            ("acme/*", Setting::Archived(true)),
            ("*", Setting::Owner("me".into())),
            ("acme/*", Setting::Owner(String::new())),
            ("acme/*", Setting::Owner("docs\u{200b}".into())),
        ];
        assert_eq!(
            plan(&wanted).1,
            "setting of server/t: server/t has no versions\n\
             setting of acme/*: `acme/*` does not select a single name\n\
             setting of *: `*` cannot have an owner\n\
             setting of acme/*: an owner must have 1 to 256 bytes without invisible characters\n\
             setting of acme/*: an owner must have 1 to 256 bytes without invisible characters"
        );
    }
}
