//! The schemas of a comparison as nodes, each parsed once on first access.
//!
//! Nodes are identified by the address of their JSON, so a registered schema that both sides refer
//! to is one node.

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use serde_json::Value;

use super::{
    Definition, Resolve,
    lower::{self, Source},
    rules::{Opaque, Rules},
};
use crate::{
    json_schema::each_object_at,
    name::SchemaName,
    pointer::{Location, pointer_join},
    schema_compile::{ROOT, resources},
};

pub(super) type Id = usize;

/// The JSON Schema version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Draft7,
    Draft201909,
    Draft202012,
    /// Draft 4 or 6, which are not compared.
    Older,
}

impl Dialect {
    fn from_schema(schema: &Value) -> Self {
        schema.get("$schema").and_then(Value::as_str).map_or(Self::Draft202012, Self::named)
    }

    pub(super) fn named(declared: &str) -> Self {
        match declared {
            text if text.contains("/2020-12/") => Self::Draft202012,
            text if text.contains("/2019-09/") => Self::Draft201909,
            text if text.contains("/draft-07/") => Self::Draft7,
            _ => Self::Older,
        }
    }
}

/// A JSON Schema with its own references: a part of an entity.
pub(super) struct Document<'a> {
    /// The name of a registered schema; `None` for the two compared schemas.
    pub(super) key: Option<SchemaName>,
    pub(super) dialect: Dialect,
    root: &'a Value,
    /// JSON pointer of the root in its entity.
    at: String,
    /// The location of each anchor; `None` if it is ambiguous.
    anchors: BTreeMap<&'a str, Option<(&'a Value, String)>>,
    /// Whether subschemas have an `$id` or `$schema` of their own. Their references are not
    /// followed.
    has_resources: bool,
}

struct Slot<'a> {
    document: usize,
    /// JSON pointer in its entity.
    pointer: String,
    /// The keyword that led to it first; `None` for a root.
    applied_by: Option<&'static str>,
    value: Option<&'a Value>,
    rules: Option<Rc<Rules>>,
}

pub(super) struct Arena<'a> {
    resolve: Resolve<'a>,
    documents: Vec<Document<'a>>,
    by_key: HashMap<SchemaName, usize>,
    slots: Vec<Slot<'a>>,
    by_address: HashMap<(usize, usize), Id>,
    /// The parsing cost since the last call of `take_work`, in steps.
    work: usize,
    /// Whether a schema may impersonate a meta-schema by its `$id`.
    has_impostors: bool,
}

/// Meta-schemas that have the same meaning in any context. Later ones refer to definitions of their
/// user (`$dynamicRef`, `$recursiveRef`).
const META_SCHEMAS: [&str; 2] =
    ["http://json-schema.org/draft-07/schema", "http://json-schema.org/draft-07/schema#"];

/// The target of a reference.
pub(super) enum Target {
    Node(Id),
    /// One of [`META_SCHEMAS`].
    Meta,
    /// Not followed.
    Unknown,
}

impl<'a> Arena<'a> {
    pub(super) fn new(resolve: Resolve<'a>) -> Self {
        Self {
            resolve,
            documents: Vec::new(),
            by_key: HashMap::new(),
            slots: Vec::new(),
            by_address: HashMap::new(),
            work: 0,
            has_impostors: false,
        }
    }

    /// Adds a schema to compare and returns its root node.
    pub(super) fn add(&mut self, schema: &'a Value, at: &str) -> Id {
        let document = self.add_document(schema, at, None);
        self.node_of(document, schema, at.to_owned(), None)
    }

    fn add_document(&mut self, root: &'a Value, at: &str, key: Option<SchemaName>) -> usize {
        let (mut anchors, mut has_resources) = (BTreeMap::new(), false);
        let (dialect, mut places) = (Dialect::from_schema(root), Vec::new());
        let mut objects = 0;
        each_object_at(root, Location::ROOT, &mut |map, place| {
            objects += 1;
            let inner = !std::ptr::eq(map, root.as_object().unwrap_or(map));
            let declared = map.get("$schema").and_then(Value::as_str);
            let is_other = declared.is_some_and(|text| Dialect::named(text) != dialect);
            let id = map.get("$id");
            has_resources |= inner && (id.is_some() || is_other);
            if ["$anchor", "$dynamicAnchor"].iter().any(|k| map.contains_key(*k)) {
                places.push(place.to_string());
            }
        });
        for place in places {
            let Some(value) = root.pointer(&place) else { continue };
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = value.get(keyword).and_then(Value::as_str) {
                    // A repeated anchor may be inside of data, and a dynamic one depends on the
                    // context.
                    let is_certain = keyword == "$anchor" && !anchors.contains_key(name);
                    anchors.insert(name, is_certain.then(|| (value, place.clone())));
                }
            }
        }
        self.work += objects / 8;
        let base = key.as_ref().map_or(ROOT.to_owned(), SchemaName::uri);
        let mut ids = resources(root, &base).into_iter();
        self.has_impostors |= ids.any(|uri| uri.contains("json-schema.org"));
        let at = at.to_owned();
        self.documents.push(Document { key, dialect, root, at, anchors, has_resources });
        self.documents.len() - 1
    }

    fn node_of(
        &mut self,
        document: usize,
        value: &'a Value,
        pointer: String,
        applied_by: Option<&'static str>,
    ) -> Id {
        let address = (document, std::ptr::from_ref(value).addr());
        *self.by_address.entry(address).or_insert_with(|| {
            let value = Some(value);
            self.slots.push(Slot { document, pointer, applied_by, value, rules: None });
            self.slots.len() - 1
        })
    }

    /// A derived node without JSON, in the document of another one.
    pub(super) fn synthetic(&mut self, beside: Id, rules: Rules) -> Id {
        let Slot { document, pointer, applied_by, .. } = &self.slots[beside];
        let (document, pointer, applied_by) = (*document, pointer.clone(), *applied_by);
        let rules = Some(Rc::new(rules));
        self.slots.push(Slot { document, pointer, applied_by, value: None, rules });
        self.slots.len() - 1
    }

    /// The rules of a node.
    pub(super) fn rules(&mut self, id: Id) -> Rc<Rules> {
        if let Some(rules) = &self.slots[id].rules {
            return rules.clone();
        }
        let rules = Rc::new(match self.slots[id].value {
            Some(value) => lower::rules(value, &mut Source { arena: self, node: id }),
            None => Rules::default(),
        });
        self.work += rules.size() / 8;
        self.slots[id].rules = Some(rules.clone());
        rules
    }

    /// Returns and resets the parsing cost in steps.
    pub(super) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// The complete schemas that were parsed.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'a Value> {
        self.documents.iter().map(|document| document.root)
    }

    /// A part of a node's JSON as a node: the value of a keyword, or one of its values with this
    /// name or index.
    pub(super) fn part(
        &mut self,
        of: Id,
        value: &'a Value,
        keyword: &'static str,
        inner: Option<&str>,
    ) -> Id {
        let Slot { document, pointer, .. } = &self.slots[of];
        let (document, mut pointer) = (*document, pointer_join(pointer, keyword));
        if let Some(inner) = inner {
            pointer = pointer_join(&pointer, inner);
        }
        self.node_of(document, value, pointer, Some(keyword))
    }

    /// The target of a node's reference.
    pub(super) fn follow(&mut self, from: Id, reference: &str) -> Target {
        let target = self.target(from, reference);
        // An unfollowed target may impersonate anything by its `$id`.
        self.has_impostors |= matches!(target, Target::Unknown);
        target
    }

    fn target(&mut self, from: Id, reference: &str) -> Target {
        if let Some(name) = SchemaName::parse(reference) {
            return self.named(&name);
        }
        if META_SCHEMAS.contains(&reference) {
            return Target::Meta;
        }
        let number = self.slots[from].document;
        let document = &self.documents[number];
        let own = document.root.get("$id").and_then(Value::as_str).unwrap_or_default();
        let own = own.strip_suffix('#').unwrap_or(own);
        let fragment = match reference.split_once('#') {
            Some((uri, fragment)) if uri.is_empty() || uri == own => fragment,
            None if !own.is_empty() && reference == own => "",
            _ => return Target::Unknown,
        };
        if document.has_resources || fragment.contains(['%', '#']) {
            return Target::Unknown;
        }
        let found = match document.anchors.get(fragment) {
            Some(anchor) => anchor.clone(),
            None => document.root.pointer(fragment).map(|value| (value, fragment.to_owned())),
        };
        let at = document.at.clone();
        match found {
            Some((value, place)) => {
                Target::Node(self.node_of(number, value, format!("{at}{place}"), Some("$ref")))
            }
            None => Target::Unknown,
        }
    }

    /// Whether an equal constraint elsewhere accepts the same values.
    pub(super) fn is_fixed(&self, opaque: &Opaque) -> bool {
        match opaque.keyword {
            "$ref" => opaque.text.is_some() && !self.has_impostors,
            _ => opaque.text.is_some(),
        }
    }

    fn named(&mut self, key: &SchemaName) -> Target {
        let Some(Definition { schema, pointer }) = (self.resolve)(key) else {
            return Target::Unknown;
        };
        let document = if let Some(known) = self.by_key.get(key) {
            *known
        } else {
            let added = self.add_document(schema, pointer, Some(key.clone()));
            self.by_key.insert(key.clone(), added);
            added
        };
        Target::Node(self.node_of(document, schema, pointer.to_owned(), Some("$ref")))
    }

    pub(super) fn dialect(&self, id: Id) -> Dialect {
        self.documents[self.slots[id].document].dialect
    }

    /// JSON pointer of a node in its entity.
    pub(super) fn pointer(&self, id: Id) -> &str {
        &self.slots[id].pointer
    }

    /// The registered schema that contains a node; `None` for the two compared schemas.
    pub(super) fn key_of(&self, id: Id) -> Option<&SchemaName> {
        self.documents[self.slots[id].document].key.as_ref()
    }

    /// The index of a node's document.
    pub(super) fn document_of(&self, id: Id) -> usize {
        self.slots[id].document
    }

    /// The keyword that a synthetic node implements.
    pub(super) fn stands_for(&self, id: Id) -> Option<&'static str> {
        self.slots[id].rules.as_ref().and_then(|rules| rules.stands_for)
    }

    /// The keyword whose value contains the node; `None` for a root.
    pub(super) fn applied_by(&self, id: Id) -> Option<&'static str> {
        self.slots[id].applied_by
    }

    /// The JSON of a node; `None` for a synthetic node.
    pub(super) fn json(&self, id: Id) -> Option<&'a Value> {
        self.slots[id].value
    }
}
