//! Targets from arguments and from the configuration of a gateway.

use registry_core::{Key, Kind};
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

/// All targets, those of the command line first.
pub(super) fn collect(args: &DriftArgs) -> Result<Vec<(Key, Target)>, Failure> {
    let mut targets = Vec::new();
    for LiveTarget { server, address } in &args.targets {
        let endpoint = match address.strip_prefix("stdio:") {
            Some(command) => Endpoint::command(command)?,
            None => Endpoint::url(address)?,
        };
        targets.push((server.clone(), Target::new(endpoint, &args.reach)?));
    }
    if let Some(path) = &args.config {
        let source = Source::read(path)?;
        let invalid = |reason: String| Failure::File { action: "use", path: path.clone(), reason };
        let config = source.value().map_err(|SyntaxError { message, .. }| invalid(message))?;
        let Some(Value::Array(configured)) = config.get("targets") else {
            return Err(invalid("the file has no list `targets`".to_owned()));
        };
        // Agents have no list of tools to compare.
        let servers = configured.iter().enumerate().filter(|(_, item)| item["agent"].is_null());
        for (i, target) in servers {
            let target = configured_target(target, &args.reach);
            targets.push(target.map_err(|reason| invalid(format!("targets[{i}]: {reason}")))?);
        }
    }
    Ok(targets)
}

fn configured_target(item: &Value, reach: &LiveArgs) -> Result<(Key, Target), String> {
    let text = |name: &str| item[name].as_str().ok_or_else(|| format!("`{name}` is not a string"));
    let server = Key::parse(Kind::Server, text("server")?, text("version")?);
    let server = server.map_err(|e| e.to_string())?;
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
    Target::new(endpoint, &reach).map(|target| (server, target)).map_err(|e| e.to_string())
}

fn pairs(map: &Value) -> impl Iterator<Item = (String, String)> {
    let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    map.as_object().into_iter().flatten().filter_map(pair)
}
