//! Warnings about approvals: shown arguments that no selected tool declares, and teams that cannot exist
//! or are probably misspelled.

use std::collections::BTreeSet;

use registry_core::{
    Catalog, Code, Diagnostic, Document, Entity,
    entity::{
        Policy,
        policy::{Approval, Approver},
    },
    suggest::closest,
    visible::has_invisible_characters,
};
use schema_compat::pointer::unescape;

use super::{CANDIDATES, FINDINGS, SelectableResources};

/// The warnings about a new policy.
pub(super) fn check_policy(
    document: &Document,
    resources: &SelectableResources<'_>,
) -> Vec<Diagnostic> {
    let Entity::Policy(policy) = document.entity() else { return Vec::new() };
    let Some(approval) = &policy.approval else { return Vec::new() };
    let mut found = undeclared_arguments(policy, approval, resources);
    found.extend(unknown_teams(approval, resources.after.catalog));
    found.truncate(FINDINGS);
    found
}

/// The shown arguments that no selected tool declares, so that approvers do not see them.
fn undeclared_arguments(
    policy: &Policy,
    approval: &Approval,
    resources: &SelectableResources<'_>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if approval.show.is_empty() || resources.select(&policy.applies_to).next().is_none() {
        return found;
    }
    for (position, argument) in approval.show.iter().enumerate() {
        let path: Vec<String> = argument.split('/').skip(1).map(unescape).collect();
        let mut selected = resources.select(&policy.applies_to);
        if selected.any(|one| resources.calls_of(one).arguments().can_have(&path)) {
            continue;
        }
        let message = format!("no selected tool declares the argument {argument}");
        let pointer = format!("/approval/show/{position}");
        let warning = Diagnostic::warning(Code::PolicyArgumentUndeclared, pointer, message);
        found.push(warning.with_help("correct the pointer; it selects a member of the arguments"));
    }
    found
}

/// The teams that no principal can have, and those that are similar to an owner. Other teams may own
/// nothing.
fn unknown_teams(approval: &Approval, catalog: &Catalog) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if !approval.approvers.iter().any(|approver| matches!(approver, Approver::Team(_))) {
        return found;
    }
    let of_records = catalog.iter().map(|(_, record)| catalog.owner_of(record));
    let of_settings = catalog.settings().iter().filter_map(|(_, set)| set.owner.as_deref());
    let owners: BTreeSet<&str> = of_records.chain(of_settings).collect();
    for approver in &approval.approvers {
        let Approver::Team(team) = approver else { continue };
        let (message, help) = if has_invisible_characters(team) || team.contains('*') {
            let help = "write one team, without `*`, spaces at its ends and invisible characters";
            (format!("no principal can have the team `{team}`"), help.to_owned())
        } else if owners.contains(&**team) {
            continue;
        } else if let Some(near) = closest(team, owners.iter().copied().take(CANDIDATES)) {
            let help = format!("did you mean `{near}`? Otherwise ignore this warning");
            (format!("the approver `{team}` is no team that owns a name"), help)
        } else {
            continue;
        };
        // Approvers are sorted, so that their positions can differ from those in the document.
        let pointer = "/approval/approvers";
        let warning = Diagnostic::warning(Code::PolicySelectorUnmatched, pointer, message);
        found.push(warning.with_help(help));
    }
    found
}

#[cfg(test)]
mod tests {
    use registry_core::{
        Kind, Name, Revision, Selector, Setting, SettingChange, Settings, rules::plan,
    };
    use registry_fixtures::entities::{catalog, policy, server, source_tool, with};
    use serde_json::{Value, json};

    use crate::{PolicyBreaks, check};

    /// The findings about an approval in a catalog with one tool of the team `finance`: `CODE POINTER`.
    fn found(tools: &[&str], approval: &Value) -> Vec<String> {
        let schema = json!({ "type": "object", "properties": {
            "orderId": { "type": "string" },
            "card": { "type": "object", "properties": { "number": { "type": "string" } } } } });
        let pay = with(&source_tool("pay", "bank"), json!({ "inputSchema": schema }));
        let target = Selector::Name(Kind::Tool, Name::parse(Kind::Tool, "pay").unwrap());
        let change = SettingChange { target, setting: Setting::Owner("finance".to_owned()) };
        let mut settings = Settings::default();
        settings.apply(&change, Revision(1));
        let catalog = catalog(&[server("bank", &["pay"]), pay]).with_settings(settings);
        let batch =
            [policy("people", json!({ "appliesTo": { "tools": tools }, "approval": approval }))];
        let mut plan = plan(&catalog, &batch);
        check(&catalog, &batch, PolicyBreaks::Reject, &mut plan);
        assert!(plan.is_acceptable(), "{:?}", plan.diagnostics);
        let about = plan.diagnostics.iter().filter(|found| found.pointer.contains("/approval"));
        about.map(|found| format!("{} {}", found.code, found.pointer)).collect()
    }

    #[test]
    fn undeclared_shown_argument_is_a_warning() {
        let shown = json!({ "show": ["/orderId", "/card/number", "/card/nr", "/order"] });
        let expected = [
            "policy-argument-undeclared /approval/show/2",
            "policy-argument-undeclared /approval/show/3",
        ];
        assert_eq!(found(&["pay"], &shown), expected);
        assert_eq!(found(&["other"], &shown), [""; 0], "the selector has a warning of its own");
    }

    #[test]
    fn impossible_team_is_a_warning() {
        let approvers = json!({ "approvers": ["role:approver", "team:finance", "team:fin*"] });
        let warning = ["policy-selector-unmatched /approval/approvers"];
        assert_eq!(found(&["pay"], &approvers), warning);
        let padded = json!({ "approvers": ["team: finance"] });
        assert_eq!(found(&["pay"], &padded), warning);
    }

    #[test]
    fn misspelled_team_is_a_warning() {
        let of_team = |team: &str| found(&["pay"], &json!({ "approvers": [team] }));
        let warning = ["policy-selector-unmatched /approval/approvers"];
        assert_eq!(of_team("team:finence"), warning);
        for team in ["team:finance", "team:auditors", "role:approver"] {
            assert_eq!(of_team(team), [""; 0], "{team}");
        }
    }
}
