//! Unchanged entities of a batch that are retired. Registering an entity again does not restore it.

use std::collections::{BTreeSet, HashSet};

use registry_core::rules::Proposed;
use registry_proto::v1;

use super::{super::lock::at, Planned};
use crate::{
    batch::Batch,
    client::{Client, request},
    failure::Failure,
    view::KeyView,
};

/// Maximum number of keys in a request.
const KEYS: usize = 1_000;
/// Maximum number of printed keys.
const SHOWN: usize = 10;

/// The retired entities that the batch registers without effect.
pub(super) async fn find(
    client: &Client,
    batch: &Batch,
    planned: &Planned,
) -> Result<Vec<String>, Failure> {
    let unchanged = planned.plan.unchanged();
    let (mut registered, mut managed) = (BTreeSet::new(), HashSet::new());
    for proposed in batch.proposals() {
        match proposed {
            Proposed::Register(document) => registered.insert(document.key()),
            Proposed::SetLifecycle { key, .. } => managed.insert(key),
        };
    }
    registered.retain(|key| unchanged.contains(&key.to_string()) && !managed.contains(key));
    let registered: Vec<_> = registered.into_iter().map(v1::EntityKey::from).collect();
    let mut retired = Vec::new();
    for keys in registered.chunks(KEYS) {
        let wanted = v1::GetDependentsRequest {
            keys: keys.to_vec(),
            max_depth: Some(0),
            at: Some(at(planned.revision)),
            ..Default::default()
        };
        let response = client.answer(client.graph().get_dependents(request(wanted))).await?;
        let nodes = response.graph.unwrap_or_default().nodes.into_iter();
        let nodes = nodes.filter(|node| node.lifecycle_state() == v1::LifecycleState::Retired);
        let key = |node: v1::GraphNode| KeyView::from(node.key.unwrap_or_default()).to_string();
        retired.extend(nodes.map(key));
    }
    Ok(retired)
}

/// The printed line, if there is one.
pub(super) fn line(retired: &[String]) -> Option<String> {
    let first = retired.first()?;
    let more = match retired.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = retired[..retired.len().min(SHOWN)].join(", ");
    let stay = if retired.len() == 1 { "stays" } else { "stay" };
    Some(format!(
        "{shown}{more} {stay} retired; `registryctl restore {first}` makes that version active"
    ))
}
