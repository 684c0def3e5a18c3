//! The schemas of one document, and which of them apply which to the same place or below it.
//!
//! References lead where they lead for the compiler: its own library resolves them. Deliberately
//! absent: what keywords demand, and which of them a dialect knows: one that it does not know only
//! makes a schema look heavier.

mod resolve;

use std::collections::{BTreeMap, HashMap};

use resolve::{Place, References};
use serde_json::{Map, Value};

use super::{InvalidSchema, Weight};
use crate::{
    document::pointer_join,
    reference::{Key, SchemaRef},
};

/// What one schema object applies.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) pointer: String,
    /// To the same place, all of them.
    pub(super) all: Vec<usize>,
    /// To the same place, as alternatives.
    pub(super) either: Vec<usize>,
    /// Registered schemas that apply to the same place.
    pub(super) registered: Vec<Weight>,
    /// To one member or item each.
    pub(super) parts: BTreeMap<String, Vec<usize>>,
    /// To members or items that others may apply to, too.
    pub(super) beside: Vec<usize>,
    /// To members or items that no other schema of the node applies to.
    pub(super) unevaluated: Vec<usize>,
}

pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
}

impl Graph {
    /// Everything that the root leads to; the root is node 0.
    pub(super) fn of(schema: &Value, weight_of: &mut dyn FnMut(&Key) -> Weight) -> Self {
        References::with(schema, |references| {
            let (by_address, waiting, nodes) = (HashMap::new(), Vec::new(), Vec::new());
            let mut reader = Reader { references, by_address, waiting, weight_of, nodes };
            reader.node(references.root(), String::new());
            while let Some((map, node, place)) = reader.waiting.pop() {
                reader.read(map, node, &place);
            }
            Self { nodes: reader.nodes }
        })
    }

    pub(super) fn same_place(&self, node: usize) -> impl Iterator<Item = usize> {
        let Node { all, either, .. } = &self.nodes[node];
        all.iter().chain(either).copied()
    }

    /// The nodes, each after all that it applies to the same place. A node that leads back to
    /// itself in one way only does so once; in two ways, it would double with every turn.
    pub(super) fn innermost_first(&self) -> Result<Vec<usize>, InvalidSchema> {
        let count = self.nodes.len();
        let mut users = vec![Vec::new(); count];
        let mut open = vec![0_usize; count];
        for (node, open) in open.iter_mut().enumerate() {
            for other in self.same_place(node) {
                users[other].push(node);
                *open += 1;
            }
        }
        let mut order: Vec<usize> = (0..count).filter(|&node| open[node] == 0).collect();
        let mut next = 0;
        loop {
            while let Some(&node) = order.get(next) {
                next += 1;
                for &user in &users[node] {
                    // What is in a circle has its place in the order already.
                    if open[user] == 0 {
                        continue;
                    }
                    open[user] -= 1;
                    if open[user] == 0 {
                        order.push(user);
                    }
                }
            }
            // What is left is in a circle, or leads to one: walk until the walk closes.
            let Some(start) = (0..count).find(|&node| open[node] > 0) else { return Ok(order) };
            let circle = self.circle_from(start, &open)?;
            for node in circle {
                open[node] = 0;
                order.push(node);
            }
        }
    }

    fn circle_from(&self, start: usize, open: &[usize]) -> Result<Vec<usize>, InvalidSchema> {
        let (mut walk, mut at) = (Vec::new(), start);
        let mut seen = vec![false; self.nodes.len()];
        while !std::mem::replace(&mut seen[at], true) {
            walk.push(at);
            match self.same_place(at).find(|&other| open[other] > 0) {
                Some(other) => at = other,
                None => break,
            }
        }
        let begin = walk.iter().position(|&node| node == at).unwrap_or(0);
        let circle = walk.split_off(begin);
        for &node in &circle {
            if self.same_place(node).filter(|&other| open[other] > 0).count() > 1 {
                return Err(InvalidSchema::LeadsBack { pointer: self.nodes[node].pointer.clone() });
            }
        }
        Ok(circle)
    }
}

/// A document while it is read.
struct Reader<'a, 'w> {
    references: &'w References<'a>,
    by_address: HashMap<usize, usize>,
    waiting: Vec<(&'a Map<String, Value>, usize, Place<'a>)>,
    weight_of: &'w mut dyn FnMut(&Key) -> Weight,
    nodes: Vec<Node>,
}

impl<'a> Reader<'a, '_> {
    /// The node of a schema at its place.
    fn node(&mut self, place: Place<'a>, pointer: String) -> usize {
        let address = std::ptr::from_ref(place.schema).addr();
        if let Some(&known) = self.by_address.get(&address) {
            return known;
        }
        let number = self.nodes.len();
        self.by_address.insert(address, number);
        self.nodes.push(Node { pointer, ..Node::default() });
        if let Value::Object(map) = place.schema {
            self.waiting.push((map, number, place));
        }
        number
    }

    fn read(&mut self, map: &'a Map<String, Value>, node: usize, place: &Place<'a>) {
        for (name, value) in map {
            let at = pointer_join(&self.nodes[node].pointer, name);
            match name.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => self.refer(name, value, node, place),
                "allOf" | "not" | "if" => self.add((value, place), at, node, |node| &mut node.all),
                "anyOf" | "oneOf" | "then" | "else" => {
                    self.add((value, place), at, node, |node| &mut node.either);
                }
                "dependentSchemas" | "dependencies" => {
                    self.each_named((value, place), &at, node, |node, _| &mut node.all);
                }
                "properties" => self.each_named((value, place), &at, node, |node, name| {
                    node.parts.entry(format!("member {name}")).or_default()
                }),
                "patternProperties" => {
                    self.each_named((value, place), &at, node, |node, _| &mut node.beside);
                }
                "additionalProperties" | "propertyNames" => {
                    let part = name.clone();
                    self.add((value, place), at, node, move |node| {
                        node.parts.entry(part).or_default()
                    });
                }
                "contains" => self.add((value, place), at, node, |node| &mut node.beside),
                "items" | "prefixItems" | "additionalItems" => {
                    self.items((value, place), &at, node);
                }
                "unevaluatedProperties" | "unevaluatedItems" => {
                    self.add((value, place), at, node, |node| &mut node.unevaluated);
                }
                _ => {}
            }
        }
    }

    /// A schema, or a list of them, into one list of the node.
    fn add(
        &mut self,
        (value, place): (&'a Value, &Place<'a>),
        at: String,
        node: usize,
        list: impl FnOnce(&mut Node) -> &mut Vec<usize>,
    ) {
        let found: Vec<usize> = match value {
            Value::Array(items) => {
                let each = items.iter().enumerate();
                each.map(|(i, item)| self.node(place.child(item), format!("{at}/{i}"))).collect()
            }
            value => vec![self.node(place.child(value), at)],
        };
        list(&mut self.nodes[node]).extend(found);
    }

    fn each_named(
        &mut self,
        (value, place): (&'a Value, &Place<'a>),
        at: &str,
        node: usize,
        list: impl for<'n> Fn(&'n mut Node, &str) -> &'n mut Vec<usize>,
    ) {
        let Value::Object(named) = value else { return };
        for (name, value) in named {
            let found = self.node(place.child(value), pointer_join(at, name));
            list(&mut self.nodes[node], name).push(found);
        }
    }

    fn items(&mut self, (value, place): (&'a Value, &Place<'a>), at: &str, node: usize) {
        let Value::Array(items) = value else {
            let part = format!("rest {at}");
            self.add((value, place), at.to_owned(), node, move |node| {
                node.parts.entry(part).or_default()
            });
            return;
        };
        for (i, item) in items.iter().enumerate() {
            let found = self.node(place.child(item), format!("{at}/{i}"));
            self.nodes[node].parts.entry(format!("item {i}")).or_default().push(found);
        }
    }

    fn refer(&mut self, keyword: &str, reference: &Value, node: usize, place: &Place<'a>) {
        let Some(text) = reference.as_str() else { return };
        if let Some(registered) = SchemaRef::parse(text) {
            if let Ok(registered) = registered {
                let weight = (self.weight_of)(registered.key());
                self.nodes[node].registered.push(weight);
            }
            return;
        }
        for target in self.references.targets(keyword, text, place) {
            let target = self.node(target, text.to_owned());
            self.nodes[node].all.push(target);
        }
    }
}
