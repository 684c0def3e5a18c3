//! The skills of a card.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Card, part::Part};

impl Card {
    pub(super) fn skills(&mut self, part: &mut Part) -> Vec<Value> {
        let mut ids = HashSet::new();
        let mut skills = Vec::new();
        for (at, said) in self.items(part, "skills", "id") {
            let to = format!("/skills/{}", skills.len());
            if let Some(skill) = self.skill(said, &at, &to, &mut ids) {
                self.origins.moved(to, at);
                skills.push(skill);
            }
        }
        skills
    }

    /// Takes a skill for this place of the agent.
    fn skill(
        &mut self,
        said: Value,
        at: &str,
        to: &str,
        ids: &mut HashSet<String>,
    ) -> Option<Value> {
        let whole = said.clone();
        let mut part = self.part(said, at.to_owned())?;
        let Some(id) = part.peek("id").or(part.peek("name")).map(str::to_owned) else {
            self.refuse(at, "a skill without an id", whole);
            return None;
        };
        if !ids.insert(id.clone()) {
            self.refuse(at, "a second skill with this id", whole);
            return None;
        }
        let mut skill = Map::new();
        for (name, instead) in [("id", "name"), ("name", "id"), ("description", "id")] {
            let text = self.text(&mut part, name).unwrap_or_else(|| {
                let how = format!("its {instead} is used");
                self.repairs.made(part.at(name), format!("the skill has no {name}"), how);
                id.clone()
            });
            skill.insert(name.to_owned(), text.into());
        }
        for name in ["tags", "examples", "inputModes", "outputModes"] {
            let texts = self.texts(&mut part, name, &format!("{to}/{name}"));
            skill.insert(name.to_owned(), texts.into());
        }
        // References to schemas of the same file can be strings.
        let is_schema = if self.is_live { is_schema } else { |_: &Value| true };
        for name in ["inputSchema", "outputSchema"] {
            let schema = self.value(&mut part, name, "a JSON Schema", is_schema);
            skill.extend(schema.map(|schema| (name.to_owned(), schema)));
        }
        for name in ["security", "securityRequirements"] {
            if let Some(value) = part.take(name) {
                let what = "the registry has no place for the security of one skill";
                self.refuse(&part.at(name), what, value);
            }
        }
        self.finish(part);
        Some(Value::Object(skill))
    }
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}
