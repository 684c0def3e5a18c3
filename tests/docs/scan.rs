//! Reads parts of Rust sources.

use std::{collections::BTreeSet, fs, path::Path};

/// The texts of the Rust files below these directories, without tests, sorted by path.
pub(crate) fn sources(directories: &[&str]) -> Vec<String> {
    let mut paths = BTreeSet::new();
    for directory in directories {
        collect(directory, &mut paths);
    }
    assert!(!paths.is_empty(), "no sources in {directories:?}");
    paths.into_iter().map(read).collect()
}

fn collect(path: &str, found: &mut BTreeSet<String>) {
    let full = acceptance::root().join(path);
    if full.is_dir() {
        let entries = fs::read_dir(&full).unwrap_or_else(|e| panic!("{path}: {e}"));
        for entry in entries {
            let name = entry.expect("a directory entry").file_name();
            collect(&format!("{path}/{}", name.to_str().expect("a UTF-8 name")), found);
        }
    } else if Path::new(path).extension().is_some_and(|end| end == "rs")
        && !path.contains("/tests/")
        && !path.ends_with("tests.rs")
    {
        found.insert(path.to_owned());
    }
}

/// The content of a file without its inline tests.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let text = fs::read_to_string(acceptance::root().join(path));
    let text = text.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
}

/// The arguments up to the parenthesis that ends a call.
pub(crate) fn arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    let (mut in_string, mut escaped) = (false, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                found.push(text[start..at].trim());
                found.retain(|argument| !argument.is_empty());
                return found;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    panic!("a call without an end: {}", text.chars().take(80).collect::<String>());
}

/// The words that a `match` maps to, in the order of the file: `… => "word"`.
pub(crate) fn words(text: &str) -> Vec<String> {
    let parts = text.split("=>").skip(1);
    let literals = parts.filter_map(|part| {
        part.trim_start_matches([' ', '\n', '{']).strip_prefix('"')?.split('"').next()
    });
    literals.map(str::to_owned).collect()
}

/// The body of a function.
pub(crate) fn function<'a>(text: &'a str, signature: &str) -> &'a str {
    let (_, rest) = text.split_once(signature).unwrap_or_else(|| panic!("no {signature}"));
    let end = rest.find("\n    }\n").or_else(|| rest.find("\n}\n"));
    &rest[..end.unwrap_or(rest.len())]
}

#[test]
fn arguments_end_at_their_parenthesis() {
    let text = r#"A, "a, (b\"", f(1, 2)); g(3)"#;
    assert_eq!(arguments(text), ["A", r#""a, (b\"""#, "f(1, 2)"]);
}
