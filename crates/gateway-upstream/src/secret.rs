//! Secrets of targets: a text, or a file that is read at each use. No message contains a secret.

use std::{
    fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

/// Maximum size of a secret's file, in bytes.
const FILE_BYTES: u64 = 64 * 1024;

/// The source of a secret. Its `Debug` form omits the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretSource {
    /// The text before the secret, for instance `Bearer `.
    prefix: String,
    place: Place,
}

#[derive(Clone, PartialEq, Eq)]
enum Place {
    /// The secret itself, from the configuration or the environment.
    Text(String),
    File(PathBuf),
}

/// An unreadable or invalid secret file. The message omits its content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the secret file {}: {reason}", .file.display())]
pub struct SecretError {
    file: PathBuf,
    reason: String,
}

impl SecretSource {
    /// Creates a secret from its text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { prefix: String::new(), place: Place::Text(text.into()) }
    }

    /// Creates a secret that is read from a file at each use.
    pub fn file(path: PathBuf) -> Self {
        Self { prefix: String::new(), place: Place::File(path) }
    }

    /// Prepends a text, for instance `Bearer `.
    pub fn with_prefix(self, prefix: String) -> Self {
        Self { prefix, ..self }
    }

    /// Whether the secret can change while the gateway runs.
    pub(crate) fn may_change(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// Reads the current secret. Blocks.
    pub fn read(&self) -> Result<String, SecretError> {
        match &self.place {
            Place::Text(text) => Ok(format!("{}{text}", self.prefix)),
            Place::File(file) => {
                let invalid = |reason| SecretError { file: file.clone(), reason };
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
    // Opening a pipe blocks until a writer opens it.
    if !std::fs::metadata(file).map_err(unread)?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let most = File::open(file).map_err(unread)?.take(FILE_BYTES + 1).read_to_end(&mut bytes);
    if most.map_err(unread)? as u64 > FILE_BYTES {
        return Err(format!("the file exceeds {FILE_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())?;
    match text.trim() {
        "" => Err("the file is empty".to_owned()),
        text if text.contains('\0') => Err("the file contains a NUL character".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// Removes `user:password@` and the query from a URL. The text may be malformed, so everything before
/// the last `@` counts as credentials.
pub fn redact_url(text: &str) -> String {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    let shown = match text.rsplit_once('@') {
        Some((_, rest)) if scheme.is_empty() || scheme.contains('@') => rest.to_owned(),
        Some((_, rest)) => format!("{scheme}://{rest}"),
        None => text.to_owned(),
    };
    shown.split('?').next().unwrap_or_default().to_owned()
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
        SecretSource::file(file.to_owned()).with_prefix("Bearer ".to_owned())
    }

    #[test]
    fn secret_file_is_read_trimmed_at_each_use() {
        let file = file(b" s3cret\n\n");
        let secret = in_file(file.path());
        assert_eq!(secret.read().unwrap(), "Bearer s3cret");
        std::fs::write(file.path(), "-----BEGIN\nother\n").unwrap();
        assert_eq!(secret.read().unwrap(), "Bearer -----BEGIN\nother");
        assert!(secret.may_change() && !SecretSource::text("x").may_change());
    }

    #[test]
    fn invalid_secret_file_error_omits_content() {
        let long = "x".repeat(64 * 1024 + 1);
        for (content, why) in [
            (&b" \n"[..], "empty"),
            (long.as_bytes(), "exceeds 65536 bytes"),
            (b"s3cret\xff", "not UTF-8"),
            (b"s3cret\0x", "NUL"),
        ] {
            let file = file(content);
            let told = in_file(file.path()).read().unwrap_err().to_string();
            assert!(told.contains(why) && !told.contains("s3cret"), "{told}");
        }
        for (path, why) in
            [("/does/not/exist", "No such file"), ("/dev/zero", "not a regular file")]
        {
            let told = in_file(Path::new(path)).read().unwrap_err().to_string();
            assert!(told.contains(path) && told.contains(why), "{told}");
        }
    }

    #[test]
    fn secret_is_not_printed() {
        let printed = format!("{:?}", SecretSource::text("s3cret"));
        assert_eq!(printed, "Text(…)");
        assert_eq!(format!("{:?}", in_file(Path::new("f"))), "File(\"f\")");
    }
}
