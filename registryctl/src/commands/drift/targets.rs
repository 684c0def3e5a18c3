//! Where registered servers are: as the user says, or as a gateway is configured.

use registry_core::{Key, Kind};
use serde_json::Value;

use crate::{
    cli::{
        LiveTarget, VerifyArgs,
        live::{Header, LiveArgs, Variable},
    },
    failure::Failure,
    input::{Source, SyntaxError},
    live::{Place, Target},
};

/// All targets, those of the command line first.
pub(super) fn of(args: &VerifyArgs) -> Result<Vec<(Key, Target)>, Failure> {
    let mut targets = Vec::new();
    for LiveTarget { server, place } in &args.targets {
        let place = match place.strip_prefix("stdio:") {
            Some(command) => Place::command(command)?,
            None => Place::url(place)?,
        };
        targets.push((server.clone(), Target::new(place, &args.reach)?));
    }
    if let Some(path) = &args.config {
        let source = Source::read(path)?;
        let wrong = |reason: String| Failure::File { action: "use", path: path.clone(), reason };
        let config = source.value().map_err(|SyntaxError { message, .. }| wrong(message))?;
        let Some(Value::Array(configured)) = config.get("targets") else {
            return Err(wrong("it has no list `targets`".to_owned()));
        };
        // What agents can do is not listed anywhere.
        let servers = configured.iter().enumerate().filter(|(_, said)| said["agent"].is_null());
        for (i, target) in servers {
            let target = configured_target(target, &args.reach);
            targets.push(target.map_err(|reason| wrong(format!("targets[{i}]: {reason}")))?);
        }
    }
    Ok(targets)
}

fn configured_target(said: &Value, reach: &LiveArgs) -> Result<(Key, Target), String> {
    let text = |name: &str| said[name].as_str().ok_or_else(|| format!("`{name}` is not a text"));
    let server = Key::parse(Kind::Server, text("server")?, text("version")?);
    let server = server.map_err(|e| e.to_string())?;
    let mut reach = reach.clone();
    let place = if let Some(url) = said["http"].as_str() {
        reach.header.extend(pairs(&said["headers"]).map(|(name, value)| Header { name, value }));
        Place::url(url)
    } else {
        let child = &said["stdio"];
        let command = child["command"].as_str().ok_or("it has neither `http` nor `stdio`")?;
        let args = child["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        reach.env.extend(pairs(&child["env"]).map(|(name, value)| Variable { name, value }));
        if let Some(cwd) = child["cwd"].as_str() {
            reach.cwd = Some(cwd.into());
        }
        let words = [command].into_iter().chain(args).map(str::to_owned).collect();
        Ok(Place::Program(words))
    };
    let place = place.map_err(|e| e.to_string())?;
    Target::new(place, &reach).map(|target| (server, target)).map_err(|e| e.to_string())
}

fn pairs(map: &Value) -> impl Iterator<Item = (String, String)> {
    let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    map.as_object().into_iter().flatten().filter_map(pair)
}
