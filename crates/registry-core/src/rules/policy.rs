//! `policy-version-regresses`, `policy-selector-unmatched`, `policy-relaxed` and `policy-tightened`:
//! versions, selectors and modes of policies; and the minimum of `maxStaleness`.

use std::collections::BTreeMap;

use super::{
    BatchOrigin, policy_change,
    proposal::{NewEntity, Proposal},
};
use crate::{
    diagnostic::{Code, Diagnostic, Severity},
    document::Document,
    duration::format_iso_duration,
    entity::{
        Entity,
        policy::{AppliesTo, CallerPattern, Pattern},
    },
    kind::Kind,
    lifecycle::LifecycleState,
    limits::MIN_STALENESS,
    name::Name,
    policies::ResourceNames,
    reference::Key,
    tags::has_tag,
};

/// Maximum number of reported selectors of one policy.
const UNMATCHED: usize = 20;

/// A version that is not above the registered ones would never be in force.
pub(super) fn check_versions(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    for new in policies(proposal) {
        let key = new.key();
        let registered = proposal.catalog().versions(Kind::Policy, &key.name);
        // A pre-release does not delay the next release.
        let highest = registered
            .map(|(key, _)| &key.version)
            .filter(|version| key.version.is_prerelease() || !version.is_prerelease())
            .max();
        if let Some(highest) = highest.filter(|highest| key.version < **highest) {
            let message = format!(
                "version {} of policy/{} is below {highest}, so it would never be in force",
                key.version, key.name
            );
            let help = format!(
                "register a version above {highest}; `registryctl policy rollback {} VERSION` does \
                 that with the content of an earlier version",
                key.name
            );
            let problem = Diagnostic::error(Code::PolicyVersionRegresses, "/version", message);
            new.report(found, problem.with_help(help));
        }
    }
}

/// Warns about new versions with another mode, or a weaker inspection, than the version in force.
pub(super) fn check_changes(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    let mut highest: BTreeMap<&Name, &NewEntity<'_>> = BTreeMap::new();
    for new in policies(proposal).filter(|new| !new.key().version.is_prerelease()) {
        let known = highest.entry(&new.key().name).or_insert(new);
        if known.key().version < new.key().version {
            *known = new;
        }
    }
    for (name, new) in highest {
        let mut versions = proposal.catalog().highest_policy_versions(name);
        let release = versions.find(|record| !record.document.key().version.is_prerelease());
        let in_force = release.filter(|record| record.is_usable());
        let Some(old) = in_force else { continue };
        for change in policy_change::findings(&old.document, new.document()) {
            new.report(found, change);
        }
    }
}

/// A short `maxStaleness` rejects calls at connected gateways. Files may contain it, because an earlier
/// release accepted it.
pub(super) fn check_staleness(
    proposal: &Proposal<'_>,
    origin: BatchOrigin,
    found: &mut Vec<Diagnostic>,
) {
    for new in policies(proposal) {
        let Entity::Policy(policy) = new.entity() else { continue };
        let Some(age) = policy.max_staleness.filter(|age| *age < MIN_STALENESS) else { continue };
        let least = format_iso_duration(MIN_STALENESS);
        let message = format!("`{}` is below the minimum {least}", format_iso_duration(age));
        let help = format!(
            "write {least} or more; a shorter limit rejects calls at gateways with a connection, \
             which confirm their catalog every 10 s by default"
        );
        let severity = match origin {
            BatchOrigin::Request => Severity::Error,
            BatchOrigin::File => Severity::Warning,
        };
        let problem = Diagnostic::error(Code::DocumentInvalid, "/maxStaleness", message);
        new.report(found, Diagnostic { severity, ..problem.with_help(help) });
    }
}

/// Warns about selectors that match nothing, which often have a typing error: the first ones of each
/// policy, which bounds the response.
pub(super) fn check_selectors(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    let mut unmatched: Vec<(&NewEntity<'_>, Selected<'_>)> = policies(proposal)
        .flat_map(|new| match new.entity() {
            Entity::Policy(policy) => selectors(&policy.applies_to)
                .into_iter()
                .filter(|selected| !selected.names_active(proposal))
                .map(|selected| (new, selected))
                .collect::<Vec<_>>(),
            _ => Vec::new(),
        })
        .collect();
    // A batch without unmatched selectors reads nothing of the catalog.
    let mut documents = documents(proposal);
    while !unmatched.is_empty()
        && let Some(document) = documents.next()
    {
        let own = document.without_entity();
        unmatched.retain_mut(|(_, selected)| {
            if selected.similar.is_none() && selected.omits_namespace_of(&own) {
                selected.similar = Some(own.key().name.clone());
            }
            !selected.matches(&own)
        });
    }
    let mut counts = BTreeMap::<usize, usize>::new();
    for (new, Selected { pointer, text, similar, .. }) in unmatched {
        let count = counts.entry(new.change()).or_default();
        *count += 1;
        if *count > UNMATCHED {
            continue;
        }
        let message = format!("the selector `{text}` matches nothing that is registered");
        let warning = Diagnostic::warning(Code::PolicySelectorUnmatched, pointer, message);
        let question = similar.map(|name| format!("did you mean `{name}`? otherwise "));
        let help =
            format!("{}correct the name, or register the entity", question.unwrap_or_default());
        new.report(found, warning.with_help(help));
    }
}

fn policies<'p, 'a>(proposal: &'p Proposal<'a>) -> impl Iterator<Item = &'p NewEntity<'a>> {
    proposal.new.iter().filter(|new| new.key().kind == Kind::Policy)
}

/// The entities that policies can select, registered and new, without retired ones.
fn documents<'p>(proposal: &'p Proposal<'_>) -> impl Iterator<Item = &'p Document> {
    let registered = proposal.catalog().iter().map(|(_, record)| &*record.document);
    let documents = proposal.new.iter().map(NewEntity::document).chain(registered);
    documents.filter(|document| {
        matches!(document.key().kind, Kind::Tool | Kind::Server | Kind::Agent)
            && proposal.lifecycle(document.key()).0 != LifecycleState::Retired
    })
}

/// One selector of a policy.
struct Selected<'a> {
    pointer: String,
    text: String,
    by: By<'a>,
    /// A name in a namespace whose last part is the selector.
    similar: Option<Name>,
}

enum By<'a> {
    Resource(Kind, &'a Pattern),
    Agent(&'a Pattern),
    Tag(&'a str),
}

impl Selected<'_> {
    /// Whether it is the exact name of an entity that is not retired. Others are compared with each
    /// entity.
    fn names_active(&self, proposal: &Proposal<'_>) -> bool {
        let (kind, pattern) = match self.by {
            By::Resource(kind @ (Kind::Tool | Kind::Server), pattern) => (kind, pattern),
            By::Agent(pattern) => (Kind::Agent, pattern),
            // A skill has no key of its own.
            By::Resource(..) | By::Tag(_) => return false,
        };
        let Some(name) = pattern.as_exact().and_then(|name| Name::parse(kind, name).ok()) else {
            return false;
        };
        let is_active = |key: &Key| proposal.lifecycle(key).0 != LifecycleState::Retired;
        proposal.catalog().versions(kind, &name).any(|(key, _)| is_active(key))
    }

    fn omits_namespace_of(&self, document: &Document) -> bool {
        let Key { kind, name, .. } = document.key();
        let pattern = match self.by {
            By::Resource(of @ (Kind::Tool | Kind::Server), pattern) if of == *kind => pattern,
            By::Agent(pattern) if *kind == Kind::Agent => pattern,
            By::Resource(..) | By::Agent(_) | By::Tag(_) => return false,
        };
        let last = name.as_str().rsplit_once('/').map(|(_, last)| last);
        last.is_some() && last == pattern.as_exact()
    }

    fn matches(&self, document: &Document) -> bool {
        let key = document.key();
        match self.by {
            By::Agent(pattern) => key.kind == Kind::Agent && pattern.matches(key.name.as_str()),
            By::Tag(tag) => key.kind == Kind::Agent && has_tag(document, tag),
            By::Resource(kind, _) if kind != key.kind => false,
            By::Resource(Kind::Tool | Kind::Server, pattern)
                if pattern.matches(key.name.as_str()) =>
            {
                true
            }
            By::Resource(_, pattern) => {
                let Some(names) = ResourceNames::of(document.entity()) else { return false };
                let tools = names.tools.iter().map(|name| &**name);
                tools.chain(names.skills.iter().map(String::as_str)).any(|n| pattern.matches(n))
            }
        }
    }
}

/// The selectors of a policy.
fn selectors(applies_to: &AppliesTo) -> Vec<Selected<'_>> {
    let AppliesTo { callers, tools, skills, servers, destructive: _ } = applies_to;
    let callers = callers.iter().enumerate().map(|(i, caller)| Selected {
        pointer: format!("/appliesTo/callers/{i}"),
        text: caller.to_string(),
        by: match caller {
            CallerPattern::Agent(pattern) => By::Agent(pattern),
            CallerPattern::Tag(tag) => By::Tag(tag),
        },
        similar: None,
    });
    let lists = [
        ("tools", Kind::Tool, tools),
        ("skills", Kind::Agent, skills),
        ("servers", Kind::Server, servers),
    ];
    let resources = lists.into_iter().flat_map(|(list, kind, patterns)| {
        patterns.iter().enumerate().map(move |(i, pattern)| Selected {
            pointer: format!("/appliesTo/{list}/{i}"),
            text: pattern.to_string(),
            by: By::Resource(kind, pattern),
            similar: None,
        })
    });
    callers.chain(resources).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::{
        Proposed, plan,
        testing::{
            agent, catalog, found, found_of, policy, renamed, server, set, source_tool, tool,
            versioned, with,
        },
        validate,
    };

    fn versions(registered: &[&str], new: &[&str]) -> String {
        let of = |list: &[&str]| -> Vec<_> {
            list.iter().map(|version| versioned(&policy("p", json!({})), version)).collect()
        };
        found_of(Code::PolicyVersionRegresses, &of(registered), &of(new))
    }

    #[test]
    fn policy_version_below_the_highest_is_rejected() {
        assert_eq!(versions(&[], &["2.0.0", "1.0.0"]), "", "one batch has a whole history");
        assert_eq!(versions(&["1.0.0", "1.1.0-rc.1"], &["1.0.1", "1.1.0"]), "");
        assert_eq!(versions(&["1.0.0"], &["1.0.0"]), "", "it changes nothing");
        let refused = versions(&["1.2.0", "1.0.0"], &["1.1.0"]);
        assert!(
            refused.starts_with("error[policy-version-regresses] policy/p@1.1.0 at \"/version\"")
        );
        assert_eq!(versions(&["1.2.0"], &["1.2.0-rc.1"]).lines().count(), 1);
        assert_eq!(versions(&["1.0.0", "2.0.0-rc.2"], &["2.0.0-rc.1"]).lines().count(), 1);
    }

    #[test]
    fn changed_mode_of_version_in_force_is_a_warning() {
        let p =
            |version: &str, mode: &str| versioned(&policy("p", json!({ "mode": mode })), version);
        let modes = |registered: &[Proposed], new: &[Proposed]| {
            let found = plan(&catalog(registered), new).diagnostics.into_iter();
            found.map(|found| found.code.to_string()).collect::<Vec<_>>()
        };
        let enforced = [p("1.0.0", "enforce")];
        assert_eq!(modes(&enforced, &[p("1.1.0", "audit")]), ["policy-relaxed"]);
        assert_eq!(modes(&[p("1.0.0", "audit")], &[p("1.1.0", "enforce")]), ["policy-tightened"]);
        assert_eq!(modes(&enforced, &[p("1.1.0", "enforce")]), [""; 0]);
        assert_eq!(modes(&enforced, &[p("1.1.0-rc.1", "audit")]), [""; 0]);
        assert_eq!(modes(&enforced, &[p("1.1.0", "audit"), p("1.2.0", "enforce")]), [""; 0]);
        let off = set("policy/p@1.0.0", LifecycleState::Retired, None);
        assert_eq!(modes(&[p("1.0.0", "enforce"), off], &[p("1.1.0", "audit")]), [""; 0]);
    }

    #[test]
    fn short_staleness_is_rejected_at_registration_only() {
        let new = |age: &str| [policy("p", json!({ "maxStaleness": age }))];
        assert_eq!(found(&[], &new("PT25S")), "");
        assert!(found(&[], &new("PT24S")).starts_with("error[document-invalid]"));
        assert_eq!(found(&new("PT24S"), &new("PT24S")), "", "it is stored");
        let file = validate(&catalog(&[]), &new("PT24S"));
        assert!(file.is_acceptable() && file.diagnostics.len() == 1, "{file:?}");
    }

    #[test]
    fn selector_without_a_match_is_a_warning() {
        let alias =
            json!({ "source": { "server": "bank", "serverVersion": "1.0.0", "tool": "pay" } });
        let clerk = with(&agent("clerk", &json!([])), json!({ "metadata": { "tags": ["prod"] } }));
        let world =
            [server("bank", &["pay"]), source_tool("pay", "bank"), tool("p2", alias), clerk];
        let applies_to = json!({
            "callers": ["clerk", "tag:prod", "tag:pro", "missing"],
            "tools": ["pa*", "bank"], "skills": ["clerk/work", "clerk"], "servers": ["bank", "pay"],
        });
        let wrong = policy("p", json!({ "appliesTo": applies_to }));
        let pointers: Vec<String> = found(&world, &[wrong])
            .lines()
            .map(|line| line.split('"').nth(1).unwrap_or_default().to_owned())
            .collect();
        assert_eq!(
            pointers,
            [
                "/appliesTo/callers/2",
                "/appliesTo/callers/3",
                "/appliesTo/tools/1",
                "/appliesTo/skills/1",
                "/appliesTo/servers/1"
            ]
        );
    }

    #[test]
    fn selector_without_namespace_suggests_the_whole_name() {
        let clerk = agent("helpdesk/clerk", &json!([]));
        let applies_to = json!({ "callers": ["clerk", "cler"], "tools": ["clerk"] });
        let wrong = policy("p", json!({ "appliesTo": applies_to }));
        let warnings = found(&[clerk], &[wrong]);
        let suggests: Vec<_> =
            warnings.lines().map(|line| line.contains("`helpdesk/clerk`?")).collect();
        assert_eq!(suggests, [true, false, false], "{warnings}");
    }

    #[test]
    fn warnings_about_selectors_of_a_policy_are_bounded() {
        let tools: Vec<_> = (0..100).map(|i| format!("t{i}")).collect();
        let about = policy("p", json!({ "appliesTo": { "tools": tools } }));
        let other = renamed(&about, "q");
        assert_eq!(found(&[], &[about, other]).lines().count(), 2 * UNMATCHED);
    }

    #[test]
    fn selector_matches_entities_of_its_batch() {
        let about_new = policy("p", json!({ "appliesTo": { "servers": ["bank"] } }));
        assert_eq!(found(&[], &[about_new, server("bank", &[])]), "");
    }
}
