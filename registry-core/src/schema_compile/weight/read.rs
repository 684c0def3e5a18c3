//! The schemas of one document, and which of them apply which to the same place or below it.
//!
//! Deliberately absent: what keywords demand, and dialects: a keyword that a dialect does not know
//! only makes a schema look heavier.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::{InvalidSchema, Weight};
use crate::{
    decode::At,
    document::pointer_join,
    json_schema::each_object_at,
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
    /// `unevaluated…` looks at everything beside it once more.
    pub(super) is_double: bool,
}

pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
}

impl Graph {
    /// Everything that the root leads to; the root is node 0.
    pub(super) fn of(schema: &Value, weight_of: &mut dyn FnMut(&Key) -> Weight) -> Self {
        let mut reader = Reader::new(schema, weight_of);
        reader.node(schema, String::new());
        while let Some((map, node)) = reader.waiting.pop() {
            reader.read(map, node);
        }
        Self { nodes: reader.nodes }
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
    root: &'a Value,
    /// Resources by their `$id`, anchors by their names.
    named: HashMap<&'a str, Vec<&'a Value>>,
    by_address: HashMap<usize, usize>,
    waiting: Vec<(&'a Map<String, Value>, usize)>,
    weight_of: &'w mut dyn FnMut(&Key) -> Weight,
    nodes: Vec<Node>,
}

impl<'a, 'w> Reader<'a, 'w> {
    fn new(root: &'a Value, weight_of: &'w mut dyn FnMut(&Key) -> Weight) -> Self {
        let (mut places, mut named) = (Vec::new(), HashMap::<_, Vec<_>>::new());
        let keywords = ["$id", "id", "$anchor", "$dynamicAnchor"];
        each_object_at(root, At::ROOT, &mut |map, at| {
            if keywords.iter().any(|name| map.contains_key(*name)) {
                places.push(at.to_string());
            }
        });
        for value in places.iter().filter_map(|place| root.pointer(place)) {
            for name in keywords.iter().filter_map(|name| value.get(*name)?.as_str()) {
                named.entry(last(name.trim_start_matches('#'))).or_default().push(value);
            }
        }
        let (by_address, waiting, nodes) = (HashMap::new(), Vec::new(), Vec::new());
        Self { root, named, by_address, waiting, weight_of, nodes }
    }

    fn node(&mut self, value: &'a Value, pointer: String) -> usize {
        let address = std::ptr::from_ref(value).addr();
        if let Some(&known) = self.by_address.get(&address) {
            return known;
        }
        let number = self.nodes.len();
        self.by_address.insert(address, number);
        self.nodes.push(Node { pointer, ..Node::default() });
        if let Value::Object(map) = value {
            self.waiting.push((map, number));
        }
        number
    }

    fn read(&mut self, map: &'a Map<String, Value>, node: usize) {
        for (name, value) in map {
            let at = pointer_join(&self.nodes[node].pointer, name);
            match name.as_str() {
                "$ref" | "$recursiveRef" => self.refer(value, node, |_| true),
                "$dynamicRef" => {
                    let root = self.root;
                    self.refer(value, node, |target| !is_overridden(root, target));
                }
                "allOf" | "not" | "if" => self.add(value, at, node, |node| &mut node.all),
                "anyOf" | "oneOf" | "then" | "else" => {
                    self.add(value, at, node, |node| &mut node.either);
                }
                "dependentSchemas" | "dependencies" => {
                    self.each_named(value, &at, node, |node, _| &mut node.all);
                }
                "properties" => self.each_named(value, &at, node, |node, name| {
                    node.parts.entry(format!("member {name}")).or_default()
                }),
                "patternProperties" => {
                    self.each_named(value, &at, node, |node, _| &mut node.beside);
                }
                "additionalProperties" | "propertyNames" => {
                    let part = name.clone();
                    self.add(value, at, node, move |node| node.parts.entry(part).or_default());
                }
                "contains" => self.add(value, at, node, |node| &mut node.beside),
                "items" | "prefixItems" | "additionalItems" => self.items(value, &at, node),
                "unevaluatedProperties" | "unevaluatedItems" => {
                    self.nodes[node].is_double = true;
                    self.add(value, at, node, |node| &mut node.beside);
                }
                _ => {}
            }
        }
    }

    /// A schema, or a list of them, into one list of the node.
    fn add(
        &mut self,
        value: &'a Value,
        at: String,
        node: usize,
        list: impl FnOnce(&mut Node) -> &mut Vec<usize>,
    ) {
        let found: Vec<usize> = match value {
            Value::Array(items) => {
                let each = items.iter().enumerate();
                each.map(|(i, item)| self.node(item, format!("{at}/{i}"))).collect()
            }
            value => vec![self.node(value, at)],
        };
        list(&mut self.nodes[node]).extend(found);
    }

    fn each_named(
        &mut self,
        value: &'a Value,
        at: &str,
        node: usize,
        list: impl for<'n> Fn(&'n mut Node, &str) -> &'n mut Vec<usize>,
    ) {
        let Value::Object(named) = value else { return };
        for (name, value) in named {
            let found = self.node(value, pointer_join(at, name));
            list(&mut self.nodes[node], name).push(found);
        }
    }

    fn items(&mut self, value: &'a Value, at: &str, node: usize) {
        let Value::Array(items) = value else {
            let part = format!("rest {at}");
            self.add(value, at.to_owned(), node, move |node| node.parts.entry(part).or_default());
            return;
        };
        for (i, item) in items.iter().enumerate() {
            let found = self.node(item, format!("{at}/{i}"));
            self.nodes[node].parts.entry(format!("item {i}")).or_default().push(found);
        }
    }

    fn refer(&mut self, reference: &Value, node: usize, may_lead_to: impl Fn(&Value) -> bool) {
        let Some(text) = reference.as_str() else { return };
        if let Some(registered) = SchemaRef::parse(text) {
            if let Ok(registered) = registered {
                let weight = (self.weight_of)(registered.key());
                self.nodes[node].registered.push(weight);
            }
            return;
        }
        for (value, place) in self.targets(text) {
            if !may_lead_to(value) {
                continue;
            }
            let target = self.node(value, place);
            self.nodes[node].all.push(target);
        }
    }

    /// Where a reference may lead: by its pointer in the document or in a resource of that `$id`,
    /// or by its anchor. Which of several is meant does not matter here.
    fn targets(&self, text: &str) -> Vec<(&'a Value, String)> {
        let (uri, fragment) = text.split_once('#').unwrap_or((text, ""));
        let resources = match self.named.get(last(uri)) {
            _ if uri.is_empty() => vec![self.root],
            Some(resources) => resources.clone(),
            None => return Vec::new(),
        };
        let mut found: Vec<&'a Value> = if fragment.is_empty() {
            resources
        } else if let Some(anchored) = self.named.get(fragment) {
            anchored.clone()
        } else {
            // An inner resource reads `#/…` as its own.
            let inner = self.named.values().flatten().copied().filter(|_| uri.is_empty());
            let all = resources.into_iter().chain(inner);
            all.filter_map(|resource| resource.pointer(&decoded(fragment))).collect()
        };
        found.sort_by_key(|value| std::ptr::from_ref(*value).addr());
        found.dedup_by_key(|value| std::ptr::from_ref(*value).addr());
        found.into_iter().map(|value| (value, fragment.to_owned())).collect()
    }
}

/// Whether dynamic references to this schema lead to the root, which has the same dynamic anchor
/// and is where every evaluation begins (JSON Schema 2020-12, core, section 8.2.3.2).
fn is_overridden(root: &Value, target: &Value) -> bool {
    let dynamic = |schema: &Value| schema.get("$dynamicAnchor").cloned();
    !std::ptr::eq(root, target) && dynamic(root).is_some_and(|name| dynamic(target) == Some(name))
}

/// The last step of a URI.
fn last(uri: &str) -> &str {
    uri.trim_end_matches('#').rsplit(['/', ':']).next().unwrap_or_default()
}

/// A fragment without percent escapes, as far as a pointer may have any.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..2).filter(|_| *first == b'%');
        let byte = escaped
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
