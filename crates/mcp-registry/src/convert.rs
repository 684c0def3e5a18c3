//! Conversion between a `server.json` and a server entity.
//!
//! A manually registered entity need not conform to the format. Invalid parts are truncated or
//! omitted, so that clients always receive a valid document.

use registry_core::{
    decode::Problems,
    diagnostic::Diagnostic,
    entity::Server,
    kind::Kind,
    limits,
    name::Name,
    server_json::{self, METADATA_KEY},
};
use schema_compat::pointer::Location;
use serde_json::{Map, Value};

use crate::detail::{SCHEMA, ServerDetail};

impl ServerDetail {
    /// The entity that stores this document. Parsing has checked the name.
    pub fn to_server(&self) -> Option<Server> {
        let ServerDetail { name, description, version, more } = self;
        let rest = Value::Object(more.clone());
        let metadata = Map::from_iter([(METADATA_KEY.to_owned(), rest)]);
        Some(Server {
            name: Name::parse(Kind::Server, name).ok()?,
            version: version.clone(),
            description: Some(description.clone()),
            provides: Vec::new(),
            exposes: Vec::new(),
            metadata: Some(metadata).filter(|_| !more.is_empty()),
        })
    }

    /// The document of an entity with its served name.
    pub fn from_server(server: &Server, name: &str) -> Self {
        let rest = server.metadata.as_ref().and_then(|metadata| metadata.get(METADATA_KEY));
        let mut more: Map<_, _> = rest.and_then(Value::as_object).map(fitting).unwrap_or_default();
        more.insert("$schema".to_owned(), SCHEMA.into());
        Self {
            name: name.to_owned(),
            description: description(server),
            version: server.version.clone(),
            more,
        }
    }
}

/// The description shown to clients.
pub(super) fn description(server: &Server) -> String {
    let text = server.description.as_deref().unwrap_or_default();
    match text.trim() {
        "" => shortened(&format!("MCP server {}", server.name), limits::MCP_TEXT_CHARACTERS),
        _ => shortened(text, limits::MCP_TEXT_CHARACTERS),
    }
}

/// The members that are valid.
fn fitting(rest: &Map<String, Value>) -> Map<String, Value> {
    let check = |(name, value): (&String, &Value)| {
        let own = ["$schema", "name", "description", "version"];
        if own.contains(&name.as_str()) {
            return None;
        }
        let Some((_, check)) = server_json::PARTS.iter().find(|(part, _)| part == name) else {
            return Some((name.clone(), server_json::without_nulls(value)?));
        };
        let problems = Problems::default();
        let kept = check(&problems, value, Location::ROOT);
        let is_valid = !problems.into_vec().iter().any(Diagnostic::is_error);
        Some((name.clone(), kept.filter(|_| is_valid)?))
    };
    rest.iter().filter_map(check).collect()
}

/// A text of at most this many characters, truncated between words.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((end, _)) = text.char_indices().nth(most - 1) else { return text };
    if text.chars().count() <= most {
        return text;
    }
    let head = &text[..end];
    let is_between = text[end..].starts_with(' ');
    let cut = if is_between { Some(head) } else { head.rsplit_once(' ').map(|(words, _)| words) };
    let words = cut.unwrap_or(head).trim_end_matches([' ', ',', ';', ':', '.', '-']);
    format!("{words}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_truncates_between_words() {
        assert_eq!(shortened("as it is", 8), "as it is");
        assert_eq!(shortened("one two three", 9), "one two…");
        assert_eq!(shortened("one two three", 8), "one two…");
        assert_eq!(shortened("one two, three", 10), "one two…");
        assert_eq!(shortened("äöüäöüäöü", 4), "äöü…");
        assert_eq!(shortened("a   b\n\nc", 5), "a b c");
    }
}
