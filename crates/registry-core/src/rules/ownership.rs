//! `not-owner`, `outside-scope` and `role-required`: the authorization of an author to write names.
//!
//! The owner of a name is its assigned owner, else its first registrant. The owner of an unclaimed
//! name is the owner of its namespace, else the first registrant. A change without effect needs no
//! authorization.

use std::{
    cell::OnceCell,
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use super::{Plan, Proposed, governance};
use crate::{
    catalog::Catalog,
    commit::Action,
    diagnostic::{Code, Diagnostic},
    document::Document,
    kind::Kind,
    reference::Key,
    setting::{Selector, SettingChange, namespaces},
};

/// The author of unauthenticated callers. Authenticated callers cannot have this name or team.
pub const ANONYMOUS: &str = "anonymous";

/// The write permissions of the author of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritePermissions {
    /// The author's team.
    pub team: Arc<str>,
    /// The names that the author may write, within what the team owns; empty means no restriction.
    pub scopes: Arc<[Selector]>,
    /// Whether the author may write entities and settings.
    pub is_publisher: bool,
    /// Whether the author may write policies about names of other teams.
    pub is_governor: bool,
    /// Whether the author may write everything, including names of other teams.
    pub is_admin: bool,
}

/// Adds to a plan the authorization findings and the owners of new names.
pub fn authorize(
    catalog: &Catalog,
    author: &WritePermissions,
    batch: &[Proposed],
    plan: &mut Plan,
) {
    let mut found = Vec::new();
    let reach = governance::Reach::new(catalog, batch, &author.team);
    for (i, (proposed, effect)) in batch.iter().zip(&mut plan.effects).enumerate() {
        let Some(change) = effect else { continue };
        let key = proposed.key();
        let owner = catalog.owner(key.kind, &key.name);
        let named = format!("{}/{}", key.kind, key.name);
        let is_in_scope = author.scopes.is_empty()
            || author.scopes.iter().any(|scope| scope.covers(key.kind, &key.name));
        let refused = missing_role(author, key.kind == Kind::Policy, &named)
            .or_else(|| refusal(author, &named, owner.as_deref(), is_in_scope))
            .or_else(|| governance::authorize(&reach, author, proposed));
        found.extend(refused.map(|refused| refused.for_change(i, key)));
        if let Action::Register { owner: new, .. } = &mut change.action {
            *new = Some(owner.unwrap_or_else(|| author.team.clone()).to_string());
        }
    }
    let breaks = plan.policy_breaks.iter().filter_map(|(policy, change)| {
        let refused = governance::authorize_break(catalog, author, policy)?;
        Some(refused.for_change(*change, batch.get(*change)?.key()))
    });
    found.extend(breaks);
    let known = Known { catalog, new: around_new(batch, plan), namespaces: OnceCell::new() };
    let settings = plan.settings.iter();
    found.extend(settings.filter_map(|change| check_setting(&known, author, change)));
    plan.diagnostics.extend(found);
    super::errors_first(&mut plan.diagnostics);
}

/// Refuses a change of an entity or a setting by an author without the role for it.
fn missing_role(author: &WritePermissions, is_policy: bool, named: &str) -> Option<Diagnostic> {
    if author.is_publisher || author.is_admin || is_policy && author.is_governor {
        return None;
    }
    let message = format!("a change of {named} requires the role publisher");
    let help = "ask a publisher of the owning team to make the change";
    Some(Diagnostic::error(Code::RoleRequired, "", message).with_help(help))
}

fn refusal(
    author: &WritePermissions,
    named: &str,
    owner: Option<&str>,
    is_in_scope: bool,
) -> Option<Diagnostic> {
    if !is_in_scope {
        let scopes: Vec<_> = author.scopes.iter().map(ToString::to_string).collect();
        let message = format!("{named} is outside of your scopes: {}", scopes.join(", "));
        let help = "ask for a token with a scope that covers it";
        return Some(Diagnostic::error(Code::OutsideScope, "", message).with_help(help));
    }
    let owner = owner.filter(|owner| !author.is_admin && **owner != *author.team)?;
    let message = format!("{named} belongs to `{owner}`, but you write for `{}`", author.team);
    let help = if owner == ANONYMOUS {
        format!(
            "the name was registered without authentication; ask an admin to run `registryctl \
             transfer --from {ANONYMOUS} {}`, which transfers all such names",
            author.team
        )
    } else if author.is_governor && !author.is_publisher {
        // A publisher of the owner cannot change a policy that needs a governor.
        format!("ask a governor of `{owner}`, or an admin, to make the change")
    } else {
        format!("ask `{owner}` to make the change, or to transfer {named} to `{}`", author.team)
    };
    Some(Diagnostic::error(Code::NotOwner, "", message).with_help(help))
}

/// The selectors with settings or with registered or new entities.
struct Known<'a> {
    catalog: &'a Catalog,
    new: BTreeSet<Selector>,
    /// Namespaces with registered entities. Names are compared case-insensitively, so all of them
    /// are scanned.
    namespaces: OnceCell<HashSet<Selector>>,
}

impl Known<'_> {
    fn has(&self, target: &Selector) -> bool {
        let is_registered = || match target {
            Selector::Everything => true,
            Selector::Namespace(_) => self.namespaces().contains(target),
            Selector::Name(kind, name) => self.catalog.versions(*kind, name).next().is_some(),
        };
        self.new.contains(target)
            || self.catalog.settings().get(target).is_some()
            || is_registered()
    }

    fn namespaces(&self) -> &HashSet<Selector> {
        let names = || self.catalog.iter().map(|(key, _)| key.name.as_str());
        self.namespaces.get_or_init(|| names().flat_map(namespaces).collect())
    }
}

/// The names that a batch registers, and their namespaces.
fn around_new(batch: &[Proposed], plan: &Plan) -> BTreeSet<Selector> {
    if plan.settings.is_empty() {
        return BTreeSet::new();
    }
    let around = |document: &Arc<Document>| {
        let Key { kind, name, .. } = document.key();
        namespaces(name.as_str()).chain([Selector::Name(*kind, name.clone())])
    };
    batch.iter().filter_map(Proposed::document).flat_map(around).collect()
}

fn check_setting(
    known: &Known<'_>,
    author: &WritePermissions,
    SettingChange { target, setting: _ }: &SettingChange,
) -> Option<Diagnostic> {
    let catalog = known.catalog;
    let is_in_scope =
        author.scopes.is_empty() || author.scopes.iter().any(|scope| scope.includes(target));
    let owner = match target {
        Selector::Name(kind, name) => catalog.owner(*kind, name),
        Selector::Namespace(prefix) => catalog.settings().owner_of_namespace(prefix).map(Arc::from),
        Selector::Everything => None,
    };
    let named = target.to_string();
    let is_policy = matches!(target, Selector::Name(Kind::Policy, _));
    let refused = missing_role(author, is_policy, &named)
        .or_else(|| refusal(author, &named, owner.as_deref(), is_in_scope))
        .or_else(|| governance::authorize_setting(catalog, author, target));
    if refused.is_some() || author.is_admin {
        return refused;
    }
    // Only an admin may set something on an unowned selector, or one without entities. Settings are
    // permanent, so their number must be bounded by the entities.
    let why = match &owner {
        None => "has no owner",
        Some(_) if !known.has(target) => "has no registered entities",
        Some(_) => return None,
    };
    let message = format!("{named} {why}, so only an admin may change its settings");
    let help = match target {
        Selector::Everything => "ask an admin to make the change".to_owned(),
        // A registration in a namespace does not make its team the owner of the namespace.
        Selector::Namespace(_) if owner.is_none() => {
            format!("ask an admin to transfer {named} to your team")
        }
        _ => "register an entity there first, or ask an admin to make the change".to_owned(),
    };
    Some(Diagnostic::error(Code::NotOwner, "", message).with_help(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        LifecycleState,
        compatibility::Mode,
        lifecycle::Notice,
        name::Name,
        rules::{
            plan_with,
            testing::{catalog, server},
        },
        setting::Setting,
    };

    fn author(team: &str, scopes: &[&str]) -> WritePermissions {
        let scopes = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
        WritePermissions {
            team: team.into(),
            scopes,
            is_publisher: true,
            is_governor: team == "governors",
            is_admin: team == "admins",
        }
    }

    fn setting(target: &str, setting: Setting) -> SettingChange {
        SettingChange { target: target.parse().unwrap(), setting }
    }

    /// The server `s` of `docs`, the namespace `acme/` of `acme`, and `com.example.` of `example`.
    fn world() -> Catalog {
        let mut catalog = catalog(&[server("s", &[]), server("com.example.Old.x", &[])]);
        let mut settings = catalog.settings().clone();
        for (target, owner) in [
            ("server/s", "docs"),
            ("acme/*", "acme"),
            ("com.example.*", "example"),
            ("server/com.example.Old.x", "example"),
        ] {
            settings.apply(&setting(target, Setting::Owner(owner.into())), catalog.revision());
        }
        catalog = catalog.with_settings(settings);
        catalog
    }

    /// The rejections as code and message, and the owners of the registrations.
    fn decide(
        author: &WritePermissions,
        batch: &[Proposed],
        settings: &[SettingChange],
    ) -> (Vec<String>, Vec<String>) {
        let catalog = world();
        let mut plan = plan_with(&catalog, batch, settings);
        authorize(&catalog, author, batch, &mut plan);
        let errors = plan.diagnostics.iter().filter(|found| found.is_error());
        let errors = errors.map(|found| format!("{}: {}", found.code, found.message)).collect();
        let owners = plan.changes().filter_map(|change| match &change.action {
            Action::Register { owner, .. } => owner.clone(),
            _ => None,
        });
        (errors, owners.collect())
    }

    fn register(name: &str) -> Proposed {
        server(name, &[])
    }

    #[test]
    fn unclaimed_name_belongs_to_registrant_or_namespace_owner() {
        let team = author("search", &[]);
        assert_eq!(decide(&team, &[register("free")], &[]), (vec![], vec!["search".to_owned()]));
        for (name, owner) in [("acme/x", "acme"), ("com.example.deep.x", "example")] {
            let refused = decide(&team, &[register(name)], &[]).0;
            let expected = format!(
                "not-owner: server/{name} belongs to `{owner}`, but you write for `search`"
            );
            assert_eq!(refused, [expected]);
            let theirs = decide(&author(owner, &[]), &[register(name)], &[]);
            assert_eq!(theirs, (vec![], vec![owner.to_owned()]));
            let admins = decide(&author("admins", &[]), &[register(name)], &[]);
            assert_eq!(admins, (vec![], vec![owner.to_owned()]), "it stays its owner's");
        }
        assert!(decide(&team, &[register("acme.x")], &[]).0.is_empty(), "another name");
        for same in ["Acme/x", "ACME/X", "com.example/x", "Com.Example/x"] {
            assert_eq!(decide(&team, &[register(same)], &[]).0.len(), 1, "{same}");
        }
    }

    #[test]
    fn registrant_keeps_name_when_namespace_is_assigned() {
        let catalog = catalog(&[server("acme/old", &[])]);
        let mut settings = catalog.settings().clone();
        settings.apply(&setting("acme/*", Setting::Owner("acme".into())), catalog.revision());
        let catalog = catalog.with_settings(settings);
        let name = |text| Name::parse(Kind::Server, text).unwrap();
        let first = catalog.iter().next().unwrap().1.owner.clone();
        assert_eq!(catalog.owner(Kind::Server, &name("acme/old")), Some(first));
        assert_eq!(catalog.owner(Kind::Server, &name("acme/new")).as_deref(), Some("acme"));
    }

    #[test]
    fn change_without_effect_needs_no_authorization() {
        let (team, known) = (author("search", &[]), register("s"));
        assert_eq!(decide(&team, std::slice::from_ref(&known), &[]).0, Vec::<String>::new());
        let notice = Notice::default();
        let retire = Proposed::SetLifecycle {
            key: known.key().clone(),
            state: LifecycleState::Retired,
            notice,
        };
        assert_eq!(decide(&team, std::slice::from_ref(&retire), &[]).0.len(), 1);
        assert!(decide(&author("docs", &[]), &[retire], &[]).0.is_empty());
    }

    #[test]
    fn settings_require_owner_or_admin() {
        let give = |target| [setting(target, Setting::Owner("search".into()))];
        let mut refused = Vec::new();
        for (target, owner) in
            [("server/s", "docs"), ("acme/*", "acme"), ("com.example.old.*", "example")]
        {
            assert!(decide(&author(owner, &[]), &[], &give(target)).0.is_empty(), "{target}");
            assert!(decide(&author("admins", &[]), &[], &give(target)).0.is_empty(), "{target}");
            refused.extend(decide(&author("search", &[]), &[], &give(target)).0);
        }
        insta::assert_snapshot!(refused.join("\n"), @"
        not-owner: server/s belongs to `docs`, but you write for `search`
        not-owner: acme/* belongs to `acme`, but you write for `search`
        not-owner: com.example.old.* belongs to `example`, but you write for `search`
        ");
        let archive = [setting("server/s", Setting::Archived(true))];
        assert_eq!(decide(&author("search", &[]), &[], &archive).0.len(), 1);
        let free = ["server/free", "free/*", "com.*"];
        let refused = free.map(|free| decide(&author("search", &[]), &[], &give(free)).0.concat());
        insta::assert_snapshot!(refused.join("\n"), @"
        not-owner: server/free has no owner, so only an admin may change its settings
        not-owner: free/* has no owner, so only an admin may change its settings
        not-owner: com.* has no owner, so only an admin may change its settings
        ");
        let everything = [setting("*", Setting::Compatibility(None))];
        assert!(decide(&author("search", &[]), &[], &everything).0.is_empty(), "no change");
    }

    #[test]
    fn unowned_namespace_needs_transfer_by_admin() {
        let (catalog, batch) = (world(), [register("free/x")]);
        let settings = [setting("free/*", Setting::Owner("search".into()))];
        let mut plan = plan_with(&catalog, &batch, &settings);
        authorize(&catalog, &author("search", &[]), &batch, &mut plan);
        let helps: Vec<_> = plan.diagnostics.iter().map(|found| found.help.clone()).collect();
        insta::assert_debug_snapshot!(helps, @r#"
        [
            Some(
                "ask an admin to transfer free/* to your team",
            ),
        ]
        "#);
    }

    #[test]
    fn names_of_unauthenticated_callers_are_transferred_by_admins() {
        let mut settings = world().settings().clone();
        let owned = setting("server/s", Setting::Owner(ANONYMOUS.into()));
        settings.apply(&owned, world().revision());
        let catalog = world().with_settings(settings);
        let retire = Proposed::SetLifecycle {
            key: register("s").key().clone(),
            state: LifecycleState::Retired,
            notice: Notice::default(),
        };
        let mut plan = plan_with(&catalog, std::slice::from_ref(&retire), &[]);
        authorize(&catalog, &author("search", &[]), &[retire], &mut plan);
        let helps: Vec<_> = plan.diagnostics.iter().map(|found| found.help.clone()).collect();
        insta::assert_debug_snapshot!(helps, @r#"
        [
            Some(
                "the name was registered without authentication; ask an admin to run `registryctl transfer --from anonymous search`, which transfers all such names",
            ),
        ]
        "#);
    }

    /// Settings are permanent, so owners cannot set them for unregistered names.
    #[test]
    fn setting_on_unregistered_name_requires_admin() {
        let mode = |target| [setting(target, Setting::Compatibility(Some(Mode::None)))];
        let (acme, admins) = (author("acme", &[]), author("admins", &[]));
        for target in ["server/acme/free", "acme/*", "server/acme/x"] {
            assert!(decide(&admins, &[], &mode(target)).0.is_empty(), "{target}");
        }
        let refused = decide(&acme, &[], &mode("server/acme/free")).0;
        insta::assert_snapshot!(
            refused[0],
            @"not-owner: server/acme/free has no registered entities, so only an admin may change \
              its settings"
        );
        assert!(decide(&acme, &[], &mode("acme/*")).0.is_empty(), "something is set there");
        let with_it = decide(&acme, &[register("acme/free")], &mode("server/acme/free"));
        assert!(with_it.0.is_empty(), "it comes with its name: {with_it:?}");
        let example = author("example", &[]);
        assert_eq!(decide(&example, &[], &mode("com.example.deep.*")).0.len(), 1);
        assert!(decide(&example, &[], &mode("com.example.old.*")).0.is_empty());
    }

    #[test]
    fn scopes_restrict_admins_too() {
        let narrow = |team| author(team, &["acme/*", "server/s"]);
        assert!(decide(&narrow("acme"), &[register("acme/x")], &[]).0.is_empty());
        for team in ["search", "admins"] {
            let refused = decide(&narrow(team), &[register("free")], &[]).0;
            let expected = "outside-scope: server/free is outside of your scopes: \
                            acme/*, server/s";
            assert_eq!(refused, [expected]);
        }
        let give = |target| [setting(target, Setting::Owner("x".into()))];
        assert!(decide(&narrow("admins"), &[], &give("acme/*")).0.is_empty());
        for wide in ["ac.*", "server/t", "acme.x.*"] {
            let refused = decide(&narrow("admins"), &[], &give(wide)).0;
            assert!(refused[0].starts_with("outside-scope"), "{wide}: {refused:?}");
        }
    }
}
