//! Comparison of a shape with the schema of its destination, and reports of mismatches.
//!
//! Objects are compared member by member, so each finding names its property and its binding.

use schema_compat::{
    compatibility::{Assertion, Difference, Side, Verdict, covers, shortened},
    pointer::Location,
};
use serde_json::{Value, json};

use super::{
    Checker, Mismatch, Witness,
    label::{Given, Label, Source},
    schema::{self, Kinds},
    select::{Presence, Selected, Undeclared},
    shape::Shape,
    trial::RESULT,
};
use crate::suggest::closest;

/// The destination of a value.
pub(super) struct Destination<'s> {
    /// Describes the value: `input of step "notify"`; empty for the composition's own input.
    pub(super) subject: &'s str,
    /// Describes the schema.
    pub(super) whose: &'s str,
    pub(super) expected: &'s Value,
    /// JSON pointer of the destination.
    pub(super) at: String,
    /// The remedy, unless it follows from the schemas.
    pub(super) remedy: Option<&'s str>,
}

impl Destination<'_> {
    /// The JSON pointer shown in a finding: that of the binding, or of the destination without one.
    fn pointer(&self, label: &Label) -> String {
        if label.is_binding || self.at == RESULT { label.pointer.clone() } else { self.at.clone() }
    }
}

/// Whether the values of a shape match a schema.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fit {
    Always,
    /// No value matches; with an example if possible.
    Never(Option<Difference>),
    /// Some values may not match; with an example if possible.
    Perhaps(Option<Difference>),
    /// Not compared, because the budget is exhausted.
    Unchecked,
}

/// The findings at a destination.
#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    is_any: bool,
    is_certain: bool,
}

impl Reported {
    fn add(&mut self, is_certain: bool) {
        self.is_any = true;
        self.is_certain |= is_certain;
    }

    fn and(&mut self, other: Self) {
        self.is_any |= other.is_any;
        self.is_certain |= other.is_certain;
    }
}

/// A property of a destination, or the whole.
struct Property<'p> {
    /// The member names from the destination to the property.
    path: &'p [String],
    label: &'p Label,
    wanted: &'p Value,
}

impl Property<'_> {
    fn name(&self) -> String {
        format!("\"{}\"", self.path.join("."))
    }
}

/// Compares a shape with a schema.
pub(super) fn decide(shape: &Shape, expected: &Value, checker: &mut Checker<'_>) -> Fit {
    if shape.is_unknown() {
        return Fit::Always;
    }
    if checker.budget.is_spent() {
        return by_kind(shape, expected, checker);
    }
    let Some(given) = shape.render(None, &checker.work) else {
        checker.is_cut = true;
        return by_kind(shape, expected, checker);
    };
    let difference = match compare(&given, expected, checker) {
        Verdict::Yes => return Fit::Always,
        Verdict::No(difference) => Some(difference),
        Verdict::Undecided(_) => None,
    };
    if let Some(modern) = schema::modern(expected) {
        let never = json!({ "not": modern });
        if compare(&given, &never, checker) == Verdict::Yes {
            return Fit::Never(difference);
        }
        if checker.budget.is_spent() {
            return by_kind(shape, expected, checker);
        }
        if shape.has_unknown(&checker.work) {
            // Unknown parts are assumed to match.
            let Some(given) = shape.render(Some(&modern), &checker.work) else {
                checker.is_cut = true;
                return by_kind(shape, expected, checker);
            };
            return match compare(&given, expected, checker) {
                Verdict::No(difference) => Fit::Perhaps(Some(difference)),
                Verdict::Undecided(_) if checker.budget.is_spent() => {
                    by_kind(shape, expected, checker)
                }
                Verdict::Yes | Verdict::Undecided(_) => Fit::Always,
            };
        }
    }
    if checker.budget.is_spent() {
        return by_kind(shape, expected, checker);
    }
    Fit::Perhaps(difference)
}

/// Compares only the JSON types, which takes no budget.
fn by_kind(shape: &Shape, expected: &Value, checker: &mut Checker<'_>) -> Fit {
    checker.is_spent |= checker.budget.is_spent();
    let Some(modern) = schema::modern(expected) else { return Fit::Unchecked };
    let (given, wanted) = (shape.kinds(), schema::kinds(&modern));
    if given.is_empty() || given.has(wanted) { Fit::Unchecked } else { Fit::Never(None) }
}

fn compare(given: &Value, wanted: &Value, checker: &mut Checker<'_>) -> Verdict {
    let definitions = &checker.tools.definitions;
    let given = schema::complete(given, definitions);
    let wanted = schema::complete(wanted, definitions);
    covers((&given, ""), (&wanted, ""), Side::New, &|_| None, checker.budget)
}

impl Checker<'_> {
    /// Reports a value that never or not always matches its destination.
    pub(super) fn fits(&mut self, given: &Given, sink: &Destination<'_>) {
        let fit = self.decided(&given.shape, sink.expected);
        if fit == Fit::Always {
            return;
        }
        let modern = schema::modern(sink.expected);
        let mut path = Vec::new();
        let reported =
            modern.as_ref().map(|expected| self.members((given, true), expected, &mut path, sink));
        let reported = reported.unwrap_or_default();
        let is_reported = match &fit {
            Fit::Always | Fit::Unchecked => true,
            Fit::Never(_) => reported.is_certain,
            Fit::Perhaps(_) => reported.is_any,
        };
        if !is_reported {
            let (label, wanted) = (&given.label, sink.expected);
            let property = Property { path: &[], label, wanted };
            self.value(&given.shape, &fit, &property, sink);
        }
    }

    /// Compares the members of an object with the required properties. `is_there` says whether the
    /// object is always present.
    fn members(
        &mut self,
        (given, is_there): (&Given, bool),
        expected: &Value,
        path: &mut Vec<String>,
        sink: &Destination<'_>,
    ) -> Reported {
        let mut reported = Reported::default();
        let kinds = schema::kinds(expected);
        if given.shape.kinds() != Kinds::OBJECT || !kinds.has(Kinds::OBJECT) {
            return reported;
        }
        let of_objects = json!({ "allOf": [{ "type": "object" }, expected] });
        let expected = if kinds == Kinds::OBJECT { expected } else { &of_objects };
        let mut names = schema::declared(expected);
        if let Source::Construct(fields) = &given.label.from {
            names.extend(fields.iter().map(|(name, _)| name.clone()));
            names.sort();
            names.dedup();
        }
        for name in names {
            path.push(name);
            reported.and(self.member((given, is_there), expected, path, sink));
            path.pop();
        }
        reported
    }

    fn member(
        &mut self,
        (given, is_there): (&Given, bool),
        expected: &Value,
        path: &mut Vec<String>,
        sink: &Destination<'_>,
    ) -> Reported {
        let mut reported = Reported::default();
        let Some(name) = path.last().cloned() else { return reported };
        let wanted = schema::member(expected, &name);
        let have = given.shape.member(&name);
        let is_explicit = matches!(given.label.from, Source::Construct(_));
        let label = given.label.member(&name);
        let is_required = wanted.min > 0;
        let Some(label) = label else {
            if is_required {
                self.unbound(&given.label, path, is_there, sink);
                reported.add(is_there);
            }
            return reported;
        };
        let property = Property { path, label: &label, wanted: &wanted.schema };
        if have.max == 0 {
            if is_required {
                self.missing(&property, is_there, sink);
                reported.add(is_there);
            }
            return reported;
        }
        let is_unknown = have.shape.is_unknown();
        if is_unknown && is_required && label.is_pending() {
            self.perhaps_missing(&property, true, sink);
            reported.add(false);
            return reported;
        }
        if wanted.max == 0 {
            if is_explicit && !is_unknown || have.min > 0 {
                let is_certain = is_there && have.min > 0;
                self.refused(&property, is_certain, expected, sink);
                reported.add(is_certain);
            }
            return reported;
        }
        if is_unknown {
            return reported;
        }
        if is_explicit && !have.is_declared {
            if is_required {
                self.perhaps_missing(&property, have.is_declared, sink);
            } else {
                self.undeclared(&property, sink);
            }
            reported.add(false);
            return reported;
        }
        if have.min == 0 && is_required {
            self.perhaps_missing(&property, true, sink);
            reported.add(false);
        }
        let fit = self.decided(&have.shape, &wanted.schema);
        if fit == Fit::Always {
            return reported;
        }
        let inner = Given { shape: have.shape.clone(), label: label.clone() };
        let is_inner_there = is_there && (have.min > 0 || is_required);
        let nested = self.members((&inner, is_inner_there), &wanted.schema, path, sink);
        let is_certain = is_inner_there && matches!(fit, Fit::Never(_));
        reported.and(nested);
        if fit == Fit::Unchecked {
            return reported;
        }
        if !nested.is_any || is_certain && !nested.is_certain {
            let property = Property { path, label: &label, wanted: &wanted.schema };
            let fit = match fit {
                Fit::Never(difference) if !is_certain => Fit::Perhaps(difference),
                fit => fit,
            };
            self.value(&have.shape, &fit, &property, sink);
            reported.add(is_certain);
        }
        reported
    }

    fn push(
        &mut self,
        (pointer, sink): (String, &Destination<'_>),
        (message, help): (String, String),
        is_certain: bool,
        witness: Option<Witness>,
    ) {
        let message = match sink.subject {
            "" => message,
            subject => format!("{subject}: {message}"),
        };
        let is_certain = is_certain && !self.is_optional;
        let place = sink.at.clone();
        self.report(Mismatch { pointer, message, help, is_certain, place, witness });
    }

    /// Reports a required property that a `construct` lacks.
    fn unbound(
        &mut self,
        label: &Label,
        path: &[String],
        is_certain: bool,
        sink: &Destination<'_>,
    ) {
        let name = path.join(".");
        let message = format!("\"{name}\" is required but not bound");
        let help = format!("add \"{name}\" to the fields of the `construct`");
        let label =
            Label { pointer: format!("{}/construct/fields", label.pointer), ..label.clone() };
        let pointer = sink.pointer(&label);
        self.push((pointer, sink), (message, help), is_certain, None);
    }

    /// Reports a required property that is never present.
    fn missing(&mut self, property: &Property<'_>, is_certain: bool, sink: &Destination<'_>) {
        let name = property.name();
        let message = match &property.label.from {
            Source::Path { path, of, .. } if !path.is_empty() => {
                format!("{name} is required but {path} selects nothing in {of}")
            }
            _ => format!("{name} is required but {} never has it", property.label.words()),
        };
        let help = suggestion(property.label, &name, sink);
        let pointer = sink.pointer(property.label);
        self.push((pointer, sink), (message, help), is_certain, None);
    }

    /// Reports a required property that may be absent.
    fn perhaps_missing(
        &mut self,
        property: &Property<'_>,
        is_declared: bool,
        sink: &Destination<'_>,
    ) {
        let name = property.name();
        let (words, help) = match &property.label.from {
            Source::Path { path, of, is_pending: true, .. } => (
                format!("{path} selects nothing while {of} is missing"),
                format!(
                    "bind the result of a completed step, or make {name} optional in {}: a compensation also runs when a later step has failed",
                    sink.whose
                ),
            ),
            Source::Path { path, of, .. } if !is_declared => (
                format!("{path} may select nothing in {of}: its schema does not declare it"),
                suggestion(property.label, &name, sink),
            ),
            Source::Path { path, of, .. } => {
                let help = if path.contains('[') {
                    format!(
                        "{path} selects nothing in an empty array: add `minItems` to the schema of {of}, or make {name} optional in {}",
                        sink.whose
                    )
                } else {
                    format!(
                        "require it in the schema of {of}, or make {name} optional in {}",
                        sink.whose
                    )
                };
                (format!("{path} may select nothing in {of}"), help)
            }
            _ => (
                format!("{} may lack it", property.label.words()),
                format!("bind a value that is always there to {name}"),
            ),
        };
        let path = property.path.to_vec();
        let lacks = move |value: &Value| {
            let Some((name, around)) = path.split_last() else { return false };
            let around = value_at(value, around).and_then(Value::as_object);
            around.is_some_and(|around| !around.contains_key(name))
        };
        let witness = self.witness(&sink.at, &lacks, Vec::new());
        let refused = witness.as_ref().filter(|_| is_declared);
        let refused =
            refused.map(|found| format!(": `required` rejects {}", shortened(&found.value)));
        let message = format!("{name} is required but {words}{}", refused.unwrap_or_default());
        self.push((sink.pointer(property.label), sink), (message, help), false, witness);
    }

    /// Reports a property that no schema declares.
    fn undeclared(&mut self, property: &Property<'_>, sink: &Destination<'_>) {
        let name = property.name();
        let message = format!(
            "{name} is bound to {}, which the schema does not declare",
            property.label.words()
        );
        let help = suggestion(property.label, &name, sink);
        self.push((sink.pointer(property.label), sink), (message, help), false, None);
    }

    /// Reports a property that the destination does not accept.
    fn refused(
        &mut self,
        property: &Property<'_>,
        is_certain: bool,
        expected: &Value,
        sink: &Destination<'_>,
    ) {
        let name = property.name();
        let message = format!("{} has no property {name}", sink.whose);
        let mut known = schema::declared(expected);
        known.retain(|name| schema::member(expected, name).max > 0);
        let help = match known.as_slice() {
            [] => format!("remove {name}"),
            known => format!("remove {name}, or use one of {}", known.join(", ")),
        };
        let path = property.path.to_vec();
        let has = move |value: &Value| value_at(value, &path).is_some();
        let witness = if is_certain { None } else { self.witness(&sink.at, &has, Vec::new()) };
        self.push((sink.pointer(property.label), sink), (message, help), is_certain, witness);
    }

    /// Reports a value that never or not always matches.
    fn value(&mut self, shape: &Shape, fit: &Fit, property: &Property<'_>, sink: &Destination<'_>) {
        let (difference, is_certain) = match fit {
            Fit::Always | Fit::Unchecked => return,
            Fit::Never(difference) => (difference.as_ref(), true),
            Fit::Perhaps(difference) => (difference.as_ref(), false),
        };
        let place = if property.path.is_empty() { sink.whose.to_owned() } else { property.name() };
        let words = property.label.words();
        let (wanted, given) = (schema::kinds(property.wanted), shape.kinds());
        let help = match &property.label.from {
            _ if property.path.is_empty() && sink.remedy.is_some() => {
                sink.remedy.unwrap_or_default().to_owned()
            }
            Source::Path { path, .. } if is_several(path) && wanted == Kinds::ARRAY => format!(
                "{path} is a bare value when it selects exactly one: bind the array itself, as in {}",
                array_of(path)
            ),
            Source::Path { .. } | Source::Whole(_) => {
                let wanted = wanted.words().map(|words| format!(": {words}")).unwrap_or_default();
                format!("bind what {place} accepts{wanted}, or change one of the two schemas")
            }
            Source::Constant => format!("write a constant that {place} accepts"),
            Source::Construct(_) => format!("change the fields so that {place} accepts the object"),
        };
        let pointer = sink.pointer(property.label);
        if is_certain {
            let refusal = difference.and_then(Difference::example);
            let refusal = refusal.map(|label| format!(": {label}")).unwrap_or_default();
            let message = match (wanted.words(), given.words()) {
                (Some(wanted), Some(given))
                    if !schema::kinds(property.wanted).has(shape.kinds()) =>
                {
                    let verb = if property.path.is_empty() { "requires" } else { "must be" };
                    format!("{place} {verb} {wanted}, but {words} is {given}")
                }
                _ => format!("{place} never accepts {words}{refusal}"),
            };
            return self.push((pointer, sink), (message, help), true, None);
        }
        let witness = self.refusal(shape, difference, property, sink);
        let message = match &witness {
            Some(found) => {
                let refused = value_at(&found.value, property.path).unwrap_or(&found.value).clone();
                let keyword = self.keyword(&refused, property.wanted);
                let refused = shortened(&refused);
                format!("{place} may reject {words}: {keyword} rejects {refused}")
            }
            None => format!("it is undecided whether {place} always accepts {words}"),
        };
        self.push((pointer, sink), (message, help), false, witness);
    }

    /// A run that ends with the rejection of a value.
    fn refusal(
        &mut self,
        shape: &Shape,
        difference: Option<&Difference>,
        property: &Property<'_>,
        sink: &Destination<'_>,
    ) -> Option<Witness> {
        let wanted = schema::complete(property.wanted, &self.tools.definitions);
        let validator = schema_compat::schema_compile::compile(&wanted, &|_| None).ok()?;
        let path = property.path.to_vec();
        let is_hit = move |value: &Value| {
            value_at(value, &path).is_some_and(|value| validator.accepts(value) == Some(false))
        };
        let instance = difference.and_then(|difference| difference.instance.as_ref());
        let mut traced = Vec::new();
        if let Some(instance) = instance {
            shape.trace(instance, &mut traced);
        }
        let guide = traced.into_iter().map(|(origin, value)| (origin, value.clone())).collect();
        self.witness(&sink.at, &is_hit, guide)
    }

    fn keyword(&mut self, value: &Value, wanted: &Value) -> Assertion {
        match compare(&json!({ "const": value }), wanted, self) {
            Verdict::No(difference) => difference.assertion,
            Verdict::Yes | Verdict::Undecided(_) => Assertion::Schema,
        }
    }

    /// Reports a part of a cache key that selects nothing.
    pub(super) fn ignored_key(&mut self, label: &Label, at: Location<'_>) {
        let (whose, expected, at) = ("the key", &Value::Null, at.to_string());
        let sink = Destination { subject: "key", whose, expected, at, remedy: None };
        let message = format!("{} selects nothing, so all inputs share one entry", label.words());
        let help = suggestion(label, "", &sink);
        self.push((sink.pointer(label), &sink), (message, help), false, None);
    }

    /// Reports a binding or key that never or not always selects a value. Returns whether it may
    /// select one.
    pub(super) fn is_present(
        &mut self,
        selected: &Selected,
        label: &Label,
        subject: &str,
        at: Location<'_>,
    ) -> bool {
        let Source::Path { path, of, .. } = &label.from else { return true };
        let (whose, expected, at) = ("the binding", &Value::Null, at.to_string());
        let sink = Destination { subject, whose, expected, at, remedy: None };
        let pointer = sink.pointer(label);
        let help = suggestion(label, "", &sink);
        match selected.presence {
            Presence::Never => {
                let message = format!("{path} selects nothing in {of}");
                self.push((pointer, &sink), (message, help), true, None);
                return false;
            }
            Presence::Perhaps if label.is_pending() => {
                let witness = self.witness(&sink.at, &Value::is_null, Vec::new());
                let message = format!("{path} selects nothing while {of} is missing");
                let help = "bind it in a `construct`, where it may be absent: a compensation also runs when a later step has failed";
                self.push((pointer, &sink), (message, help.to_owned()), false, witness);
            }
            Presence::Perhaps if selected.shape.is_unknown() => {}
            Presence::Perhaps if !selected.is_declared => {
                let message =
                    format!("{path} may select nothing in {of}: its schema does not declare it");
                self.push((pointer, &sink), (message, help), false, None);
            }
            Presence::Perhaps => {
                let witness = self.witness(&sink.at, &Value::is_null, Vec::new());
                let message = format!("{path} may select nothing in {of}");
                let help = format!(
                    "require it in the schema of {of}, or bind it in a `construct`, where it may be absent"
                );
                self.push((pointer, &sink), (message, help), false, witness);
            }
            Presence::Always => {}
        }
        true
    }
}

/// The part of a value at this path of names.
pub(super) fn value_at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.as_object()?.get(name))
}

fn is_several(path: &str) -> bool {
    several_at(path).is_some()
}

/// The path of the array whose items a path selects.
fn array_of(path: &str) -> String {
    path[..several_at(path).unwrap_or(path.len())].to_owned()
}

/// The position of the first selector that may select several items.
fn several_at(path: &str) -> Option<usize> {
    let is_slice = |inside: &str| {
        let inside = inside.split(']').next().unwrap_or_default();
        inside.contains(':') && !inside.contains(['\'', '"'])
    };
    let slice = path.match_indices('[').find(|(at, _)| is_slice(&path[at + 1..]));
    let signs = ["[*]", ".*", "[?"].iter().filter_map(|sign| path.find(sign));
    signs.chain(slice.map(|(at, _)| at)).min()
}

/// The remedy for a path that selects nothing.
fn suggestion(label: &Label, name: &str, sink: &Destination<'_>) -> String {
    let Source::Path { of, undeclared, .. } = &label.from else {
        return format!("bind {name} in an `input` of this step");
    };
    match undeclared {
        Some(Undeclared { name: asked, at, has }) if !has.is_empty() => {
            let has_names = has.iter().map(String::as_str);
            let near = asked.as_ref().and_then(|asked| closest(asked, has_names));
            match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if at == "$" => format!("{of} has {}", has.join(", ")),
                None => format!("{at} in {of} has {}", has.join(", ")),
            }
        }
        _ if name.is_empty() => format!("bind a value that {of} has"),
        _ => format!("bind {name} to a value that is there, or make it optional in {}", sink.whose),
    }
}
