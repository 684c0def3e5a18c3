//! The registered schemas behind a batch, and which of them leads to which: read once, asked often.
//!
//! Deliberately absent: references to nothing, which have a rule of their own.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::{Relation, edges, proposal::Proposal};
use crate::{
    entity::Entity,
    reference::{Key, Kind},
};

pub(super) struct SchemaGraph<'a> {
    nodes: HashMap<Key, usize>,
    schemas: Vec<&'a Value>,
    successors: Vec<Vec<usize>>,
}

impl<'a> SchemaGraph<'a> {
    /// Every schema that something of the batch leads to.
    pub(super) fn of(proposal: &Proposal<'a>) -> Self {
        let references = proposal.new.iter().flat_map(|new| &new.references);
        let mut waiting: VecDeque<Key> =
            references.filter(|r| r.relation == Relation::Schema).map(|r| r.key.clone()).collect();
        let (mut nodes, mut schemas, mut targets) = (HashMap::new(), Vec::new(), Vec::new());
        while let Some(key) = waiting.pop_front() {
            if nodes.contains_key(&key) {
                continue;
            }
            let Some(entity @ Entity::Schema(schema)) = proposal.find(&key) else { continue };
            nodes.insert(key, schemas.len());
            schemas.push(&schema.schema);
            let edges = edges(entity);
            waiting.extend(edges.iter().cloned());
            targets.push(edges);
        }
        let indices = |keys: Vec<Key>| keys.iter().filter_map(|k| nodes.get(k).copied()).collect();
        let successors = targets.into_iter().map(indices).collect();
        Self { nodes, schemas, successors }
    }

    /// Whether these keys lead to more than so many schemas, themselves included.
    pub(super) fn leads_to_more_than<'k>(
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

    /// The schemas that are so themselves, or lead to one that is.
    pub(super) fn leading_to(&self, is_so: impl Fn(&Value) -> bool) -> Leading<'_> {
        let mut predecessors = vec![Vec::new(); self.schemas.len()];
        for (node, nexts) in self.successors.iter().enumerate() {
            for &next in nexts {
                predecessors[next].push(node);
            }
        }
        let mut found = vec![false; self.schemas.len()];
        let mut waiting: Vec<usize> =
            (0..self.schemas.len()).filter(|&node| is_so(self.schemas[node])).collect();
        while let Some(node) = waiting.pop() {
            if !std::mem::replace(&mut found[node], true) {
                waiting.extend(&predecessors[node]);
            }
        }
        Leading { nodes: &self.nodes, found }
    }
}

/// An answer of [`SchemaGraph::leading_to`].
pub(super) struct Leading<'g> {
    nodes: &'g HashMap<Key, usize>,
    found: Vec<bool>,
}

impl Leading<'_> {
    pub(super) fn contains(&self, key: &Key) -> bool {
        key.kind == Kind::Schema && self.nodes.get(key).is_some_and(|&node| self.found[node])
    }
}
