//! The part of a shape that a JSONPath selects.
//!
//! A single selected value is returned itself, several values as an array. Descents (`..`) select
//! anything.

use super::{
    label::segment,
    shape::{Found, Shape, Slice, Step},
};
use crate::spec::Path;

/// The selection of a path.
#[derive(Debug, Clone)]
pub(super) struct Selected {
    pub(super) shape: Shape,
    pub(super) presence: Presence,
    /// Whether a schema declares everything on the way.
    pub(super) is_declared: bool,
}

/// Whether a path selects something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Never,
    Perhaps,
    Always,
}

impl Selected {
    pub(super) fn always(shape: Shape) -> Self {
        Self { shape, presence: Presence::Always, is_declared: true }
    }
}

/// The first segment of a path that no schema declares.
#[derive(Debug, Clone)]
pub(super) struct Undeclared {
    /// Its name. `None`: it is no name, or the place is unknown.
    pub(super) name: Option<String>,
    /// The path to the place.
    pub(super) at: String,
    /// The declared names there.
    pub(super) has: Vec<String>,
}

/// A selector of a path.
enum Selector {
    One(Step),
    /// Several selectors in one pair of brackets.
    Each(Vec<Step>),
}

/// Selects a part of a shape.
pub(super) fn select(path: &Path, from: &Shape) -> Selected {
    let Some(selectors) = selectors(path.as_str()) else {
        let shape =
            if from.is_unknown() { Shape::Unknown(None) } else { Shape::schema(true.into()) };
        return Selected { shape, presence: Presence::Perhaps, is_declared: true };
    };
    let mut found = Found { shape: from.clone(), min: 1, max: 1, is_declared: true };
    for selector in selectors {
        let next = match &selector {
            Selector::One(step) => found.shape.child(step),
            Selector::Each(steps) => {
                let all: Vec<_> = steps.iter().map(|step| found.shape.child(step)).collect();
                Found {
                    min: all.iter().map(|one| one.min).fold(0, u64::saturating_add),
                    max: all.iter().map(|one| one.max).fold(0, u64::saturating_add),
                    is_declared: all.iter().all(|one| one.is_declared),
                    shape: Shape::any(all.into_iter().map(|one| one.shape)),
                }
            }
        };
        found = Found {
            shape: next.shape,
            min: found.min.saturating_mul(next.min),
            max: found.max.saturating_mul(next.max),
            is_declared: found.is_declared && next.is_declared,
        };
        if found.max == 0 {
            break;
        }
    }
    let Found { shape, min, max, is_declared } = found;
    let presence = match (min, max) {
        (_, 0) => Presence::Never,
        (0, _) => Presence::Perhaps,
        _ => Presence::Always,
    };
    let one = (min <= 1 && max > 0).then(|| shape.clone());
    let several = (max > 1).then(|| Shape::array(shape, (min.max(2), max)));
    Selected { shape: Shape::any(one.into_iter().chain(several)), presence, is_declared }
}

/// The first segment of a path that a shape does not declare. `None`: it declares all.
pub(super) fn undeclared(path: &Path, from: &Shape) -> Option<Undeclared> {
    let unknown = || Some(Undeclared { name: None, at: "$".to_owned(), has: from.names() });
    let Some(selectors) = selectors(path.as_str()) else { return unknown() };
    let (mut shape, mut at) = (from.clone(), "$".to_owned());
    for selector in selectors {
        let Selector::One(step) = selector else { return unknown() };
        let next = shape.child(&step);
        at = match step {
            Step::Name(name) if next.max == 0 || !next.is_declared => {
                return Some(Undeclared { name: Some(name), at, has: shape.names() });
            }
            _ if next.max == 0 || !next.is_declared => return unknown(),
            Step::Name(name) => segment(&at, &name),
            Step::Position(position) => format!("{at}[{position}]"),
            Step::Slice(_) | Step::Each { .. } => format!("{at}[*]"),
        };
        shape = next.shape;
    }
    None
}

/// The names of a path that consists only of names.
pub(super) fn names(path: &Path) -> Option<Vec<String>> {
    let name = |selector| match selector {
        Selector::One(Step::Name(name)) => Some(name),
        _ => None,
    };
    selectors(path.as_str())?.into_iter().map(name).collect()
}

/// The selectors of a path; `None` for one with a descent.
fn selectors(text: &str) -> Option<Vec<Selector>> {
    let mut rest = text.strip_prefix('$')?.trim();
    let mut selectors = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(".*") {
            selectors.push(Selector::One(Step::Each { is_filtered: false }));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let is_name = |c: char| c.is_alphanumeric() || c == '_' || !c.is_ascii();
            let (name, after) = after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()));
            if name.is_empty() {
                return None;
            }
            selectors.push(Selector::One(Step::Name(name.to_owned())));
            rest = after;
        } else {
            let inside = rest.strip_prefix('[')?;
            let end = end_of(inside)?;
            let mut steps = split(&inside[..end]).map(bracketed).collect::<Option<Vec<_>>>()?;
            selectors.push(match steps.len() {
                1 => Selector::One(steps.remove(0)),
                _ => Selector::Each(steps),
            });
            rest = &inside[end + 1..];
        }
        rest = rest.trim();
    }
    Some(selectors)
}

/// The position of the closing bracket.
fn end_of(inside: &str) -> Option<usize> {
    outside_of_quotes(inside)
        .find_map(|(at, byte, depth)| (byte == b']' && depth == 0).then_some(at))
}

/// The selectors between brackets.
fn split(inside: &str) -> impl Iterator<Item = &str> {
    let commas = outside_of_quotes(inside);
    let commas = commas.filter(|(_, byte, depth)| *byte == b',' && *depth == 0);
    let commas: Vec<_> = commas.map(|(at, ..)| at).collect();
    let starts = std::iter::once(0).chain(commas.clone().into_iter().map(|at| at + 1));
    let ends = commas.into_iter().chain([inside.len()]);
    starts.zip(ends).map(|(start, end)| inside[start..end].trim())
}

/// The bytes outside of quotes with their position and bracket depth.
fn outside_of_quotes(text: &str) -> impl Iterator<Item = (usize, u8, usize)> {
    let (mut quote, mut is_escaped, mut depth) = (None, false, 0_usize);
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        if let Some(open) = quote {
            let is_end = byte == open && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            if is_end {
                quote = None;
            }
            return None;
        }
        let here = depth;
        match byte {
            b'\'' | b'"' => quote = Some(byte),
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        Some((at, byte, here))
    })
}

fn slice(inside: &str) -> Option<Slice> {
    let mut bounds = inside.split(':').map(str::trim);
    let mut bound = || match bounds.next() {
        None | Some("") => Some(None),
        Some(bound) => bound.parse::<i64>().ok().map(Some),
    };
    let (start, end, step) = (bound()?, bound()?, bound()?);
    inside.contains(':').then_some(Slice { start, end, step: step.unwrap_or(1) })
}

fn bracketed(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::Each { is_filtered: false });
    }
    if let Ok(position) = inside.parse::<i64>() {
        return Some(Step::Position(position));
    }
    if inside.starts_with('?') {
        return Some(Step::Each { is_filtered: true });
    }
    let Some(quote) = inside.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
        return slice(inside).map(Step::Slice);
    };
    let name = inside.strip_prefix(quote)?.strip_suffix(quote)?;
    (!name.contains('\\')).then(|| Step::Name(name.to_owned()))
}
