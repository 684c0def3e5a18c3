//! The schemas of one document and their subschemas for the same location or below it.
//!
//! References are resolved by the compiler's library.

mod resolve;

use std::collections::{BTreeMap, HashMap};

use regex_syntax::hir::{HirKind, Look};
use resolve::{Place, References};
use serde_json::{Map, Value};

use super::{InvalidSchema, Weight};
use crate::{name::SchemaName, pointer::pointer_join};

/// A member or an item of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Child {
    /// The index of its name; `None` for undeclared members.
    Member(Option<usize>),
    /// Its position; `None` for the items after `prefixItems`.
    Item(Option<usize>),
    /// The name of a member.
    Name,
}

impl Child {
    pub(super) const OTHER_MEMBER: Self = Self::Member(None);
    pub(super) const OTHER_ITEM: Self = Self::Item(None);

    /// The children without this name.
    pub(super) fn other(self) -> Option<Self> {
        match self {
            Self::Member(Some(_)) => Some(Self::OTHER_MEMBER),
            Self::Item(Some(_)) => Some(Self::OTHER_ITEM),
            Self::Member(None) | Self::Item(None) | Self::Name => None,
        }
    }
}

/// The common prefix of all matches of a regular expression; empty if unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<u8>);

impl Pattern {
    fn parse(pattern: &str) -> Self {
        let hir = regex_syntax::parse(pattern).ok();
        let prefix = hir.and_then(|hir| match hir.kind() {
            HirKind::Concat(parts) => match [parts.first()?.kind(), parts.get(1)?.kind()] {
                [HirKind::Look(Look::Start), HirKind::Literal(text)] => Some(text.0.to_vec()),
                _ => None,
            },
            _ => None,
        });
        Self(prefix.unwrap_or_default())
    }
}

/// The subschemas of one schema object.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) pointer: String,
    /// For the same location; all of them apply.
    pub(super) all: Vec<usize>,
    /// For the same location; alternatives.
    pub(super) either: Vec<usize>,
    /// Registered schemas for the same location.
    pub(super) registered: Vec<Weight>,
    /// For one child each, or for the children without another schema.
    pub(super) parts: BTreeMap<Child, Vec<usize>>,
    /// For members whose names match a regular expression.
    pub(super) patterns: Vec<(Pattern, usize)>,
    /// For children that may have other schemas, too.
    pub(super) beside: Vec<usize>,
    /// For members or items without another schema.
    pub(super) unevaluated: Vec<usize>,
}

pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// The names of members by index.
    names: Vec<String>,
}

impl Graph {
    /// The graph of all schemas reachable from the root, which is node 0.
    pub(super) fn build(
        schema: &Value,
        weight_of: &mut dyn FnMut(&SchemaName) -> Option<Weight>,
    ) -> Self {
        References::with(schema, |references| {
            let mut reader = Reader {
                references,
                weight_of,
                by_address: HashMap::new(),
                waiting: Vec::new(),
                nodes: Vec::new(),
                numbers: HashMap::new(),
            };
            reader.node(references.root(), String::new());
            while let Some((map, node, place)) = reader.waiting.pop() {
                reader.read(map, node, &place);
            }
            let mut names = vec![String::new(); reader.numbers.len()];
            for (name, number) in reader.numbers {
                name.clone_into(&mut names[number]);
            }
            Self { nodes: reader.nodes, names }
        })
    }

    /// Whether a regular expression may match the name of a child.
    pub(super) fn may_match(&self, Pattern(prefix): &Pattern, child: Child) -> bool {
        match child {
            Child::Member(Some(number)) => self.names[number].as_bytes().starts_with(prefix),
            Child::Member(None) => true,
            Child::Item(_) | Child::Name => false,
        }
    }

    pub(super) fn same_place(&self, node: usize) -> impl Iterator<Item = usize> {
        let Node { all, either, .. } = &self.nodes[node];
        all.iter().chain(either).copied()
    }

    /// The nodes in dependency order for the same location. A single recursive path is traversed
    /// once; with two, the cost would double at each level.
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
                    // The nodes of a cycle are already in the order.
                    if open[user] == 0 {
                        continue;
                    }
                    open[user] -= 1;
                    if open[user] == 0 {
                        order.push(user);
                    }
                }
            }
            // The remaining nodes are on a cycle or precede one; walking finds it.
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

/// A document being parsed.
struct Reader<'a, 'w> {
    references: &'w References<'a>,
    by_address: HashMap<usize, usize>,
    waiting: Vec<(&'a Map<String, Value>, usize, Place<'a>)>,
    weight_of: &'w mut dyn FnMut(&SchemaName) -> Option<Weight>,
    nodes: Vec<Node>,
    /// The indices of member names.
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Reader<'a, '_> {
    /// The node of a schema at its location.
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
                    for (_, found) in self.each_named((value, place), &at) {
                        self.nodes[node].all.push(found);
                    }
                }
                "properties" => {
                    for (name, found) in self.each_named((value, place), &at) {
                        let next = self.numbers.len();
                        let number = *self.numbers.entry(name).or_insert(next);
                        self.part(node, Child::Member(Some(number))).push(found);
                    }
                }
                "patternProperties" => {
                    for (pattern, found) in self.each_named((value, place), &at) {
                        self.nodes[node].patterns.push((Pattern::parse(pattern), found));
                    }
                }
                "additionalProperties" => {
                    self.add((value, place), at, node, |node| {
                        node.parts.entry(Child::OTHER_MEMBER).or_default()
                    });
                }
                "propertyNames" => {
                    self.add((value, place), at, node, |node| {
                        node.parts.entry(Child::Name).or_default()
                    });
                }
                "contains" => self.add((value, place), at, node, |node| &mut node.beside),
                // Without a list in `items` it has no effect.
                "additionalItems" if !map.get("items").is_some_and(Value::is_array) => {}
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

    /// Adds a schema or a list of schemas to one list of the node.
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

    fn part(&mut self, node: usize, child: Child) -> &mut Vec<usize> {
        self.nodes[node].parts.entry(child).or_default()
    }

    /// The nodes of named subschemas.
    fn each_named(
        &mut self,
        (value, place): (&'a Value, &Place<'a>),
        at: &str,
    ) -> Vec<(&'a str, usize)> {
        let named = value.as_object().into_iter().flatten();
        let node = |(name, value): (&'a String, &'a Value)| {
            (name.as_str(), self.node(place.child(value), pointer_join(at, name)))
        };
        named.map(node).collect()
    }

    fn items(&mut self, (value, place): (&'a Value, &Place<'a>), at: &str, node: usize) {
        let Value::Array(items) = value else {
            self.add((value, place), at.to_owned(), node, |node| {
                node.parts.entry(Child::OTHER_ITEM).or_default()
            });
            return;
        };
        for (i, item) in items.iter().enumerate() {
            let found = self.node(place.child(item), format!("{at}/{i}"));
            self.part(node, Child::Item(Some(i))).push(found);
        }
    }

    fn refer(&mut self, keyword: &str, reference: &Value, node: usize, place: &Place<'a>) {
        let Some(text) = reference.as_str() else { return };
        if let Some(name) = SchemaName::parse(text) {
            let weight = (self.weight_of)(&name);
            self.nodes[node].registered.extend(weight);
            return;
        }
        for target in self.references.targets(keyword, text, place) {
            let target = self.node(target, text.to_owned());
            self.nodes[node].all.push(target);
        }
    }
}
