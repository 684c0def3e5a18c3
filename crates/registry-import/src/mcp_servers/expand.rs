//! Variables in texts: `${NAME}`, `${NAME:-DEFAULT}` (Claude Code), `${env:NAME}`, `${userHome}` and
//! `${workspaceFolder}` (Cursor, VS Code).
//!
//! Every other `${`, such as the shell expansion `${line#prefix}`, is literal text.

use std::fmt;

/// The variable of the workspace folder. It is not a variable of the environment.
pub const WORKSPACE_FOLDER: &str = "workspaceFolder";

/// A text with its variables replaced. Its `Debug` form omits the value, which may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The text with the values of its variables.
    pub value: String,
    /// The text as written.
    pub written: String,
}

impl fmt::Debug for Expanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Expanded(…)")
    }
}

impl Expanded {
    /// The prefix and the variable of a text that ends with its only variable: `Bearer ${TOKEN}`.
    pub fn variable(&self) -> Option<(&str, &str)> {
        let (prefix, rest) = self.written.split_once("${")?;
        let name = rest.strip_suffix('}')?;
        let name = variable_name(name);
        (is_name(name) && name != WORKSPACE_FOLDER).then_some((prefix, name))
    }

    /// Whether the text has a variable.
    pub fn has_variable(&self) -> bool {
        next_reference(&self.written).is_some()
    }
}

/// Replaces the variables of a text.
pub(super) fn expand(
    written: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Expanded, String> {
    let (mut value, mut rest) = (String::with_capacity(written.len()), written);
    while let Some((before, reference, after)) = next_reference(rest) {
        value.push_str(before);
        value.push_str(&resolve(reference, variable)?);
        rest = after;
    }
    value.push_str(rest);
    Ok(Expanded { value, written: written.to_owned() })
}

fn resolve(reference: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    if let Some(name) = reference.strip_prefix("input:") {
        return Err(format!(
            "`${{input:{name}}}` is supported by VS Code only; write `${{NAME}}` and set the \
             environment variable NAME"
        ));
    }
    let (name, default) = name_and_default(reference);
    if name == WORKSPACE_FOLDER {
        return variable(name).ok_or_else(|| {
            "`${workspaceFolder}` is unknown here; write the path of the folder".to_owned()
        });
    }
    let value = variable(name).filter(|value| !value.is_empty() || default.is_none());
    value.or_else(|| default.map(str::to_owned)).ok_or_else(|| {
        format!(
            "the environment variable `{name}` is not set; set it, or write a default: \
             `${{{name}:-DEFAULT}}`"
        )
    })
}

/// The first variable of a text: the text before it, the reference between the braces, and the rest.
fn next_reference(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices("${").find_map(|(start, _)| {
        let (reference, after) = text[start + 2..].split_once('}')?;
        let is_input = reference.starts_with("input:");
        let is_variable = is_input || is_name(name_and_default(reference).0);
        is_variable.then_some((&text[..start], reference, after))
    })
}

fn name_and_default(reference: &str) -> (&str, Option<&str>) {
    let reference = variable_name(reference);
    match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    }
}

/// The text of a reference in the form of Claude Code.
fn variable_name(reference: &str) -> &str {
    match reference {
        "userHome" => "HOME",
        other => other.strip_prefix("env:").unwrap_or(other),
    }
}

/// Whether a text is the name of an environment variable.
fn is_name(text: &str) -> bool {
    let is_start = |character: char| character.is_ascii_alphabetic() || character == '_';
    text.starts_with(is_start) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
