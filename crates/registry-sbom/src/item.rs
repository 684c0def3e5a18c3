//! An entity of a bill, independent of the format.

use registry_core::{
    catalog::{Catalog, Record},
    document::Digest,
    entity::{Agent, Entity, Implementation, Tool},
    lifecycle::{Lifecycle, Notice},
    reference::Key,
};
use serde_json::{Map, Value};

use crate::{
    bill::Bill,
    license::License,
    metadata::{Metadata, Supplier, TEXT_BYTES},
    purl,
    url::is_web_address,
};

#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) key: Key,
    pub(super) digest: Digest,
    pub(super) description: Option<String>,
    pub(super) license: Option<License>,
    pub(super) supplier: Option<Supplier>,
    pub(super) purl: String,
    pub(super) endpoints: Vec<String>,
    /// Whether callers must authenticate; `None` if unknown.
    pub(super) authenticated: Option<bool>,
    pub(super) repository: Option<String>,
    pub(super) website: Option<String>,
    /// Properties without a field in the formats, by name.
    pub(super) properties: Vec<(String, String)>,
}

impl Item {
    /// Converts a record.
    pub(super) fn new(bill: &Bill, record: &Record) -> Self {
        let catalog = &bill.catalog;
        // Parsed for this bill only, because a cached entity takes ten times the memory of its
        // bytes.
        let document = record.document.without_entity();
        let entity = document.entity();
        let metadata = Metadata(entity.metadata());
        let mut item = Self {
            key: document.key().clone(),
            digest: document.digest(),
            description: entity.description().map(str::to_owned),
            license: metadata.license(),
            supplier: metadata.supplier(),
            purl: purl::package_url(
                metadata,
                catalog.registry(),
                document.key(),
                document.digest(),
            ),
            endpoints: metadata.endpoints(),
            authenticated: None,
            repository: metadata.repository(),
            website: metadata.website(),
            properties: record_properties(catalog, record),
        };
        match entity {
            Entity::Tool(tool) => item.add_tool(tool),
            Entity::Agent(agent) => item.add_agent(agent),
            Entity::Schema(_) | Entity::Server(_) | Entity::Policy(_) => {}
        }
        for policy in &bill.policies {
            let Entity::Policy(rules) = policy.document.entity() else { continue };
            if bill.catalog.is_selected(&rules.applies_to, entity) {
                item.add("registry:policy", &policy.document.key().to_string());
            }
        }
        item.endpoints.sort_unstable();
        item.endpoints.dedup();
        item.properties.sort_unstable();
        item.properties.dedup();
        item
    }

    fn add_tool(&mut self, tool: &Tool) {
        if let Some(title) = &tool.title {
            self.add("registry:title", title);
        }
        match &tool.implementation {
            Implementation::Source(source) => self.add("registry:source-tool", &source.tool),
            Implementation::Spec(_) => self.add("registry:implementation", "composition"),
        }
        for (name, value) in tool.annotations.iter().flatten() {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                _ => continue,
            };
            self.add(&format!("mcp:annotation:{name}"), &value);
        }
    }

    fn add_agent(&mut self, agent: &Agent) {
        if is_web_address(&agent.url) {
            self.endpoints.push(agent.url.clone());
        }
        if let Some(provider) = &agent.provider {
            let provider = Supplier::new(&provider.organization, provider.url.as_deref());
            self.supplier = self.supplier.take().or(provider);
        }
        self.authenticated = requires_someone(&agent.security).then_some(true);
        self.add("a2a:protocol-version", &agent.protocol_version);
        for skill in &agent.skills {
            self.add("a2a:skill", &skill.id);
        }
    }

    /// Adds a property, unless it is too long or has control characters.
    fn add(&mut self, name: &str, value: &str) {
        let fits = |text: &str| text.len() <= TEXT_BYTES && !text.chars().any(char::is_control);
        if fits(name) && fits(value) && !value.is_empty() {
            self.properties.push((name.to_owned(), value.to_owned()));
        }
    }
}

/// Whether every alternative of the requirements names a scheme. An empty alternative allows
/// anonymous access.
fn requires_someone(security: &[Value]) -> bool {
    let names_one =
        |requirement: &Value| requirement.as_object().is_some_and(|r| !Map::is_empty(r));
    !security.is_empty() && security.iter().all(names_one)
}

fn record_properties(catalog: &Catalog, record: &Record) -> Vec<(String, String)> {
    let named = |name: &str, value: String| (format!("registry:{name}"), value);
    let Lifecycle { state, notice, .. } = &record.lifecycle;
    let mut found = vec![
        named("kind", record.document.key().kind.to_string()),
        named("owner", catalog.owner_of(record).to_owned()),
        named("registered-at", record.registered_at.to_string()),
        named("registered-revision", record.registered.to_string()),
        named("lifecycle", state.to_string()),
    ];
    if let Some(notice) = notice {
        let Notice { message, replacement, sunset_date, force_reason: _ } = &**notice;
        found.extend(message.iter().map(|text| named("lifecycle-message", text.clone())));
        found.extend(replacement.iter().map(|key| named("replacement", key.to_string())));
        found.extend(sunset_date.iter().map(|day| named("sunset", day.to_string())));
    }
    found
}
