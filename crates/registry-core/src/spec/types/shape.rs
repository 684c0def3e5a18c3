//! Sets of possible values, derived from the registered schemas.
//!
//! A shape is an upper bound: it contains every possible value. It preserves the structure that the
//! composition builds, and the sources of its parts.

use std::{collections::BTreeMap, rc::Rc};

use serde_json::{Map, Value, json};

use super::{
    schema::{self, Elements, Kinds},
    work::Work,
};

/// No upper bound of a count.
pub(super) const MANY: u64 = u64::MAX;

/// A set of values.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// Any value, because no schema is registered.
    Unknown(Option<Origin>),
    /// The values that a schema accepts.
    Schema(Rc<Value>, Option<Origin>),
    /// Objects with these members.
    Object(Rc<Object>),
    /// Arrays.
    Array(Rc<Array>),
    /// The union of these shapes.
    OneOf(Rc<[Shape]>),
}

/// A part of a value with a schema: of the composition's input (`""`), or of the result of the call
/// at a JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) source: Rc<str>,
    pub(super) path: Rc<[Step]>,
}

/// A step from a value to one of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    Position(i64),
    Slice(Slice),
    /// Every item or member, or some of them if `is_filtered`.
    Each {
        is_filtered: bool,
    },
}

/// The bounds of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) step: i64,
}

impl Slice {
    /// The minimum and maximum number of selected items for arrays of `min` to `max` items.
    fn counts(self, (min, max): (u64, u64)) -> (u64, u64) {
        let start = self.start.unwrap_or(0);
        match (start < 0, self.end) {
            _ if self.step == 0 => (0, 0),
            _ if self.step < 0 => (0, max),
            // The longer the array, the fewer items lie between a negative start and a fixed end.
            (true, Some(end)) if end >= 0 => {
                (0, max.min(start.unsigned_abs()).min(end.unsigned_abs()))
            }
            _ => (self.count(min), self.count(max)),
        }
    }

    /// The number of items that a forward slice selects of `length`.
    fn count(self, length: u64) -> u64 {
        let place = |bound: i64| {
            let from = if bound < 0 { i128::from(length) } else { 0 };
            (from + i128::from(bound)).clamp(0, i128::from(length))
        };
        let start = place(self.start.unwrap_or(0));
        let end = self.end.map_or(i128::from(length), place);
        let count = (end - start).max(0).unsigned_abs();
        u64::try_from(count.div_ceil(u128::from(self.step.unsigned_abs()))).unwrap_or(MANY)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) members: BTreeMap<String, Member>,
    /// The shape of all other members; `None` if there are no others.
    pub(super) rest: Option<Shape>,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) shape: Shape,
    /// Whether it is present in every value.
    pub(super) is_sure: bool,
    /// Whether a schema declares it.
    pub(super) is_declared: bool,
}

impl Member {
    pub(super) fn sure(shape: Shape) -> Self {
        Self { shape, is_sure: true, is_declared: true }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Array {
    /// The items of the first positions.
    pub(super) first: Vec<Shape>,
    /// The remaining items.
    pub(super) rest: Shape,
    pub(super) min: u64,
    pub(super) max: u64,
}

/// The parts of a value that a step selects.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) shape: Shape,
    /// The minimum number of selected parts.
    pub(super) min: u64,
    pub(super) max: u64,
    /// Whether a schema declares them.
    pub(super) is_declared: bool,
}

impl Found {
    pub(super) fn nothing() -> Self {
        Self { shape: Shape::nothing(), min: 0, max: 0, is_declared: true }
    }

    fn any(all: impl IntoIterator<Item = Self>) -> Self {
        let mut all = all.into_iter();
        let Some(mut found) = all.next() else { return Self::nothing() };
        let mut shapes = vec![found.shape];
        for one in all {
            found.min = found.min.min(one.min);
            found.max = found.max.max(one.max);
            found.is_declared &= one.is_declared;
            shapes.push(one.shape);
        }
        Self { shape: Shape::any(shapes), ..found }
    }
}

impl Shape {
    pub(super) fn schema(schema: Value) -> Self {
        Self::Schema(Rc::new(schema), None)
    }

    pub(super) fn constant(value: &Value) -> Self {
        Self::schema(json!({ "const": value }))
    }

    pub(super) fn nothing() -> Self {
        Self::schema(Value::Bool(false))
    }

    /// The union of shapes.
    pub(super) fn any(shapes: impl IntoIterator<Item = Self>) -> Self {
        let mut all: Vec<Self> = Vec::new();
        for shape in shapes {
            let inner = match &shape {
                Self::OneOf(inner) => inner.to_vec(),
                _ => vec![shape],
            };
            for one in inner.into_iter().filter(|one| !one.is_nothing()) {
                if !all.iter().any(|known| known.is_same(&one)) {
                    all.push(one);
                }
            }
        }
        match all.len() {
            0 => Self::nothing(),
            1 => all.remove(0),
            _ => Self::OneOf(all.into()),
        }
    }

    /// An object with exactly these members.
    pub(super) fn object(members: impl IntoIterator<Item = (String, Member)>) -> Self {
        Self::Object(Rc::new(Object { members: members.into_iter().collect(), rest: None }))
    }

    /// An object with unknown members.
    pub(super) fn any_object() -> Self {
        let rest = Some(Self::Unknown(None));
        Self::Object(Rc::new(Object { members: BTreeMap::new(), rest }))
    }

    /// Arrays of these items.
    pub(super) fn array(rest: Self, (min, max): (u64, u64)) -> Self {
        Self::Array(Rc::new(Array { first: Vec::new(), rest, min, max }))
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown(a), Self::Unknown(b)) => a == b,
            (Self::Schema(a, from), Self::Schema(b, of)) => Rc::ptr_eq(a, b) && from == of,
            (Self::Object(a), Self::Object(b)) => Rc::ptr_eq(a, b),
            (Self::Array(a), Self::Array(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Self::Schema(schema, _) if **schema == Value::Bool(false))
    }

    /// Whether any part of it is unknown.
    pub(super) fn has_unknown(&self, work: &Work) -> bool {
        if !work.take(1) {
            return true;
        }
        match self {
            Self::Unknown(_) => true,
            Self::Schema(..) => false,
            Self::Object(object) => {
                object.members.values().any(|member| member.shape.has_unknown(work))
                    || object.rest.as_ref().is_some_and(|rest| rest.has_unknown(work))
            }
            Self::Array(array) => {
                array.max > 0 && array.rest.has_unknown(work)
                    || array.first.iter().any(|item| item.has_unknown(work))
            }
            Self::OneOf(all) => all.iter().any(|one| one.has_unknown(work)),
        }
    }

    /// Whether it is entirely unknown.
    pub(super) fn is_unknown(&self) -> bool {
        match self {
            Self::Unknown(_) => true,
            Self::OneOf(all) => all.iter().all(Self::is_unknown),
            Self::Schema(..) | Self::Object(_) | Self::Array(_) => false,
        }
    }

    pub(super) fn kinds(&self) -> Kinds {
        match self {
            Self::Unknown(_) => Kinds::ALL,
            Self::Schema(schema, _) => schema::kinds(schema),
            Self::Object(_) => Kinds::OBJECT,
            Self::Array(_) => Kinds::ARRAY,
            Self::OneOf(all) => {
                let kinds = all.iter().map(Self::kinds);
                kinds.reduce(Kinds::or).unwrap_or(Kinds::ALL)
            }
        }
    }

    /// Whether it may be null.
    pub(super) fn may_be_null(&self) -> bool {
        self.kinds().has(Kinds::NULL)
    }

    /// The shape without null.
    pub(super) fn without_null(&self) -> Self {
        match self {
            Self::Schema(schema, origin) if self.may_be_null() => {
                let rest = json!({ "allOf": [**schema, { "not": { "type": "null" } }] });
                Self::Schema(rest.into(), origin.clone())
            }
            Self::OneOf(all) => Self::any(all.iter().map(Self::without_null)),
            _ => self.clone(),
        }
    }

    /// The values whose part at this path matches a schema.
    pub(super) fn narrowed(&self, names: &[String], schema: &Value) -> Self {
        match self {
            Self::Unknown(_) | Self::Array(_) => self.clone(),
            Self::Schema(own, origin) => {
                let nest = |inner: Value, name: &String| json!({ "type": "object", "properties": { name: inner }, "required": [name] });
                let part = names.iter().rev().fold(schema.clone(), nest);
                Self::Schema(json!({ "allOf": [**own, part] }).into(), origin.clone())
            }
            Self::Object(object) => {
                let Some((name, rest)) = names.split_first() else { return self.clone() };
                let Some(member) = object.members.get(name) else { return self.clone() };
                let shape = member.shape.narrowed(rest, schema);
                let mut object = Object::clone(object);
                object.members.insert(name.clone(), Member::sure(shape));
                Self::Object(object.into())
            }
            Self::OneOf(all) => Self::any(all.iter().map(|one| one.narrowed(names, schema))),
        }
    }

    /// The parts that a step selects.
    pub(super) fn child(&self, step: &Step) -> Found {
        match self {
            Self::Unknown(origin) => {
                let max = match step {
                    Step::Each { .. } => MANY,
                    Step::Slice(slice) => slice.counts((0, MANY)).1,
                    Step::Name(_) | Step::Position(_) => 1,
                };
                let shape = Self::Unknown(extended(origin.as_ref(), step));
                Found { shape, min: 0, max, is_declared: true }
            }
            Self::Schema(schema, origin) => child_of(schema, step, origin.as_ref()),
            Self::Object(object) => object.child(step),
            Self::Array(array) => array.child(step),
            Self::OneOf(all) => Found::any(all.iter().map(|one| one.child(step))),
        }
    }

    /// The arrays in this shape, merged; `None` if it has none.
    pub(super) fn items(&self) -> Option<Array> {
        match self {
            Self::Unknown(origin) => {
                let each = Step::Each { is_filtered: false };
                let rest = Self::Unknown(extended(origin.as_ref(), &each));
                Some(Array { first: Vec::new(), rest, min: 0, max: MANY })
            }
            Self::Schema(schema, origin) => {
                let all = schema::elements(schema).into_iter();
                all.map(|elements| Array::from_elements(elements, origin.as_ref()))
                    .reduce(Array::or)
            }
            Self::Object(_) => None,
            Self::Array(array) => Some(Array::clone(array)),
            Self::OneOf(all) => all.iter().filter_map(Self::items).reduce(Array::or),
        }
    }

    /// A schema that accepts the whole shape. Unknown parts are assumed to match `wanted`.
    pub(super) fn render(&self, wanted: Option<&Value>, work: &Work) -> Option<Value> {
        if !work.take(1) {
            return None;
        }
        Some(match self {
            Self::Unknown(_) => wanted.cloned().unwrap_or(Value::Bool(true)),
            Self::Schema(schema, _) => work.copy(schema)?,
            Self::Object(object) => object.render(wanted, work)?,
            Self::Array(array) => array.render(wanted, work)?,
            Self::OneOf(all) => {
                let all: Option<Vec<_>> = all.iter().map(|one| one.render(wanted, work)).collect();
                schema::any_of(all?)
            }
        })
    }

    /// Collects the parts of sources that determine this value.
    pub(super) fn trace<'v>(&self, value: &'v Value, found: &mut Vec<(Origin, &'v Value)>) {
        const MOST: usize = 256;
        if found.len() > MOST {
            return;
        }
        match self {
            Self::Unknown(origin) | Self::Schema(_, origin) => {
                found.extend(origin.clone().map(|origin| (origin, value)));
            }
            Self::Object(object) => {
                let members = value.as_object().into_iter().flatten();
                for (name, value) in members {
                    if let Some(member) = object.members.get(name) {
                        member.shape.trace(value, found);
                    }
                }
            }
            Self::Array(array) => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    array.at(i).trace(item, found);
                }
            }
            Self::OneOf(all) => {
                let kind = Kinds::of_value(value);
                let all = all.iter().filter(|one| one.kinds().has(kind));
                all.for_each(|one| one.trace(value, found));
            }
        }
    }
}

fn extended(origin: Option<&Origin>, step: &Step) -> Option<Origin> {
    let Origin { source, path } = origin?;
    let path = path.iter().chain([step]).cloned().collect();
    Some(Origin { source: Rc::clone(source), path })
}

fn child_of(schema: &Value, step: &Step, origin: Option<&Origin>) -> Found {
    let from = extended(origin, step);
    match step {
        Step::Name(name) => {
            let schema::Part { schema, min, max, is_declared } = schema::member(schema, name);
            Found { shape: Shape::Schema(Rc::new(schema), from), min, max, is_declared }
        }
        Step::Position(_) | Step::Slice(_) | Step::Each { .. } => {
            let arrays = schema::elements(schema).into_iter();
            let mut found: Vec<_> =
                arrays.map(|elements| Array::from_elements(elements, origin).child(step)).collect();
            let kinds = schema::kinds(schema);
            if matches!(step, Step::Each { .. }) && kinds.has(Kinds::OBJECT) {
                found.push(Found {
                    shape: values_of(schema, from),
                    min: 0,
                    max: MANY,
                    is_declared: true,
                });
            }
            if kinds != Kinds::ARRAY {
                found.push(Found::nothing());
            }
            Found::any(found)
        }
    }
}

/// The values of all members of the objects that a schema accepts.
fn values_of(schema: &Value, origin: Option<Origin>) -> Shape {
    if schema::is_open(schema) {
        return Shape::Schema(Rc::new(Value::Bool(true)), origin);
    }
    let names = schema::declared(schema);
    let parts = names.iter().map(|name| schema::member(schema, name).schema).collect();
    Shape::Schema(Rc::new(schema::any_of(parts)), origin)
}

impl Object {
    fn child(&self, step: &Step) -> Found {
        match step {
            Step::Name(name) => match (self.members.get(name), &self.rest) {
                (Some(Member { shape, is_sure, is_declared }), _) => {
                    let min = u64::from(*is_sure);
                    Found { shape: shape.clone(), min, max: 1, is_declared: *is_declared }
                }
                (None, Some(rest)) => {
                    Found { shape: rest.clone(), min: 0, max: 1, is_declared: false }
                }
                (None, None) => Found::nothing(),
            },
            Step::Position(_) | Step::Slice(_) => Found::nothing(),
            Step::Each { is_filtered } => {
                let sure = self.members.values().filter(|member| member.is_sure).count() as u64;
                let all = self.members.values().map(|member| member.shape.clone());
                let shape = Shape::any(all.chain(self.rest.clone()));
                let max = if self.rest.is_some() { MANY } else { self.members.len() as u64 };
                let min = if *is_filtered { 0 } else { sure };
                Found { shape, min, max, is_declared: true }
            }
        }
    }

    fn render(&self, wanted: Option<&Value>, work: &Work) -> Option<Value> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, Member { shape, is_sure, .. }) in &self.members {
            let wanted = wanted.map(|wanted| schema::member(wanted, name));
            // An unknown member is assumed to be present if it is required.
            let is_assumed =
                wanted.as_ref().is_some_and(|wanted| wanted.min > 0) && shape.is_unknown();
            let wanted = wanted.map(|wanted| wanted.schema);
            properties.insert(name.clone(), shape.render(wanted.as_ref(), work)?);
            if *is_sure || is_assumed {
                required.push(name.as_str());
            }
        }
        let is_unknown = self.rest.as_ref().is_some_and(Shape::is_unknown);
        if let Some(wanted) = wanted.filter(|_| is_unknown) {
            return self.render_open(wanted, (properties, required), work);
        }
        let (min, max) = (required.len(), properties.len());
        let rest = self.rest.as_ref().map(|rest| rest.render(None, work));
        let rest = rest.unwrap_or(Some(Value::Bool(false)))?;
        let mut schema = json!({ "type": "object", "properties": properties,
            "required": required, "additionalProperties": rest });
        if min > 0 {
            schema["minProperties"] = min.into();
        }
        if self.rest.is_none() {
            schema["maxProperties"] = max.into();
        }
        Some(schema)
    }

    /// The same with unknown other members, which are assumed to match `wanted`.
    fn render_open(
        &self,
        wanted: &Value,
        (mut properties, required): (Map<String, Value>, Vec<&str>),
        work: &Work,
    ) -> Option<Value> {
        let of_objects = schema::all_of(vec![json!({ "type": "object" }), work.copy(wanted)?]);
        if self.members.is_empty() {
            return Some(of_objects);
        }
        let mut required: Vec<_> = required.into_iter().map(str::to_owned).collect();
        for name in schema::declared(wanted) {
            if self.members.contains_key(&name) {
                continue;
            }
            let part = schema::member(&of_objects, &name);
            if part.min > 0 {
                required.push(name.clone());
            }
            properties.insert(name, part.schema);
        }
        // No schema declares this name.
        let other = schema::member(&of_objects, "\u{0}");
        let rest = if other.max > 0 { other.schema } else { Value::Bool(false) };
        Some(json!({ "type": "object", "properties": properties, "required": required,
            "additionalProperties": rest }))
    }
}

/// A count as an array index.
fn place_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl Array {
    fn from_elements(elements: Elements, origin: Option<&Origin>) -> Self {
        let shape =
            |step: Step, schema: Value| Shape::Schema(Rc::new(schema), extended(origin, &step));
        let Elements { first, rest, min, max } = elements;
        let at = |(i, schema): (usize, Value)| {
            shape(Step::Position(i64::try_from(i).unwrap_or(i64::MAX)), schema)
        };
        let first = first.into_iter().enumerate().map(at).collect();
        Self { first, rest: shape(Step::Each { is_filtered: false }, rest), min, max }
    }

    /// The union of two arrays.
    pub(super) fn or(self, other: Self) -> Self {
        let positions = self.first.len().max(other.first.len());
        let at = |i: usize| Shape::any([self.at(i).clone(), other.at(i).clone()]);
        let first = (0..positions).map(at).collect();
        let (min, max) = (self.min.min(other.min), self.max.max(other.max));
        Self { first, rest: Shape::any([self.rest, other.rest]), min, max }
    }

    pub(super) fn at(&self, position: usize) -> &Shape {
        self.first.get(position).unwrap_or(&self.rest)
    }

    /// The number of positions that have an item in every array.
    pub(super) fn sure(&self) -> usize {
        usize::try_from(self.min).unwrap_or(usize::MAX)
    }

    /// The union of all items.
    pub(super) fn each(&self) -> Shape {
        let most = usize::try_from(self.max).unwrap_or(usize::MAX);
        let first = self.first.iter().take(most).cloned();
        let rest = (most > self.first.len()).then(|| self.rest.clone());
        Shape::any(first.chain(rest))
    }

    /// The union of the items in a range of positions.
    fn between(&self, start: i64, end: i64) -> Shape {
        let place = |bound: i64| usize::try_from(bound).unwrap_or(usize::MAX);
        let (start, end) = (place(start), place(end).min(place_of(self.max)));
        let first = self.first.iter().take(end).skip(start).cloned();
        let rest = (end > self.first.len()).then(|| self.rest.clone());
        Shape::any(first.chain(rest))
    }

    fn child(&self, step: &Step) -> Found {
        let of = |shape: Shape, min, max| Found { shape, min, max, is_declared: true };
        match step {
            Step::Name(_) => Found::nothing(),
            Step::Position(position) => match usize::try_from(*position) {
                Ok(at) if (at as u64) < self.max => {
                    of(self.at(at).clone(), u64::from(at < self.sure()), 1)
                }
                Err(_) if position.unsigned_abs() <= self.max => {
                    of(self.each(), u64::from(position.unsigned_abs() <= self.min), 1)
                }
                _ => Found::nothing(),
            },
            Step::Slice(slice) => {
                let (min, max) = slice.counts((self.min, self.max));
                let shape = match (slice.start.unwrap_or(0), slice.end) {
                    (start @ 0.., Some(end @ 0..)) if slice.step > 0 => self.between(start, end),
                    _ => self.each(),
                };
                of(shape, min, max)
            }
            Step::Each { is_filtered } => {
                of(self.each(), if *is_filtered { 0 } else { self.min }, self.max)
            }
        }
    }

    fn render(&self, wanted: Option<&Value>, work: &Work) -> Option<Value> {
        let elements = wanted.map(schema::elements).unwrap_or_default();
        let at = |position: usize| {
            let all =
                elements.iter().map(|one| one.first.get(position).unwrap_or(&one.rest).clone());
            wanted.map(|_| schema::any_of(all.collect()))
        };
        let first: Option<Vec<_>> =
            (0..self.first.len()).map(|i| self.first[i].render(at(i).as_ref(), work)).collect();
        let rest = self.rest.render(at(self.first.len()).as_ref(), work)?;
        let mut schema = json!({ "type": "array", "minItems": self.min, "items": rest });
        let first = first?;
        if !first.is_empty() {
            schema["prefixItems"] = first.into();
        }
        if self.max < MANY {
            schema["maxItems"] = self.max.into();
        }
        Some(schema)
    }
}
