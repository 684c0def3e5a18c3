//! A YAML document as a tree with line numbers.
//!
//! Serde's derived readers stop at the first error and report no paths.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;

/// A node and its first line.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: u64,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(String),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Value {
    /// A description for error messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Integer(value) => format!("the number {value}"),
            Self::Float(value) => format!("the number {value}"),
            // Omitted: it can be a misplaced secret.
            Self::Text(_) => "a text".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Parses one YAML document. An empty one is an empty mapping.
pub(super) fn parse(text: &str) -> Result<Node, serde_saphyr::Error> {
    // Emitted comments are limited to 32 before the first item of a block.
    let options = serde_saphyr::options! { emit_comments: false };
    let root = serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options)?;
    let node = Node::from(root);
    Ok(match node.value {
        Value::Null => Node { line: 1, value: Value::Map(Vec::new()) },
        _ => node,
    })
}

/// The remedy for a line that is not valid YAML because of an unquoted `*`.
pub(super) fn hint(line: &str) -> Option<&'static str> {
    let (mut quote, mut before) = (None, ' ');
    for character in line.chars() {
        let is_start = before.is_whitespace() || matches!(before, '[' | '{' | ',' | ':');
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') if is_start => quote = Some(character),
            (None, '#') if before.is_whitespace() => return None,
            (None, '*') if is_start => return Some("; an unquoted `*` is an alias, use `\"*\"`"),
            _ => {}
        }
        before = character;
    }
    None
}

impl From<Spanned<Value>> for Node {
    fn from(Spanned { value, referenced, defined: _ }: Spanned<Value>) -> Self {
        Self { line: referenced.line(), value }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::Integer(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value>>()? {
            list.push(item.into());
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((name, value)) = entries.next_entry::<String, Spanned<Value>>()? {
            map.push((name, value.into()));
        }
        Ok(Value::Map(map))
    }
}
