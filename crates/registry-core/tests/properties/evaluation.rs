//! Projections, predicates and aggregation, compared with a naive implementation.

use std::cmp::Ordering;

use proptest::{collection::vec, prelude::*, sample::select};
use registry_core::spec::{
    AggregationOp, Filter, Mappings, Order, Path, Predicate, PredicateOp,
    eval::{Budget, aggregate},
};
use serde_json::{Map, Value, json};

fn budget() -> Budget {
    Budget::new(1 << 24)
}

#[derive(Debug, Clone)]
enum Step {
    Name(&'static str),
    All,
    Location(usize),
}

#[derive(Debug, Clone)]
struct Steps(Vec<Step>);

impl Steps {
    fn text(&self) -> String {
        self.0.iter().fold("$".to_owned(), |text, step| match step {
            Step::Name(name) => format!("{text}.{name}"),
            Step::All => format!("{text}[*]"),
            Step::Location(i) => format!("{text}[{i}]"),
        })
    }

    fn path(&self) -> Path {
        Path::parse(&self.text()).unwrap()
    }

    fn select(&self, value: &Value) -> Vec<Value> {
        let mut found = vec![value.clone()];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in found {
                match (step, value) {
                    (Step::Name(name), Value::Object(map)) => next.extend(map.get(*name).cloned()),
                    (Step::Location(i), Value::Array(items)) => next.extend(items.get(*i).cloned()),
                    (Step::All, Value::Array(items)) => next.extend(items),
                    (Step::All, Value::Object(map)) => next.extend(map.into_values()),
                    _ => {}
                }
            }
            found = next;
        }
        found
    }

    /// No value is `None`, one value is itself, several are an array.
    fn one(&self, value: &Value) -> Option<Value> {
        let mut found = self.select(value);
        match found.len() {
            0 => None,
            1 => found.pop(),
            _ => Some(Value::Array(found)),
        }
    }

    fn text_in(&self, value: &Value) -> Option<String> {
        match self.one(value)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    }
}

fn steps() -> impl Strategy<Value = Steps> {
    let names = select(&["a", "b", "c"][..]).prop_map(Step::Name);
    vec(
        prop_oneof![3 => names, 1 => Just(Step::All), 1 => (0..3_usize).prop_map(Step::Location)],
        0..4,
    )
    .prop_map(Steps)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        (-2..3_i32).prop_map(|n| Value::from(f64::from(n))),
        Just(json!(0.5)),
        select(&["", "a", "b", "ab", "1"][..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((select(&["a", "b", "c"][..]), inner), 0..4)
                .prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Value>()),
        ]
    })
}

#[derive(Debug, Clone)]
enum Source {
    Path(Steps),
    Literal(Value),
    Coalesce(Vec<Steps>),
    Template(Steps, Steps),
    Concat(Vec<Steps>, &'static str),
    Nested(Vec<Field>),
}

#[derive(Debug, Clone)]
struct Field {
    name: &'static str,
    source: Source,
    /// The fields of its items, if they are mapped.
    each: Vec<(&'static str, Source)>,
}

/// A literal that cannot be confused with a wrapped value, because all wrappers are objects.
fn source() -> BoxedStrategy<Source> {
    let leaf = prop_oneof![
        steps().prop_map(Source::Path),
        value().prop_map(Source::Literal),
        vec(steps(), 1..4).prop_map(Source::Coalesce),
        (steps(), steps()).prop_map(|(a, b)| Source::Template(a, b)),
        (vec(steps(), 1..4), select(&["", ", "][..])).prop_map(|(p, s)| Source::Concat(p, s)),
    ];
    leaf.prop_recursive(2, 12, 3, |inner| vec(field(inner.boxed()), 1..4).prop_map(Source::Nested))
        .boxed()
}

fn field(source: BoxedStrategy<Source>) -> impl Strategy<Value = Field> {
    let names = select(&["x", "y", "z"][..]);
    let each = vec((select(&["p", "q"][..]), source.clone()), 0..3);
    (names, source, each).prop_map(|(name, source, each)| Field { name, source, each })
}

impl Source {
    fn json(&self) -> Value {
        let texts = |paths: &[Steps]| paths.iter().map(Steps::text).collect::<Vec<_>>();
        match self {
            Self::Path(path) => json!({ "path": path.text() }),
            Self::Literal(value) => json!({ "literal": value }),
            Self::Coalesce(paths) => json!({ "coalesce": { "paths": texts(paths) } }),
            Self::Template(a, b) => json!({ "template": {
                "template": "{a}-{b}{{a}}", "vars": { "a": a.text(), "b": b.text() } } }),
            Self::Concat(paths, separator) => {
                json!({ "concat": { "paths": texts(paths), "separator": separator } })
            }
            Self::Nested(fields) => json!({ "nested": { "mappings": fields_json(fields) } }),
        }
    }

    fn naive(&self, input: &Value) -> Value {
        match self {
            Self::Path(path) => path.one(input).unwrap_or_default(),
            Self::Literal(value) => value.clone(),
            Self::Coalesce(paths) => {
                let mut found = paths.iter().filter_map(|path| path.one(input));
                found.find(|value| !value.is_null()).unwrap_or_default()
            }
            Self::Template(a, b) => {
                let [a, b] = [a, b].map(|path| path.text_in(input).unwrap_or_default());
                format!("{a}-{b}{{{a}}}").into()
            }
            Self::Concat(paths, separator) => {
                let texts: Vec<_> = paths.iter().filter_map(|path| path.text_in(input)).collect();
                texts.join(separator).into()
            }
            Self::Nested(fields) => naive(fields, input),
        }
    }

    fn items(&self, input: &Value) -> Vec<Value> {
        if let Self::Path(path) = self {
            return match path.select(input).as_slice() {
                [Value::Array(items)] => items.clone(),
                [Value::Null] => Vec::new(),
                several => several.to_vec(),
            };
        }
        match self.naive(input) {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => vec![other],
        }
    }
}

/// The last of several fields with the same name counts.
fn fields_json(fields: &[Field]) -> Value {
    let mut map = Map::new();
    for field in fields {
        map.retain(|name, _| !name.starts_with(&format!("{}[*]", field.name)));
        map.insert(field.name.to_owned(), field.source.json());
        for (name, source) in &field.each {
            map.insert(format!("{}[*].{name}", field.name), source.json());
        }
    }
    Value::Object(map)
}

fn naive(fields: &[Field], input: &Value) -> Value {
    let mut map = Map::new();
    for Field { name, source, each } in fields {
        let value = if each.is_empty() {
            source.naive(input)
        } else {
            let object = |item: Value| -> Value {
                each.iter()
                    .map(|(name, source)| ((*name).to_owned(), source.naive(&item)))
                    .collect()
            };
            source.items(input).into_iter().map(object).collect::<Vec<Value>>().into()
        };
        map.insert((*name).to_owned(), value);
    }
    Value::Object(map)
}

/// Equality with numbers compared by value.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

fn ordering(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn naive_met(field: Option<&Value>, op: PredicateOp, value: &Value) -> bool {
    let Some(field) = field else { return op == PredicateOp::Ne };
    let order = ordering(field, value);
    match op {
        PredicateOp::Eq => equal(field, value),
        PredicateOp::Ne => !equal(field, value),
        PredicateOp::Gt => order.is_some_and(Ordering::is_gt),
        PredicateOp::Gte => order.is_some_and(Ordering::is_ge),
        PredicateOp::Lt => order.is_some_and(Ordering::is_lt),
        PredicateOp::Lte => order.is_some_and(Ordering::is_le),
        PredicateOp::Contains => match (field, value) {
            (Value::String(field), Value::String(value)) => field.contains(value),
            (Value::Array(items), value) => items.iter().any(|item| equal(item, value)),
            _ => false,
        },
        PredicateOp::In => {
            value.as_array().is_some_and(|items| items.iter().any(|item| equal(item, field)))
        }
    }
}

/// Insertion sort, which is stable.
fn naive_sort(items: &[Value], field: &Steps, order: Order) -> Vec<Value> {
    let key = |item: &Value| field.one(item).filter(|key| !key.is_null());
    let rank = |key: &Option<Value>| match key {
        Some(Value::Number(_)) => 0,
        Some(Value::String(_)) => 1,
        Some(_) => 2,
        None => 3,
    };
    let is_after = |later: &Value, item: &Value| {
        let (later, item) = (key(later), key(item));
        let within = later.as_ref().zip(item.as_ref()).and_then(|(a, b)| ordering(a, b));
        let within = match order {
            Order::Ascending => within,
            Order::Descending => within.map(Ordering::reverse),
        };
        rank(&later) > rank(&item) || within == Some(Ordering::Greater)
    };
    let mut sorted: Vec<Value> = Vec::new();
    for item in items {
        let place = sorted.iter().position(|later| is_after(later, item)).unwrap_or(sorted.len());
        sorted.insert(place, item.clone());
    }
    sorted
}

fn naive_dedupe(items: &[Value], field: &Steps) -> Vec<Value> {
    let key = |item: &Value| Value::Array(field.select(item));
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        let own = key(item);
        let is_known = own != json!([]) && kept.iter().any(|other| equal(&key(other), &own));
        if !is_known {
            kept.push(item.clone());
        }
    }
    kept
}

const OPS: [PredicateOp; 8] = [
    PredicateOp::Eq,
    PredicateOp::Ne,
    PredicateOp::Gt,
    PredicateOp::Gte,
    PredicateOp::Lt,
    PredicateOp::Lte,
    PredicateOp::Contains,
    PredicateOp::In,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn projection_matches_naive_implementation(fields in vec(field(source()), 1..4), input in value()) {
        let mappings = Mappings::parse(&json!({ "mappings": fields_json(&fields) })).unwrap();
        let found = mappings.apply(&input, &mut budget()).unwrap();
        prop_assert_eq!(found, naive(&fields, &input));
    }

    #[test]
    fn predicate_and_filter_match_naive_implementation(items in vec(value(), 0..6), field in steps(), op in select(&OPS[..]), compared in value()) {
        let predicate = Predicate { field: field.path(), op, value: compared.clone() };
        let mut kept = Vec::new();
        for item in &items {
            let expected = naive_met(field.one(item).as_ref(), op, &compared);
            prop_assert_eq!(predicate.is_met(item, &mut budget()).unwrap(), expected, "{} {}", field.text(), item);
            kept.extend(expected.then(|| item.clone()));
        }
        let filtered = Filter { predicate }.apply(items.into(), &mut budget()).unwrap();
        prop_assert_eq!(filtered, Value::Array(kept));
    }

    #[test]
    fn aggregation_matches_naive_implementation(items in vec(value(), 0..8), field in steps(), count in 0..5_u64, is_descending: bool) {
        let order = if is_descending { Order::Descending } else { Order::Ascending };
        let run = |op| aggregate(&[op], items.clone(), &mut budget());
        let sorted = naive_sort(&items, &field, order);
        prop_assert_eq!(run(AggregationOp::Sort { field: field.path(), order }).unwrap(), Value::Array(sorted));
        let deduped = naive_dedupe(&items, &field);
        prop_assert_eq!(run(AggregationOp::Dedupe { field: field.path() }).unwrap(), Value::Array(deduped));
        let flat: Vec<Value> = items.iter().flat_map(|item| match item {
            Value::Array(inner) => inner.clone(),
            other => vec![other.clone()],
        }).collect();
        prop_assert_eq!(run(AggregationOp::Flatten).unwrap(), Value::Array(flat));
        let first: Vec<Value> = items.iter().take(usize::try_from(count).unwrap()).cloned().collect();
        prop_assert_eq!(run(AggregationOp::Limit { count }).unwrap(), Value::Array(first));
        let mut all = Map::new();
        let are_objects = items.iter().all(|item| item.as_object().is_some_and(|map| {
            all.extend(map.clone());
            true
        }));
        let merged = run(AggregationOp::Merge);
        prop_assert_eq!(merged.is_ok(), are_objects);
        prop_assert!(!are_objects || merged.unwrap() == Value::Object(all));
        prop_assert_eq!(run(AggregationOp::Concat).unwrap(), Value::Array(items));
    }
}
