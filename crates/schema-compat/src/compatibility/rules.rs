//! The constraints of one schema object, normalized to draft 2020-12.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use serde_json::Value;

use super::arena::Id;

/// A set of JSON types. A number is an integer or has a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const INTEGER: Self = Self(4);
    pub(super) const FRACTION: Self = Self(8);
    pub(super) const STRING: Self = Self(16);
    pub(super) const ARRAY: Self = Self(32);
    pub(super) const OBJECT: Self = Self(64);
    pub(super) const NUMBER: Self = Self(12);
    pub(super) const ALL: Self = Self(127);
    pub(super) const EACH: [Self; 7] = [
        Self::OBJECT,
        Self::STRING,
        Self::INTEGER,
        Self::FRACTION,
        Self::ARRAY,
        Self::BOOLEAN,
        Self::NULL,
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    pub(super) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) => match number.as_f64() {
                Some(float) if float.fract() != 0.0 => Self::FRACTION,
                _ => Self::INTEGER,
            },
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The individual types; integers and fractions count as one if both are present.
    pub(super) fn each(self) -> impl Iterator<Item = Self> {
        Self::EACH.into_iter().filter(move |one| self.has(*one))
    }
}

/// A bound of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) is_exclusive: bool,
}

/// `contains` with its counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Contains {
    pub(super) schema: Id,
    pub(super) min: u64,
    pub(super) max: Option<u64>,
}

/// `if` with its branches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Conditional {
    pub(super) condition: Id,
    pub(super) then: Option<Id>,
    pub(super) otherwise: Option<Id>,
}

/// An unsupported constraint, which implies only an equal one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opaque {
    pub(super) keyword: &'static str,
    /// The identity of the constraint; `None` means that it equals no other.
    pub(super) text: Option<String>,
}

/// The properties required by the presence of another one.
pub(super) type Needs = BTreeMap<String, BTreeSet<String>>;

/// The constraints of one schema object; all of them apply.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rules {
    pub(super) types: Types,
    /// `enum` and `const`; each is a list of allowed values.
    pub(super) values: Vec<(&'static str, Rc<[Value]>)>,
    /// Lower and upper bounds of numbers.
    pub(super) low: Vec<(&'static str, Bound)>,
    pub(super) high: Vec<(&'static str, Bound)>,
    pub(super) multiple_of: Option<f64>,
    pub(super) length: Range,
    pub(super) pattern: Option<String>,
    pub(super) properties: BTreeMap<String, Id>,
    pub(super) patterns: Vec<(String, Id)>,
    pub(super) additional: Option<Id>,
    pub(super) names: Option<Id>,
    pub(super) required: BTreeSet<String>,
    pub(super) size: Range,
    /// `dependentRequired` and `dependencies`: the properties that each property requires.
    pub(super) needs: Vec<(&'static str, Needs)>,
    /// `dependentSchemas` and `dependencies`.
    pub(super) dependent: Vec<(String, Id)>,
    pub(super) prefix: Vec<Id>,
    pub(super) items: Option<Id>,
    pub(super) count: Range,
    pub(super) contains: Option<Contains>,
    pub(super) is_unique: bool,
    /// `allOf` and `$ref`.
    pub(super) all: Vec<(&'static str, Id)>,
    pub(super) any: Vec<Id>,
    pub(super) one: Vec<Id>,
    pub(super) not: Option<Id>,
    pub(super) conditional: Option<Conditional>,
    pub(super) unevaluated_properties: Option<Id>,
    pub(super) unevaluated_items: Option<Id>,
    pub(super) opaque: Vec<Opaque>,
    /// Whether it has keywords without effect in its dialect that validators nevertheless consider
    /// for unevaluated items and properties.
    pub(super) hides: bool,
    /// The keyword that this synthetic node implements.
    pub(super) stands_for: Option<&'static str>,
}

/// `min…` and `max…` of lengths and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    pub(super) const ANY: Self = Self { min: 0, max: u64::MAX };

    pub(super) fn and(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: self.max.min(other.max) }
    }

    pub(super) fn is_empty(self) -> bool {
        self.min > self.max
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            types: Types::ALL,
            values: Vec::new(),
            low: Vec::new(),
            high: Vec::new(),
            multiple_of: None,
            length: Range::ANY,
            pattern: None,
            properties: BTreeMap::new(),
            patterns: Vec::new(),
            additional: None,
            names: None,
            required: BTreeSet::new(),
            size: Range::ANY,
            needs: Vec::new(),
            dependent: Vec::new(),
            prefix: Vec::new(),
            items: None,
            count: Range::ANY,
            contains: None,
            is_unique: false,
            all: Vec::new(),
            any: Vec::new(),
            one: Vec::new(),
            not: None,
            conditional: None,
            unevaluated_properties: None,
            unevaluated_items: None,
            opaque: Vec::new(),
            hides: false,
            stands_for: None,
        }
    }
}

impl Rules {
    /// The number of texts, numbers and schemas, without enumerated values.
    pub(super) fn size(&self) -> usize {
        let lists = self.values.iter().map(|(_, list)| list.len());
        let needs = self.needs.iter().flat_map(|(_, needs)| needs.values().map(BTreeSet::len));
        lists.chain(needs).sum::<usize>()
            + self.properties.len()
            + self.patterns.len()
            + self.required.len()
            + self.dependent.len()
            + self.prefix.len()
            + self.all.len()
            + self.any.len()
            + self.one.len()
    }

    /// The schema `false`.
    pub(super) fn nothing() -> Self {
        Self { types: Types(0), ..Self::default() }
    }
}
