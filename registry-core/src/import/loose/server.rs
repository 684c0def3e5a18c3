//! The shape of a server: what it provides, as a list of names and versions.
//!
//! Deliberately absent: versions, and what its tools say.

use serde_json::{Value, json};

use super::{Entry, is_comment};
use crate::{document::pointer_join, import::Repairs};

impl Entry {
    pub(super) fn shape_server(&mut self, repairs: &mut Repairs) {
        self.rename(repairs, "tools", "provides");
        let at = self.at("provides");
        if let Some(Value::Object(named)) = self.map.get_mut("provides") {
            let provision = |(tool, said): (&String, &Value)| match said {
                Value::Object(fields) => {
                    let mut fields = fields.clone();
                    fields.entry("tool").or_insert_with(|| tool.as_str().into());
                    fields.into()
                }
                version => json!({ "tool": tool, "version": version }),
            };
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
            shape_provision(provision, &format!("{at}/{i}"), repairs);
        }
        let mut place = 0..;
        provides.retain(|provision| {
            let (i, is_named) = (place.next().unwrap_or_default(), provision["tool"].is_string());
            if !is_named && !provision.is_null() {
                let what = "an entry that names no tool";
                repairs.needed(format!("{at}/{i}"), what, "it was left out");
            }
            is_named
        });
    }
}

/// A tool that is provided, as `tool` and `version`.
fn shape_provision(provision: &mut Value, at: &str, repairs: &mut Repairs) {
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
            }
            map.retain(|name, value| {
                let is_known = matches!(name.as_str(), "tool" | "version");
                if !is_known && !is_comment(name) && !value.is_null() {
                    let at = pointer_join(at, name);
                    let what = "what a server provides has a tool and a version alone";
                    repairs.needed(at, what, "it was left out; the tool may say it");
                }
                is_known
            });
        }
        _ => {}
    }
}
