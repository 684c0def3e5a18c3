//! `composition-invalid` and `dependency-undeclared`: a composition follows the grammar and uses
//! only declared dependencies.

use std::collections::BTreeMap;

use super::proposal::{NewEntity, Proposal};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::{Dependency, Entity, Implementation, Tool},
    limits,
    reference::Key,
    spec::{Composition, Mappings, Target, Use},
    suggest::closest,
};

pub(super) fn check(new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let Entity::Tool(tool) = new.entity() else { return };
    if let Some(Err(problems)) = tool.output_transform.as_ref().map(Mappings::parse) {
        for problem in problems {
            new.report(found, within("/outputTransform", problem));
        }
    }
    let Implementation::Spec(spec) = &tool.implementation else { return };
    match Composition::parse(spec) {
        Ok(composition) => {
            let is_declared = |used: &&Use| used.target.declared_in(&tool.depends).is_some();
            for used in composition.uses.iter().filter(|used| !is_declared(used)) {
                new.report(found, undeclared_use(tool, used));
            }
        }
        Err(problems) => {
            for problem in problems {
                new.report(found, within("/spec", problem));
            }
        }
    }
}

/// Limits the call depth of compositions, because each level needs memory and time.
pub(super) fn check_depth(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    let mut known = BTreeMap::new();
    let compositions = proposal.new.iter().filter(|new| is_composition(new.entity()));
    for new in compositions {
        // Only the first level beyond the limit is reported.
        if depth(proposal, new.key(), &mut known) == limits::COMPOSITION_DEPTH + 1 {
            let most = limits::COMPOSITION_DEPTH;
            let message = format!("compositions call each other more than {most} levels deep");
            let diagnostic = Diagnostic::error(Code::CompositionInvalid, "/depends", message);
            new.report(found, diagnostic.with_help("combine patterns in one `spec` instead"));
        }
    }
}

/// The number of nested compositions, including this one.
fn depth(proposal: &Proposal<'_>, key: &Key, known: &mut BTreeMap<Key, usize>) -> usize {
    if let Some(depth) = known.get(key) {
        return *depth;
    }
    // A cycle, which another rule reports, ends here.
    known.insert(key.clone(), 0);
    let entity = proposal.find(key).filter(|entity| is_composition(entity));
    let Some(tool) = entity.and_then(Entity::as_tool) else { return 0 };
    let parts = tool.depends.iter().map(|part| depth(proposal, &part.key(), known));
    let depth = parts.max().unwrap_or(0) + 1;
    known.insert(key.clone(), depth);
    depth
}

fn is_composition(entity: &Entity) -> bool {
    entity.as_tool().is_some_and(|tool| matches!(tool.implementation, Implementation::Spec(_)))
}

fn within(place: &str, problem: Diagnostic) -> Diagnostic {
    Diagnostic { pointer: format!("{place}{}", problem.pointer), ..problem }
}

fn undeclared_use(tool: &Tool, used: &Use) -> Diagnostic {
    let (what, entry) = match &used.target {
        Target::Tool(name) => (format!("the tool `{name}`"), r#""type": "tool""#.to_owned()),
        Target::Agent { name, skill } => (
            format!("the skill `{skill}` of the agent `{name}`"),
            format!(r#""type": "agent", "skill": "{skill}""#),
        ),
    };
    let message = format!("`{}` uses {what}, which is missing in `depends`", tool.name);
    let is_agent = matches!(used.target, Target::Agent { .. });
    let declared = tool.depends.iter().filter(|part| part.skill.is_some() == is_agent);
    let declared: Vec<_> = declared
        .map(|Dependency { name, skill, .. }| match skill {
            Some(skill) => format!("{name}/{skill}"),
            None => name.to_string(),
        })
        .collect();
    let similar = closest(&used.target.to_string(), declared.iter().map(String::as_str));
    let question = similar.map(|similar| format!("did you mean `{similar}`? otherwise "));
    let help = format!(
        "{}add an entry with {entry}, its name and exact version to `depends`",
        question.unwrap_or_default()
    );
    Diagnostic::error(Code::DependencyUndeclared, format!("/spec{}", used.pointer), message)
        .with_help(help)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{found_of, source_tool, tool};
    use crate::diagnostic::Code;

    #[test]
    fn undeclared_target_suggests_a_declared_one() {
        let steps = json!([
            { "id": "one", "operation": { "tool": { "name": "get_custmer" } } },
            { "id": "two", "operation": { "agent": { "name": "desk", "skill": "sumarize" } } },
        ]);
        let composed = tool(
            "copy",
            json!({
                "spec": { "pipeline": { "steps": steps } },
                "depends": [
                    { "type": "tool", "name": "get_customer", "version": "1.0.0" },
                    { "type": "agent", "name": "desk", "version": "1.0.0", "skill": "summarize" },
                ],
            }),
        );
        insta::assert_snapshot!(
            found_of(Code::DependencyUndeclared, &[], &[composed]),
            @r#"
        error[dependency-undeclared] tool/copy@1.0.0 at "/spec/pipeline/steps/0/operation/tool": `copy` uses the tool `get_custmer`, which is missing in `depends` (did you mean `get_customer`? otherwise add an entry with "type": "tool", its name and exact version to `depends`)
        error[dependency-undeclared] tool/copy@1.0.0 at "/spec/pipeline/steps/1/operation/agent": `copy` uses the skill `sumarize` of the agent `desk`, which is missing in `depends` (did you mean `desk/summarize`? otherwise add an entry with "type": "agent", "skill": "sumarize", its name and exact version to `depends`)
        "#
        );
    }

    #[test]
    fn composition_must_declare_used_targets() {
        let steps = json!([
            { "id": "one", "operation": { "tool": { "name": "read" } } },
            { "id": "two", "operation": { "agent": { "name": "b", "skill": "nap" } } },
            { "id": "three", "operation": { "tool": { "name": "write" } } },
        ]);
        let composed = tool(
            "copy",
            json!({
                "spec": { "pipeline": { "steps": steps } },
                "depends": [
                    { "type": "tool", "name": "read", "version": "1.0.0" },
                    { "type": "agent", "name": "b", "version": "1.0.0", "skill": "work" },
                ],
            }),
        );
        insta::assert_snapshot!(
            found_of(Code::DependencyUndeclared, &[], &[source_tool("read", "files"), composed]),
            @r#"
            error[dependency-undeclared] tool/copy@1.0.0 at "/spec/pipeline/steps/1/operation/agent": `copy` uses the skill `nap` of the agent `b`, which is missing in `depends` (add an entry with "type": "agent", "skill": "nap", its name and exact version to `depends`)
            error[dependency-undeclared] tool/copy@1.0.0 at "/spec/pipeline/steps/2/operation/tool": `copy` uses the tool `write`, which is missing in `depends` (add an entry with "type": "tool", its name and exact version to `depends`)
            "#
        );
    }

    #[test]
    fn composition_call_depth_is_limited() {
        let chain = |length: usize| {
            let link = |i: usize| {
                let callee = if i == 0 { "read".to_owned() } else { format!("c{}", i - 1) };
                let depends = json!([{ "type": "tool", "name": callee, "version": "1.0.0" }]);
                let spec = json!({ "timeout": { "inner": { "tool": callee }, "durationMs": 1 } });
                tool(&format!("c{i}"), json!({ "spec": spec, "depends": depends }))
            };
            let mut all: Vec<_> = (0..length).map(link).collect();
            all.push(source_tool("read", "files"));
            found_of(Code::CompositionInvalid, &[], &all)
        };
        assert_eq!(chain(16), "");
        insta::assert_snapshot!(
            chain(200),
            @"error[composition-invalid] tool/c16@1.0.0 at \"/depends\": compositions call each \
              other more than 16 levels deep (combine patterns in one `spec` instead)"
        );
    }

    #[test]
    fn grammar_is_checked_in_spec_and_output_transform() {
        let bad = [
            tool("a", json!({ "spec": { "pipeline": { "steps": [] } } })),
            tool(
                "b",
                json!({
                    "source": { "server": "files", "serverVersion": "1.0.0", "tool": "b" },
                    "outputTransform": { "mappings": { "x": { "path": "nope" } } },
                }),
            ),
        ];
        let found = found_of(Code::CompositionInvalid, &[], &bad);
        assert!(found.contains("tool/a@1.0.0 at \"/spec/pipeline/steps\""), "{found}");
        assert!(found.contains("tool/b@1.0.0 at \"/outputTransform/mappings/x/path\""), "{found}");
    }
}
