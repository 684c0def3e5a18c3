//! The shape of a server: what it provides, as a list of names and versions.
//!
//! Deliberately absent: versions, and what its tools say.

use serde_json::{Value, json};

use super::Entry;
use crate::{document::pointer_join, import::Repairs};

impl Entry {
    pub(super) fn shape_server(&mut self, repairs: &mut Repairs) {
        self.rename(repairs, "tools", "provides");
        let at = self.at("provides");
        if let Some(Value::Object(named)) = self.map.get_mut("provides") {
            let provision = |(tool, version): (&String, &Value)| json!({ "tool": tool, "version": version.as_str() });
            let list: Vec<_> = named.iter().map(provision).collect();
            self.map.insert("provides".to_owned(), list.into());
            repairs.made(&at, "tools by their names, not as a list", "they are a list");
        }
        let Some(Value::Array(provides)) = self.map.get_mut("provides") else {
            if self.map.remove("provides").is_some() {
                repairs.needed(at, "`provides` is no list", "it was left out");
            }
            return;
        };
        for (i, provision) in provides.iter_mut().enumerate() {
            let at = format!("{at}/{i}");
            match provision {
                Value::String(text) => {
                    let (tool, version) = match text.split_once('@') {
                        Some((tool, version)) => (tool, Some(version)),
                        None => (text.as_str(), None),
                    };
                    *provision = json!({ "tool": tool, "version": version });
                    repairs.made(at, "a tool as a text", "it is `tool` and `version`");
                }
                Value::Object(map) => {
                    if let Some(name) = map.remove("name")
                        && !map.contains_key("tool")
                    {
                        repairs.made(
                            pointer_join(&at, "name"),
                            "`name` is written `tool`",
                            "it was renamed",
                        );
                        map.insert("tool".to_owned(), name);
                    }
                    map.retain(|name, _| matches!(name.as_str(), "tool" | "version"));
                }
                _ => {}
            }
        }
        provides.retain(|provision| provision["tool"].is_string());
    }
}
