//! `why`: the dependency paths between two entities.

use registry_proto::{convert::MAX_PATH_COUNT, v1};
use serde::Serialize;

use super::{Session, draw, missing, tree::label};
use crate::{
    cli::{Format, Output, PathsArgs},
    client::request,
    diagram::Diagram,
    failure::Failure,
    graph::Node,
};

/// The JSON result.
#[derive(Serialize)]
struct WhyView<'a> {
    revision: u64,
    total: u64,
    truncated: bool,
    paths: &'a [Vec<Node>],
}

pub(super) async fn run(session: &Session, args: &PathsArgs) -> Result<(), Failure> {
    let PathsArgs { from, to, limit, as_of } = args;
    let client = session.connect().await?;
    let wanted = v1::ExplainDependencyRequest {
        dependent: Some(from.into()),
        dependency: Some(to.into()),
        max_paths: *limit,
        at: as_of.message(),
        min_revision: 0,
    };
    let answer = match client.answer(client.graph().explain_dependency(request(wanted))).await {
        Ok(answer) => answer,
        Err(failure) => {
            // The message names one of the two keys.
            let key = if failure.to_string().contains(&to.to_string()) { to } else { from };
            let (version, at) = (Some(&key.version), as_of.at);
            return Err(missing::explain(&client, failure, key.kind, &key.name, version, at).await);
        }
    };
    let v1::ExplainDependencyResponse { paths, total_count: total, truncated, revision } = answer;
    let nodes = |path: v1::GraphPath| path.nodes.into_iter().map(Node::from).collect();
    let paths: Vec<Vec<Node>> = paths.into_iter().map(nodes).collect();
    let screen = session.screen;
    if !matches!(session.globals.output, Output::Table | Output::Json) {
        draw(session, &Diagram::from_paths(format!("paths from {from} to {to}"), &paths))?;
    } else if screen.format == Format::Json {
        screen.json(&WhyView { revision, total, truncated, paths: &paths })?;
    } else {
        for path in &paths {
            let path: Vec<_> = path.iter().map(|node| label(node, screen.style)).collect();
            screen.line(&path.join(" → "))?;
        }
    }
    if paths.is_empty() {
        return Err(Failure::Rejected(format!("{from} does not depend on {to}")));
    }
    if truncated {
        eprintln!(
            "note: the output is truncated to {} of {} paths; raise --limit",
            paths.len(),
            count(total)
        );
    }
    Ok(())
}

/// A count of paths as text.
pub(super) fn count(paths: u64) -> String {
    if paths == MAX_PATH_COUNT { "more than 9 × 10^18".to_owned() } else { paths.to_string() }
}
