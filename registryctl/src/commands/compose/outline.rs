//! What a composition does, as lines and as a picture.

use registry_core::spec::{Operation, Spec, Target};

use crate::picture::{Mark, Picture};

/// One line a step, those within another indented.
pub(super) fn lines(spec: &Spec) -> Vec<String> {
    let mut lines = Vec::new();
    pattern(spec, 0, "", &mut lines);
    lines
}

fn pattern(spec: &Spec, depth: usize, name: &str, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    lines.push(format!("{indent}{name}{}", kind(spec)));
    for (name, part) in parts(spec) {
        match part {
            Part::Operation(Operation::Call(target)) | Part::Called(target) => {
                lines.push(format!("{indent}  {name}: {target}"));
            }
            Part::Operation(Operation::Pattern(inner)) => pattern(inner, depth + 1, &name, lines),
        }
    }
}

/// A pattern in a word, with the numbers that matter.
fn kind(spec: &Spec) -> String {
    match spec {
        Spec::Pipeline(_) => "pipeline".to_owned(),
        Spec::ScatterGather(scatter) => {
            let limit = scatter.timeout_ms.map(|ms| format!(", {ms} ms")).unwrap_or_default();
            let fast = if scatter.fail_fast { ", failFast" } else { "" };
            format!("scatterGather of {}{limit}{fast}", scatter.targets.len())
        }
        Spec::Filter(filter) => format!("filter by {}", filter.predicate.field),
        Spec::SchemaMap(mappings) => format!("schemaMap to {} fields", mappings.0.len()),
        Spec::MapEach(_) => "mapEach".to_owned(),
        Spec::Saga(saga) => match &saga.saga_id_path {
            Some(path) => format!("saga, one for each {path}"),
            None => "saga".to_owned(),
        },
        Spec::Retry(retry) => format!("retry, {} attempts", retry.max_attempts),
        Spec::Timeout(limit) => format!("timeout, {} ms", limit.duration_ms),
        Spec::Cache(cache) => format!("cache for {} s", cache.ttl_seconds),
        Spec::Idempotent(_) => "idempotent".to_owned(),
        Spec::CircuitBreaker(breaker) => format!("circuitBreaker {}", breaker.name),
        Spec::DeadLetter(_) => "deadLetter".to_owned(),
        Spec::ClaimCheck(_) => "claimCheck".to_owned(),
    }
}

/// What a pattern is made of.
enum Part<'s> {
    Operation(&'s Operation),
    Called(&'s Target),
}

fn parts(spec: &Spec) -> Vec<(String, Part<'_>)> {
    let of = |name: &str, operation| (name.to_owned(), Part::Operation(operation));
    match spec {
        Spec::Filter(_) | Spec::SchemaMap(_) => Vec::new(),
        Spec::Pipeline(pipeline) => {
            pipeline.steps.iter().map(|step| of(&step.id, &step.operation)).collect()
        }
        Spec::ScatterGather(scatter) => {
            let targets = scatter.targets.iter().enumerate();
            targets.map(|(i, target)| of(&format!("target {}", i + 1), &target.operation)).collect()
        }
        Spec::Saga(saga) => {
            let both = saga.steps.iter().flat_map(|step| {
                let undo = step.compensate.as_ref();
                let undo = undo.map(|undo| of(&format!("{} undone by", step.id), undo));
                std::iter::once(of(&step.id, &step.action)).chain(undo)
            });
            both.collect()
        }
        Spec::DeadLetter(letter) => vec![
            of("inner", &letter.inner),
            ("dead letters".to_owned(), Part::Called(&letter.dead_letter_tool)),
        ],
        Spec::ClaimCheck(check) => vec![
            ("store".to_owned(), Part::Called(&check.store_tool)),
            of("inner", &check.inner),
            ("retrieve".to_owned(), Part::Called(&check.retrieve_tool)),
        ],
        Spec::Timeout(limit) => {
            let fallback = limit.fallback.as_ref().map(|instead| of("fallback", instead));
            std::iter::once(of("inner", &limit.inner)).chain(fallback).collect()
        }
        Spec::CircuitBreaker(breaker) => {
            let fallback = breaker.fallback.as_ref().map(|instead| of("fallback", instead));
            std::iter::once(of("inner", &breaker.inner)).chain(fallback).collect()
        }
        other => other.operations().into_iter().map(|inner| of("inner", inner)).collect(),
    }
}

/// The way of what flows, from what is called to what is called next; what undoes something, or takes
/// what failed, is marked.
pub(super) fn picture(tool: &str, spec: &Spec) -> Picture {
    let mut picture = Picture::new(format!("the plan of {tool}"));
    picture.add_node(tool, "active", Mark::Root);
    drawn(spec, "", vec![tool.to_owned()], &mut picture);
    picture
}

/// Draws a pattern after these, and gives what comes out of it.
fn drawn(spec: &Spec, at: &str, before: Vec<String>, picture: &mut Picture) -> Vec<String> {
    let under = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
    match spec {
        Spec::Filter(_) | Spec::SchemaMap(_) => {
            vec![node(&format!("{at}: {}", kind(spec)), &before, Mark::Plain, picture)]
        }
        Spec::ScatterGather(_) | Spec::Timeout(_) | Spec::CircuitBreaker(_) => {
            let parts = parts(spec).into_iter();
            parts
                .flat_map(|(name, part)| part_drawn(&part, &under(&name), before.clone(), picture))
                .collect()
        }
        Spec::Saga(saga) => {
            let mut now = before;
            for step in &saga.steps {
                now = part_drawn(&Part::Operation(&step.action), &under(&step.id), now, picture);
                if let Some(undo) = &step.compensate {
                    let name = under(&format!("{} undone by", step.id));
                    for undone in part_drawn(&Part::Operation(undo), &name, now.clone(), picture) {
                        picture.add_node(&undone, "active", Mark::Breaks);
                    }
                }
            }
            now
        }
        Spec::DeadLetter(letter) => {
            let inner = Part::Operation(&letter.inner);
            let now = part_drawn(&inner, &under("inner"), before, picture);
            let name = under("dead letters");
            for failed in
                part_drawn(&Part::Called(&letter.dead_letter_tool), &name, now.clone(), picture)
            {
                picture.add_node(&failed, "active", Mark::Breaks);
            }
            now
        }
        other => parts(other)
            .into_iter()
            .fold(before, |now, (name, part)| part_drawn(&part, &under(&name), now, picture)),
    }
}

fn part_drawn(
    part: &Part<'_>,
    at: &str,
    before: Vec<String>,
    picture: &mut Picture,
) -> Vec<String> {
    let target = match part {
        Part::Operation(Operation::Pattern(spec)) => return drawn(spec, at, before, picture),
        Part::Operation(Operation::Call(target)) => target,
        Part::Called(target) => *target,
    };
    vec![node(&format!("{at}: {target}"), &before, Mark::Plain, picture)]
}

fn node(label: &str, before: &[String], mark: Mark, picture: &mut Picture) -> String {
    picture.add_node(label, "active", mark);
    for from in before {
        picture.add_edge(from, label);
    }
    label.to_owned()
}
