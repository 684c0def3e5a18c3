//! Comparison of one live tool with its registration.
//!
//! Schemas are compared like those of any two versions (`compatibility`).

use std::collections::BTreeSet;

use schema_compat::{
    compatibility::Difference as SchemaDifference, pointer::pointer_join, schema_compile::compile,
};
use serde_json::{Map, Value};

use super::{Class, Comparison, LiveDifference};
use crate::{
    compatibility::{self, CompatibilityDirection, Outcome, compare},
    document::canonical_bytes,
    entity::{Entity, TaskSupport, Tool, tool::is_reserved_meta_key},
    reference::Key,
    schema_inline::inlined,
};

/// The annotations that promise limited effects, with the strongest value of each.
const PROMISES: [(&str, bool); 4] = [
    ("readOnlyHint", true),
    ("destructiveHint", false),
    ("idempotentHint", true),
    ("openWorldHint", false),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Input,
    Output,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::Input => "inputSchema",
            Self::Output => "outputSchema",
        }
    }

    /// The registered schema, if it describes the upstream's own input or output.
    fn registered(self, tool: &Tool) -> Option<&Value> {
        let hides = tool.source().is_some_and(|source| !source.hide_fields.is_empty());
        match self {
            Self::Input => tool.input_schema.as_ref().filter(|_| !hides),
            Self::Output => tool.output_schema.as_ref().filter(|_| tool.output_transform.is_none()),
        }
    }

    /// The tool with this schema replaced.
    fn replaced(self, tool: &Tool, schema: Value) -> Entity {
        let mut tool = tool.clone();
        match self {
            Self::Input => tool.input_schema = Some(schema),
            Self::Output => tool.output_schema = Some(schema),
        }
        Entity::Tool(Box::new(tool))
    }
}

impl Comparison<'_> {
    pub(super) fn tool(&mut self, registered: &Tool, live: &Value) {
        let name = live["name"].as_str().unwrap_or_default();
        for (field, before) in
            [("title", &registered.title), ("description", &registered.description)]
        {
            let after = live.get(field).and_then(Value::as_str);
            self.text((name, &format!("/{field}")), before.as_deref(), after);
        }
        let nothing = Map::new();
        let said = live.get("annotations");
        match &registered.annotations {
            Some(before) => {
                let after = said.and_then(Value::as_object).unwrap_or(&nothing);
                self.annotations(name, before, after);
            }
            None => self.unregistered((name, "/annotations"), said.unwrap_or(&Value::Null)),
        }
        for (member, before) in [("execution", &registered.execution), ("_meta", &registered.meta)]
        {
            let said = live.get(member);
            match before {
                Some(before) => {
                    let after = said.and_then(Value::as_object).unwrap_or(&nothing);
                    self.open((name, member), before, after);
                }
                None => {
                    self.unregistered((name, &format!("/{member}")), said.unwrap_or(&Value::Null));
                }
            }
        }
        for field in [Field::Input, Field::Output] {
            let said = live.get(field.name()).filter(|schema| !schema.is_null());
            match (field.registered(registered), said) {
                (Some(before), said) => self.schema((registered, name), field, before, said),
                (None, Some(said)) => {
                    self.unregistered((name, &format!("/{}", field.name())), said);
                }
                (None, None) => {}
            }
        }
    }

    fn annotations(&mut self, tool: &str, before: &Map<String, Value>, after: &Map<String, Value>) {
        for (hint, promise) in PROMISES {
            let promised = |map: &Map<String, Value>| map.get(hint) == Some(&Value::Bool(promise));
            let at = format!("/annotations/{hint}");
            match (promised(before), promised(after)) {
                (true, false) => {
                    let what = format!("the server no longer declares `{hint}: {promise}`");
                    self.add(Class::Breaking, tool, &at, what);
                }
                (false, true) => {
                    let what = format!("the server declares `{hint}: {promise}`");
                    self.add(Class::Compatible, tool, &at, what);
                }
                _ => {}
            }
        }
        let title =
            |map: &Map<String, Value>| map.get("title").and_then(Value::as_str).map(str::to_owned);
        let (before, after) = (title(before), title(after));
        if before != after {
            self.text((tool, "/annotations/title"), before.as_deref(), after.as_deref());
        }
    }

    /// Compares `execution` or `_meta`. Only `taskSupport` has a known meaning.
    fn open(
        &mut self,
        (tool, member): (&str, &str),
        before: &Map<String, Value>,
        after: &Map<String, Value>,
    ) {
        let all: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for key in all.into_iter().filter(|key| !is_reserved_meta_key(key)) {
            let at = pointer_join(&format!("/{member}"), key);
            if (member, key.as_str()) == ("execution", "taskSupport") {
                self.task_support((tool, &at), before, after);
                continue;
            }
            match (before.get(key), after.get(key)) {
                (Some(old), Some(new)) if canonical_bytes(old) == canonical_bytes(new) => {}
                (Some(_), Some(_)) => self.add(Class::Undecided, tool, &at, "the value differs"),
                (Some(_), None) => {
                    self.add(Class::Undecided, tool, &at, "the server no longer has this member");
                }
                (None, _) => self.add(Class::Compatible, tool, &at, "the member is not registered"),
            }
        }
        let [old, new] = [before, after].map(|map| Value::Object(map.clone()));
        self.value_words((tool, &format!("/{member}")), &old, &new);
    }

    /// Compares `taskSupport`. Callers without tasks fail if it becomes `required`, and callers
    /// with tasks if it becomes `forbidden`.
    fn task_support(
        &mut self,
        (tool, at): (&str, &str),
        before: &Map<String, Value>,
        after: &Map<String, Value>,
    ) {
        let [old, new] = [before, after].map(TaskSupport::from_execution);
        if old == new {
            return;
        }
        let text = |support: Option<TaskSupport>| support.map_or("invalid", TaskSupport::as_str);
        let class =
            if new == Some(TaskSupport::Optional) { Class::Compatible } else { Class::Breaking };
        let what = format!("`{}` is registered, but the server reports `{}`", text(old), text(new));
        self.add(class, tool, at, what);
    }

    /// Compares one schema. A server without the schema accepts or returns anything.
    fn schema(
        &mut self,
        (registered, tool): (&Tool, &str),
        field: Field,
        before: &Value,
        said: Option<&Value>,
    ) {
        let at = format!("/{}", field.name());
        if let Some(problem) =
            said.and_then(|said| compile(said, &|_| None).err()?.into_iter().next())
        {
            let pointer = format!("{at}{}", problem.pointer());
            self.add(Class::Breaking, tool, &pointer, format!("invalid schema: {problem}"));
            return;
        }
        let (anything, catalog) = (Value::Bool(true), self.catalog);
        let after = said.unwrap_or(&anything);
        let old = Entity::Tool(Box::new(registered.clone()));
        let new = field.replaced(registered, after.clone());
        let resolve = |key: &Key| catalog.find(key).map(|record| record.document.entity());
        let is_the_same = self.promises(tool, (&old, &new), &resolve);
        let schema_of = |key: &Key| match resolve(key)? {
            Entity::Schema(schema) => Some(&schema.schema),
            _ => None,
        };
        let before_form = inlined(before, &schema_of, &mut self.forms);
        let after_form = inlined(after, &|_| None, &mut self.forms);
        // As in the contracts of a gateway, `0.0` equals `0`, its canonical form.
        let is_written_alike = before_form
            .as_ref()
            .zip(after_form.as_ref())
            .is_some_and(|(before, after)| canonical_bytes(before) == canonical_bytes(after));
        let before = [before_form.as_ref().unwrap_or(before), before];
        let after = [after_form.as_ref().unwrap_or(after), after];
        let found = self.found.len();
        self.schema_words((tool, &at), &before, &after);
        if is_the_same && !is_written_alike && self.found.len() == found {
            let what = "the schema is written differently, but accepts the same values";
            self.add(Class::Cosmetic, tool, &at, what);
        }
    }

    /// Reports the differences between the registered and the live schema. Returns whether there
    /// are none.
    fn promises<'e>(
        &mut self,
        tool: &str,
        (old, new): (&'e Entity, &'e Entity),
        resolve: compatibility::Resolve<'e>,
    ) -> bool {
        let backward =
            compare(old, new, CompatibilityDirection::Backward, resolve, &mut self.budget);
        match backward.outcome() {
            Outcome::Identical => return true,
            Outcome::Breaking | Outcome::Undecided => {
                self.compared(Class::Breaking, tool, &backward);
                return false;
            }
            Outcome::Compatible => {}
        }
        let forward = compare(old, new, CompatibilityDirection::Forward, resolve, &mut self.budget);
        // Existing calls keep working, but the schema may have become wider.
        if let (true, Some(doubt)) =
            (forward.differences.is_empty(), forward.undecided_checks.first())
        {
            let what = "the schema is compatible; it may be wider or narrower";
            self.add(Class::Compatible, tool, &doubt.pointer, what);
            return false;
        }
        let more = compatibility::Comparison { undecided_checks: Vec::new(), ..forward };
        self.compared(Class::Compatible, tool, &more);
        more.differences.is_empty()
    }

    /// Adds the findings of a comparison.
    fn compared(&mut self, class: Class, tool: &str, comparison: &compatibility::Comparison) {
        for difference in &comparison.differences {
            let what = difference.explain(&"the registered one", &"the live one");
            let SchemaDifference { assertion, pointer, instance, .. } = difference;
            self.found.push(LiveDifference {
                keyword: assertion.keyword().map(str::to_owned),
                instance: instance.clone(),
                ..LiveDifference::new(class, tool, pointer, what)
            });
        }
        for doubt in &comparison.undecided_checks {
            let what = format!("compatibility could not be decided: {}", doubt.reason);
            self.add(Class::Undecided, tool, &doubt.pointer, what);
        }
    }
}
