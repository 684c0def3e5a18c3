//! `GET /manifest?format=…`: the tools of a caller for the context of a model. `GET
//! /agents/{id}/manifest`: one agent.

use std::sync::Arc;

use agent_rpc::{
    Failure, Reason,
    manifest::{Format, ManifestTool, ManifestWriter},
    orchestrator::AgentManifest,
};
use axum::{
    extract::{
        Path, Query, Request, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::Response,
};
use gateway_protocol::{
    jsonrpc::{Object, read_string},
    mcp::Era,
};
use http::StatusCode;
use registry_core::{
    Entity, Kind, Name,
    entity::{Capabilities, Exposure, policy::Mode},
    visible::escape_invisible,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    super::{AgentRpc, failure::Refusal, respond_private},
    failed, refused,
};
use crate::{
    audit, buffers,
    ingress::{EnteredRequest, IngressError, authentication, check_origin},
    pipeline::{self, Directory, GatewayHandle, message},
    view::{Form, Listing, ServedTool, View, VisibleServer},
};

/// The operation whose scopes a manifest needs.
const LIST: &str = "tools/list";
/// The end of the path of an agent's manifest. Ids of agents can have slashes.
const SUFFIX: &str = "/manifest";
/// The schema of a tool without one.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

#[derive(Debug, Deserialize)]
pub(super) struct ManifestQuery {
    format: Option<String>,
}

/// `GET /manifest`.
pub(super) async fn of_caller(
    State(surface): State<AgentRpc>,
    query: Result<Query<ManifestQuery>, QueryRejection>,
    request: Request,
) -> Response {
    let entered = match enter(&surface.gateway, request).await {
        Ok(entered) => entered,
        Err(refusal) => return refused(refusal),
    };
    let format = query.ok().map(|Query(query)| query.format);
    let format = format.and_then(|format| Format::parse(format.as_deref().unwrap_or("mcp")));
    let Some(format) = format else {
        let names = Format::NAMES.map(|(name, _)| name).join(", ");
        let problem = format!("the format is unknown; use one of {names}");
        let failure = Failure::new(Reason::InvalidParams, problem);
        return refused(Refusal::of_failure(failure, StatusCode::BAD_REQUEST, "invalid-request"));
    };
    let caller = authentication(&entered.parts);
    let directory = Directory::of(&entered.gateway, &caller);
    if !directory.has_catalog() {
        return no_catalog();
    }
    audit::count_list(Era::Modern);
    let buffered = entered.gateway.open_buffer(&caller);
    let (view, mut writer, mut after) = (directory.view(), ManifestWriter::new(format), None);
    loop {
        let Listing { tools, next } = view.list(after.as_ref(), Form::Modern);
        // Its entries and their form.
        if let Err(full) = buffered.reserve(2 * tools.len()) {
            return refused(IngressError::Buffers(full).into());
        }
        add(&mut writer, &view, &tools);
        if next.is_none() {
            break;
        }
        after = next;
    }
    buffers::reserved(respond_private(writer.finish().into()), buffered)
}

/// Adds the tools of a page of `tools/list`.
fn add(writer: &mut ManifestWriter, view: &View, page: &[u8]) {
    let entries: Vec<&RawValue> = serde_json::from_slice(page).unwrap_or_default();
    for entry in entries {
        let Ok(listed) = Object::parse(entry) else { continue };
        let Some(name) = listed.find("name").and_then(read_string) else { continue };
        let name = Name::parse(Kind::Tool, &name).ok();
        let served = name.as_ref().and_then(|name| view.find(name));
        let (Some(name), Some(served)) = (name, served) else { continue };
        let meta = listed.find("_meta").and_then(|raw| Object::parse(raw).ok());
        let category = detail(served, meta.as_ref(), "category");
        let examples = detail(served, meta.as_ref(), "examples").unwrap_or_default();
        writer.add(&ManifestTool {
            name: name.as_str(),
            description: listed.find("description").and_then(read_string),
            input_schema: listed.find("inputSchema").map_or(ANY_OBJECT, RawValue::get),
            category: category.and_then(|value| value.as_str().map(str::to_owned)),
            examples: ManifestTool::read_examples(&examples),
            listed: &listed,
        });
    }
}

/// A detail of a tool for the model: a member of `metadata`, else of `_meta`.
fn detail(served: &ServedTool, meta: Option<&Object<'_>>, name: &str) -> Option<Value> {
    let registered = served.tool().metadata.as_ref().and_then(|metadata| metadata.get(name));
    registered.cloned().or_else(|| serde_json::from_str(meta?.find(name)?.get()).ok())
}

/// `GET /agents/{id}/manifest`.
pub(super) async fn of_agent(
    State(surface): State<AgentRpc>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let entered = match enter(&surface.gateway, request).await {
        Ok(entered) => entered,
        Err(refusal) => return refused(refusal),
    };
    let Some(id) = path.as_ref().ok().and_then(|Path(path)| path.strip_suffix(SUFFIX)) else {
        let failure = Failure::new(
            Reason::AgentNotFound,
            "the path is unknown; use /agents/{id}/manifest with the name of a server or an agent",
        );
        return refused(Refusal::of_failure(failure, StatusCode::NOT_FOUND, "unknown-path"));
    };
    let directory = Directory::of(&entered.gateway, &authentication(&entered.parts));
    if !directory.has_catalog() {
        return no_catalog();
    }
    let Some(manifest) = agent_manifest(&directory, id) else {
        return failed(StatusCode::NOT_FOUND, &Failure::agent_not_found(id));
    };
    respond_private(serde_json::to_vec(&manifest).unwrap_or_default().into())
}

/// The manifest of a server, a data agent or an agent of A2A, with the tools that the caller's list
/// has. `None`: the caller can see nothing of it.
fn agent_manifest(directory: &Directory<'_>, id: &str) -> Option<AgentManifest> {
    let is_served_by =
        |served: &ServedTool| served.server().is_some_and(|server| server.name.as_str() == id);
    let view = directory.view();
    let is_own =
        |served: &&Arc<ServedTool>| served.function_of(id).is_some() || is_served_by(served);
    let tools: Vec<_> = view.listed().filter(is_own).collect();
    let agent = Name::parse(Kind::Agent, id).ok();
    let agent = agent.and_then(|name| directory.find(&name, None));
    let agent = agent.and_then(|agent| directory.listed(agent));
    if tools.is_empty() && agent.is_none() {
        return None;
    }
    let servers = directory.visible_servers(&view);
    let server = servers.iter().find(|visible| visible.server.name.as_str() == id);
    let agent = agent.as_ref().map(|agent| agent.record().document.entity());
    let requires_approval = tools.iter().any(|served| requires_approval(directory, served));
    let mut names: Vec<_> =
        tools.iter().map(|served| served.listed_name().as_str().to_owned()).collect();
    names.sort_unstable();
    Some(AgentManifest {
        id: id.to_owned(),
        name: server.and_then(title).unwrap_or_else(|| id.to_owned()),
        capabilities: capabilities(!names.is_empty(), server, agent),
        tools: names,
        requires_approval,
    })
}

/// The title or the name in `serverInfo`.
fn title(visible: &VisibleServer) -> Option<String> {
    let info = Object::parse(visible.features.info()?).ok()?;
    let text = info.find("title").or_else(|| info.find("name")).and_then(read_string)?;
    Some(escape_invisible(text))
}

fn capabilities(
    has_tools: bool,
    server: Option<&VisibleServer>,
    agent: Option<&Entity>,
) -> Vec<String> {
    let exposes = |what| server.is_some_and(|server| server.exposes(what));
    let agent = agent.and_then(|entity| match entity {
        Entity::Agent(agent) => Some(agent),
        _ => None,
    });
    let has = |flag: fn(&Capabilities) -> Option<bool>| {
        agent.is_some_and(|agent| flag(&agent.capabilities) == Some(true))
    };
    let all = [
        ("tools", has_tools),
        (Exposure::Prompts.as_str(), exposes(Exposure::Prompts)),
        (Exposure::Resources.as_str(), exposes(Exposure::Resources)),
        ("skills", agent.is_some()),
        ("streaming", has(|capabilities| capabilities.streaming)),
        ("pushNotifications", has(|capabilities| capabilities.push_notifications)),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned()).collect()
}

/// Whether policies in force demand an approval of calls of a tool.
fn requires_approval(directory: &Directory<'_>, served: &ServedTool) -> bool {
    let policies = directory.policies(served);
    policies.is_some_and(|policies| policies.approvals(Mode::Enforce).next().is_some())
}

/// Authenticates the sender of a request without a body, and checks the scopes of lists.
async fn enter(gateway: &GatewayHandle, request: Request) -> Result<EnteredRequest, Refusal> {
    let entered = EnteredRequest::authenticate(gateway, request).await?;
    check_origin(&entered.gateway, &entered.parts)?;
    let (gateway, parts) = (&entered.gateway, &entered.parts);
    pipeline::check_method_scopes(gateway, &authentication(parts), LIST)
        .map_err(Refusal::of_scopes)?;
    Ok(entered)
}

fn no_catalog() -> Response {
    let failure = Failure::new(Reason::Unreachable, message::NO_CATALOG);
    failed(StatusCode::SERVICE_UNAVAILABLE, &failure)
}
