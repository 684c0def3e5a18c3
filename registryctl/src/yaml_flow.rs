//! Scalars in the flow style of YAML.

use serde_json::Value;

/// A string in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A name; in double quotes if YAML would read another type, as for `true`.
pub(crate) fn name(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let is_text = |text: &str| {
        serde_saphyr::from_str::<Value>(text).is_ok_and(|value| value.as_str() == Some(text))
    };
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let is_safe = starts_plain && text.chars().all(is_plain) && is_text(text);
    if is_safe { text.to_owned() } else { quoted(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_yaml_reads_other_types() {
        for plain in ["time", "io.github.ada/files", "TOKEN_2"] {
            assert_eq!(name(plain), plain);
        }
        for other in ["true", "null", "1.0", "7", "1e3", "a: b", "-", "~"] {
            assert_eq!(name(other), format!("\"{other}\""));
        }
    }
}
