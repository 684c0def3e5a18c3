//! `role-required`: a publisher governs only what its team owns.
//!
//! A governor may register and retire policies of its team about names of any team. Any other author may do so
//! only if every selector of tools, skills and servers is confined to names and namespaces that the
//! author's team owns. This holds also for the versions that a new version replaces, and for
//! settings: an archived policy, or one with another owner, cannot be corrected by its governor.
//!
//! A policy that such an author puts in force must not match an older tool of another team by its
//! upstream name either, unless the team owns the server of the tool. Older: its upstream name was
//! registered before the name that the policy selects.
//!
//! Only governors change a policy with [`EMERGENCY_PREFIX`], independent of its selectors.
//!
//! Only the owner of a policy and governors may register a tool or agent that breaks it.

use std::{
    cell::{LazyCell, OnceCell},
    collections::BTreeMap,
    ops::Bound,
};

use super::{Proposed, WritePermissions};
use crate::{
    catalog::Catalog,
    chain::Revision,
    diagnostic::{Code, Diagnostic},
    entity::{
        Entity,
        policy::{AppliesTo, Pattern, Policy},
    },
    kind::Kind,
    lifecycle::LifecycleState,
    name::Name,
    policies::{EMERGENCY_PREFIX, ResourceNames},
    reference::Key,
    setting::Selector,
};

/// Refuses a change of a policy that concerns names of other teams.
pub(super) fn authorize(
    reach: &Reach<'_>,
    author: &WritePermissions,
    proposed: &Proposed,
) -> Option<Diagnostic> {
    let key = proposed.key();
    if key.kind != Kind::Policy || author.is_governor || author.is_admin {
        return None;
    }
    if let Some(refused) = reserved(&key.name) {
        return Some(refused);
    }
    let catalog = reach.catalog;
    match proposed {
        Proposed::Register(document) => {
            let found = reach.exceeded_by(document.entity(), "the policy");
            found.or_else(|| reach.foreign_tool_of(document.entity())).or_else(|| {
                catalog.highest_policy_versions(&key.name).find_map(|record| {
                    let version = format!("the replaced version {}", record.document.key().version);
                    let found = reach.exceeded_by(record.document.entity(), &version)?;
                    Some(Diagnostic { pointer: String::new(), ..found })
                })
            })
        }
        Proposed::SetLifecycle { state, .. } => {
            let registered = catalog.find(key);
            let mut new = reach.batch.iter().filter_map(Proposed::document);
            let document = match registered {
                Some(record) => &record.document,
                None => new.find(|new| new.key() == key)?,
            };
            let found = reach.exceeded_by(document.entity(), "the policy").or_else(|| {
                // A tool that another team registers must not prevent other changes.
                let is_restored = *state != LifecycleState::Retired
                    && registered.is_none_or(|record| !record.is_usable());
                is_restored.then(|| reach.foreign_tool_of(document.entity())).flatten()
            })?;
            Some(Diagnostic { pointer: String::new(), ..found })
        }
    }
}

/// Refuses an allowed break of a policy of another team.
pub(super) fn authorize_break(
    catalog: &Catalog,
    author: &WritePermissions,
    policy: &Key,
) -> Option<Diagnostic> {
    if author.is_governor || author.is_admin {
        return None;
    }
    // A policy of the same batch belongs to the author.
    let owner = catalog.owner(policy.kind, &policy.name)?;
    (*owner != *author.team).then(|| {
        let message = format!(
            "this version breaks {policy} of `{owner}`; the role governor is required to allow this"
        );
        let help = format!(
            "keep the arguments that the policy reads, or ask `{owner}` to register a matching policy"
        );
        Diagnostic::error(Code::RoleRequired, "", message).with_help(help)
    })
}

/// Refuses a setting of a policy that concerns names of other teams, also of a retired one: its
/// governor could not put it in force again.
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
    let reach = Reach::new(catalog, &[], &author.team);
    catalog.highest_policy_versions(name).find_map(|record| {
        let what = record.document.key().to_string();
        let found = reach.exceeded_by(record.document.entity(), &what)?;
        let found = Diagnostic { pointer: String::new(), ..found };
        Some(found.with_help(format!(
            "ask a governor of `{}`, or an admin, to change the setting",
            author.team
        )))
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
pub(super) struct Reach<'a> {
    catalog: &'a Catalog,
    batch: &'a [Proposed],
    team: &'a str,
    /// The tools of other teams by their upstream names. Computed once for a batch, because all
    /// their documents are parsed.
    foreign: OnceCell<BTreeMap<String, Vec<ForeignTool<'a>>>>,
}

/// A tool of another team on a server of another team, with an upstream name that is not its own.
struct ForeignTool<'a> {
    /// The highest usable version with the upstream name, else any version.
    key: &'a Key,
    owner: &'a str,
    is_usable: bool,
    /// The first registration of a version with the upstream name.
    since: Revision,
}

impl<'a> Reach<'a> {
    pub(super) fn new(catalog: &'a Catalog, batch: &'a [Proposed], team: &'a str) -> Self {
        Self { catalog, batch, team, foreign: OnceCell::new() }
    }

    fn exceeded_by(&self, entity: &Entity, what: &str) -> Option<Diagnostic> {
        let Entity::Policy(policy) = entity else { return None };
        let (pointer, problem) = self.first_wide(policy)?;
        Some(self.refusal(policy, pointer, &format!("{what} {problem}")))
    }

    /// The first registered tool of another team that a policy matches by its upstream name. A tool
    /// that is newer than the names of the pattern is no match: otherwise its team could prevent
    /// policies about these names.
    fn foreign_tool_of(&self, entity: &Entity) -> Option<Diagnostic> {
        let Entity::Policy(policy) = entity else { return None };
        policy.applies_to.tools.iter().enumerate().find_map(|(i, pattern)| {
            let since = LazyCell::new(|| self.first_registration(pattern));
            let is_match = |tool: &&ForeignTool<'_>| {
                tool.is_usable && since.is_none_or(|since| tool.since <= since)
            };
            let ForeignTool { key, owner, .. } = self.foreign_tools(pattern).find(is_match)?;
            let problem = format!("the policy selects {key} of `{owner}` by its upstream name");
            Some(self.refusal(policy, format!("/appliesTo/tools/{i}"), &problem))
        })
    }

    /// The first registration of a tool that a pattern matches by name. `None`: all are new.
    fn first_registration(&self, pattern: &Pattern) -> Option<Revision> {
        if let Some(name) = pattern.as_exact() {
            let name = Name::parse(Kind::Tool, name).ok()?;
            let versions = self.catalog.versions(Kind::Tool, &name);
            versions.map(|(_, record)| record.registered).min()
        } else {
            let tools = self.catalog.of_kind(Kind::Tool);
            let matches = tools.filter(|(key, _)| pattern.matches(key.name.as_str()));
            matches.map(|(_, record)| record.registered).min()
        }
    }

    /// The tools of other teams whose upstream names a pattern matches.
    fn foreign_tools(&self, pattern: &Pattern) -> impl Iterator<Item = &ForeignTool<'a>> {
        let begin = pattern.as_str().split_once('*').map_or(pattern.as_str(), |(begin, _)| begin);
        let tools = self.foreign.get_or_init(|| self.index_foreign_tools());
        let is_exact = pattern.as_exact().is_some();
        let can_match =
            move |name: &str| if is_exact { name == begin } else { name.starts_with(begin) };
        let names = tools.range::<str, _>((Bound::Included(begin), Bound::Unbounded));
        let names = names.take_while(move |(name, _)| can_match(name));
        names.filter(move |(name, _)| pattern.matches(name)).flat_map(|(_, tools)| tools)
    }

    fn index_foreign_tools(&self) -> BTreeMap<String, Vec<ForeignTool<'a>>> {
        let mut found = BTreeMap::<String, Vec<ForeignTool<'a>>>::new();
        for (key, record) in self.catalog.of_kind(Kind::Tool) {
            let owner = self.catalog.owner_of(record);
            if owner == self.team {
                continue;
            }
            // Parsed for this check only, because a cached entity is larger than its document.
            let document = record.document.without_entity();
            let Some(tool) = document.entity().as_tool() else { continue };
            if tool.source().is_some_and(|own| self.owns_name(Kind::Server, &own.server)) {
                continue;
            }
            let names = ResourceNames::of_tool(tool).tools;
            for name in names.into_iter().filter(|name| **name != *tool.name.as_str()) {
                let (is_usable, since) = (record.is_usable(), record.registered);
                let tools = found.entry(name.into_owned()).or_default();
                // The versions of a name follow each other.
                match tools.last_mut().filter(|last| last.key.name == key.name) {
                    Some(last) => {
                        last.since = last.since.min(since);
                        if is_usable {
                            (last.key, last.is_usable) = (key, true);
                        }
                    }
                    None => tools.push(ForeignTool { key, owner, is_usable, since }),
                }
            }
        }
        found
    }

    fn refusal(&self, policy: &Policy, pointer: String, problem: &str) -> Diagnostic {
        let message = format!("{problem}; the role governor is required");
        let governor = match self.catalog.owner(Kind::Policy, &policy.name) {
            Some(owner) => format!("a governor of `{owner}`, or an admin,"),
            // A governor of any team can register the name, which that team then owns.
            None => "a governor or an admin".to_owned(),
        };
        let help = format!(
            "select names or namespaces that `{}` owns, or ask {governor} to make the change",
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
            testing::{agent, commit, policy, renamed, server, set, source_tool, tool, versioned},
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

    fn source(server: &str, name: &str) -> Value {
        json!({ "source": { "server": server, "serverVersion": "1.0.0", "tool": name } })
    }

    /// The server `bank` with the tools `pay` and `scan` of `payments`, the namespace `acme/*` of
    /// `acme` with the agent `acme/clerk`, the server `mail` of `docs` with another tool `scan`, an
    /// alias of `pay` of `docs`, and policies of `payments`.
    fn world() -> Catalog {
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
            ("tool/docs_new", "docs"),
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
        refused_in(&world(), author, batch)
    }

    fn refused_in(catalog: &Catalog, author: &WritePermissions, batch: &[Proposed]) -> Vec<String> {
        let mut found = plan(catalog, batch);
        authorize_batch(catalog, author, batch, &mut found);
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
    fn older_tool_of_another_team_requires_governor() {
        let (own, foreign) = (source_tool("fresh", "s"), tool("docs_new", source("mail", "fresh")));
        let about = policy("new", json!({ "appliesTo": { "tools": ["fresh"] } }));
        // The registrant of `fresh`.
        let team = author("tester", false);
        let first = commit(world(), std::slice::from_ref(&foreign));
        let later = commit(first.clone(), std::slice::from_ref(&own));
        for (catalog, batch) in
            [(&later, vec![about.clone()]), (&first, vec![own.clone(), about.clone()])]
        {
            assert_eq!(refused_in(catalog, &team, &batch), ["/appliesTo/tools/0"]);
        }
        let later = commit(commit(world(), &[own]), &[foreign]);
        assert_eq!(refused_in(&later, &team, &[about]), [""; 0]);
    }

    #[test]
    fn newer_tool_blocks_no_change_of_policies() {
        let tools = [server("other", &["x1"]), tool("x1", source("other", "pay"))];
        let off = set("policy/narrow@1.0.0", LifecycleState::Retired, None);
        let catalog = commit(commit(world(), &[off]), &tools);
        let next = policy("narrow", json!({ "appliesTo": { "tools": ["pay"] } }));
        let on = set("policy/narrow@1.0.0", LifecycleState::Active, None);
        for change in [versioned(&next, "1.0.1"), renamed(&next, "other"), on] {
            assert_eq!(refused_in(&catalog, &author("payments", false), &[change]), [""; 0]);
        }
    }

    #[test]
    fn deprecation_of_retired_policy_is_a_restoration() {
        let team = author("payments", false);
        let to = |state| set("policy/scans@1.0.0", state, None);
        let catalog = commit(world(), &[to(LifecycleState::Retired)]);
        for state in [LifecycleState::Active, LifecycleState::Deprecated] {
            assert_eq!(refused_in(&catalog, &team, &[to(state)]), [""], "{state}");
        }
        assert_eq!(refused(&team, &[to(LifecycleState::Deprecated)]), [""; 0]);
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
        let off = set("policy/wide@1.0.0", LifecycleState::Retired, None);
        let catalogs = [world(), commit(world(), &[off])];
        // The same for a retired policy.
        let refused = |author: &WritePermissions, target: &str, setting: Setting| {
            let settings = [SettingChange { target: target.parse().unwrap(), setting }];
            let [active, retired] = catalogs.each_ref().map(|catalog| {
                let mut found = plan_with(catalog, &[], &settings);
                authorize_batch(catalog, author, &[], &mut found);
                found.diagnostics.iter().map(|d| d.code.to_string()).collect::<Vec<_>>()
            });
            assert_eq!(active, retired);
            active
        };
        for setting in [Setting::Archived(true), Setting::Owner("docs".to_owned())] {
            let owner = |is_governor| author("payments", is_governor);
            assert_eq!(refused(&owner(false), "policy/wide", setting.clone()), ["role-required"]);
            assert_eq!(refused(&owner(true), "policy/wide", setting.clone()), [""; 0]);
            assert_eq!(refused(&author("payments", false), "policy/narrow", setting), [""; 0]);
        }
    }

    #[test]
    fn retired_wide_policy_is_replaced_by_governors_only() {
        let off = set("policy/wide@1.0.0", LifecycleState::Retired, None);
        let catalog = commit(world(), &[off]);
        let narrow = policy("wide", json!({ "appliesTo": { "tools": ["pay"] } }));
        let narrow = [versioned(&narrow, "1.0.1")];
        assert_eq!(refused_in(&catalog, &author("payments", false), &narrow), [""]);
        assert_eq!(refused_in(&catalog, &author("payments", true), &narrow), [""; 0]);
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
    fn policy_is_broken_by_owner_and_governors_only() {
        let catalog = world();
        let batch = [versioned(&source_tool("pay", "bank"), "2.0.0")];
        let refused = |author: &WritePermissions| {
            let mut found = plan(&catalog, &batch);
            for policy in ["policy/narrow@1.0.0", "policy/new@1.0.0"] {
                found.policy_breaks.insert(policy.parse().unwrap(), 0);
            }
            authorize_batch(&catalog, author, &batch, &mut found);
            let refused = found.diagnostics.iter().filter(|d| d.code == Code::RoleRequired);
            refused.map(|d| d.pointer.clone()).collect::<Vec<_>>()
        };
        assert_eq!(refused(&author("payments", false)), [""; 0]);
        assert_eq!(refused(&author("docs", false)), [""]);
        assert_eq!(refused(&author("docs", true)), [""; 0]);
    }

    #[test]
    fn governor_without_publisher_changes_policies_only() {
        let governor = WritePermissions { is_publisher: false, ..author("security", true) };
        assert_eq!(refused(&governor, &[policy("new", json!({}))]), [""; 0]);
        assert_eq!(refused(&governor, &[server("fresh", &[])]), [""]);
    }
}
