//! Cards: the members of 0.3 and of 1.0.

use serde_json::{Value, json};

use super::{Translated, items as each, object, security};
use crate::{
    json::{Object, filled, items, rename},
    untranslatable::{Problem, Untranslatable},
    version::Version,
};

/// The version in the cards of 0.3.
const PROTOCOL_VERSION: &str = "0.3.0";
const DEFAULT_TRANSPORT: &str = "JSONRPC";

/// All interfaces as members of `supportedInterfaces`, unchecked: these first, then `url` and
/// `additionalInterfaces`.
pub(crate) fn interfaces(card: &Object) -> Vec<Value> {
    let mut interfaces = items(card, "supportedInterfaces").to_vec();
    let version = filled(card, "protocolVersion").unwrap_or(PROTOCOL_VERSION);
    let mut add = |url: Option<&str>, transport: Option<&str>| {
        let Some(url) = url else { return };
        let binding = transport.unwrap_or(DEFAULT_TRANSPORT);
        let is_known = |known: &Value| known["url"] == url && known["protocolBinding"] == binding;
        if !interfaces.iter().any(is_known) {
            interfaces.push(
                json!({ "url": url, "protocolBinding": binding, "protocolVersion": version }),
            );
        }
    };
    add(filled(card, "url"), filled(card, "preferredTransport"));
    for found in items(card, "additionalInterfaces").iter().filter_map(Value::as_object) {
        add(filled(found, "url"), filled(found, "transport"));
    }
    interfaces
}

/// The members of 1.0. Flows of OAuth beyond the first are lost, because 1.0 has one per scheme.
pub(crate) fn to_v1(value: Value) -> Translated<Value> {
    let mut card = object(value)?;
    let all = interfaces(&card);
    for name in ["url", "preferredTransport", "additionalInterfaces", "protocolVersion"] {
        card.remove(name);
    }
    if !all.is_empty() {
        card.insert("supportedInterfaces".to_owned(), all.into());
    }
    if let Some(extended) = card.remove("supportsAuthenticatedExtendedCard") {
        let capabilities = card.entry("capabilities").or_insert_with(|| json!({}));
        if let Some(capabilities) = capabilities.as_object_mut() {
            capabilities.entry("extendedAgentCard").or_insert(extended);
        }
    }
    requirements_to_v1(&mut card);
    if let Some(Value::Object(schemes)) = card.get_mut("securitySchemes") {
        schemes.values_mut().for_each(security::scheme_to_v1);
    }
    each(&mut card, "skills", |skill| {
        let mut skill = object(skill)?;
        requirements_to_v1(&mut skill);
        Ok(skill.into())
    })?;
    Ok(card.into())
}

fn requirements_to_v1(object: &mut Object) {
    let Some(security) = object.remove("security") else { return };
    // A card with the members of both has the same requirements twice.
    if !object.contains_key("securityRequirements") {
        let requirements = security.as_array().into_iter().flatten();
        let requirements: Vec<_> = requirements.map(security::requirement_to_v1).collect();
        object.insert("securityRequirements".to_owned(), requirements.into());
    }
}

/// The members of 0.3, with the interfaces of 0.3 only.
pub(crate) fn to_v03(value: Value) -> Translated<Value> {
    let mut card = object(value)?;
    let all = card.remove("supportedInterfaces").unwrap_or_default();
    let version = |interface: &Value| Version::of_interface(interface["protocolVersion"].as_str());
    let old = all.as_array().into_iter().flatten();
    let mut old = old.filter(|interface| version(interface) == Some(Version::V03));
    let first = old.next().ok_or_else(|| {
        Untranslatable::new(Problem::Inexpressible("a card without an interface of 0.3"))
            .at("supportedInterfaces")
    })?;
    let binding = |interface: &Value| match &interface["protocolBinding"] {
        Value::String(binding) => binding.as_str().into(),
        _ => Value::from(DEFAULT_TRANSPORT),
    };
    card.insert("url".to_owned(), first["url"].clone());
    card.insert("preferredTransport".to_owned(), binding(first));
    card.insert("protocolVersion".to_owned(), PROTOCOL_VERSION.into());
    let others: Vec<_> = old
        .map(|interface| json!({ "url": interface["url"], "transport": binding(interface) }))
        .collect();
    if !others.is_empty() {
        card.insert("additionalInterfaces".to_owned(), others.into());
    }
    let capabilities = card.get_mut("capabilities").and_then(Value::as_object_mut);
    if let Some(extended) = capabilities.and_then(|c| c.remove("extendedAgentCard")) {
        card.insert("supportsAuthenticatedExtendedCard".to_owned(), extended);
    }
    requirements_to_v03(&mut card);
    if let Some(Value::Object(schemes)) = card.get_mut("securitySchemes") {
        schemes.values_mut().for_each(security::scheme_to_v03);
    }
    each(&mut card, "skills", |skill| {
        let mut skill = object(skill)?;
        requirements_to_v03(&mut skill);
        Ok(skill.into())
    })?;
    Ok(card.into())
}

fn requirements_to_v03(object: &mut Object) {
    rename(object, "securityRequirements", "security");
    if let Some(Value::Array(requirements)) = object.get_mut("security") {
        for requirement in requirements {
            if let Some(translated) = security::requirement_to_v03(requirement) {
                *requirement = translated;
            }
        }
    }
}
