//! Reads secrets: literal texts, files and environment variables.

use std::{collections::BTreeMap, path::PathBuf};

use gateway_upstream::SecretSource;

use super::read::Field;

/// Reads a text, `{ file: PATH }` or `{ env: NAME }`, and checks that the secret is readable.
pub(super) fn read(field: &Field<'_>) -> Option<SecretSource> {
    if !field.is_mapping() {
        return field.text().map(SecretSource::text);
    }
    let section = field.section();
    let prefix = section.find("prefix").map(|field| field.text());
    let secret = match (section.find("file"), section.find("env")) {
        (Some(file), None) => file.text().map(|path| SecretSource::file(PathBuf::from(path))),
        (None, Some(name)) => name.parse(of_environment),
        _ => {
            section.problem("set one of `file: PATH` and `env: NAME`, or a literal text");
            None
        }
    };
    section.finish();
    let prefix = prefix.unwrap_or_else(|| Some(String::new()))?;
    let secret = secret?.with_prefix(prefix);
    secret.read().map_err(|e| field.problem(e.to_string())).ok()?;
    Some(secret)
}

fn of_environment(name: &str) -> Result<SecretSource, String> {
    let value = variable(name).map(|value| value.trim().to_owned());
    let missing = || format!("the variable `{name}` is not set, is empty, or is not UTF-8");
    value.filter(|value| !value.is_empty()).map(SecretSource::text).ok_or_else(missing)
}

pub(super) fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "this is a part of the configuration's reader")]
    std::env::var(name).ok()
}

/// Reads a mapping of names to secrets.
pub(super) fn pairs(field: Option<&Field<'_>>) -> BTreeMap<String, SecretSource> {
    let entries = field.map(Field::entries).unwrap_or_default();
    let entry = |(name, field): (String, Field<'_>)| read(&field).map(|secret| (name, secret));
    entries.into_iter().filter_map(entry).collect()
}
