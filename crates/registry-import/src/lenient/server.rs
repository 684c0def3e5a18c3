//! The shape of a server: `provides` is a list of tools and versions.

use schema_compat::pointer::pointer_join;
use serde_json::{Value, json};

use super::{Entry, is_comment};
use crate::Repairs;

impl Entry {
    pub(super) fn shape_server(&mut self, repairs: &mut Repairs) {
        self.rename(repairs, "tools", "provides");
        let at = self.at("provides");
        let all: Vec<_> = match self.map.remove("provides") {
            None => return,
            Some(Value::Array(all)) => {
                let all = all.into_iter().enumerate();
                all.map(|(i, provision)| (format!("{at}/{i}"), provision)).collect()
            }
            Some(Value::Object(named)) => {
                repairs.made(&at, "tools by their names, not as a list", "they are a list");
                named.into_iter().map(|(tool, said)| named_provision(&at, tool, said)).collect()
            }
            Some(_) => return repairs.needed(at, "`provides` is not a list", "it was left out"),
        };
        let mut provides = Vec::new();
        for (at, mut provision) in all {
            let is_renamed = shape_provision(&mut provision, &at, repairs);
            if provision["tool"].is_string() {
                let to = format!("/provides/{}", provides.len());
                self.origins.moved(&*to, &*at);
                if is_renamed {
                    self.origins.moved(format!("{to}/tool"), format!("{at}/name"));
                }
                provides.push(provision);
            } else if !provision.is_null() {
                repairs.needed(at, "an entry that names no tool", "it was left out");
            }
        }
        self.map.insert("provides".to_owned(), provides.into());
    }
}

/// An entry of `provides` for a tool name, with its place.
fn named_provision(at: &str, tool: String, said: Value) -> (String, Value) {
    let at = pointer_join(at, &tool);
    match said {
        Value::Object(mut fields) => {
            fields.entry("tool").or_insert_with(|| tool.into());
            (at, fields.into())
        }
        version => (at, json!({ "tool": tool, "version": version })),
    }
}

/// Converts an entry of `provides` to `tool` and `version`. Returns whether its `name` became the
/// `tool`.
fn shape_provision(provision: &mut Value, at: &str, repairs: &mut Repairs) -> bool {
    let mut is_renamed = false;
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
            if !map.contains_key("tool")
                && let Some(name) = map.remove("name")
            {
                repairs.made(
                    pointer_join(at, "name"),
                    "`name` is written `tool`",
                    "it was renamed",
                );
                map.insert("tool".to_owned(), name);
                is_renamed = true;
            }
            map.retain(|name, value| {
                let is_known = matches!(name.as_str(), "tool" | "version");
                if !is_known && !is_comment(name) && !value.is_null() {
                    let at = pointer_join(at, name);
                    let what = "an entry of `provides` has only a tool and a version";
                    repairs.needed(at, what, "it was left out; set it on the tool");
                }
                is_known
            });
        }
        _ => {}
    }
    is_renamed
}
