//! A composition as an outline and as a diagram.

use registry_core::spec::{Operation, Spec, Target};

use crate::diagram::{Diagram, Mark};

/// One line per step; nested steps are indented.
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

/// The pattern with its main parameters.
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

/// A part of a pattern.
enum Part<'s> {
    Operation(&'s Operation),
    Called(&'s Target),
}

fn parts(spec: &Spec) -> Vec<(String, Part<'_>)> {
    let part = |name: &str, operation| (name.to_owned(), Part::Operation(operation));
    match spec {
        Spec::Filter(_) | Spec::SchemaMap(_) => Vec::new(),
        Spec::Pipeline(pipeline) => {
            pipeline.steps.iter().map(|step| part(&step.id, &step.operation)).collect()
        }
        Spec::ScatterGather(scatter) => {
            let targets = scatter.targets.iter().enumerate();
            targets
                .map(|(i, target)| part(&format!("target {}", i + 1), &target.operation))
                .collect()
        }
        Spec::Saga(saga) => {
            let both = saga.steps.iter().flat_map(|step| {
                let undo = step.compensate.as_ref();
                let undo = undo.map(|undo| part(&format!("{} compensated by", step.id), undo));
                std::iter::once(part(&step.id, &step.action)).chain(undo)
            });
            both.collect()
        }
        Spec::DeadLetter(letter) => vec![
            part("inner", &letter.inner),
            ("dead letters".to_owned(), Part::Called(&letter.dead_letter_tool)),
        ],
        Spec::ClaimCheck(check) => vec![
            ("store".to_owned(), Part::Called(&check.store_tool)),
            part("inner", &check.inner),
            ("retrieve".to_owned(), Part::Called(&check.retrieve_tool)),
        ],
        Spec::Timeout(limit) => {
            let fallback = limit.fallback.as_ref().map(|instead| part("fallback", instead));
            std::iter::once(part("inner", &limit.inner)).chain(fallback).collect()
        }
        Spec::CircuitBreaker(breaker) => {
            let fallback = breaker.fallback.as_ref().map(|instead| part("fallback", instead));
            std::iter::once(part("inner", &breaker.inner)).chain(fallback).collect()
        }
        other => other.operations().into_iter().map(|inner| part("inner", inner)).collect(),
    }
}

/// The control flow of a composition. Compensations and dead letters are marked.
pub(super) fn diagram(tool: &str, spec: &Spec) -> Diagram {
    let mut diagram = Diagram::new(format!("composition {tool}"));
    diagram.add_node(tool, "active", Mark::Root);
    draw(spec, "", vec![tool.to_owned()], &mut diagram);
    diagram
}

/// Draws a pattern behind the given nodes, and returns its last nodes.
fn draw(spec: &Spec, at: &str, before: Vec<String>, diagram: &mut Diagram) -> Vec<String> {
    let under = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
    match spec {
        Spec::Filter(_) | Spec::SchemaMap(_) => {
            vec![node(&format!("{at}: {}", kind(spec)), &before, Mark::Plain, diagram)]
        }
        Spec::ScatterGather(_) | Spec::Timeout(_) | Spec::CircuitBreaker(_) => {
            let parts = parts(spec).into_iter();
            parts
                .flat_map(|(name, part)| draw_part(&part, &under(&name), before.clone(), diagram))
                .collect()
        }
        Spec::Saga(saga) => {
            let mut now = before;
            for step in &saga.steps {
                now = draw_part(&Part::Operation(&step.action), &under(&step.id), now, diagram);
                if let Some(undo) = &step.compensate {
                    let name = under(&format!("{} compensated by", step.id));
                    for undone in draw_part(&Part::Operation(undo), &name, now.clone(), diagram) {
                        diagram.add_node(&undone, "active", Mark::Breaks);
                    }
                }
            }
            now
        }
        Spec::DeadLetter(letter) => {
            let inner = Part::Operation(&letter.inner);
            let now = draw_part(&inner, &under("inner"), before, diagram);
            let name = under("dead letters");
            for failed in
                draw_part(&Part::Called(&letter.dead_letter_tool), &name, now.clone(), diagram)
            {
                diagram.add_node(&failed, "active", Mark::Breaks);
            }
            now
        }
        other => parts(other)
            .into_iter()
            .fold(before, |now, (name, part)| draw_part(&part, &under(&name), now, diagram)),
    }
}

fn draw_part(part: &Part<'_>, at: &str, before: Vec<String>, diagram: &mut Diagram) -> Vec<String> {
    let target = match part {
        Part::Operation(Operation::Pattern(spec)) => return draw(spec, at, before, diagram),
        Part::Operation(Operation::Call(target)) => target,
        Part::Called(target) => *target,
    };
    vec![node(&format!("{at}: {target}"), &before, Mark::Plain, diagram)]
}

fn node(label: &str, before: &[String], mark: Mark, diagram: &mut Diagram) -> String {
    diagram.add_node(label, "active", mark);
    for from in before {
        diagram.add_edge(from, label);
    }
    label.to_owned()
}
