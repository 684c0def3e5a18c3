//! Strict reader of the YAML tree. It reports every problem with path and line, also unknown
//! fields.

use std::{cell::RefCell, collections::BTreeMap, fmt::Display};

use registry_core::suggest::closest;

use super::{
    problem::Problems,
    yaml::{Node, Value},
};

/// A mapping. Fields that no reader requests are unknown.
pub(super) struct Section<'a> {
    problems: &'a Problems,
    path: String,
    line: u64,
    fields: &'a [(String, Node)],
    known: RefCell<Vec<&'static str>>,
}

/// An existing field.
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

    /// Marks a field as known without reading it.
    pub(super) fn allow(&self, name: &'static str) {
        let mut known = self.known.borrow_mut();
        if !known.contains(&name) {
            known.push(name);
        }
    }

    /// Returns the field if it exists and is not null.
    pub(super) fn find(&self, name: &'static str) -> Option<Field<'a>> {
        self.allow(name);
        let (_, node) = self.fields.iter().find(|(found, _)| found == name)?;
        let field = Field { problems: self.problems, path: self.child(name), node };
        (!matches!(node.value, Value::Null)).then_some(field)
    }

    /// Returns the field. Its absence is a problem.
    pub(super) fn require(&self, name: &'static str, help: &str) -> Option<Field<'a>> {
        let field = self.find(name);
        if field.is_none() {
            self.problems.at(self.line, &self.child(name), format!("missing; {help}"));
        }
        field
    }

    /// Returns a mapping, or an empty one if the field is absent.
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

    pub(super) fn choice<T: Copy>(&self, name: &'static str, words: &[(&str, T)], default: T) -> T {
        self.find(name).and_then(|field| field.choice(words)).unwrap_or(default)
    }

    pub(super) fn switch(&self, name: &'static str, default: bool) -> bool {
        self.find(name).and_then(|field| field.switch()).unwrap_or(default)
    }

    /// Returns an integer of at least 1, or the default.
    pub(super) fn positive<T: TryFrom<u64>>(&self, name: &'static str, default: T) -> T {
        self.find(name).and_then(|field| field.positive()).unwrap_or(default)
    }

    pub(super) fn texts(&self, name: &'static str) -> Vec<String> {
        let items = self.find(name).map(|field| field.list()).unwrap_or_default();
        items.iter().filter_map(Field::text).collect()
    }

    pub(super) fn parsed<T, E: Display>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        let items = self.find(name).map(|field| field.list()).unwrap_or_default();
        items.iter().filter_map(|item| item.parse(&parse)).collect()
    }

    pub(super) fn pairs(&self, name: &'static str) -> BTreeMap<String, String> {
        self.find(name).map(|field| field.pairs()).unwrap_or_default()
    }

    pub(super) fn lists(&self, name: &'static str) -> BTreeMap<String, Vec<String>> {
        let Some(field) = self.find(name) else { return BTreeMap::new() };
        let section = field.section();
        let list = |(name, node): &'a (String, Node)| {
            let field = Field { problems: self.problems, path: section.child(name), node };
            field.texts().map(|texts| (name.clone(), texts))
        };
        section.fields.iter().filter_map(list).collect()
    }

    /// Reports a problem of the whole section.
    pub(super) fn problem(&self, message: impl Into<String>) {
        self.problems.at(self.line, &self.path, message);
    }

    /// Reports a problem of a value that a flag set.
    pub(super) fn flag_problem(&self, flag: &str, message: impl Into<String>) {
        self.problems.at(0, flag, message);
    }

    /// Reports a problem of a value that comes from the flag or, without one, from the field.
    pub(super) fn problem_of(
        &self,
        name: &'static str,
        flag: Option<&str>,
        message: impl Into<String>,
    ) {
        match (flag, self.find(name)) {
            (Some(flag), _) => self.flag_problem(flag, message),
            (None, Some(field)) => field.problem(message),
            // The value is a default.
            (None, None) => self.problems.at(0, &self.child(name), message),
        }
    }

    /// Reports unknown fields.
    pub(super) fn finish(self) {
        let known = self.known.borrow();
        for (name, node) in self.fields {
            if !known.contains(&name.as_str()) {
                let similar = closest(name, known.iter().copied());
                let meant = similar.map(|similar| format!("did you mean `{similar}`? "));
                let message = format!(
                    "unknown field; {}expected one of {}",
                    meant.unwrap_or_default(),
                    known.join(", ")
                );
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

    /// Reads a text. Integers are accepted as written.
    pub(super) fn text(&self) -> Option<String> {
        match &self.node.value {
            Value::Text(text) | Value::Integer(text) => return Some(text.clone()),
            Value::Float(_) | Value::Bool(_) => self.expected("text; put it in quotes"),
            _ => self.expected("text"),
        }
        None
    }

    pub(super) fn parse<T, E: Display>(&self, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        let parsed = parse(&self.text()?);
        parsed.map_err(|e| self.problem(e.to_string())).ok()
    }

    pub(super) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = match &self.node.value {
            // YAML 1.1 reads `off` as a boolean.
            Value::Bool(false) if words.iter().any(|(word, _)| *word == "off") => "off".to_owned(),
            _ => self.text()?,
        };
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.problem(format!("`{text}` is not one of {}", words.join(", ")));
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

    pub(super) fn positive<T: TryFrom<u64>>(&self) -> Option<T> {
        let number = match &self.node.value {
            Value::Integer(digits) => digits.parse::<u64>().ok(),
            _ => None,
        };
        let number = number.filter(|n| *n > 0).and_then(|n| T::try_from(n).ok());
        if number.is_none() {
            self.expected("an integer of at least 1");
        }
        number
    }

    /// Reads a list of texts, or a single text as a list of one.
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

    pub(super) fn is_mapping(&self) -> bool {
        matches!(self.node.value, Value::Map(_))
    }

    /// The entries of a mapping with user-defined names.
    pub(super) fn entries(&self) -> Vec<(String, Field<'a>)> {
        let section = self.section();
        let entry = |(name, node): &'a (String, Node)| {
            let field = Field { problems: self.problems, path: section.child(name), node };
            (name.clone(), field)
        };
        section.fields.iter().map(entry).collect()
    }
}
