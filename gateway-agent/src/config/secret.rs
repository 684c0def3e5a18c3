//! A secret of a target: a text, a file that has it, or a variable of the environment.
//!
//! A file is read anew whenever the secret is needed, so that it may change while the gateway runs;
//! a variable is read with the configuration. Neither is ever printed. Deliberately absent: what a
//! secret is good for.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::read::Field;

/// Longest file with a secret, in bytes.
const FILE_BYTES: u64 = 64 * 1024;

/// Where a secret is.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretSource {
    /// What stands before it, as `Bearer `.
    prefix: String,
    place: Place,
}

#[derive(Clone, PartialEq, Eq)]
enum Place {
    /// Here: written in the configuration, or taken from the environment.
    Text(String),
    /// In a file.
    File(PathBuf),
}

/// A file with a secret that is of no use. What is in it is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be used: {reason}", .file.display())]
pub struct UnusableSecret {
    file: PathBuf,
    reason: String,
}

impl SecretSource {
    /// What is written in the clear.
    pub fn text(text: impl Into<String>) -> Self {
        Self { prefix: String::new(), place: Place::Text(text.into()) }
    }

    /// Whether it may be another one later.
    pub fn may_change(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// The secret as it is now. May block.
    pub fn read(&self) -> Result<String, UnusableSecret> {
        match &self.place {
            Place::Text(text) => Ok(format!("{}{text}", self.prefix)),
            Place::File(file) => {
                let invalid = |reason| UnusableSecret { file: file.clone(), reason };
                read_file(file).map(|text| format!("{}{text}", self.prefix)).map_err(invalid)
            }
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Text(_) => f.write_str("Text(…)"),
            Place::File(file) => f.debug_tuple("File").field(file).finish(),
        }
    }
}

fn read_file(file: &Path) -> Result<String, String> {
    let unread = |e: std::io::Error| e.to_string();
    // Whoever opened a pipe would wait for its writer.
    if !std::fs::metadata(file).map_err(unread)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut bytes = Vec::new();
    let most = File::open(file).map_err(unread)?.take(FILE_BYTES + 1).read_to_end(&mut bytes);
    if most.map_err(unread)? as u64 > FILE_BYTES {
        return Err(format!("it has more than {FILE_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    match text.trim() {
        "" => Err("it is empty".to_owned()),
        text if text.contains('\0') => Err("it has a NUL in it".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// Reads a field that is a text, `{ file: PATH }` or `{ env: NAME }`, and looks whether the secret
/// is there.
pub(super) fn read(field: &Field<'_>) -> Option<SecretSource> {
    if !field.is_mapping() {
        return field.text().map(SecretSource::text);
    }
    let section = field.section();
    let prefix = section.find("prefix").map(|field| field.text());
    let place = match (section.find("file"), section.find("env")) {
        (Some(file), None) => file.text().map(|path| Place::File(PathBuf::from(path))),
        (None, Some(name)) => name.parse(of_environment),
        _ => {
            section.problem("needs one of `file: PATH` and `env: NAME`, or is a text itself");
            None
        }
    };
    section.finish();
    let prefix = prefix.unwrap_or_else(|| Some(String::new()))?;
    let secret = SecretSource { prefix, place: place? };
    secret.read().map_err(|e| field.problem(e.to_string())).ok()?;
    Some(secret)
}

fn of_environment(name: &str) -> Result<Place, String> {
    let value = variable(name).map(|value| value.trim().to_owned());
    let missing = || format!("the variable `{name}` is not set, is empty, or is not UTF-8");
    value.filter(|value| !value.is_empty()).map(Place::Text).ok_or_else(missing)
}

/// A variable of the gateway's environment.
pub(super) fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "this is a part of the configuration's reader")]
    std::env::var(name).ok()
}

/// Reads a field that is a mapping of names to secrets; empty if it is absent.
pub(super) fn pairs(field: Option<&Field<'_>>) -> BTreeMap<String, SecretSource> {
    let entries = field.map(Field::entries).unwrap_or_default();
    let entry = |(name, field): (String, Field<'_>)| read(&field).map(|secret| (name, secret));
    entries.into_iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    fn in_file(file: &Path) -> SecretSource {
        SecretSource { prefix: "Bearer ".to_owned(), place: Place::File(file.to_owned()) }
    }

    #[test]
    fn a_file_is_read_as_it_is_now_without_the_space_around_it() {
        let file = file(b" s3cret\n\n");
        let secret = in_file(file.path());
        assert_eq!(secret.read().unwrap(), "Bearer s3cret");
        std::fs::write(file.path(), "-----BEGIN\nother\n").unwrap();
        assert_eq!(secret.read().unwrap(), "Bearer -----BEGIN\nother");
        assert!(secret.may_change() && !SecretSource::text("x").may_change());
    }

    #[test]
    fn a_file_of_no_use_is_told_without_what_is_in_it() {
        let long = "x".repeat(64 * 1024 + 1);
        for (content, why) in [
            (&b" \n"[..], "empty"),
            (long.as_bytes(), "more than 65536 bytes"),
            (b"s3cret\xff", "not UTF-8"),
            (b"s3cret\0x", "NUL"),
        ] {
            let file = file(content);
            let told = in_file(file.path()).read().unwrap_err().to_string();
            assert!(told.contains(why) && !told.contains("s3cret"), "{told}");
        }
        for (path, why) in [("/nobody/has/this", "No such file"), ("/dev/zero", "no file")] {
            let told = in_file(Path::new(path)).read().unwrap_err().to_string();
            assert!(told.contains(path) && told.contains(why), "{told}");
        }
    }

    #[test]
    fn nothing_of_a_secret_is_printed() {
        let printed = format!("{:?}", SecretSource::text("s3cret"));
        assert_eq!(printed, "Text(…)");
        assert_eq!(format!("{:?}", in_file(Path::new("f"))), "File(\"f\")");
    }
}
