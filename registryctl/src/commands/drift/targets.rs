//! Targets from arguments and from the configuration of a gateway.

use registry_core::{Catalog, Key, Kind, LifecycleState, Name, Version};
use serde_json::Value;

use crate::{
    cli::{
        DriftArgs, LiveTarget,
        live::{Header, LiveArgs, Variable},
    },
    failure::Failure,
    input::{Source, SyntaxError},
    live::{Endpoint, Target},
};

/// The version of a target for all versions.
const ANY: &str = "*";

/// A live server or agent.
pub(super) struct DriftTarget {
    pub(super) kind: Kind,
    name: Name,
    /// The registered version that it serves. `None`: every version without its own target.
    version: Option<Version>,
    pub(super) live: Target,
    /// The URL, if the target has one.
    pub(super) url: String,
}

impl DriftTarget {
    /// The name in results, such as `server/files@*`.
    pub(super) fn label(&self) -> String {
        let version = self.version.as_ref().map_or_else(|| ANY.to_owned(), Version::to_string);
        format!("{}/{}@{version}", self.kind, self.name)
    }

    /// The registered versions that it serves.
    pub(super) fn served(&self, catalog: &Catalog, all: &[Self]) -> Vec<Key> {
        if let Some(version) = &self.version {
            return vec![Key::new(self.kind, self.name.clone(), version.clone())];
        }
        let has_own = |key: &Key| {
            let is_own = |other: &Self| other.version.as_ref() == Some(&key.version);
            all.iter().any(|o| (o.kind, &o.name) == (key.kind, &key.name) && is_own(o))
        };
        let versions = catalog.versions(self.kind, &self.name);
        let served = versions.filter(|(key, record)| {
            record.lifecycle.state != LifecycleState::Retired && !has_own(key)
        });
        served.map(|(key, _)| key.clone()).collect()
    }
}

/// All targets, those of the command line first.
pub(super) fn collect(args: &DriftArgs) -> Result<Vec<DriftTarget>, Failure> {
    let mut targets = Vec::new();
    for LiveTarget { server, address } in &args.targets {
        let endpoint = match address.strip_prefix("stdio:") {
            Some(command) if server.kind == Kind::Server => Endpoint::command(command)?,
            _ => Endpoint::url(address)?,
        };
        let (name, version) = (server.name.clone(), Some(server.version.clone()));
        let live = Target::new(endpoint, &args.reach)?;
        targets.push(DriftTarget { kind: server.kind, name, version, live, url: address.clone() });
    }
    if let Some(path) = &args.config {
        let source = Source::read(path)?;
        let invalid = |reason: String| Failure::File { action: "use", path: path.clone(), reason };
        let config = source.value().map_err(|SyntaxError { message, .. }| invalid(message))?;
        let Some(Value::Array(configured)) = config.get("targets") else {
            return Err(invalid("the file has no list `targets`".to_owned()));
        };
        for (i, target) in configured.iter().enumerate() {
            let target = configured_target(target, &args.reach);
            targets.push(target.map_err(|reason| invalid(format!("targets[{i}]: {reason}")))?);
        }
    }
    Ok(targets)
}

fn configured_target(item: &Value, reach: &LiveArgs) -> Result<DriftTarget, String> {
    let text = |name: &str| item[name].as_str().ok_or_else(|| format!("`{name}` is not a string"));
    let (kind, name) = match item["agent"].as_str() {
        Some(agent) => (Kind::Agent, agent),
        None => (Kind::Server, text("server")?),
    };
    let name = Name::parse(kind, name).map_err(|e| e.to_string())?;
    let version = match text("version")? {
        ANY => None,
        exact => Some(Version::parse(exact).map_err(|e| e.to_string())?),
    };
    let mut reach = reach.clone();
    let endpoint = if let Some(url) = item["http"].as_str() {
        reach.header.extend(pairs(&item["headers"]).map(|(name, value)| Header { name, value }));
        Endpoint::url(url)
    } else {
        let child = &item["stdio"];
        let command = child["command"].as_str().ok_or("neither `http` nor `stdio` is set")?;
        let args = child["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        reach.env.extend(pairs(&child["env"]).map(|(name, value)| Variable { name, value }));
        if let Some(cwd) = child["cwd"].as_str() {
            reach.cwd = Some(cwd.into());
        }
        let words = [command].into_iter().chain(args).map(str::to_owned).collect();
        Ok(Endpoint::Program(words))
    };
    let endpoint = endpoint.map_err(|e| e.to_string())?;
    let live = Target::new(endpoint, &reach).map_err(|e| e.to_string())?;
    let url = item["http"].as_str().unwrap_or_default().to_owned();
    Ok(DriftTarget { kind, name, version, live, url })
}

fn pairs(map: &Value) -> impl Iterator<Item = (String, String)> {
    let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    map.as_object().into_iter().flatten().filter_map(pair)
}
