//! `role-required`: a publisher governs only what its team owns.
//!
//! A governor may register and retire policies about names of any team. Any other author may do so
//! only if every selector of tools, skills and servers is confined to names and namespaces that the
//! author's team owns. This holds also for the versions that a new version replaces, and for
//! settings: an archived policy, or one with another owner, cannot be corrected by its governor.
//!
//! Policies with [`EMERGENCY_PREFIX`] are changed by governors only, whatever they select.
//!
//! A policy that such an author puts in force must not match a tool of another team by its upstream
//! name either, unless the team owns the server of the tool.

use super::{Proposed, WritePermissions};
use crate::{
    catalog::Catalog,
    diagnostic::{Code, Diagnostic},
    entity::{
        Entity,
        policy::{AppliesTo, Pattern, Policy},
    },
    kind::Kind,
    lifecycle::LifecycleState,
    name::Name,
    policies::{EMERGENCY_PREFIX, ResourceNames},
    setting::Selector,
};

/// Refuses a change of a policy that concerns names of other teams.
pub(super) fn authorize(
    catalog: &Catalog,
    author: &WritePermissions,
    batch: &[Proposed],
    proposed: &Proposed,
) -> Option<Diagnostic> {
    let key = proposed.key();
    if key.kind != Kind::Policy || author.is_governor || author.is_admin {
        return None;
    }
    if let Some(refused) = reserved(&key.name) {
        return Some(refused);
    }
    let reach = Reach { catalog, batch, team: &author.team };
    match proposed {
        Proposed::Register(document) => {
            let replaced = catalog.effective_policy(&key.name);
            let found = reach.exceeded_by(document.entity(), "the policy");
            found.or_else(|| reach.foreign_tool_of(document.entity())).or_else(|| {
                replaced.iter().find_map(|record| {
                    let version = format!("the replaced version {}", record.document.key().version);
                    let found = reach.exceeded_by(record.document.entity(), &version)?;
                    Some(Diagnostic { pointer: String::new(), ..found })
                })
            })
        }
        Proposed::SetLifecycle { state, .. } => {
            let registered = catalog.find(key).map(|record| &*record.document);
            let new = batch.iter().filter_map(Proposed::document).map(|document| &**document);
            let document = registered.or_else(|| new.into_iter().find(|new| new.key() == key))?;
            let found = reach.exceeded_by(document.entity(), "the policy").or_else(|| {
                // A tool that another team registers must not prevent the retirement.
                let is_restored = *state == LifecycleState::Active;
                is_restored.then(|| reach.foreign_tool_of(document.entity())).flatten()
            })?;
            Some(Diagnostic { pointer: String::new(), ..found })
        }
    }
}

/// Refuses a setting of a policy in force that concerns names of other teams.
pub(super) fn authorize_setting(
    catalog: &Catalog,
    author: &WritePermissions,
    target: &Selector,
) -> Option<Diagnostic> {
    let Selector::Name(Kind::Policy, name) = target else { return None };
    if author.is_governor || author.is_admin {
        return None;
    }
    if let Some(refused) = reserved(name) {
        return Some(refused);
    }
    let reach = Reach { catalog, batch: &[], team: &author.team };
    catalog.effective_policy(name).iter().find_map(|record| {
        let what = record.document.key().to_string();
        let found = reach.exceeded_by(record.document.entity(), &what)?;
        let found = Diagnostic { pointer: String::new(), ..found };
        Some(found.with_help("ask a governor to change the setting"))
    })
}

/// Refuses the name of an emergency policy. Names that differ in case only look alike.
fn reserved(name: &Name) -> Option<Diagnostic> {
    let begin = name.as_str().get(..EMERGENCY_PREFIX.len())?;
    begin.eq_ignore_ascii_case(EMERGENCY_PREFIX).then(|| {
        let message = format!(
            "policies named `{EMERGENCY_PREFIX}…` stop calls in an emergency; the role governor is \
             required"
        );
        let help = "choose another name, or ask a governor to make the change";
        Diagnostic::error(Code::RoleRequired, "", message).with_help(help)
    })
}

/// The names that a team owns, registered and in the batch.
struct Reach<'a> {
    catalog: &'a Catalog,
    batch: &'a [Proposed],
    team: &'a str,
}

impl Reach<'_> {
    fn exceeded_by(&self, entity: &Entity, what: &str) -> Option<Diagnostic> {
        let Entity::Policy(policy) = entity else { return None };
        let (pointer, problem) = self.first_wide(policy)?;
        Some(self.refusal(pointer, &format!("{what} {problem}")))
    }

    /// The first registered tool of another team that a policy matches by its upstream name. Cost:
    /// linear in the tools of other teams.
    fn foreign_tool_of(&self, entity: &Entity) -> Option<Diagnostic> {
        let Entity::Policy(policy) = entity else { return None };
        let patterns = &policy.applies_to.tools;
        if patterns.is_empty() {
            return None;
        }
        self.catalog.of_kind(Kind::Tool).find_map(|(key, record)| {
            let owner = self.catalog.owner_of(record);
            if owner == self.team || record.lifecycle.state == LifecycleState::Retired {
                return None;
            }
            // Parsed for this check only, because a cached entity is larger than its document.
            let document = record.document.without_entity();
            let tool = document.entity().as_tool()?;
            if tool.source().is_some_and(|own| self.owns_name(Kind::Server, &own.server)) {
                return None;
            }
            let names = ResourceNames::of_tool(tool).tools;
            let is_match = |pattern: &Pattern| names.iter().any(|name| pattern.matches(name));
            let i = patterns.iter().position(is_match)?;
            let problem = format!("the policy selects {key} of `{owner}` by its upstream name");
            Some(self.refusal(format!("/appliesTo/tools/{i}"), &problem))
        })
    }

    fn refusal(&self, pointer: String, problem: &str) -> Diagnostic {
        let message = format!("{problem}; the role governor is required");
        let help = format!(
            "select names or namespaces that `{}` owns, or ask a governor to make the change",
            self.team
        );
        Diagnostic::error(Code::RoleRequired, pointer, message).with_help(help)
    }

    /// The first selector that is not confined to the team's names, with the problem.
    fn first_wide(&self, policy: &Policy) -> Option<(String, String)> {
        let selector = &policy.applies_to;
        if !selector.names_resources() {
            let problem = "selects tools, skills and servers of every team".to_owned();
            return Some(("/appliesTo".to_owned(), problem));
        }
        let AppliesTo { callers: _, tools, skills, servers, destructive: _ } = selector;
        let lists = [
            ("tools", Kind::Tool, tools),
            ("skills", Kind::Agent, skills),
            ("servers", Kind::Server, servers),
        ];
        lists.into_iter().find_map(|(list, kind, patterns)| {
            let is_wide = |pattern: &Pattern| match kind {
                Kind::Agent => !self.owns_skills(pattern),
                _ => !self.owns(kind, pattern.as_str()),
            };
            let i = patterns.iter().position(is_wide)?;
            let problem = format!(
                "selects `{}`, which is not confined to names of `{}`",
                patterns[i], self.team
            );
            Some((format!("/appliesTo/{list}/{i}"), problem))
        })
    }

    /// Whether the team owns all names that a pattern can match.
    fn owns(&self, kind: Kind, pattern: &str) -> bool {
        match pattern.split_once('*') {
            None => Name::parse(kind, pattern).is_ok_and(|name| self.owns_name(kind, &name)),
            Some((prefix, _)) => self.owns_namespace(kind, prefix),
        }
    }

    /// The same for skills: `AGENT/SKILL`.
    fn owns_skills(&self, pattern: &Pattern) -> bool {
        let fixed = pattern.as_str().split_once('*').map_or(pattern.as_str(), |(fixed, _)| fixed);
        // The agent is known if its name is complete.
        let agent = fixed.rsplit_once('/').map(|(agent, _)| agent);
        agent.is_some_and(|agent| self.owns(Kind::Agent, agent))
            || pattern.as_exact().is_none() && self.owns_namespace(Kind::Agent, fixed)
    }

    fn owns_name(&self, kind: Kind, name: &Name) -> bool {
        match self.catalog.owner(kind, name) {
            Some(owner) => *owner == *self.team,
            // The author becomes the owner of a new name.
            None => self
                .batch
                .iter()
                .any(|proposed| (proposed.key().kind, &proposed.key().name) == (kind, name)),
        }
    }

    /// Whether the team owns a namespace with all names that begin with this prefix: those that are
    /// registered, and the namespaces in it.
    fn owns_namespace(&self, kind: Kind, prefix: &str) -> bool {
        let settings = self.catalog.settings();
        let begins = |text: &str| {
            text.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
        };
        settings.owner_of_namespace(prefix) == Some(self.team)
            && settings.iter().all(|(on, set)| match on {
                Selector::Namespace(inner) if begins(inner) => {
                    set.owner.as_deref().is_none_or(|owner| owner == self.team)
                }
                _ => true,
            })
            && self
                .catalog
                .of_kind(kind)
                .filter(|(key, _)| begins(key.name.as_str()))
                .all(|(_, record)| self.catalog.owner_of(record) == self.team)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        Setting, SettingChange,
        rules::{
            authorize as authorize_batch, plan, plan_with,
            testing::{agent, policy, renamed, server, set, source_tool, tool, versioned},
        },
    };

    fn author(team: &str, is_governor: bool) -> WritePermissions {
        WritePermissions {
            team: team.into(),
            scopes: [].into(),
            is_publisher: true,
            is_governor,
            is_admin: false,
        }
    }

    /// The server `bank` with the tools `pay` and `scan` of `payments`, the namespace `acme/*` of
    /// `acme` with the agent `acme/clerk`, the server `mail` of `docs` with another tool `scan`, an
    /// alias of `pay` of `docs`, and policies of `payments`.
    fn world() -> Catalog {
        let source = |server: &str, name: &str| {
            let source = json!({ "server": server, "serverVersion": "1.0.0", "tool": name });
            json!({ "source": source })
        };
        let mut catalog = super::super::testing::catalog(&[
            server("bank", &["pay", "scan"]),
            source_tool("pay", "bank"),
            source_tool("scan", "bank"),
            server("mail", &["docs_scan"]),
            tool("docs_scan", source("mail", "scan")),
            tool("docs_pay", source("bank", "pay")),
            policy("scans", json!({ "appliesTo": { "tools": ["scan"] } })),
            renamed(&agent("clerk", &json!([])), "acme/clerk"),
            policy("wide", json!({})),
            policy("narrow", json!({ "appliesTo": { "tools": ["pay"] } })),
        ]);
        let mut settings = catalog.settings().clone();
        for (on, owner) in [
            ("server/bank", "payments"),
            ("tool/pay", "payments"),
            ("tool/scan", "payments"),
            ("tool/docs_scan", "docs"),
            ("tool/docs_pay", "docs"),
            ("policy/scans", "payments"),
            ("policy/narrow", "payments"),
            ("policy/wide", "payments"),
            ("server/mail", "docs"),
            ("acme/*", "acme"),
            ("agent/acme/clerk", "acme"),
            ("com.example.*", "example"),
            ("com.example.x.*", "docs"),
        ] {
            let setting = Setting::Owner(owner.to_owned());
            let change = SettingChange { target: on.parse().unwrap(), setting };
            settings.apply(&change, catalog.revision());
        }
        catalog = catalog.with_settings(settings);
        catalog
    }

    /// The pointers of the refusals.
    fn refused(author: &WritePermissions, batch: &[Proposed]) -> Vec<String> {
        let catalog = world();
        let mut found = plan(&catalog, batch);
        authorize_batch(&catalog, author, batch, &mut found);
        let refused = found.diagnostics.into_iter().filter(|d| d.code == Code::RoleRequired);
        refused.map(|d| d.pointer).collect()
    }

    #[test]
    fn publisher_selects_only_names_of_its_team() {
        let check = |team: &str, applies_to: Value| {
            let new = policy("new", json!({ "appliesTo": applies_to }));
            assert_eq!(refused(&author(team, true), std::slice::from_ref(&new)), [""; 0]);
            refused(&author(team, false), &[new]).join(" ")
        };
        for (team, applies_to, pointer) in [
            ("payments", json!({ "tools": ["pay"], "servers": ["bank"] }), ""),
            ("payments", json!({ "callers": ["*"], "tools": ["pay"] }), ""),
            ("docs", json!({ "servers": ["mail"], "tools": ["pay"] }), "/appliesTo/tools/0"),
            ("payments", json!({ "tools": ["pay", "pa*"] }), "/appliesTo/tools/1"),
            ("payments", json!({ "tools": ["unregistered"] }), "/appliesTo/tools/0"),
            ("payments", json!({ "callers": ["acme/clerk"] }), "/appliesTo"),
            ("payments", json!({ "destructive": true }), "/appliesTo"),
            ("acme", json!({ "skills": ["acme/clerk/work"] }), ""),
            ("acme", json!({ "skills": ["acme/clerk/*", "acme/*"] }), ""),
            ("acme", json!({ "skills": ["acme*"] }), "/appliesTo/skills/0"),
            ("docs", json!({ "skills": ["acme/clerk/work"] }), "/appliesTo/skills/0"),
            ("example", json!({ "servers": ["com.example.y.*", "com.example.z"] }), ""),
            ("example", json!({ "servers": ["com.example.*"] }), "/appliesTo/servers/0"),
            ("docs", json!({ "servers": ["com.example.x.*"] }), ""),
        ] {
            assert_eq!(check(team, applies_to.clone()), pointer, "{team} {applies_to}");
        }
    }

    #[test]
    fn upstream_name_gives_no_authority_over_tools() {
        let new = policy("new", json!({ "appliesTo": { "tools": ["pay", "scan"] } }));
        let batch = std::slice::from_ref(&new);
        assert_eq!(refused(&author("payments", false), batch), ["/appliesTo/tools/1"]);
        assert_eq!(refused(&author("payments", true), batch), [""; 0]);
        let off = set("policy/scans@1.0.0", LifecycleState::Retired, None);
        assert_eq!(refused(&author("payments", false), &[off]), [""; 0]);
    }

    #[test]
    fn publisher_governs_what_its_batch_registers() {
        let about_new = policy("new", json!({ "appliesTo": { "servers": ["fresh"] } }));
        assert_eq!(refused(&author("docs", false), &[server("fresh", &[]), about_new]), [""; 0]);
    }

    #[test]
    fn wide_policy_is_replaced_and_retired_by_governors_only() {
        let team = author("payments", false);
        let pay = json!({ "appliesTo": { "tools": ["pay"] } });
        let narrower = versioned(&policy("wide", pay.clone()), "2.0.0");
        let off = set("policy/wide@1.0.0", LifecycleState::Retired, None);
        for change in [narrower, off] {
            assert_eq!(refused(&team, std::slice::from_ref(&change)), [""]);
            assert_eq!(refused(&author("payments", true), &[change]), [""; 0]);
        }
        let next = versioned(&policy("narrow", pay), "2.0.0");
        let off = set("policy/narrow@1.0.0", LifecycleState::Retired, None);
        assert_eq!(refused(&team, &[next, off]), [""; 0]);
    }

    #[test]
    fn settings_of_wide_policy_require_governor() {
        let refused = |author: &WritePermissions, target: &str, setting: Setting| {
            let catalog = world();
            let settings = [SettingChange { target: target.parse().unwrap(), setting }];
            let mut found = plan_with(&catalog, &[], &settings);
            authorize_batch(&catalog, author, &[], &mut found);
            found.diagnostics.iter().map(|d| d.code.to_string()).collect::<Vec<_>>()
        };
        for setting in [Setting::Archived(true), Setting::Owner("docs".to_owned())] {
            let owner = |is_governor| author("payments", is_governor);
            assert_eq!(refused(&owner(false), "policy/wide", setting.clone()), ["role-required"]);
            assert_eq!(refused(&owner(true), "policy/wide", setting.clone()), [""; 0]);
            assert_eq!(refused(&author("payments", false), "policy/narrow", setting), [""; 0]);
        }
    }

    #[test]
    fn emergency_policy_is_changed_by_governors_only() {
        let own = json!({ "appliesTo": { "tools": ["pay"] } });
        for name in ["stop-tool-pay", "STOP-x"] {
            let stop = policy(name, own.clone());
            let off = set(&format!("policy/{name}@1.0.0"), LifecycleState::Retired, None);
            for batch in [vec![stop.clone()], vec![stop, off]] {
                let expected = vec![""; batch.len()];
                assert_eq!(refused(&author("payments", false), &batch), expected, "{name}");
                assert_eq!(refused(&author("payments", true), &batch), [""; 0], "{name}");
            }
        }
        assert_eq!(refused(&author("payments", false), &[policy("stops", own)]), [""; 0]);
    }

    #[test]
    fn governor_without_publisher_changes_policies_only() {
        let governor = WritePermissions { is_publisher: false, ..author("security", true) };
        assert_eq!(refused(&governor, &[policy("new", json!({}))]), [""; 0]);
        assert_eq!(refused(&governor, &[server("fresh", &[])]), [""]);
    }
}
