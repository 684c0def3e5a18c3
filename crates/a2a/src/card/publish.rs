//! The card that the gateway serves for an agent.

use serde_json::{Value, json};

use super::{Card, Interface, InvalidCard};
use crate::{hidden::Hidden, json::Object, legacy};

/// The members of a served card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// The members of 0.3.
    V03,
    /// The members of 1.0.
    V1,
    /// The members of both, for clients that do not send their version.
    Combined,
}

/// The gateway as it appears in place of the agent.
#[derive(Debug, Clone, Default)]
pub struct Facade {
    /// The interfaces of the gateway, the preferred one first.
    pub interfaces: Vec<Interface>,
    /// Whether the gateway forwards streams.
    pub streaming: bool,
    /// Whether the gateway forwards push notifications.
    pub push_notifications: bool,
    /// Whether the gateway serves an extended card.
    pub extended_card: bool,
    /// The security schemes of the gateway in the form of 1.0.
    pub security_schemes: Object,
    /// The security requirements of the gateway in the form of 1.0.
    pub security_requirements: Vec<Value>,
    /// Further addresses of the agent that the card must not contain: URLs or hosts.
    pub hidden: Vec<String>,
}

impl Card {
    /// The card with the interfaces, the security and the capabilities of the gateway. It has no
    /// signature, and no member contains an address of the agent: links are removed, and other
    /// texts have the host of the gateway.
    pub fn publish(&self, facade: &Facade, shape: Shape) -> Result<Value, InvalidCard> {
        let mut addresses = facade.hidden.clone();
        addresses.extend(self.interfaces().into_iter().map(|interface| interface.url));
        // Interfaces of unknown bindings are addresses too.
        let all = legacy::card::interfaces(self.members());
        addresses.extend(all.iter().filter_map(|found| Some(found["url"].as_str()?.to_owned())));
        let own = facade.interfaces.first().ok_or(InvalidCard::NoInterface)?;
        let hidden = Hidden::new(&addresses, &own.url);

        let capabilities = self.capabilities();
        let Value::Object(mut card) = self.to_v1()? else { return Err(InvalidCard::NotAnObject) };
        for name in ["supportedInterfaces", "securitySchemes", "securityRequirements"] {
            card.remove(name);
        }
        for skill in card.get_mut("skills").and_then(Value::as_array_mut).into_iter().flatten() {
            skill.as_object_mut().map(|skill| skill.remove("securityRequirements"));
        }
        let mut card = Value::Object(card);
        hidden.remove_from(&mut card);
        card["supportedInterfaces"] = facade.interfaces.iter().map(Value::from).collect();
        if !facade.security_schemes.is_empty() {
            card["securitySchemes"] = facade.security_schemes.clone().into();
        }
        if !facade.security_requirements.is_empty() {
            card["securityRequirements"] = facade.security_requirements.clone().into();
        }
        if !card["capabilities"].is_object() {
            card["capabilities"] = json!({});
        }
        let flags = [
            ("streaming", capabilities.streaming && facade.streaming),
            ("pushNotifications", capabilities.push_notifications && facade.push_notifications),
            ("extendedAgentCard", capabilities.extended_card && facade.extended_card),
        ];
        if let Some(known) = card["capabilities"].as_object_mut() {
            // False is the default, and default values make signatures ambiguous.
            known.retain(|name, _| flags.iter().all(|(flag, _)| name != flag));
            known.remove("stateTransitionHistory");
            known.retain(|_, value| *value != json!([]));
            let set = flags.into_iter().filter(|(_, is_set)| *is_set);
            known.extend(set.map(|(name, _)| (name.to_owned(), true.into())));
        }
        let card = without_defaults(card);
        Ok(match shape {
            Shape::V1 => card,
            Shape::V03 => legacy::card::to_v03(card)?,
            Shape::Combined => {
                let mut both = legacy::card::to_v03(card.clone())?;
                merge(&mut both, card);
                both
            }
        })
    }
}

/// Removes optional members with default values of the card and its skills, and fills required
/// texts that are empty, because the rules for signatures of default values contradict each other.
fn without_defaults(mut card: Value) -> Value {
    let is_default = |value: &Value| {
        value.is_null() || *value == json!([]) || *value == json!("") || *value == json!(false)
    };
    let skills = card.get_mut("skills").and_then(Value::as_array_mut).into_iter().flatten();
    for skill in skills.filter_map(Value::as_object_mut) {
        skill.retain(|name, value| {
            matches!(name.as_str(), "description" | "tags") || !is_default(value)
        });
        let id = skill.get("id").cloned().unwrap_or_default();
        let name = skill.get("name").cloned().filter(Value::is_string).unwrap_or(id.clone());
        fill(skill, "description", name);
        fill(skill, "tags", json!([id]));
    }
    let extensions = card["capabilities"].get_mut("extensions").and_then(Value::as_array_mut);
    for extension in extensions.into_iter().flatten().filter_map(Value::as_object_mut) {
        extension.retain(|_, value| !is_default(value));
    }
    if let Some(card) = card.as_object_mut() {
        let required =
            ["description", "version", "defaultInputModes", "defaultOutputModes", "skills"];
        card.retain(|name, value| required.contains(&name.as_str()) || !is_default(value));
        let name = card.get("name").cloned().unwrap_or_default();
        fill(card, "description", name);
        fill(card, "version", json!("0"));
        fill(card, "defaultInputModes", json!(["text/plain"]));
        fill(card, "defaultOutputModes", json!(["text/plain"]));
        card.entry("skills").or_insert_with(|| json!([]));
    }
    card
}

fn fill(object: &mut Object, name: &str, with: Value) {
    let is_empty = match object.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    if is_empty {
        object.insert(name.to_owned(), with);
    }
}

/// Adds members that are missing, also in nested objects and in items of lists of equal length.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                match into.get_mut(&name) {
                    Some(known) => merge(known, value),
                    None => drop(into.insert(name, value)),
                }
            }
        }
        (Value::Array(into), Value::Array(from)) if into.len() == from.len() => {
            into.iter_mut().zip(from).for_each(|(into, from)| merge(into, from));
        }
        _ => {}
    }
}
