//! YAML: one document with the values of JSON.
//!
//! `yes` and `on` are strings, numbers are finite, keys are unique, and the parser bounds aliases. The
//! position of an alias is that of its use. Several documents in one file are not supported.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::{Options, Spanned, UserMessageFormatter, from_str_with_options};

use super::{Part, Position, SyntaxError, segments};

/// The depth limit of the parser.
const DEPTH: usize = 64;

/// Comments are not emitted, because the parser buffers at most 32 before the first item of a block.
fn options() -> Options {
    serde_saphyr::options! { strict_booleans: true, with_snippet: false, emit_comments: false }
}

pub(super) fn parse(text: &str) -> Result<Value, SyntaxError> {
    from_str_with_options(text, options()).map_err(|e| {
        let position = e.location().and_then(position);
        let reason = e.render_with_formatter(&UserMessageFormatter);
        // The position is printed separately.
        let reason = reason.split(" at line ").next().unwrap_or_default();
        let message = if reason.contains("Depth {") {
            format!("YAML nested deeper than {DEPTH} levels")
        } else {
            format!("not valid YAML: {reason}")
        };
        SyntaxError { position, message }
    })
}

pub(super) fn locate(text: &str, parts: &[(&str, Part)]) -> Vec<Option<Position>> {
    let Ok(root) = from_str_with_options::<Spanned<Node>>(text, options()) else {
        return vec![None; parts.len()];
    };
    parts.iter().map(|(pointer, part)| position(find(&root, pointer, *part))).collect()
}

fn position(location: serde_saphyr::Location) -> Option<Position> {
    let line = usize::try_from(location.line()).ok().filter(|line| *line > 0)?;
    let column = usize::try_from(location.column()).ok().filter(|column| *column > 0)?;
    Some(Position { line, column })
}

fn find(root: &Spanned<Node>, pointer: &str, part: Part) -> serde_saphyr::Location {
    let (mut node, mut key) = (root, None);
    for segment in segments(pointer) {
        let inner = match &node.value {
            Node::Scalar => None,
            Node::Items(items) => {
                let item = segment.parse::<usize>().ok().and_then(|i| items.get(i));
                item.map(|item| (None, item))
            }
            Node::Members(members) => members
                .iter()
                .find(|(name, _)| name.value == segment)
                .map(|(name, node)| (Some(name.referenced), node)),
        };
        match inner {
            Some(inner) => (key, node) = inner,
            None => return node.referenced,
        }
    }
    match (part, key) {
        (Part::Key, Some(location)) => location,
        _ => node.referenced,
    }
}

/// The structure of a value, with locations.
enum Node {
    Scalar,
    Items(Vec<Spanned<Node>>),
    Members(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shape)
    }
}

struct Shape;

impl<'de> Visitor<'de> for Shape {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::Items(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Node::Members(members))
    }
}
