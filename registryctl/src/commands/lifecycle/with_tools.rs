//! `retire server/NAME --with-tools`: a server and every tool whose source it is, in one commit.

use registry_core::{Key, Kind, LifecycleState, Notice, rules::Proposed};
use registry_proto::v1;

use super::super::{Session, commit, lock::at, review};
use crate::{
    cli::{RetireArgs, Versions},
    client::{Client, PAGE_SIZE, request},
    failure::Failure,
};

/// Most tools of one server.
const TOOLS: u32 = 10_000;

pub(super) async fn run(session: &Session, args: RetireArgs) -> Result<(), Failure> {
    let RetireArgs { what, message, sunset, force, yes, dry_run, commit: author, .. } = args;
    let client = session.connect().await?;
    // A version registered later makes the commit fail.
    let revision = client.head().await?.0;
    let servers = match what {
        Versions::One(key) if key.kind == Kind::Server => vec![key],
        Versions::All(Kind::Server, name) => versions(&client, name.as_str(), revision).await?,
        Versions::One(Key { kind, .. }) | Versions::All(kind, _) => {
            let message =
                format!("--with-tools retires the tools of a server, and this is a {kind}");
            return Err(Failure::Usage(message));
        }
    };
    if servers.is_empty() {
        return Err(Failure::Rejected("no version of the server is in use".to_owned()));
    }
    let tools = tools(&client, &servers, revision).await?;
    let notice = Notice { message: message.clone(), replacement: None, sunset, forced: force };
    let state = LifecycleState::Retired;
    let change =
        |key: Key| v1::Change::from(&Proposed::SetLifecycle { key, state, notice: notice.clone() });
    let changes = tools.into_iter().chain(servers).map(change).collect();
    let why = message.clone().unwrap_or_default();
    let mut wanted = commit::request_of(changes, why, author, &session.globals.access);
    wanted.base_revision = wanted.base_revision.or(Some(revision));
    review::run(session, &client, &wanted, review::How { yes, dry_run }).await
}

/// The versions of a server that are not retired at a revision.
async fn versions(client: &Client, name: &str, revision: u64) -> Result<Vec<Key>, Failure> {
    let mut wanted = v1::ListRequest {
        kind: v1::Kind::Server.into(),
        name: name.to_owned(),
        lifecycle: vec![v1::LifecycleState::Active.into(), v1::LifecycleState::Deprecated.into()],
        page_size: PAGE_SIZE,
        at: Some(at(revision)),
        ..v1::ListRequest::default()
    };
    let mut found = Vec::new();
    loop {
        let page = client.answer(client.registry().list(request(wanted.clone()))).await?;
        for record in page.records {
            found.push(review::key_of(record.key)?);
        }
        if page.next_page_token.is_empty() {
            return Ok(found);
        }
        wanted.page_token = page.next_page_token;
    }
}

/// The tools at a revision whose source is one of these servers, without those that are retired.
async fn tools(client: &Client, servers: &[Key], revision: u64) -> Result<Vec<Key>, Failure> {
    let wanted = v1::GetDependentsRequest {
        keys: servers.iter().map(v1::EntityKey::from).collect(),
        depth: Some(1),
        limit: TOOLS,
        at: Some(at(revision)),
    };
    let response = client.answer(client.graph().get_dependents(request(wanted))).await?;
    let graph = response.graph.unwrap_or_default();
    if graph.truncated {
        let message =
            format!("the server has more than {TOOLS} tools; retire its versions one by one");
        return Err(Failure::Rejected(message));
    }
    let is_in_use = |node: &v1::GraphNode| node.lifecycle() != v1::LifecycleState::Retired;
    let keys = graph.nodes.into_iter().filter(is_in_use).map(|node| review::key_of(node.key));
    let mut keys = keys.collect::<Result<Vec<_>, _>>()?;
    keys.retain(|key| key.kind == Kind::Tool);
    Ok(keys)
}
