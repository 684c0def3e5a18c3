//! The reference graph of all schemas reachable from a batch.

use std::collections::{BTreeSet, HashMap, VecDeque};

use schema_compat::{
    json_schema::has_references,
    pointer::Location,
    schema_compile::{self, InvalidSchema, Weight, resources, weigh},
};
use serde_json::Value;

use super::proposal::Proposal;
use crate::{
    edges::Relation,
    entity::Entity,
    kind::Kind,
    reference::{Key, each_reference, pure_reference},
};

pub(super) struct SchemaGraph<'a> {
    nodes: HashMap<Key, usize>,
    schemas: Vec<&'a Value>,
    successors: Vec<Vec<usize>>,
    /// The `$id` URIs of each schema.
    ids: Vec<Vec<String>>,
}

impl<'a> SchemaGraph<'a> {
    /// Collects every schema reachable from the batch.
    pub(super) fn new(proposal: &Proposal<'a>) -> Self {
        let references = proposal.new.iter().flat_map(|new| &new.references);
        let mut waiting: VecDeque<Key> =
            references.filter(|r| r.relation == Relation::Schema).map(|r| r.key.clone()).collect();
        let (mut nodes, mut ids) = (HashMap::new(), Vec::new());
        let (mut schemas, mut targets) = (Vec::new(), Vec::new());
        while let Some(key) = waiting.pop_front() {
            if nodes.contains_key(&key) {
                continue;
            }
            let Some(document) = proposal.document(&key) else { continue };
            let Entity::Schema(schema) = document.entity() else { continue };
            ids.push(resources(&schema.schema, &key.schema_name().uri()));
            nodes.insert(key, schemas.len());
            schemas.push(&schema.schema);
            waiting.extend(document.edges().iter().cloned());
            targets.push(document.edges());
        }
        let indices = |keys: &[Key]| keys.iter().filter_map(|k| nodes.get(k).copied()).collect();
        let successors = targets.into_iter().map(indices).collect();
        Self { nodes, schemas, successors, ids }
    }

    /// Reports an `$id` that occurs in two documents that are compiled together with this schema.
    pub(super) fn same_id(&self, schema: &Value) -> Option<InvalidSchema> {
        if self.ids.iter().all(Vec::is_empty) {
            return None;
        }
        let mut waiting: Vec<usize> = Vec::new();
        each_reference(schema, Location::ROOT, &mut |key, _, _| {
            waiting.extend(key.ok().and_then(|key| self.nodes.get(key)).copied());
        });
        let mut seen = BTreeSet::new();
        while let Some(node) = waiting.pop() {
            if seen.insert(node) {
                waiting.extend(&self.successors[node]);
            }
        }
        let own = resources(schema, schema_compile::ROOT);
        schema_compile::same_id(seen.iter().map(|node| &*self.ids[*node]).chain([&*own]))
    }

    /// The validation cost of each schema; dependencies first.
    pub(super) fn weights(&self) -> Vec<Weight> {
        let mut weights = vec![None; self.schemas.len()];
        let mut path: Vec<usize> = (0..self.schemas.len()).collect();
        let mut is_open = vec![false; self.schemas.len()];
        while let Some(&node) = path.last() {
            let first_visit = !std::mem::replace(&mut is_open[node], true);
            let is_needed = |next: &&usize| weights[**next].is_none() && !is_open[**next];
            let needed: Vec<usize> =
                self.successors[node].iter().filter(is_needed).copied().collect();
            if weights[node].is_some() || (needed.is_empty() || !first_visit) {
                path.pop();
                if weights[node].is_none() {
                    let weight = weigh(self.schemas[node], &mut |name| {
                        Some(self.known(&Key::for_schema(name)?, &weights))
                    });
                    weights[node] = Some(weight.unwrap_or(Weight::HEAVY));
                }
            } else {
                path.extend(needed);
            }
        }
        weights.into_iter().map(|weight| weight.unwrap_or(Weight::ONE)).collect()
    }

    /// The weight of a schema. Cycles are reported elsewhere and count as nothing here.
    fn known(&self, key: &Key, weights: &[Option<Weight>]) -> Weight {
        let node = self.nodes.get(key).copied();
        node.and_then(|node| weights[node]).unwrap_or(Weight::ONE)
    }

    /// Reports a schema whose validation would visit a value too often. The weight of a schema
    /// without references is its length.
    pub(super) fn too_heavy(&self, schema: &Value, weights: &[Weight]) -> Option<InvalidSchema> {
        if !has_references(schema) || pure_reference(schema).is_some() {
            return None;
        }
        let known = |key: &Key| self.nodes.get(key).map_or(Weight::ONE, |&node| weights[node]);
        weigh(schema, &mut |name| Some(known(&Key::for_schema(name)?))).err()
    }

    /// Whether more than `most` schemas are reachable from these keys, including themselves.
    pub(super) fn reaches_more_than<'k>(
        &self,
        limit: usize,
        keys: impl Iterator<Item = &'k Key>,
    ) -> bool {
        let mut waiting: Vec<usize> = keys.filter_map(|key| self.nodes.get(key).copied()).collect();
        if waiting.is_empty() || self.schemas.len() <= limit {
            return false;
        }
        let (mut seen, mut count) = (vec![false; self.schemas.len()], 0);
        while let Some(node) = waiting.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                count += 1;
                if count > limit {
                    return true;
                }
                waiting.extend(&self.successors[node]);
            }
        }
        false
    }

    /// The schemas that satisfy a predicate or refer to one that does, directly or transitively.
    pub(super) fn reaching(&self, matches: impl Fn(&Value) -> bool) -> Reaching<'_> {
        let mut predecessors = vec![Vec::new(); self.schemas.len()];
        for (node, nexts) in self.successors.iter().enumerate() {
            for &next in nexts {
                predecessors[next].push(node);
            }
        }
        let mut found = vec![false; self.schemas.len()];
        let mut waiting: Vec<usize> =
            (0..self.schemas.len()).filter(|&node| matches(self.schemas[node])).collect();
        while let Some(node) = waiting.pop() {
            if !std::mem::replace(&mut found[node], true) {
                waiting.extend(&predecessors[node]);
            }
        }
        Reaching { nodes: &self.nodes, found }
    }
}

/// The result of [`SchemaGraph::reaching`].
pub(super) struct Reaching<'g> {
    nodes: &'g HashMap<Key, usize>,
    found: Vec<bool>,
}

impl Reaching<'_> {
    pub(super) fn contains(&self, key: &Key) -> bool {
        key.kind == Kind::Schema && self.nodes.get(key).is_some_and(|&node| self.found[node])
    }
}
