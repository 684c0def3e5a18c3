//! Findings about a version of a policy that replaces another one.

use crate::{
    diagnostic::{Code, Diagnostic},
    document::Document,
    entity::{
        Entity,
        policy::{
            ApprovalCondition, Approver, DataClass, Inspection, InspectionAction, Mode, Policy,
        },
    },
};

/// The parts of a policy that reject less, or more, than in the replaced version. A pre-release
/// replaces no version.
pub(crate) fn findings(old: &Document, new: &Document) -> Vec<Diagnostic> {
    let (Entity::Policy(before), Entity::Policy(after)) = (old.entity(), new.entity()) else {
        return Vec::new();
    };
    if after.version.is_prerelease() {
        return Vec::new();
    }
    match (before.effective_mode(), after.mode) {
        (Mode::Audit, Mode::Audit) => Vec::new(),
        (Mode::Enforce, Mode::Enforce) => {
            let mut found = weaker_inspection(before, after);
            found.extend(weaker_approval(before, after));
            found
        }
        (Mode::Enforce, Mode::Audit) => {
            let (old, new) = (&before.version, &after.version);
            let message = format!("version {new} only records the violations that {old} rejects");
            let found = Diagnostic::warning(Code::PolicyRelaxed, "/mode", message);
            vec![found.with_help("use `mode: enforce` to reject them")]
        }
        (Mode::Audit, Mode::Enforce) => {
            let (old, new) = (&before.version, &after.version);
            let message = format!("version {new} rejects the violations that {old} only records");
            let found = Diagnostic::warning(Code::PolicyTightened, "/mode", message);
            let help = "`registryctl policy simulate` lists the recorded calls that it denies";
            vec![found.with_help(help)]
        }
    }
}

/// The classes of data with a weaker action, and the new exceptions.
fn weaker_inspection(before: &Policy, after: &Policy) -> Vec<Diagnostic> {
    let Some(before_inspection) = &before.inspection else { return Vec::new() };
    let (old, new) = (&before.version, &after.version);
    let nothing = Inspection::default();
    let after = after.inspection.as_ref().unwrap_or(&nothing);
    let relaxed = |pointer: String, message: String| {
        let help = format!("keep the inspection of version {old} to reject no less");
        Diagnostic::warning(Code::PolicyRelaxed, pointer, message).with_help(help)
    };
    let name = |action: Option<InspectionAction>| action.map_or("no", InspectionAction::as_str);
    let mut found = Vec::new();
    for class in DataClass::ALL {
        for (direction, was, is) in [
            ("arguments", before_inspection.of_arguments(class), after.of_arguments(class)),
            ("results", before_inspection.of_results(class), after.of_results(class)),
        ] {
            if is < was {
                let (class, was, is) = (class.as_str(), name(was), name(is));
                let message = format!(
                    "version {new} has {is} action on {class} data in {direction}, but {old} has {was}"
                );
                found.push(relaxed(format!("/inspection/{direction}/{class}"), message));
            }
        }
    }
    for (position, exception) in after.except.iter().enumerate() {
        if !before_inspection.except.contains(exception) {
            let message = format!(
                "version {new} does not inspect {} of {}, which {old} inspects",
                exception.pointer, exception.tool
            );
            found.push(relaxed(format!("/inspection/except/{position}"), message));
        }
    }
    for (position, tool) in after.restore_for.iter().enumerate() {
        if !before_inspection.restore_for.contains(tool) {
            let message = format!("version {new} restores replaced values for {tool}");
            found.push(relaxed(format!("/inspection/restoreFor/{position}"), message));
        }
    }
    if before_inspection.binary > after.binary {
        let message = format!("version {new} passes binary content, which {old} rejects");
        found.push(relaxed("/inspection/binary".to_owned(), message));
    }
    found
}

/// The members of an approval that demand less.
fn weaker_approval(before: &Policy, after: &Policy) -> Vec<Diagnostic> {
    let Some(was) = &before.approval else { return Vec::new() };
    let (old, new) = (&before.version, &after.version);
    let relaxed = |member: &str, change: &str| {
        let message = format!("version {new} {change} {old}");
        let help = format!("keep the approval of version {old} to demand no less");
        let pointer = format!("/approval{member}");
        Diagnostic::warning(Code::PolicyRelaxed, pointer, message).with_help(help)
    };
    let Some(is) = &after.approval else {
        return vec![relaxed("", "demands no approval, unlike")];
    };
    let is_new = |approver: &Approver| {
        let is_included =
            matches!(approver, Approver::Team(_)) && was.approvers.contains(&Approver::Role);
        !is_included && !was.approvers.contains(approver)
    };
    let is_limited = is.when == ApprovalCondition::Destructive && is.when != was.when;
    let changes = [
        (is_limited, "/when", "demands approval of fewer calls than"),
        (is.approvers.iter().any(is_new), "/approvers", "has other approvers than"),
        (is.quorum < was.quorum, "/quorum", "demands fewer approvals than"),
        (was.four_eyes && !is.four_eyes, "/fourEyes", "excludes fewer approvers than"),
        (is.standing_for > was.standing_for, "/standingFor", "permits longer grants than"),
    ];
    let weaker = changes.into_iter().filter(|(is_weaker, ..)| *is_weaker);
    weaker.map(|(_, member, change)| relaxed(member, change)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kind::Kind;

    fn document(version: &str, inspection: &Value) -> Document {
        let policy = json!({ "name": "p", "version": version, "inspection": inspection });
        Document::parse(Kind::Policy, &policy).unwrap()
    }

    /// The pointers of the findings.
    fn relaxed(before: &Value, after: &Value) -> Vec<String> {
        let found = findings(&document("1.0.0", before), &document("1.1.0", after)).into_iter();
        let pointer = |found: Diagnostic| {
            assert_eq!(found.code, Code::PolicyRelaxed);
            found.pointer
        };
        found.map(pointer).collect()
    }

    #[test]
    fn weaker_action_relaxes_a_policy() {
        let redacts = json!({ "results": { "contact": "redact" } });
        let logs = json!({ "results": { "contact": "log" } });
        assert_eq!(relaxed(&redacts, &logs), ["/inspection/results/contact"]);
        assert_eq!(relaxed(&redacts, &Value::Null), ["/inspection/results/contact"]);
        assert_eq!(relaxed(&logs, &redacts), [""; 0]);
        assert_eq!(relaxed(&Value::Null, &redacts), [""; 0]);
        assert_eq!(relaxed(&redacts, &json!({ "profile": "strict" })), [""; 0]);
    }

    #[test]
    fn new_exception_relaxes_a_policy() {
        let plain = json!({ "arguments": { "financial": "block" } });
        let mut excepted = plain.clone();
        excepted["except"] = json!([{ "tool": "pay", "pointer": "/card" }]);
        assert_eq!(relaxed(&plain, &excepted), ["/inspection/except/0"]);
        assert_eq!(relaxed(&excepted, &plain), [""; 0]);
    }

    #[test]
    fn restored_tools_and_binary_content_relax_a_policy() {
        let before = json!({ "results": { "contact": "tokenize" }, "binary": "block" });
        let after = json!({ "results": { "contact": "tokenize" }, "restoreFor": ["mail"] });
        assert_eq!(relaxed(&before, &after), ["/inspection/restoreFor/0", "/inspection/binary"]);
        assert_eq!(relaxed(&after, &before), [""; 0]);
    }

    #[test]
    fn weaker_approval_relaxes_a_policy() {
        let demanding = |version: &str, approval: &Value| {
            let document = document(version, &Value::Null);
            let Entity::Policy(policy) = document.entity() else { panic!("{document:?}") };
            let approval = serde_json::from_value(approval.clone()).unwrap();
            Policy { approval, ..Policy::clone(policy) }
        };
        let relaxed = |before: &Value, after: &Value| {
            let found = weaker_approval(&demanding("1.0.0", before), &demanding("1.1.0", after));
            found.into_iter().map(|found| found.pointer).collect::<Vec<_>>()
        };
        let strict = json!({ "quorum": 2, "fourEyes": true, "approvers": ["team:finance"] });
        assert_eq!(relaxed(&strict, &Value::Null), ["/approval"]);
        assert_eq!(
            relaxed(&strict, &json!({ "approvers": ["team:finance"] })),
            ["/approval/quorum", "/approval/fourEyes"]
        );
        let grants =
            json!({ "when": "destructive", "approvers": ["caller"], "standingFor": "P1D" });
        assert_eq!(
            relaxed(&json!({}), &grants),
            ["/approval/when", "/approval/approvers", "/approval/standingFor"]
        );
        assert_eq!(relaxed(&json!({}), &strict), [""; 0], "a team is part of all approvers");
        assert_eq!(relaxed(&Value::Null, &strict), [""; 0]);
    }
}
