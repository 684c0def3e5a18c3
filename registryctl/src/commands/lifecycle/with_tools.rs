//! `retire server/NAME --with-tools`: retires a server and its tools in one commit.

use registry_core::{
    Key, Kind, LifecycleState, Name, Notice, PointInTime, Revision, rules::Proposed,
};
use registry_proto::v1;

use super::super::{Session, commit, list, lock::at, missing, review};
use crate::{
    cli::{RetireArgs, Versions},
    client::{Client, request},
    failure::Failure,
};

/// Maximum number of tools of one server.
const TOOLS: i32 = 10_000;

pub(super) async fn run(session: &Session, args: RetireArgs) -> Result<(), Failure> {
    let RetireArgs {
        versions, message, sunset: sunset_date, force, confirm, commit: author, ..
    } = args;
    let client = session.connect().await?;
    // The commit fails if another version is registered in the meantime.
    let revision = client.head().await?.0;
    let servers = match versions {
        Versions::One(key) if key.kind == Kind::Server => vec![key],
        Versions::All(Kind::Server, name) => in_use(&client, &name, revision).await?,
        Versions::One(Key { kind, .. }) | Versions::All(kind, _) => {
            let message = format!("--with-tools requires a server, and this is a {kind}");
            return Err(Failure::Usage(message));
        }
    };
    let tools = tools(&client, &servers, revision).await?;
    let notice =
        Notice { message: message.clone(), replacement: None, sunset_date, force_reason: force };
    let state = LifecycleState::Retired;
    let change = |key: Key| {
        v1::EntityChange::from(&Proposed::SetLifecycle { key, state, notice: notice.clone() })
    };
    let changes = tools.into_iter().chain(servers).map(change).collect();
    let message = message.unwrap_or_default();
    let mut wanted = commit::new_request(changes, message, author, &session.globals.access);
    wanted.base_revision = wanted.base_revision.or(Some(revision));
    review::run(session, &client, &wanted, confirm).await
}

/// The versions of a server that are not retired at a revision.
async fn in_use(client: &Client, name: &Name, revision: u64) -> Result<Vec<Key>, Failure> {
    let at = Some(PointInTime::Revision(Revision(revision)));
    let records = list::versions(client, Kind::Server, name, at).await?;
    if records.is_empty() {
        return Err(missing::not_registered(client, Kind::Server, name, None, None).await);
    }
    let records = records.into_iter().filter(|record| record.lifecycle.state != "retired");
    let keys = records.map(|record| record.key.to_string().parse::<Key>());
    let keys: Vec<Key> = keys.collect::<Result<_, _>>().map_err(Failure::invalid_response)?;
    if keys.is_empty() {
        return Err(Failure::Rejected(format!("all versions of server/{name} are retired")));
    }
    Ok(keys)
}

/// The tools of these servers that are not retired at a revision.
async fn tools(client: &Client, servers: &[Key], revision: u64) -> Result<Vec<Key>, Failure> {
    let wanted = v1::GetDependentsRequest {
        keys: servers.iter().map(v1::EntityKey::from).collect(),
        max_depth: Some(1),
        max_nodes: TOOLS,
        at: Some(at(revision)),
        min_revision: 0,
    };
    let response = client.answer(client.graph().get_dependents(request(wanted))).await?;
    let graph = response.graph.unwrap_or_default();
    if graph.truncated {
        let message =
            format!("the server has more than {TOOLS} tools; retire its versions individually");
        return Err(Failure::Rejected(message));
    }
    let is_in_use = |node: &v1::GraphNode| node.lifecycle_state() != v1::LifecycleState::Retired;
    let keys = graph.nodes.into_iter().filter(is_in_use).map(|node| review::key_of(node.key));
    let mut keys = keys.collect::<Result<Vec<_>, _>>()?;
    keys.retain(|key| key.kind == Kind::Tool);
    Ok(keys)
}
