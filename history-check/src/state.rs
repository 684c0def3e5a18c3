//! The state of a registry after a revision, and the application of a commit from its JSON form.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An entity in the format of the cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// Kind, name and version: `tool/fetch@1.0.0`.
    pub key: String,
    /// The digest of its document.
    pub digest: String,
    /// The owner at registration.
    pub owner: String,
    /// The revision of the registration.
    pub registered: u64,
    /// The time of the registration.
    pub registered_at: String,
    /// The lifecycle; absent if active since registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
}

/// The lifecycle of an entity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// `active`, `deprecated` or `retired`.
    pub state: String,
    /// The notice of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Value>,
    /// The revision of the last change.
    pub revision: u64,
    /// The time of the last change.
    pub changed_at: String,
}

/// Settings of a selector in the format of the cache.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingState {
    /// The selector.
    pub target: String,
    /// Whether new versions are rejected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// The owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The compatibility mode of new versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// The revision of the last change.
    pub revision: u64,
}

/// Entities by their keys.
pub type Entities = BTreeMap<String, Arc<Entity>>;

/// The state of a registry after a revision.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// The entities.
    pub entities: Entities,
    /// The settings by selector.
    pub settings: BTreeMap<String, SettingState>,
}

impl Entity {
    /// Whether the entity is neither deprecated nor retired.
    pub fn is_active(&self) -> bool {
        self.state() == "active"
    }

    /// Its lifecycle state.
    pub fn state(&self) -> &str {
        self.lifecycle.as_ref().map_or("active", |lifecycle| &lifecycle.state)
    }
}

/// The reason that a commit cannot be applied.
pub type ApplyError = String;

impl State {
    /// The settings of the names of these entities, which a scoped state has.
    pub fn settings_of(&self, entities: &Entities) -> BTreeMap<String, SettingState> {
        let names: BTreeSet<&str> =
            entities.keys().filter_map(|key| Some(key.rsplit_once('@')?.0)).collect();
        let settings = self.settings.iter().filter(|(target, _)| names.contains(target.as_str()));
        settings.map(|(target, set)| (target.clone(), set.clone())).collect()
    }

    /// The state after one more commit.
    pub fn after(&self, commit: &Value) -> Result<Self, ApplyError> {
        let mut next = self.clone();
        let revision = commit["revision"].as_u64().ok_or("a commit without a revision")?;
        let at = text(commit, "committedAt")?;
        for change in commit["changes"].as_array().ok_or("a commit without changes")? {
            let key = key_of(change)?;
            let action = text(change, "action")?;
            if action == "register" {
                let entity = registered(&key, change, commit)?;
                if next.entities.insert(key.clone(), Arc::new(entity)).is_some() {
                    return Err(format!("it registers {key} again"));
                }
                continue;
            }
            let held = next.entities.get_mut(&key);
            let held = held.ok_or_else(|| format!("it changes {key}, which does not exist"))?;
            Arc::make_mut(held).lifecycle = Some(Lifecycle {
                state: state_after(&action)?.to_owned(),
                notice: notice(change),
                revision,
                changed_at: at.clone(),
            });
        }
        for change in commit["settings"].as_array().into_iter().flatten() {
            next.set(change, revision)?;
        }
        Ok(next)
    }

    fn set(&mut self, change: &Value, revision: u64) -> Result<(), ApplyError> {
        let target = text(change, "target")?;
        let set = self.settings.entry(target.clone()).or_default();
        (set.target, set.revision) = (target, revision);
        if let Some(archived) = change.get("archived") {
            set.archived = archived.as_bool().unwrap_or_default();
        }
        if let Some(owner) = change.get("owner") {
            set.owner = owner.as_str().map(str::to_owned);
        }
        if let Some(mode) = change.get("compatibility") {
            set.compatibility = mode.as_str().map(str::to_owned);
        }
        Ok(())
    }
}

/// The key of a commit's change.
pub fn key_of(change: &Value) -> Result<String, ApplyError> {
    let (kind, name) = (text(change, "kind")?, text(change, "name")?);
    Ok(format!("{kind}/{name}@{}", text(change, "version")?))
}

/// The lifecycle state after an action.
pub fn state_after(action: &str) -> Result<&'static str, ApplyError> {
    match action {
        "register" | "restore" => Ok("active"),
        "deprecate" => Ok("deprecated"),
        "retire" => Ok("retired"),
        other => Err(format!("the action `{other}` is unknown")),
    }
}

fn registered(key: &str, change: &Value, commit: &Value) -> Result<Entity, ApplyError> {
    let owner = change.get("owner").unwrap_or(&commit["author"]);
    Ok(Entity {
        key: key.to_owned(),
        digest: text(change, "digest")?,
        owner: owner.as_str().unwrap_or_default().to_owned(),
        registered: commit["revision"].as_u64().unwrap_or_default(),
        registered_at: text(commit, "committedAt")?,
        lifecycle: None,
    })
}

/// The members of a change other than key and action.
fn notice(change: &Value) -> Option<Value> {
    let mut said: Map<String, Value> = change.as_object()?.clone();
    said.retain(|name, _| !["kind", "name", "version", "action"].contains(&name.as_str()));
    (!said.is_empty()).then_some(Value::Object(said))
}

fn text(value: &Value, name: &str) -> Result<String, ApplyError> {
    let text = value[name].as_str().ok_or_else(|| format!("`{name}` is missing in {value}"))?;
    Ok(text.to_owned())
}
