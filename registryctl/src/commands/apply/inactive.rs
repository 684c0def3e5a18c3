//! Unchanged entities of a batch that are deprecated or retired, although their files set no lifecycle. Registering an
//! entity again does not restore it.

use std::collections::{BTreeSet, HashSet};

use registry_core::rules::Proposed;
use registry_proto::v1;
use serde::Serialize;

use super::{super::lock::at, Planned};
use crate::{
    batch::Batch,
    client::{Client, request},
    failure::Failure,
    view::KeyView,
};

/// Maximum number of keys in a request.
const KEYS: usize = 1_000;
/// Maximum number of printed keys per state.
const SHOWN: usize = 10;

/// The entities that the batch registers without effect, and that stay inactive.
#[derive(Debug, Default, Serialize)]
pub(super) struct Inactive {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deprecated: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retired: Vec<String>,
}

impl Inactive {
    pub(super) async fn find(
        client: &Client,
        batch: &Batch,
        planned: &Planned,
    ) -> Result<Self, Failure> {
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
        let mut inactive = Self::default();
        for keys in registered.chunks(KEYS) {
            let wanted = v1::GetDependentsRequest {
                keys: keys.to_vec(),
                max_depth: Some(0),
                at: Some(at(planned.revision)),
                ..Default::default()
            };
            let response = client.answer(client.graph().get_dependents(request(wanted))).await?;
            for node in response.graph.unwrap_or_default().nodes {
                inactive.add(node);
            }
        }
        Ok(inactive)
    }

    fn add(&mut self, node: v1::GraphNode) {
        let keys = match node.lifecycle_state() {
            v1::LifecycleState::Deprecated => &mut self.deprecated,
            v1::LifecycleState::Retired => &mut self.retired,
            v1::LifecycleState::Active | v1::LifecycleState::Unspecified => return,
        };
        keys.push(KeyView::from(node.key.unwrap_or_default()).to_string());
    }

    /// Keeps the keys that fulfill a condition.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&String) -> bool) {
        self.deprecated.retain(&is_kept);
        self.retired.retain(&is_kept);
    }

    /// The printed lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let states = [("deprecated", &self.deprecated), ("retired", &self.retired)];
        states.into_iter().filter_map(|(state, keys)| line(state, keys))
    }
}

fn line(state: &str, keys: &[String]) -> Option<String> {
    let first = keys.first()?;
    let more = match keys.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = keys[..keys.len().min(SHOWN)].join(", ");
    let stay = if keys.len() == 1 { "stays" } else { "stay" };
    Some(format!(
        "held: {shown}{more} {stay} {state}; `registryctl restore {first}` makes that version active"
    ))
}
