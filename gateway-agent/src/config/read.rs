//! Strict reading of the YAML tree: every problem at its path and line, unknown fields included.

use std::{cell::RefCell, collections::BTreeMap, fmt::Display};

use super::{
    problem::Problems,
    yaml::{Node, Value},
};

/// A mapping whose fields are taken one by one; what was never asked for is unknown.
pub(super) struct Section<'a> {
    problems: &'a Problems,
    path: String,
    line: u64,
    fields: &'a [(String, Node)],
    known: RefCell<Vec<&'static str>>,
}

/// A field that is there.
pub(super) struct Field<'a> {
    problems: &'a Problems,
    path: String,
    node: &'a Node,
}

impl<'a> Section<'a> {
    pub(super) fn root(problems: &'a Problems, node: &'a Node) -> Self {
        Field { problems, path: String::new(), node }.section()
    }

    fn new(field: &Field<'a>, fields: &'a [(String, Node)]) -> Self {
        Self {
            problems: field.problems,
            path: field.path.clone(),
            line: field.node.line,
            fields,
            known: RefCell::default(),
        }
    }

    /// Says that the field may be there, without reading it.
    pub(super) fn allow(&self, name: &'static str) {
        let mut known = self.known.borrow_mut();
        if !known.contains(&name) {
            known.push(name);
        }
    }

    /// The field of this name, if it is there and not null.
    pub(super) fn find(&self, name: &'static str) -> Option<Field<'a>> {
        self.allow(name);
        let (_, node) = self.fields.iter().find(|(found, _)| found == name)?;
        let field = Field { problems: self.problems, path: self.child(name), node };
        (!matches!(node.value, Value::Null)).then_some(field)
    }

    /// The field of this name; a problem if it is absent.
    pub(super) fn require(&self, name: &'static str, help: &str) -> Option<Field<'a>> {
        let field = self.find(name);
        if field.is_none() {
            self.problems.at(self.line, &self.child(name), format!("missing; {help}"));
        }
        field
    }

    /// The mapping of this name; an empty one if it is absent.
    pub(super) fn section(&self, name: &'static str) -> Section<'a> {
        match self.find(name) {
            Some(field) => field.section(),
            None => Section {
                problems: self.problems,
                path: self.child(name),
                line: self.line,
                fields: &[],
                known: RefCell::default(),
            },
        }
    }

    /// The field as one of these words, or the default.
    pub(super) fn choice<T: Copy>(&self, name: &'static str, words: &[(&str, T)], default: T) -> T {
        self.find(name).and_then(|field| field.choice(words)).unwrap_or(default)
    }

    /// The field as a switch, or the default.
    pub(super) fn switch(&self, name: &'static str, default: bool) -> bool {
        self.find(name).and_then(|field| field.switch()).unwrap_or(default)
    }

    /// The field as a number of at least 1, or the default.
    pub(super) fn positive<T: TryFrom<u64>>(&self, name: &'static str, default: T) -> T {
        self.find(name).and_then(|field| field.positive()).unwrap_or(default)
    }

    /// The field as a list of texts; empty if it is absent.
    pub(super) fn texts(&self, name: &'static str) -> Vec<String> {
        let items = self.find(name).map(|field| field.list()).unwrap_or_default();
        items.iter().filter_map(Field::text).collect()
    }

    /// The field as a list of texts that parse; empty if it is absent.
    pub(super) fn parsed<T, E: Display>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        let items = self.find(name).map(|field| field.list()).unwrap_or_default();
        items.iter().filter_map(|item| item.parse(&parse)).collect()
    }

    /// The field as a mapping of names to texts; empty if it is absent.
    pub(super) fn pairs(&self, name: &'static str) -> BTreeMap<String, String> {
        self.find(name).map(|field| field.pairs()).unwrap_or_default()
    }

    /// The field as a mapping of names to lists of texts; empty if it is absent.
    pub(super) fn lists(&self, name: &'static str) -> BTreeMap<String, Vec<String>> {
        let Some(field) = self.find(name) else { return BTreeMap::new() };
        let section = field.section();
        let list = |(name, node): &'a (String, Node)| {
            let field = Field { problems: self.problems, path: section.child(name), node };
            field.texts().map(|texts| (name.clone(), texts))
        };
        section.fields.iter().filter_map(list).collect()
    }

    /// Reports a problem with the section as a whole.
    pub(super) fn problem(&self, message: impl Into<String>) {
        self.problems.at(self.line, &self.path, message);
    }

    /// Ends the reading: whatever nobody asked for is unknown.
    pub(super) fn finish(self) {
        let known = self.known.borrow();
        for (name, node) in self.fields {
            if !known.contains(&name.as_str()) {
                let message = format!("unknown field; here go {}", known.join(", "));
                self.problems.at(node.line, &self.child(name), message);
            }
        }
    }

    fn child(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

impl<'a> Field<'a> {
    pub(super) fn problem(&self, message: impl Into<String>) {
        self.problems.at(self.node.line, &self.path, message);
    }

    fn expected(&self, what: &str) {
        self.problem(format!("expected {what}, found {}", self.node.value.describe()));
    }

    /// As text; a whole number is taken as it is written.
    pub(super) fn text(&self) -> Option<String> {
        match &self.node.value {
            Value::Text(text) | Value::Integer(text) => return Some(text.clone()),
            Value::Float(_) | Value::Bool(_) => self.expected("text; put it into quotes"),
            _ => self.expected("text"),
        }
        None
    }

    /// As text that parses.
    pub(super) fn parse<T, E: Display>(&self, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        let parsed = parse(&self.text()?);
        parsed.map_err(|e| self.problem(e.to_string())).ok()
    }

    /// As one of these words.
    pub(super) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.problem(format!("`{text}` is none of {}", words.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    fn switch(&self) -> Option<bool> {
        if let Value::Bool(value) = self.node.value {
            return Some(value);
        }
        self.expected("true or false");
        None
    }

    /// As a number from 0 to 1.
    pub(super) fn ratio(&self) -> Option<f64> {
        let number = match &self.node.value {
            Value::Integer(digits) => digits.parse().ok(),
            Value::Float(number) => Some(*number),
            _ => None,
        };
        let ratio = number.filter(|number| (0.0..=1.0).contains(number));
        if ratio.is_none() {
            self.expected("a number from 0 to 1");
        }
        ratio
    }

    /// As a whole number of at least 1.
    pub(super) fn positive<T: TryFrom<u64>>(&self) -> Option<T> {
        let number = match &self.node.value {
            Value::Integer(digits) => digits.parse::<u64>().ok(),
            _ => None,
        };
        let number = number.filter(|n| *n > 0).and_then(|n| T::try_from(n).ok());
        if number.is_none() {
            self.expected("a whole number of at least 1");
        }
        number
    }

    /// As a list of texts; a single text is a list of one.
    pub(super) fn texts(&self) -> Option<Vec<String>> {
        match &self.node.value {
            Value::Text(text) => Some(vec![text.clone()]),
            Value::List(_) => self.list().iter().map(Field::text).collect(),
            _ => {
                self.expected("a list");
                None
            }
        }
    }

    pub(super) fn list(&self) -> Vec<Field<'a>> {
        let Value::List(items) = &self.node.value else {
            self.expected("a list");
            return Vec::new();
        };
        let path = |i| format!("{}[{i}]", self.path);
        let field = |(i, node)| Field { problems: self.problems, path: path(i), node };
        items.iter().enumerate().map(field).collect()
    }

    pub(super) fn section(&self) -> Section<'a> {
        let Value::Map(fields) = &self.node.value else {
            self.expected("a mapping");
            return Section::new(self, &[]);
        };
        Section::new(self, fields)
    }

    pub(super) fn pairs(&self) -> BTreeMap<String, String> {
        let text = |(name, field): (String, Self)| field.text().map(|text| (name, text));
        self.entries().into_iter().filter_map(text).collect()
    }

    /// Whether it has fields of its own.
    pub(super) fn is_mapping(&self) -> bool {
        matches!(self.node.value, Value::Map(_))
    }

    /// As a mapping whose names anybody may choose.
    pub(super) fn entries(&self) -> Vec<(String, Field<'a>)> {
        let section = self.section();
        let entry = |(name, node): &'a (String, Node)| {
            let field = Field { problems: self.problems, path: section.child(name), node };
            (name.clone(), field)
        };
        section.fields.iter().map(entry).collect()
    }
}
