//! The facts that a statement reads.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Purpose;

/// The facts that a statement reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// The paths of members of `context`. An empty path is the whole of it.
    context: BTreeSet<Vec<String>>,
    /// Whether it reads the caller.
    pub(super) caller: bool,
    /// The texts that it compares with `context.purpose`.
    purposes: BTreeSet<String>,
}

impl Reads {
    /// Reads the JSON form of a statement.
    pub(super) fn of(statement: &Value) -> Self {
        let caller = statement["principal"]["op"] != "All";
        let mut reads = Self { caller, ..Self::default() };
        reads.visit(&statement["conditions"]);
        reads
    }

    /// Whether it reads `context`.
    pub(super) fn has_context(&self) -> bool {
        !self.context.is_empty()
    }

    /// Whether it reads this member of `context`.
    pub(super) fn reads(&self, member: &str) -> bool {
        self.context.iter().any(|path| path.first().is_none_or(|first| first == member))
    }

    /// Whether each member of `context` that it reads begins with one of these paths.
    pub(super) fn is_within(&self, known: &[&[&str]]) -> bool {
        let is_known = |path: &Vec<String>| {
            known.iter().any(|known| {
                path.len() >= known.len()
                    && known.iter().zip(path).all(|(known, name)| known == name)
            })
        };
        self.context.iter().all(is_known)
    }

    /// The paths of the arguments. An empty path is the whole value.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &[String]> {
        self.context.iter().filter_map(|path| match path.as_slice() {
            [] => Some(&[][..]),
            [first, rest @ ..] if first == "arguments" => Some(rest),
            _ => None,
        })
    }

    /// The texts that it compares with `context.purpose` and that no call has.
    pub(super) fn unknown_purposes(&self) -> impl Iterator<Item = &str> {
        let purposes = self.purposes.iter().map(String::as_str);
        purposes.filter(|purpose| Purpose::parse(purpose).is_none())
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.context.extend(other.context.iter().cloned());
        self.caller |= other.caller;
        self.purposes.extend(other.purposes.iter().cloned());
    }

    fn visit(&mut self, node: &Value) {
        match node {
            Value::Array(items) => items.iter().for_each(|item| self.visit(item)),
            Value::Object(members) => {
                if let Some((variable, path)) = path_of(node) {
                    match variable {
                        "context" => {
                            self.context.insert(path);
                        }
                        "principal" => self.caller = true,
                        _ => {}
                    }
                    return;
                }
                for operands in ["==", "!=", "contains"].iter().filter_map(|one| members.get(*one))
                {
                    let (left, right) = (&operands["left"], &operands["right"]);
                    for (path, texts) in [(left, right), (right, left)] {
                        if path_of(path).is_some_and(is_purpose) {
                            self.purposes.extend(texts_of(texts));
                        }
                    }
                }
                members.values().for_each(|value| self.visit(value));
            }
            _ => {}
        }
    }
}

fn is_purpose((variable, path): (&str, Vec<String>)) -> bool {
    variable == "context" && path == ["purpose"]
}

/// The value of a text, or the texts of a set.
fn texts_of(node: &Value) -> Vec<String> {
    match (&node["Value"], &node["Set"]) {
        (Value::String(text), _) => vec![text.clone()],
        (Value::Array(texts), _) => {
            texts.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        (_, Value::Array(items)) => items.iter().flat_map(texts_of).collect(),
        _ => Vec::new(),
    }
}

/// The variable and members of an expression such as `context.arguments.amount`.
fn path_of(node: &Value) -> Option<(&str, Vec<String>)> {
    if let Some(variable) = node.get("Var") {
        return Some((variable.as_str()?, Vec::new()));
    }
    let access = node.get(".").or_else(|| node.get("has"))?;
    let (variable, mut path) = path_of(access.get("left")?)?;
    match access.get("attr")? {
        Value::String(name) => path.push(name.clone()),
        Value::Array(names) => {
            path.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        _ => return None,
    }
    Some((variable, path))
}
