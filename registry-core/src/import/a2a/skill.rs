//! The skills of a card.
//!
//! Deliberately absent: security of a single skill, for which the registry has no place.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Card, strings};
use crate::import::wording::{screened_members, worded, worded_schema};

/// What of a skill is looked at by itself.
const OWN: [&str; 4] = ["name", "description", "inputSchema", "outputSchema"];

impl Card<'_> {
    pub(super) fn skills(&mut self) -> Vec<Value> {
        let said = self.said.get("skills").and_then(Value::as_array);
        let mut ids = HashSet::new();
        let mut skills = Vec::new();
        for (i, skill) in said.into_iter().flatten().enumerate() {
            skills.extend(self.skill(skill, &format!("/skills/{i}"), &mut ids));
        }
        skills
    }

    fn skill(&mut self, said: &Value, pointer: &str, ids: &mut HashSet<String>) -> Option<Value> {
        let nothing = Map::new();
        let said = said.as_object().unwrap_or(&nothing);
        let said = screened_members(&mut self.repairs, said, pointer, &OWN);
        let text = |name: &str| said.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
        let Some(id) = text("id").or(text("name")) else {
            self.repairs.needed(pointer, "a skill without an id", "it was left out");
            return None;
        };
        if !ids.insert(id.to_owned()) {
            let what = "two skills with one id";
            self.repairs.needed(format!("{pointer}/id"), what, "only the first was taken");
            return None;
        }
        let mut skill = Map::new();
        let mut put = |name: &str, value: Value| skill.insert(name.to_owned(), value);
        put("id", id.into());
        for name in ["name", "description"] {
            let Some(words) = text(name) else {
                let at = format!("{pointer}/{name}");
                self.repairs.made(at, format!("the skill has no {name}"), "its id is used");
                put(name, id.into());
                continue;
            };
            let at = format!("{pointer}/{name}");
            put(name, worded(&mut self.repairs, words, &at, []).into());
        }
        for name in ["tags", "examples", "inputModes", "outputModes"] {
            put(name, strings(said.get(name)).into());
        }
        for name in ["inputSchema", "outputSchema"] {
            if let Some(schema @ (Value::Object(_) | Value::Bool(_))) = said.get(name) {
                let at = format!("{pointer}/{name}");
                put(name, worded_schema(&mut self.repairs, schema, &at));
            }
        }
        for name in ["security", "securityRequirements"] {
            if said.get(name).is_some_and(|value| !value.is_null()) {
                let at = format!("{pointer}/{name}");
                let what = "the registry has no place for the security of one skill";
                self.repairs.needed(at, what, "it was left out; put it into the agent's");
            }
        }
        Some(Value::Object(skill))
    }
}
