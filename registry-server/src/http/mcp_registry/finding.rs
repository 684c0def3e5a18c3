//! Validation findings in the formats of the API.

use registry_core::Diagnostic;
use serde::Serialize;

use super::problem::Detail;

/// A finding of `/validate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Issue {
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
    message: String,
    severity: String,
    reference: String,
}

impl Issue {
    /// A body that is not JSON.
    pub(super) fn unreadable(message: String) -> Self {
        let (path, severity) = (String::new(), "error".to_owned());
        Self { kind: "json", path, message, severity, reference: "invalid-json".to_owned() }
    }
}

impl From<&Diagnostic> for Issue {
    fn from(found: &Diagnostic) -> Self {
        Self {
            kind: "schema",
            path: path(&found.pointer),
            message: message(found),
            severity: found.severity.to_string(),
            reference: found.code.to_string(),
        }
    }
}

impl From<&Diagnostic> for Detail {
    fn from(found: &Diagnostic) -> Self {
        let path = path(&found.pointer);
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        Self {
            code: found.code.to_string(),
            message: found.message.clone(),
            location: format!("body{dot}{path}"),
            pointer: found.pointer.clone(),
            help: found.help.clone(),
        }
    }
}

fn message(found: &Diagnostic) -> String {
    match &found.help {
        Some(help) => format!("{} ({help})", found.message),
        None => found.message.clone(),
    }
}

/// Formats a JSON pointer as a path, for example `packages[0].version`.
fn path(pointer: &str) -> String {
    let step = |segment: &str| {
        let name = segment.replace("~1", "/").replace("~0", "~");
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("[{name}]")
        } else if name.contains(['.', '/', '[', '"']) || name.is_empty() {
            format!("[{name:?}]")
        } else {
            format!(".{name}")
        }
    };
    let path: String = pointer.split('/').skip(1).map(step).collect();
    path.strip_prefix('.').map(str::to_owned).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn json_pointer_formats_as_path() {
        assert_eq!(path(""), "");
        assert_eq!(path("/packages/0/transport/url"), "packages[0].transport.url");
        assert_eq!(path("/_meta/a.b~1c/x"), "_meta[\"a.b/c\"].x");
    }
}
