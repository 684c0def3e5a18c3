//! Warnings about inspection: actions, exceptions and restored tools without an effect.

use registry_core::{
    Code, Diagnostic, Document, Entity, Key,
    entity::{
        Policy,
        policy::{DataClass, Inspection, InspectionAction, InspectionException, Mode, Pattern},
    },
    suggest::closest,
};
use schema_compat::pointer::unescape;

use super::{After, CANDIDATES, FINDINGS, SelectableResources, indexed::IndexedPolicies};
use crate::{Direction, Resource};

/// The policies in force with an inspection.
pub(super) struct InspectionPolicies<'a>(IndexedPolicies<'a>);

impl<'a> InspectionPolicies<'a> {
    pub(super) fn new(after: &After<'a>) -> Self {
        Self(IndexedPolicies::new(after, |policy| policy.inspection.is_some()))
    }

    /// The warnings about a new policy.
    pub(super) fn check_policy(
        &self,
        document: &Document,
        resources: &SelectableResources<'_>,
    ) -> Vec<Diagnostic> {
        let Entity::Policy(policy) = document.entity() else { return Vec::new() };
        let Some(inspection) = &policy.inspection else { return Vec::new() };
        let mut found = self.ineffective_actions(policy, inspection, resources);
        found.extend(unused_exceptions(inspection));
        found.extend(unused_restoration(inspection));
        found.extend(self.unrestored(policy, inspection, resources));
        for (position, exception) in inspection.except.iter().enumerate() {
            let pointer = format!("/inspection/except/{position}");
            found.extend(exception_without_tool(policy, exception, &pointer, resources));
        }
        for (position, pattern) in inspection.restore_for.iter().enumerate() {
            let pointer = format!("/inspection/restoreFor/{position}");
            found.extend(pattern_without_tool(pattern, pointer, resources));
        }
        found.truncate(FINDINGS);
        found
    }

    /// The actions that stricter ones of other policies replace for all selected tools and skills.
    fn ineffective_actions(
        &self,
        policy: &Policy,
        inspection: &Inspection,
        resources: &SelectableResources<'_>,
    ) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (direction, actions) in [
            (Direction::Arguments, &inspection.arguments),
            (Direction::Results, &inspection.results),
        ] {
            for (class, action) in actions {
                let stricter = |resource: &Resource| {
                    self.stricter(policy, resource, direction, *class, *action)
                };
                let mut selected = resources.select(&policy.applies_to);
                let Some(first) = selected.next().and_then(|one| stricter(&one.resource)) else {
                    continue;
                };
                if selected.all(|one| stricter(&one.resource).is_some()) {
                    let (class, direction) = (class.as_str(), direction.as_str());
                    let message = format!(
                        "the action `{}` on {class} data has no effect: {first} has a stricter one",
                        action.as_str()
                    );
                    let pointer = format!("/inspection/{direction}/{class}");
                    let help = "remove the action, or change the other policy";
                    let warning =
                        Diagnostic::warning(Code::InspectionIneffective, pointer, message);
                    found.push(warning.with_help(help));
                }
            }
        }
        found
    }

    /// The patterns of tools whose results can return the values to the caller, which therefore stay
    /// placeholders.
    fn unrestored(
        &self,
        policy: &Policy,
        inspection: &Inspection,
        resources: &SelectableResources<'_>,
    ) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        if policy.effective_mode() != Mode::Enforce {
            return found;
        }
        for (position, pattern) in inspection.restore_for.iter().enumerate() {
            let all = resources.all.iter().map(|one| &one.resource);
            let mut matching = all
                .filter(|resource| resource.tools.iter().any(|tool| pattern.matches(tool)))
                .peekable();
            if matching.peek().is_none() {
                continue;
            }
            let is_tokenized = |class: &DataClass| {
                inspection.of_results(*class) == Some(InspectionAction::Tokenize)
            };
            let mut visible: Vec<_> = DataClass::ALL.into_iter().filter(is_tokenized).collect();
            while let Some(resource) = matching.next_if(|_| !visible.is_empty()) {
                visible.retain(|class| !self.hides(policy, resource, *class));
            }
            if visible.is_empty() {
                continue;
            }
            let classes: Vec<_> = visible.into_iter().map(DataClass::as_str).collect();
            let message = format!(
                "no {} data is restored for `{pattern}`: no policy replaces or blocks it in the results \
                 of these tools",
                classes.join(" or ")
            );
            let pointer = format!("/inspection/restoreFor/{position}");
            let warning = Diagnostic::warning(Code::InspectionIneffective, pointer, message);
            let help = "select the tools in `appliesTo`, inspect their results in another policy, or \
                        remove the pattern";
            found.push(warning.with_help(help));
        }
        found
    }

    /// Whether enforced policies replace or block data of a class in the results of a resource.
    fn hides(&self, policy: &Policy, resource: &Resource, class: DataClass) -> bool {
        let hides = |policy: &Policy| {
            let inspection = policy.inspection.as_ref();
            let action = inspection.and_then(|inspection| inspection.of_results(class));
            policy.effective_mode() == Mode::Enforce && action > Some(InspectionAction::Log)
        };
        let is_other = |(_, other): &(&Key, &Policy)| other.name != policy.name;
        (resource.is_selected(&policy.applies_to) && hides(policy))
            || self.0.select(resource).filter(is_other).any(|(_, other)| hides(other))
    }

    /// Another policy in the same mode with a stricter action for all callers of a policy.
    fn stricter(
        &self,
        policy: &Policy,
        resource: &Resource,
        direction: Direction,
        class: DataClass,
        action: InspectionAction,
    ) -> Option<&'a Key> {
        let is_stricter = |(_, other): &(&Key, &Policy)| {
            let Some(inspection) = &other.inspection else { return false };
            let theirs = match direction {
                // Their exceptions leave the action of this policy.
                Direction::Arguments if !inspection.except.is_empty() => None,
                Direction::Arguments => inspection.of_arguments(class),
                Direction::Results => inspection.of_results(class),
            };
            let callers = &other.applies_to.callers;
            other.name != policy.name
                && other.effective_mode() == policy.effective_mode()
                && (callers.is_empty() || *callers == policy.applies_to.callers)
                && theirs > Some(action)
        };
        self.0.select(resource).find(is_stricter).map(|(key, _)| key)
    }
}

fn warning(pointer: &str, message: &str, help: &str) -> Diagnostic {
    Diagnostic::warning(Code::InspectionIneffective, pointer, message).with_help(help)
}

/// Exceptions of a policy that does not inspect arguments.
fn unused_exceptions(inspection: &Inspection) -> Option<Diagnostic> {
    let inspects = DataClass::ALL.into_iter().any(|class| inspection.of_arguments(class).is_some());
    (!inspection.except.is_empty() && !inspects).then(|| {
        let message = "the exceptions have no effect: the policy does not inspect arguments";
        warning("/inspection/except", message, "add `arguments`, or remove `except`")
    })
}

/// Restored tools of a policy that replaces nothing by placeholders.
fn unused_restoration(inspection: &Inspection) -> Option<Diagnostic> {
    let mut actions = inspection.results.values();
    let tokenizes = actions.any(|action| *action == InspectionAction::Tokenize);
    (!inspection.restore_for.is_empty() && !tokenizes).then(|| {
        let message = "no value is restored: the policy has no action `tokenize`";
        let help = "add `tokenize` to `results`, or remove `restoreFor`";
        warning("/inspection/restoreFor", message, help)
    })
}

/// An exception for no selected tool, or for an argument that none of them declares.
fn exception_without_tool(
    policy: &Policy,
    exception: &InspectionException,
    pointer: &str,
    resources: &SelectableResources<'_>,
) -> Option<Diagnostic> {
    let InspectionException { tool, pointer: argument } = exception;
    let mut selected = resources
        .select(&policy.applies_to)
        .filter(|one| one.resource.tools.iter().any(|name| tool.matches(name)))
        .peekable();
    if selected.peek().is_none() {
        let message = format!("the exception matches no tool that the policy selects: `{tool}`");
        let help = "correct the name, or select the tool in `appliesTo`";
        let pointer = format!("{pointer}/tool");
        let warning = Diagnostic::warning(Code::PolicySelectorUnmatched, pointer, message);
        return Some(warning.with_help(help));
    }
    let segments = argument.split('/').skip(1);
    let path: Vec<String> = segments.map(unescape).collect();
    let is_declared = selected.any(|one| resources.calls_of(one).arguments().can_have(&path));
    (!is_declared).then(|| {
        let message = format!("no selected tool declares the argument {argument}");
        let help = "correct the pointer; it selects a member of the arguments";
        let pointer = format!("{pointer}/pointer");
        Diagnostic::warning(Code::PolicyArgumentUndeclared, pointer, message).with_help(help)
    })
}

/// A pattern that matches no registered tool.
fn pattern_without_tool(
    pattern: &Pattern,
    pointer: String,
    resources: &SelectableResources<'_>,
) -> Option<Diagnostic> {
    let names = resources.names_of("Tool")?;
    if names.iter().any(|name| pattern.matches(name)) {
        return None;
    }
    let message = format!("the pattern `{pattern}` matches no registered tool");
    let help = match closest(pattern.as_str(), names.iter().map(String::as_str).take(CANDIDATES)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "correct the name, or register the tool".to_owned(),
    };
    Some(Diagnostic::warning(Code::PolicySelectorUnmatched, pointer, message).with_help(help))
}

#[cfg(test)]
mod tests {
    use registry_core::rules::{Proposed, plan};
    use registry_fixtures::entities::{catalog, policy, server, source_tool, with};
    use serde_json::{Value, json};

    use crate::{PolicyBreaks, check};

    /// The findings about inspection: `CODE POINTER`.
    fn found(registered: &[Proposed], new: Proposed) -> Vec<String> {
        let catalog = catalog(registered);
        let batch = [new];
        let mut plan = plan(&catalog, &batch);
        check(&catalog, &batch, PolicyBreaks::Reject, &mut plan);
        assert!(plan.is_acceptable(), "{:?}", plan.diagnostics);
        let about = plan.diagnostics.iter().filter(|found| found.pointer.contains("/inspection"));
        about.map(|found| format!("{} {}", found.code, found.pointer)).collect()
    }

    fn bank() -> Vec<Proposed> {
        vec![
            server("bank", &["pay", "read"]),
            source_tool("pay", "bank"),
            source_tool("read", "bank"),
        ]
    }

    fn inspects(name: &str, tools: &[&str], inspection: &Value) -> Proposed {
        policy(name, json!({ "appliesTo": { "tools": tools }, "inspection": inspection }))
    }

    #[test]
    fn weaker_action_than_another_policy_has_no_effect() {
        let redacts = json!({ "results": { "contact": "redact" } });
        let logs = json!({ "results": { "contact": "log" } });
        let world = [bank(), vec![inspects("first", &["pay"], &redacts)]].concat();
        let warning = ["inspection-ineffective /inspection/results/contact"];
        assert_eq!(found(&world, inspects("more", &["pay"], &logs)), warning);
        assert_eq!(found(&world, inspects("more", &["pay", "read"], &logs)), [""; 0]);
        assert_eq!(found(&world, inspects("more", &["pay"], &redacts)), [""; 0]);
        let audit = with(&inspects("more", &["pay"], &logs), json!({ "mode": "audit" }));
        assert_eq!(found(&world, audit), [""; 0], "it observes the other policy");
    }

    #[test]
    fn strict_policy_with_exceptions_keeps_weaker_actions() {
        let except = json!([{ "tool": "pay", "pointer": "/card" }]);
        let blocks = json!({ "arguments": { "financial": "block" }, "except": except });
        let world = [bank(), vec![inspects("first", &["pay"], &blocks)]].concat();
        let logs = json!({ "arguments": { "financial": "log" } });
        assert_eq!(found(&world, inspects("more", &["pay"], &logs)), [""; 0]);
    }

    #[test]
    fn restoration_without_placeholders_has_no_effect() {
        let restores = json!({ "results": { "contact": "redact" }, "restoreFor": ["pay", "payy"] });
        let expected = [
            "inspection-ineffective /inspection/restoreFor",
            "policy-selector-unmatched /inspection/restoreFor/1",
        ];
        assert_eq!(found(&bank(), inspects("p", &["pay"], &restores)), expected);
    }

    #[test]
    fn restoration_needs_inspected_results_of_its_tools() {
        let tokenizes = |restore_for: &str| {
            json!({ "results": { "contact": "tokenize", "financial": "tokenize" },
                "restoreFor": [restore_for] })
        };
        let warning = ["inspection-ineffective /inspection/restoreFor/0"];
        let of_read = |pattern| inspects("p", &["read"], &tokenizes(pattern));
        assert_eq!(found(&bank(), of_read("pay")), warning);
        assert_eq!(found(&bank(), of_read("*")), [""; 0], "the policy selects one of them");
        let also = |results: Value, mode: &str| {
            let inspection = json!({ "results": results });
            let other = with(&inspects("other", &["pay"], &inspection), json!({ "mode": mode }));
            found(&[bank(), vec![other]].concat(), of_read("pay"))
        };
        let both = json!({ "contact": "block", "financial": "redact" });
        assert_eq!(also(both.clone(), "enforce"), [""; 0]);
        assert_eq!(also(both, "audit"), warning);
        assert_eq!(also(json!({ "contact": "log", "financial": "redact" }), "enforce"), warning);
        let audit = with(&of_read("pay"), json!({ "mode": "audit" }));
        assert_eq!(found(&bank(), audit), [""; 0]);
    }

    #[test]
    fn exception_needs_a_selected_tool_and_inspected_arguments() {
        let excepts = json!({ "results": { "contact": "log" },
            "except": [{ "tool": "read", "pointer": "/card" }] });
        let expected = [
            "inspection-ineffective /inspection/except",
            "policy-selector-unmatched /inspection/except/0/tool",
        ];
        assert_eq!(found(&bank(), inspects("p", &["pay"], &excepts)), expected);
    }

    #[test]
    fn exception_for_undeclared_argument_is_a_warning() {
        let schema = json!({ "type": "object", "properties": { "card": { "type": "string" } } });
        let pay = with(&source_tool("pay", "bank"), json!({ "inputSchema": schema }));
        let world = [server("bank", &["pay"]), pay];
        let excepts = |pointer: &str| {
            let except = json!([{ "tool": "pay", "pointer": pointer }]);
            let inspection = json!({ "arguments": { "financial": "block" }, "except": except });
            inspects("p", &["pay"], &inspection)
        };
        assert_eq!(found(&world, excepts("/card")), [""; 0]);
        let warning = ["policy-argument-undeclared /inspection/except/0/pointer"];
        assert_eq!(found(&world, excepts("/crad")), warning);
    }
}
