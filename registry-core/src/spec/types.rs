//! What flows through a composition, as the registered schemas of its tools tell it: whether what a
//! step gets can be what it demands, and what a step may get that it refuses.
//!
//! A mismatch is certain only where nothing that may come would do; otherwise it comes with a value
//! that may come and is refused. Where a schema is not known, or too much for this, nothing is said.
//! Deliberately absent: values; the gateway judges those by the same schemas.

mod patterns;
mod select;
#[cfg(test)]
mod tests;
mod work;

use serde_json::{Value, json};

use self::work::Work;

use super::{Path, Spec, Target};
use crate::{
    compatibility::{Budget, Side, Verdict, covers},
    decode::At,
};

/// What a tool, or a skill of an agent, takes and gives, as self-contained JSON Schemas without references; `None`: not known.
#[derive(Debug, Clone, Default)]
pub struct Signature {
    /// Of the arguments that callers may send.
    pub input: Option<Value>,
    /// Of the structured result.
    pub output: Option<Value>,
}

/// Something that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Where, as a JSON pointer inside of the spec.
    pub pointer: String,
    /// What, with an example where there is one.
    pub message: String,
    /// Whether it never fits, rather than not always.
    pub is_certain: bool,
}

/// Looks through a composition of this signature.
pub fn check(
    spec: &Spec,
    own: &Signature,
    called: &mut dyn FnMut(&Target) -> Signature,
    budget: &mut Budget,
) -> Vec<Mismatch> {
    let mut checker =
        Checker { called, budget, work: Work::default(), is_optional: false, found: Vec::new() };
    // Whatever is known of them: arguments are an object.
    let any = || Flow { schema: json!({ "type": "object" }), is_known: false };
    let input = own.input.clone().map_or_else(any, Flow::known);
    let output = checker.pattern(spec, &input, At::ROOT);
    if let Some(demanded) = &own.output {
        checker.fits(&output, (demanded, "the composition's output schema"), At::ROOT);
    }
    checker.found
}

/// What may come: a schema of at least all of it.
#[derive(Debug, Clone, PartialEq)]
struct Flow {
    schema: Value,
    /// Whether all of it is known, so that whatever the schema allows may really come.
    is_known: bool,
}

impl Flow {
    fn known(schema: Value) -> Self {
        Self { schema, is_known: true }
    }

    /// Anything.
    fn unknown() -> Self {
        Self { schema: Value::Bool(true), is_known: false }
    }

    /// One of these.
    fn any_of(flows: impl IntoIterator<Item = Self>) -> Self {
        let mut all: Vec<Self> = flows.into_iter().collect();
        all.dedup();
        if let [one] = all.as_slice() {
            return one.clone();
        }
        let is_known = all.iter().all(|flow| flow.is_known);
        let schemas: Vec<_> = all.into_iter().map(|flow| flow.schema).collect();
        Self { schema: json!({ "anyOf": schemas }), is_known }
    }

    /// An array of these; how many, nobody knows.
    fn array_of(self) -> Self {
        Self { schema: json!({ "type": "array", "items": self.schema }), is_known: false }
    }
}

struct Checker<'a> {
    called: &'a mut dyn FnMut(&Target) -> Signature,
    budget: &'a mut Budget,
    work: Work,
    /// Whether what is looked at may never be called: an array may have no items.
    is_optional: bool,
    found: Vec<Mismatch>,
}

impl Checker<'_> {
    /// Reports where what comes is not what is demanded.
    fn fits(&mut self, flow: &Flow, (demanded, whose): (&Value, &str), at: At<'_>) {
        let covered = |given: &Value, wanted: &Value, budget: &mut Budget| {
            covers((given, ""), (wanted, ""), Side::New, &|_| None, budget)
        };
        let difference = match covered(&flow.schema, demanded, self.budget) {
            Verdict::No(difference) => difference,
            Verdict::Yes | Verdict::Undecided(_) => return,
        };
        let never = json!({ "not": demanded });
        let is_certain = covered(&flow.schema, &never, self.budget) == Verdict::Yes;
        if !is_certain && !flow.is_known {
            return;
        }
        let example = difference.example().map(|told| format!(": {told}")).unwrap_or_default();
        let often = if is_certain { "never fits" } else { "need not fit" };
        let message = format!("what comes here {often} {whose}{example}");
        self.report(at, message, is_certain && !self.is_optional);
    }

    fn report(&mut self, at: At<'_>, message: String, is_certain: bool) {
        self.found.push(Mismatch { pointer: at.to_string(), message, is_certain });
    }

    /// What takes an array gets this.
    fn is_array(&mut self, flow: &Flow, what: &str, at: At<'_>) {
        self.fits(flow, (&json!({ "type": "array" }), what), at);
    }

    /// What must be there is looked for in this.
    fn is_there(&mut self, path: &Path, flow: &Flow, at: At<'_>) {
        if select::select(path, flow, &self.work).is_none() {
            self.report(at, format!("nothing that may come has what {path} selects"), true);
        }
    }

    /// A tool or a skill is called with this.
    fn call(&mut self, target: &Target, input: &Flow, at: At<'_>) -> Flow {
        let Signature { input: demanded, output } = (self.called)(target);
        // It takes an object, whatever its schema leaves open.
        let demanded = demanded.unwrap_or_else(|| json!({ "type": "object" }));
        self.fits(input, (&demanded, &format!("the input schema of `{target}`")), at);
        output.and_then(|schema| self.work.copy(&schema)).map_or_else(Flow::unknown, Flow::known)
    }
}
