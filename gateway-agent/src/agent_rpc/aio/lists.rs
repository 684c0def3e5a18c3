//! Lists and `help`: the entries of the caller's lists of MCP that belong to one agent.

use agent_rpc::help::Resource;
use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter, read_string},
    naming::{self, Interfaces},
};
use gateway_upstream::renamed;
use serde_json::value::RawValue;

use super::{Rejection, Serving, out_of_memory};
use crate::mcp::{FeatureList, List};

/// The list of tools in scopes of MCP. `help` has the same entries.
pub(super) const TOOLS: &str = "tools/list";

impl Serving<'_> {
    pub(super) fn help(&self) -> Result<String, Rejection> {
        self.check_scopes(TOOLS)?;
        if !self.agent.is_known() {
            return Err(self.unknown_method("help").into());
        }
        // A description always serializes.
        let help = serde_json::to_string(&self.agent.help()).unwrap_or_default();
        self.reserve(help.len())?;
        Ok(help)
    }

    pub(super) fn list_tools(&self) -> Result<String, Rejection> {
        self.check_scopes(TOOLS)?;
        if !self.agent.modules().tools {
            return Err(self.unknown_method("tools.list").into());
        }
        let definitions = self.agent.definitions();
        self.reserve(2 * definitions.iter().map(String::len).sum::<usize>())?;
        Ok(format!(r#"{{"tools":[{}]}}"#, definitions.join(",")))
    }

    pub(super) async fn list_prompts(&self) -> Result<String, Rejection> {
        self.check_scopes("prompts/list")?;
        if !self.agent.modules().prompts {
            return Err(self.unknown_method("prompts.list").into());
        }
        let entries = self.entries(List::Prompts).await?;
        let prompts: Vec<_> = entries.iter().filter_map(|entry| prompt(entry)).collect();
        Ok(format!(r#"{{"prompts":[{}]}}"#, prompts.join(",")))
    }

    pub(super) async fn list_resources(&self) -> Result<String, Rejection> {
        self.check_scopes("resources/list")?;
        if !self.agent.modules().resources {
            return Err(self.unknown_method("resources.list").into());
        }
        let entries = self.entries(List::Resources).await?;
        let interfaces = self.agent.snapshot.definitions.interfaces();
        let resource = |entry: &String| resource(interfaces, entry);
        let resources: Vec<_> = entries.iter().filter_map(resource).collect();
        let mut result = ObjectWriter::with_capacity(64 * resources.len());
        // Texts always serialize.
        result.raw("resources", &serde_json::to_string(&resources).unwrap_or_default());
        Ok(result.finish_string())
    }

    /// The entries of the caller's list that belong to the agent, as JSON text.
    async fn entries(&self, list: List) -> Result<Vec<String>, Rejection> {
        let Some(server) = &self.agent.server else { return Ok(Vec::new()) };
        let interfaces = self.agent.snapshot.definitions.interfaces();
        let (gateway, caller) = (self.gateway, self.caller);
        let listing = FeatureList { gateway, caller, buffered: Some(self.buffered), list };
        let entries = listing.of_server(server, interfaces).await;
        let entries = entries.map_err(out_of_memory)?;
        self.reserve(2 * entries.iter().map(|raw| raw.get().len()).sum::<usize>())?;
        Ok(entries.iter().map(|raw| raw.get().to_owned()).collect())
    }
}

/// A prompt under the name that its server gives it.
fn prompt(entry: &str) -> Option<String> {
    let raw: &RawValue = serde_json::from_str(entry).ok()?;
    let members = Object::parse(raw).ok()?;
    let known = members.find("name").and_then(read_string)?;
    let own = renamed(&members, "name", naming::prompt(&known).1)?;
    Some(own.get().to_owned())
}

/// A resource of MCP as an item of AIO, with the URI that its server gives it.
fn resource(interfaces: &Interfaces, entry: &str) -> Option<Resource> {
    let raw: &RawValue = serde_json::from_str(entry).ok()?;
    let members = Object::parse(raw).ok()?;
    let text = |name: &str| members.find(name).and_then(read_string);
    let title = text("title").or_else(|| text("name")).unwrap_or_default();
    let known = text("uri")?;
    let (_, own) = interfaces.resolve(&known);
    Some(Resource::new(&own, &title, text("mimeType").as_deref()))
}
