//! Inputs of a package or remote: arguments, environment variables, headers and variables.

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{warn_unknown, word};
use crate::decode::{Fields, Problems};

/// A list of command-line arguments.
pub(super) fn arguments(fields: &Fields<'_>, name: &'static str) {
    let problems = fields.problems();
    fields.list(name, |value, at| argument(problems, value, at));
}

fn argument(problems: &Problems, value: &Value, at: Location<'_>) -> Option<()> {
    let fields = problems.object(value, at)?;
    fields.require("type");
    word(&fields, "type", &["positional", "named"]);
    fields.optional_bool("isRepeated");
    if fields.get("type")?.as_str() == Some("named") {
        let name = fields.required_string("name").unwrap_or_else(|| "-".to_owned());
        if name.is_empty() || name.contains(['<', '>', ' ', '$']) {
            let help = "write only the flag, like `--port`, and its value in `value`";
            problems.invalid(at.member("name"), format!("`{name}` is not a flag"), help);
        }
    } else {
        fields.optional_string("valueHint");
        if fields.get("valueHint").is_none() && fields.get("value").is_none() {
            let message = "a positional argument needs `value` or `valueHint`";
            problems.invalid(at, message, "add one of them");
        }
    }
    input(&fields);
    variables(&fields);
    warn_unknown(&fields);
    Some(())
}

/// A list of named values: environment variables or headers.
pub(super) fn inputs(fields: &Fields<'_>, name: &'static str) {
    let problems = fields.problems();
    fields.list(name, |value, at| {
        let fields = problems.object(value, at)?;
        fields.required_string("name");
        input(&fields);
        variables(&fields);
        warn_unknown(&fields);
        Some(())
    });
}

/// Variables that values may refer to in braces.
pub(super) fn variables(fields: &Fields<'_>) {
    let (problems, at) = (fields.problems(), fields.at("variables"));
    let Some(value) = fields.get("variables") else { return };
    if problems.object(value, at).is_none() {
        return;
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        if let Some(fields) = problems.object(value, at.member(name)) {
            input(&fields);
            warn_unknown(&fields);
        }
    }
}

fn input(fields: &Fields<'_>) {
    for name in ["description", "value", "default", "placeholder"] {
        fields.optional_string(name);
    }
    for name in ["isRequired", "isSecret"] {
        fields.optional_bool(name);
    }
    word(fields, "format", &["string", "number", "boolean", "filepath"]);
    fields.strings("choices");
}
