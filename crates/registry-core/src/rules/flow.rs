//! `composition-mismatch`: values flowing through a composition match the schemas of the called
//! tools, and its own annotations are consistent with them.

pub(super) mod self_contained;

use std::{borrow::Cow, collections::BTreeMap};

use schema_compat::compatibility::Budget as Comparing;
use serde_json::{Value, json};

use super::{
    proposal::{NewEntity, Proposal},
    schema::schema_of,
};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::{Agent, Entity, Hints, Implementation, Skill, Tool, ToolEffect},
    limits,
    reference::Key,
    schema_inline::InlineBudget,
    spec::{
        Composition, Target,
        types::{self, Signature},
    },
    tool_schema::{self, hide::HiddenField},
};

/// Checks every new composition with valid grammar.
pub(super) fn check(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    let mut pool = Comparing::with_steps(limits::FLOW_STEPS);
    let mut inlining = InlineBudget::for_server();
    let compositions = proposal.new.iter().filter_map(|new| {
        let Entity::Tool(tool) = new.entity() else { return None };
        let Implementation::Spec(spec) = &tool.implementation else { return None };
        Some((new, tool, spec))
    });
    let compositions: Vec<_> = compositions.collect();
    for (i, (new, tool, spec)) in compositions.iter().enumerate() {
        let Ok(composition) = Composition::parse(spec) else { continue };
        let uses: Vec<_> = composition.uses.into_iter().map(|used| used.target).collect();
        check_read_only(proposal, (new, tool), &uses, found);
        let own = signature(proposal, tool, &mut inlining);
        let mut called = |target: &Target| {
            let Some(callee) = find(proposal, tool, target) else { return Signature::default() };
            let Signature { input, output } = signature(proposal, &callee.tool(), &mut inlining);
            Signature { input: callee.takes(input), output }
        };
        let share = pool.divided(compositions.len() - i, limits::FLOW_STEPS_EACH);
        let mut comparing = share.clone();
        let mismatches = types::check(&composition.spec, &own, &mut called, &mut comparing);
        pool.take_spent((&share, &comparing));
        for mismatch in mismatches {
            let (pointer, message) = (format!("/spec{}", mismatch.pointer), mismatch.message);
            let diagnostic = if mismatch.is_certain {
                Diagnostic::error(Code::CompositionMismatch, pointer, message)
            } else {
                Diagnostic::warning(Code::CompositionMismatch, pointer, message)
            };
            new.report(found, diagnostic.with_help(mismatch.help));
        }
    }
}

/// Warns if a composition registered as read-only calls a tool that is not.
fn check_read_only(
    proposal: &Proposal<'_>,
    (new, tool): (&NewEntity<'_>, &Tool),
    uses: &[Target],
    found: &mut Vec<Diagnostic>,
) {
    let find_tool = |key: &Key| proposal.find(key).and_then(Entity::as_tool);
    let mut known = BTreeMap::new();
    let mut reads =
        |tool: &Tool| Hints::registered(tool, &find_tool, &mut known).effect == ToolEffect::Reads;
    if tool.annotations.is_none() || !reads(tool) {
        return;
    }
    // A skill has no hints, so it may write.
    let mut writes =
        |used: &&Target| find(proposal, tool, used).is_some_and(|callee| !reads(&callee.tool()));
    let writes = uses.iter().find(&mut writes);
    if let Some(callee) = writes {
        let message = format!(
            "the composition is registered as read-only but calls `{callee}`, which is not"
        );
        let pointer = "/annotations/readOnlyHint";
        let warning = Diagnostic::warning(Code::CompositionMismatch, pointer, message);
        let help = "remove `readOnlyHint`: gateways derive it from the called tools";
        new.report(found, warning.with_help(help));
    }
}

/// The target of a call in a composition.
enum Callee<'a> {
    Tool(&'a Tool),
    Skill(&'a Agent, &'a Skill),
}

impl<'a> Callee<'a> {
    fn tool(&self) -> Cow<'a, Tool> {
        match self {
            Self::Tool(tool) => Cow::Borrowed(tool),
            Self::Skill(agent, skill) => Cow::Owned(skill.as_tool(agent)),
        }
    }

    /// The schema of accepted step inputs. Any target accepts only an object, except that a text
    /// skill also accepts a string.
    fn takes(&self, input: Option<Value>) -> Option<Value> {
        let Self::Skill(agent, skill) = self else { return input };
        let object = json!({ "type": "object" });
        let both = |own| types::wrapped(own, |own| json!({ "allOf": [object, own] }));
        let input = input.map_or_else(|| object.clone(), both);
        Some(if skill.takes_text(agent) {
            types::wrapped(input, |input| json!({ "anyOf": [{ "type": "string" }, input] }))
        } else {
            input
        })
    }
}

/// The registered target of a call.
fn find<'a>(proposal: &Proposal<'a>, tool: &Tool, target: &Target) -> Option<Callee<'a>> {
    match (proposal.find(&target.declared_in(&tool.depends)?.key())?, target) {
        (Entity::Tool(callee), Target::Tool(_)) => Some(Callee::Tool(callee)),
        (Entity::Agent(agent), Target::Agent { skill, .. }) => {
            Some(Callee::Skill(agent, agent.skill(skill)?))
        }
        _ => None,
    }
}

/// The registered input and output schemas of a tool.
fn signature(proposal: &Proposal<'_>, tool: &Tool, budget: &mut InlineBudget) -> Signature {
    let mut signature = registered(proposal, tool, budget);
    // A composition without an input schema has that of its entry.
    let (mut tool, mut depth) = (Cow::Borrowed(tool), 0);
    while signature.input.is_none() && depth < limits::COMPOSITION_DEPTH {
        let Some(entry) = entry(proposal, &tool) else { break };
        tool = entry;
        signature.input = registered(proposal, &tool, budget).input;
        depth += 1;
    }
    signature
}

/// The entry of a composition: the tool that receives its unchanged input.
fn entry<'a>(proposal: &Proposal<'a>, tool: &Tool) -> Option<Cow<'a, Tool>> {
    let Implementation::Spec(spec) = &tool.implementation else { return None };
    let composition = Composition::parse(spec).ok()?;
    Some(find(proposal, tool, types::entry(&composition.spec)?)?.tool())
}

fn registered(proposal: &Proposal<'_>, tool: &Tool, budget: &mut InlineBudget) -> Signature {
    let resolve: tool_schema::bundle::Resolve<'_> = &|key| schema_of(proposal, key);
    let mut whole = |schema: Option<Result<Value, _>>| {
        let schema: Value = schema?.ok()?;
        self_contained::self_contained(&schema, budget)
    };
    let mut input = whole(tool_schema::input(tool, resolve));
    let hidden = tool_schema::hidden(tool);
    for name in hidden.iter().filter_map(HiddenField::argument) {
        // Merely omitting a hidden field from an open schema would still allow it.
        let schema = input.get_or_insert_with(|| json!({ "type": "object" }));
        if !schema["properties"].is_object() {
            schema["properties"] = json!({});
        }
        schema["properties"][name] = Value::Bool(false);
    }
    Signature { input, output: whole(tool_schema::output(tool, resolve)) }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{found_of, register, tool};
    use crate::{diagnostic::Code, kind::Kind, rules::Proposed};

    fn step(name: &str, schemas: Value) -> Proposed {
        let mut members =
            json!({ "source": { "server": "s", "serverVersion": "1.0.0", "tool": name } });
        members.as_object_mut().unwrap().extend(schemas.as_object().unwrap().clone());
        tool(name, members)
    }

    fn composed(more: Value) -> Proposed {
        let depends = ["give", "take"]
            .map(|name| json!({ "type": "tool", "name": name, "version": "1.0.0" }));
        let steps = json!([{ "id": "a", "operation": { "tool": "give" } },
            { "id": "b", "operation": { "tool": "take" } }]);
        let mut members = json!({ "depends": depends, "spec": { "pipeline": { "steps": steps } } });
        members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool("both", members)
    }

    fn found(gives: Value, takes: Value, more: Value) -> String {
        let batch = [
            step("give", json!({ "outputSchema": gives })),
            step("take", json!({ "inputSchema": takes })),
            composed(more),
        ];
        found_of(Code::CompositionMismatch, &[], &batch)
    }

    #[test]
    fn step_mismatch_is_error_if_certain_else_warning() {
        let gives = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let takes = |of: &str| json!({ "properties": { "n": { "type": of } }, "required": ["n"] });
        assert_eq!(
            found(gives.clone(), takes("integer"), json!({})),
            "warning[composition-mismatch] tool/both@1.0.0 at \"/spec/pipeline/steps/1/operation/tool\": \
             input of step \"b\": \"n\" is required but $.n may select nothing in the result of \"a\": \
             `required` rejects {} (require it in the schema of the result of \"a\", or make \"n\" optional \
             in the input schema of `take`)"
        );
        assert!(
            found(gives, takes("string"), json!({})).starts_with("error[composition-mismatch]")
        );
        // Local and recursive references are followed.
        let defined = json!({ "$defs": { "n": { "type": "string" } }, "type": "object",
            "properties": { "n": { "$ref": "#/$defs/n" } }, "required": ["n"] });
        assert_eq!(found(defined.clone(), takes("string"), json!({})), "");
        assert!(found(defined, takes("integer"), json!({})).starts_with("error"));
        let circle = json!({ "type": "object", "properties": { "n": { "$ref": "#" } } });
        assert!(found(circle.clone(), takes("string"), json!({})).starts_with("error"));
        let same = json!({ "type": "object", "properties": { "n": circle }, "required": ["n"] });
        assert_eq!(found(same.clone(), same, json!({})), "");
    }

    #[test]
    fn mismatch_is_found_behind_ids_and_recursion() {
        let (text, number) = (json!({ "type": "string" }), json!({ "type": "integer" }));
        let n = |of: &Value, more: Value| {
            let mut schema = json!({ "type": "object", "properties": { "n": of },
                "required": ["n"] });
            for (name, value) in more.as_object().unwrap() {
                match (schema.get_mut(name), value) {
                    (Some(Value::Object(known)), Value::Object(value)) => {
                        known.extend(value.clone());
                    }
                    _ => schema[name] = value.clone(),
                }
            }
            schema
        };
        let tree = json!({ "type": "object", "properties": {
            "children": { "type": "array", "items": { "$ref": "#/$defs/tree" } } } });
        for more in [
            json!({ "$id": "https://example.com/n" }),
            json!({ "$anchor": "top" }),
            json!({ "properties": { "other": { "$id": "https://example.com/other" } } }),
            json!({ "properties": { "other": { "$ref": "#" } } }),
            json!({ "properties": { "tree": { "$ref": "#/$defs/tree" } }, "$defs": { "tree": tree } }),
            json!({ "properties": { "o": { "$ref": "https://example.com/o" } },
                "$defs": { "o": { "$id": "https://example.com/o", "$defs": { "x": text },
                    "properties": { "x": { "$ref": "#/$defs/x" } } } } }),
            json!({ "properties": { "o": { "$ref": "#/$defs/o", "minLength": 1 } },
                "$defs": { "o": text } }),
        ] {
            let plain = |of: &Value| n(of, json!({}));
            let told = found(n(&text, more.clone()), plain(&number), json!({}));
            assert!(told.starts_with("error"), "{more}: {told}");
            let told = found(plain(&text), n(&number, more.clone()), json!({}));
            assert!(told.starts_with("error"), "{more}: {told}");
            assert_eq!(found(n(&text, more.clone()), plain(&text), json!({})), "", "{more}");
            assert_eq!(
                found(n(&text, more.clone()), n(&text, more.clone()), json!({})),
                "",
                "{more}"
            );
        }
        let anchored = json!({ "$defs": { "n": { "$anchor": "n", "type": "string" } },
            "type": "object", "properties": { "n": { "$ref": "#n" } }, "required": ["n"] });
        assert!(found(anchored, n(&number, json!({})), json!({})).starts_with("error"));
    }

    #[test]
    fn flow_check_respects_schema_dialects() {
        let draft = |draft: &str, members: Value| {
            let mut schema = json!({ "$schema": draft, "type": "object" });
            schema.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            schema
        };
        let (d4, d6, d7) = (
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-06/schema#",
            "http://json-schema.org/draft-07/schema#",
        );
        let d2019 = "https://json-schema.org/draft/2019-09/schema";
        let gives = json!({ "type": "object", "required": ["l", "n"], "additionalProperties": false,
            "properties": { "l": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                "n": { "type": "integer", "minimum": 1 } } });
        let positions =
            json!({ "properties": { "l": { "prefixItems": [{ "type": "integer" }] } } });
        let closed = json!({ "properties": { "n": {} }, "unevaluatedProperties": false });
        let condition = json!({ "if": true, "then": { "required": ["none"] } });
        for (draft_uri, members) in [
            (d7, positions.clone()),
            (d4, positions.clone()),
            (d2019, positions),
            (d7, closed),
            (d6, condition.clone()),
            (d4, condition.clone()),
        ] {
            let told = found(gives.clone(), draft(draft_uri, members.clone()), json!({}));
            assert!(!told.starts_with("error"), "{draft_uri} {members}: {told}");
        }
        assert!(found(gives.clone(), draft(d7, condition), json!({})).starts_with("error"));
        let above = |bound: i64| json!({ "properties": { "n": { "minimum": bound, "exclusiveMinimum": true } } });
        assert_eq!(found(gives.clone(), draft(d4, above(0)), json!({})), "");
        assert!(found(gives.clone(), draft(d4, above(1)), json!({})).starts_with("warning"));
        let number = json!({ "properties": { "n": { "type": "string" } } });
        assert!(found(gives, draft(d4, number), json!({})).starts_with("error"));
        // In these drafts an array in `items` lists positional schemas.
        let list = draft(
            d7,
            json!({ "required": ["l"], "properties": {
            "l": { "type": "array", "items": [{ "type": "string" }], "minItems": 1 } } }),
        );
        let first = json!({ "step": { "stepId": "a", "path": "$.l[0]" } });
        let steps = json!([{ "id": "a", "operation": { "tool": "give" } },
            { "id": "b", "operation": { "tool": "take" },
              "input": { "construct": { "fields": { "x": first } } } }]);
        let takes = |of: &str| json!({ "properties": { "x": { "type": of } }, "required": ["x"] });
        let told = |of: &str| {
            found(list.clone(), takes(of), json!({ "spec": { "pipeline": { "steps": steps } } }))
        };
        assert_eq!(told("string"), "");
        assert!(told("integer").starts_with("error"));
    }

    #[test]
    fn each_composition_gets_share_of_budget() {
        use crate::limits;
        use schema_compat::compatibility::Budget;
        let mut pool = Budget::with_steps(limits::FLOW_STEPS);
        for left in (1..=1_000).rev() {
            let share = pool.divided(left, limits::FLOW_STEPS_EACH);
            let mut budget = share.clone();
            assert!(!budget.is_spent());
            budget.spend(usize::MAX);
            pool.take_spent((&share, &budget));
        }
        assert!(pool.is_spent());
    }

    #[test]
    fn called_composition_input_schema_is_derived() {
        let depends = |name: &str| json!([{ "type": "tool", "name": name, "version": "1.0.0" }]);
        let around = |name: &str| {
            let spec = json!({ "retry": { "inner": { "tool": name }, "maxAttempts": 2,
                "backoff": { "fixed": { "delayMs": 1 } } } });
            json!({ "spec": spec, "depends": depends(name) })
        };
        let bound = json!({ "construct": { "fields": { "n": { "constant": "x" } } } });
        let steps = json!([{ "id": "a", "operation": { "tool": "outer" }, "input": bound }]);
        let takes = json!({ "properties": { "n": { "type": "integer" } } });
        let batch = [
            step("take", json!({ "inputSchema": takes })),
            tool("inner", around("take")),
            tool("outer", around("inner")),
            tool(
                "all",
                json!({ "spec": { "pipeline": { "steps": steps } }, "depends": depends("outer") }),
            ),
        ];
        let told = found_of(Code::CompositionMismatch, &[], &batch);
        assert!(told.starts_with("error[composition-mismatch] tool/all@1.0.0"), "{told}");
        assert!(told.contains("\"n\" must be a number, but the constant is a string"), "{told}");
    }

    #[test]
    fn skill_schemas_are_checked_like_tools() {
        let card = |gives: Value| {
            let skill = |id: &str, more: Value| {
                let mut skill = json!({ "id": id, "name": "S", "description": "d", "tags": [] });
                skill.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                skill
            };
            let takes = json!({ "type": "object", "properties": { "n": { "type": "integer" } },
                "required": ["n"] });
            let card = json!({
                "name": "a", "version": "1.0.0", "description": "d", "url": "u",
                "protocolVersion": "1", "defaultInputModes": [], "defaultOutputModes": [],
                "capabilities": {}, "skills": [skill("give", json!({ "outputSchema": gives })),
                    skill("take", json!({ "inputSchema": takes })), skill("talk", json!({})),
                    skill("any", json!({ "inputModes": ["application/json"] }))],
            });
            register(Kind::Agent, &card)
        };
        let told = |gives: Value, taker: &str| {
            let on = |skill: &str| json!({ "type": "agent", "name": "a", "version": "1.0.0", "skill": skill });
            let call = |skill: &str| json!({ "agent": { "name": "a", "skill": skill } });
            let both = tool(
                "both",
                json!({ "depends": [on("give"), on(taker)],
                "spec": { "pipeline": { "steps": [{ "id": "a", "operation": call("give"),
                    "input": { "constant": {"text": "t"} } }, { "id": "b", "operation": call(taker) }] } } }),
            );
            found_of(Code::CompositionMismatch, &[], &[card(gives), both])
        };
        let n = |of: &str| {
            json!({ "type": "object", "properties": { "n": { "type": of } },
            "required": ["n"] })
        };
        assert_eq!(told(n("integer"), "take"), "");
        let never = told(n("string"), "take");
        assert!(
            never.starts_with(
                "error[composition-mismatch] tool/both@1.0.0 at \
                 \"/spec/pipeline/steps/1/operation/agent\": input of step \"b\": \"n\" must be a number, \
                 but $.n in the result of \"a\" is a string"
            ),
            "{never}"
        );
        // The input must be an object even if the schema allows other types.
        let listed = told(json!({ "type": "array" }), "any");
        assert!(listed.starts_with("error") && listed.contains("`a/any`"), "{listed}");
        assert_eq!(told(n("string"), "any"), "");
        // A text skill also accepts a string.
        assert_eq!(told(json!({ "type": "string" }), "talk"), "");
        assert!(told(json!({ "type": "integer" }), "talk").starts_with("error"));
    }

    #[test]
    fn hidden_field_must_not_be_bound() {
        let hiding = json!({ "source": { "server": "s", "serverVersion": "1.0.0", "tool": "take",
            "hideFields": ["secret"] } });
        let bound = json!({ "construct": { "fields": { "secret": { "constant": 1 } } } });
        let steps = json!([{ "id": "a", "operation": { "tool": "take" }, "input": bound }]);
        let depends = json!([{ "type": "tool", "name": "take", "version": "1.0.0" }]);
        let both = json!({ "depends": depends, "spec": { "pipeline": { "steps": steps } } });
        let batch = [tool("take", hiding), tool("both", both)];
        let told = found_of(Code::CompositionMismatch, &[], &batch);
        assert!(told.starts_with("error[composition-mismatch] tool/both@1.0.0"), "{told}");
    }

    #[test]
    fn read_only_composition_may_only_call_readers() {
        let reads = json!({ "annotations": { "readOnlyHint": true } });
        let told = found(json!(true), json!({}), reads);
        assert!(
            told.contains(
                "at \"/annotations/readOnlyHint\": the composition is registered as read-only but calls `give`"
            ),
            "{told}"
        );
        // A read-only composition may call another one.
        let reads = json!({ "annotations": { "readOnlyHint": true } });
        let depends = json!([{ "type": "tool", "name": "both", "version": "1.0.0" }]);
        let spec = json!({ "timeout": { "inner": { "tool": "both" }, "durationMs": 1 } });
        let batch = [
            step("give", reads.clone()),
            step("take", reads.clone()),
            composed(json!({})),
            tool(
                "again",
                json!({ "depends": depends, "spec": spec, "annotations": reads["annotations"] }),
            ),
        ];
        assert_eq!(found_of(Code::CompositionMismatch, &[], &batch), "");
    }
}
