//! Policies in force by the resources that they select.

use registry_core::{Entity, Key, entity::Policy};

use super::After;
use crate::{Resource, in_force::documents_in_force, selector_index::SelectorIndex};

/// Some of the policies in force.
pub(super) struct IndexedPolicies<'a> {
    policies: Vec<(&'a Key, &'a Policy)>,
    index: SelectorIndex,
}

impl<'a> IndexedPolicies<'a> {
    /// Indexes the policies that meet a condition.
    pub(super) fn new(after: &After<'a>, is_indexed: impl Fn(&Policy) -> bool) -> Self {
        let documents = documents_in_force(after.policies.values().copied()).into_iter();
        let policies = documents.filter_map(|document| match document.entity() {
            Entity::Policy(policy) => Some((document.key(), &**policy)),
            _ => None,
        });
        let policies: Vec<_> = policies.filter(|(_, policy)| is_indexed(policy)).collect();
        let index = SelectorIndex::new(policies.iter().map(|(_, policy)| &policy.applies_to));
        Self { policies, index }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// The policies that select a resource, in order of their names.
    pub(super) fn select(
        &self,
        resource: &Resource,
    ) -> impl Iterator<Item = (&'a Key, &'a Policy)> {
        let candidates = self.index.candidates(resource).into_iter();
        let policies = candidates.map(move |position| self.policies[position]);
        policies.filter(move |(_, policy)| resource.is_selected(&policy.applies_to))
    }
}
