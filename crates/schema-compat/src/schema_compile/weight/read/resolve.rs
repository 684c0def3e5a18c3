//! Resolution of the references of a document as done by the compiler.

use std::collections::HashMap;

use jsonschema::{Draft, Retrieve, Uri, uri};
use referencing::{Registry, Resolver, SPECIFICATIONS};
use serde_json::Value;

use crate::{
    json_schema::{each_part, has_references},
    schema_compile::{ROOT, draft},
};

/// A schema with the base of its references.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub(super) schema: &'a Value,
    /// `None` if the document has no references.
    base: Option<Base<'a>>,
}

#[derive(Clone)]
struct Base<'a> {
    resolver: Resolver<'a>,
    draft: Draft,
}

impl<'a> Place<'a> {
    /// The location of a subschema.
    pub(super) fn child(&self, schema: &'a Value) -> Self {
        Self { schema, base: self.base.as_ref().map(|base| base.within(schema)) }
    }
}

impl Base<'_> {
    fn within(&self, schema: &Value) -> Self {
        let draft = self.draft.detect(schema);
        let resolver = self.resolver.in_subresource(draft.create_resource_ref(schema));
        // An `$id` that is an invalid URI does not compile either.
        Self { resolver: resolver.unwrap_or_else(|_| self.resolver.clone()), draft }
    }
}

/// The references of one document.
pub(super) struct References<'a> {
    root: Place<'a>,
    /// The schemas with each dynamic anchor; `$recursiveAnchor` has the empty name.
    dynamic: HashMap<&'a str, Vec<Place<'a>>>,
}

impl References<'_> {
    /// Resolves the references of a document during the call of `read`.
    pub(super) fn with<T>(schema: &Value, read: impl FnOnce(&References<'_>) -> T) -> T {
        let without = || References { root: Place { schema, base: None }, dynamic: HashMap::new() };
        if !has_references(schema) {
            return read(&without());
        }
        let document = draft(schema).create_resource_ref(schema);
        let registry = Registry::new().retriever(Nothing).add(ROOT, document);
        // An unreadable document does not compile either.
        let registry = registry.and_then(referencing::RegistryBuilder::prepare);
        match (registry, uri::from_str(ROOT)) {
            (Ok(registry), Ok(root)) => {
                let resolver = registry.resolver(root);
                let base = Base { resolver, draft: Draft::Draft202012 };
                let root = Place { schema, base: Some(base.within(schema)) };
                let mut dynamic = HashMap::new();
                collect_dynamic(&root, &mut dynamic);
                read(&References { root, dynamic })
            }
            _ => read(&without()),
        }
    }
}

impl<'a> References<'a> {
    pub(super) fn root(&self) -> Place<'a> {
        self.root.clone()
    }

    /// The possible targets of a reference.
    pub(super) fn targets(&self, keyword: &str, text: &str, from: &Place<'a>) -> Vec<Place<'a>> {
        let Some(base) = &from.base else { return Vec::new() };
        let text = if keyword == "$recursiveRef" { "#" } else { text };
        // A missing target does not compile either.
        let Ok(found) = base.resolver.lookup(text) else { return Vec::new() };
        let (schema, resolver, draft) = found.into_inner();
        if is_meta_schema(&resolver) {
            return Vec::new();
        }
        let found = Place { schema, base: Some(Base { resolver, draft }) };
        let Some(anchor) = dynamic_anchor(keyword, text, schema) else { return vec![found] };
        // Evaluation starts at the root, whose anchor is the outermost (JSON Schema 2020-12, core,
        // section 8.2.3.2). Other anchors may apply in any order.
        if dynamic_anchor(keyword, text, self.root.schema) == Some(anchor) {
            return vec![self.root()];
        }
        let mut targets = self.dynamic.get(anchor).cloned().unwrap_or_default();
        if !targets.iter().any(|target| std::ptr::eq(target.schema, schema)) {
            targets.push(found);
        }
        targets
    }
}

/// Whether references start in a real meta-schema, which is light, instead of a part of the
/// document with its URI.
fn is_meta_schema(resolver: &Resolver<'_>) -> bool {
    let uri = resolver.base_uri();
    let known = SPECIFICATIONS.resolver((*uri).clone());
    match (known.lookup("#"), resolver.lookup("#")) {
        (Ok(known), Ok(found)) => std::ptr::eq(known.contents(), found.contents()),
        _ => false,
    }
}

/// The anchor that makes a reference to this schema dynamic, if there is one.
fn dynamic_anchor<'t>(keyword: &str, text: &str, target: &'t Value) -> Option<&'t str> {
    match keyword {
        "$dynamicRef" => {
            let anchor = target.get("$dynamicAnchor")?.as_str()?;
            let (_, fragment) = text.split_once('#')?;
            (fragment == anchor).then_some(anchor)
        }
        "$recursiveRef" => (target.get("$recursiveAnchor")? == true).then_some(""),
        _ => None,
    }
}

fn collect_dynamic<'a>(place: &Place<'a>, found: &mut HashMap<&'a str, Vec<Place<'a>>>) {
    if let Some(anchor) = place.schema.get("$dynamicAnchor").and_then(Value::as_str) {
        found.entry(anchor).or_default().push(place.clone());
    }
    if place.schema.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
        found.entry("").or_default().push(place.clone());
    }
    each_part(place.schema, &mut |part| collect_dynamic(&place.child(part), found));
}

/// An external document weighs nothing: it is a meta-schema, or does not compile.
struct Nothing;

impl Retrieve for Nothing {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Value::Bool(true))
    }
}
