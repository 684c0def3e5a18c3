//! Findings about targets, tool names, the scope, approvals and API keys: names that several servers
//! share, versions that use the target of a lower version, servers without a target, targets without a
//! version, roots that match nothing, approvals that need a registry, and keys of unregistered agents.
//!
//! The log, `--check` and the metric `gateway_routing_findings` report the same findings.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use gateway_upstream::{Definitions, Routing, TargetId};
use registry_core::{
    Catalog, Code, Entity, Key, Kind, Name, Record, Version,
    entity::policy::{Approval, Mode},
    scope::Root,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::identity::{self, Identity, settings::ApiKeyConfig};

/// Maximum names listed in one finding.
const SHOWN: usize = 10;
/// Delay that combines bursts of catalog changes.
const BATCH_DELAY: Duration = Duration::from_millis(100);

/// A problem of the catalog together with the configured targets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Active tools of different servers share a name.
    SharedNames {
        /// The servers with these tools.
        servers: BTreeSet<Name>,
        /// The server that callers without an agent's identity use. `None`: no target is
        /// configured.
        called: Option<Name>,
        /// The shared names.
        tools: BTreeSet<Name>,
    },
    /// A version has no target and uses that of a lower version.
    PreviousTarget {
        /// The version without a target.
        server: Key,
        /// The target that it uses.
        target: TargetId,
    },
    /// Servers without a target, whose tools are not listed.
    NoTarget {
        /// Names of the servers.
        servers: BTreeSet<Name>,
    },
    /// A target that serves no version in the catalog.
    UnusedTarget {
        /// The target.
        target: TargetId,
        /// The versions of its server or agent in the catalog.
        versions: BTreeSet<Version>,
    },
    /// Roots of the scope that match no entity.
    UnmatchedRoots {
        /// The roots.
        roots: BTreeSet<Root>,
    },
    /// Policies in force that demand approvals, which no person can give at this gateway.
    UndecidableApprovals {
        /// The policies.
        policies: BTreeSet<Key>,
        /// The people that cannot decide.
        deciders: Deciders,
    },
    /// An API key identifies an agent without a usable version in the catalog.
    UnregisteredAgent {
        /// `agent/NAME` or `agent/NAME@VERSION`.
        agent: String,
    },
}

/// The people that decide about calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deciders {
    /// Approvers of the registry.
    Registry {
        /// Whether the gateway identifies callers, whom `fourEyes` excludes.
        identifies_callers: bool,
    },
    /// The operator of the gateway, at its admin address.
    Operator,
    /// None: there is no admin address.
    Missing,
}

/// The origin of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A registry.
    Registry,
    /// A registry file, or its URL.
    File,
    /// The targets define the catalog.
    Targets,
}

impl Finding {
    /// All codes, for metrics.
    pub const CODES: [&str; 7] = [
        Code::ToolNameShared.as_str(),
        "previous-target",
        "no-target",
        "target-unused",
        "scope-root-unmatched",
        "approval-undecidable",
        "agent-unregistered",
    ];

    /// The stable code, as in metrics.
    pub fn code(&self) -> &'static str {
        let [shared, previous, none, unused, unmatched, undecidable, unregistered] = Self::CODES;
        match self {
            Self::SharedNames { .. } => shared,
            Self::PreviousTarget { .. } => previous,
            Self::NoTarget { .. } => none,
            Self::UnusedTarget { .. } => unused,
            Self::UnmatchedRoots { .. } => unmatched,
            Self::UndecidableApprovals { .. } => undecidable,
            Self::UnregisteredAgent { .. } => unregistered,
        }
    }

    /// Whether an operator should act. Gateways often serve only some of the registered servers, and
    /// a target may be configured before its version is registered.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::NoTarget { .. } | Self::UnusedTarget { .. })
    }

    /// The number of affected names, versions, targets, roots, policies or agents.
    fn count(&self) -> usize {
        match self {
            Self::SharedNames { tools, .. } => tools.len(),
            Self::PreviousTarget { .. }
            | Self::UnusedTarget { .. }
            | Self::UnregisteredAgent { .. } => 1,
            Self::NoTarget { servers } => servers.len(),
            Self::UnmatchedRoots { roots } => roots.len(),
            Self::UndecidableApprovals { policies, .. } => policies.len(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SharedNames { servers, called, tools } => {
                write!(f, "{} have tools of the same name ({}); ", list(servers), list(tools))?;
                match called {
                    Some(server) => {
                        write!(f, "callers without an agent's identity reach those of {server}")?;
                    }
                    None => write!(f, "this gateway has no target for any of them")?,
                }
                let remedy = "import one server with `registryctl import mcp --prefix` or \
                              `--rename`, or deprecate the tools that are replaced";
                write!(f, "; {remedy}")
            }
            Self::PreviousTarget { server, target } => write!(
                f,
                "{server} has no target and uses the target of {target}; add a target with \
                 `version: {version}`, or one with `version: \"*\"`",
                version = server.version
            ),
            Self::NoTarget { servers } => write!(
                f,
                "no target is configured for {}; tools without a target are not listed",
                list(servers)
            ),
            Self::UnusedTarget { target, versions } if versions.is_empty() => write!(
                f,
                "the target of {target} serves no version in the catalog; register the {}, or \
                 correct the name of the target",
                target.kind
            ),
            Self::UnusedTarget { target, versions } => write!(
                f,
                "the target of {target} serves no version in the catalog, which has {}; correct \
                 the `version` of the target, or register this version",
                list(versions)
            ),
            Self::UnmatchedRoots { roots } => write!(
                f,
                "the scope roots {} match no entity; correct `registry.scope` or \
                 `registry.scopeFile`, unless matching entities are registered later",
                list(roots)
            ),
            Self::UndecidableApprovals { policies, deciders: Deciders::Registry { .. } } => write!(
                f,
                "calls that {} selects are rejected: `fourEyes` excludes the caller, and this gateway \
                 identifies no callers; configure `identity`, such as `identity.jwt`",
                list(policies)
            ),
            Self::UndecidableApprovals { policies, deciders: Deciders::Missing } => write!(
                f,
                "calls that {} selects are rejected: people decide at the admin address, and this \
                 gateway has none; set `admin`, or follow a registry (`grpc://`)",
                list(policies)
            ),
            Self::UndecidableApprovals { policies, deciders: Deciders::Operator } => write!(
                f,
                "calls that {} selects are rejected: `team:NAME`, a quorum above one and `fourEyes` \
                 need a registry; add the approver `role:approver`, or follow a registry (`grpc://`)",
                list(policies)
            ),
            Self::UnregisteredAgent { agent } => write!(
                f,
                "the catalog has no usable version of {agent}, which an API key identifies; correct \
                 `identity.apiKeys`, or register the agent"
            ),
        }
    }
}

fn list<T: fmt::Display>(names: &BTreeSet<T>) -> String {
    let shown: Vec<_> = names.iter().take(SHOWN).map(ToString::to_string).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns all findings about a catalog at a gateway with these targets. If they define the catalog, one
/// without a version has not answered yet.
pub fn inspect(
    catalog: &Catalog,
    routing: &Routing,
    origin: Origin,
    deciders: Deciders,
    api_keys: &[ApiKeyConfig],
) -> Vec<Finding> {
    let mut found = shared_names(catalog, routing);
    let (mut served, mut without) = (BTreeSet::new(), BTreeSet::new());
    let mut used = BTreeSet::new();
    for kind in [Kind::Server, Kind::Agent] {
        let usable = catalog.of_kind(kind).filter(|(_, record)| record.is_usable());
        for (key, _) in usable {
            match routing.resolve(key) {
                Some(route) => {
                    if kind == Kind::Server {
                        served.insert(key.name.clone());
                    }
                    used.insert(route.target.clone());
                    if route.is_fallback {
                        found.push(Finding::PreviousTarget {
                            server: key.clone(),
                            target: route.target,
                        });
                    }
                }
                None if kind == Kind::Server => {
                    without.insert(key.name.clone());
                }
                None => {}
            }
        }
    }
    // Versions below those with targets were replaced.
    without.retain(|name| !served.contains(name));
    if !without.is_empty() {
        found.push(Finding::NoTarget { servers: without });
    }
    // A gateway starts with an empty catalog. Without a registry, targets and data agents register
    // themselves.
    if origin != Origin::Targets && !is_empty(catalog) {
        found.extend(unused_targets(catalog, routing, &used));
        found.extend(unregistered_agents(catalog, api_keys));
    }
    let roots = catalog.scope().unmatched_roots(catalog);
    if !roots.is_empty() {
        found.push(Finding::UnmatchedRoots { roots });
    }
    found.extend(undecidable_approvals(catalog, deciders));
    found
}

fn undecidable_approvals(catalog: &Catalog, deciders: Deciders) -> Option<Finding> {
    let is_decidable = |approval: &Approval| match deciders {
        Deciders::Registry { identifies_callers } => identifies_callers || !approval.four_eyes,
        Deciders::Operator => approval.is_decidable_by_operator(),
        Deciders::Missing => approval.is_confirmation(),
    };
    let is_undecidable = |record: &&Arc<Record>| match record.document.entity() {
        Entity::Policy(policy) => {
            let approval = policy.approval.as_ref();
            policy.mode == Mode::Enforce && approval.is_some_and(|approval| !is_decidable(approval))
        }
        _ => false,
    };
    let policies = catalog.policies_in_force().filter(is_undecidable);
    let policies: BTreeSet<_> = policies.map(|record| record.document.key().clone()).collect();
    (!policies.is_empty()).then_some(Finding::UndecidableApprovals { policies, deciders })
}

/// Whether the catalog has no server and no agent.
fn is_empty(catalog: &Catalog) -> bool {
    [Kind::Server, Kind::Agent].into_iter().all(|kind| catalog.of_kind(kind).next().is_none())
}

fn unregistered_agents(catalog: &Catalog, api_keys: &[ApiKeyConfig]) -> BTreeSet<Finding> {
    let is_unregistered = |key: &&ApiKeyConfig| {
        let found = identity::find_agent(catalog, &key.agent, key.version.as_deref());
        !matches!(found, Identity::Agent(_))
    };
    let finding = |key: &ApiKeyConfig| {
        let version = key.version.as_deref().map(|version| format!("@{version}"));
        let agent = format!("agent/{}{}", key.agent, version.unwrap_or_default());
        Finding::UnregisteredAgent { agent }
    };
    api_keys.iter().filter(is_unregistered).map(finding).collect()
}

/// The targets that serve no version in the catalog. `used` are those of usable versions.
fn unused_targets(catalog: &Catalog, routing: &Routing, used: &BTreeSet<TargetId>) -> Vec<Finding> {
    let unused = routing.targets().filter(|target| !used.contains(*target));
    let finding = |target: &TargetId| {
        let versions = catalog.versions(target.kind, &target.name);
        let versions: BTreeSet<_> = versions.map(|(key, _)| key.version.clone()).collect();
        let is_registered = match &target.version {
            Some(version) => versions.contains(version),
            None => !versions.is_empty(),
        };
        (!is_registered).then(|| Finding::UnusedTarget { target: target.clone(), versions })
    };
    unused.filter_map(finding).collect()
}

/// An active tool version and its server.
struct Sourced<'a> {
    tool: &'a Key,
    server: &'a Key,
}

fn shared_names(catalog: &Catalog, routing: &Routing) -> Vec<Finding> {
    let mut shared = BTreeMap::<(BTreeSet<Name>, Option<Name>), BTreeSet<Name>>::new();
    let mut versions: Vec<Sourced<'_>> = Vec::new();
    let mut note = |versions: &mut Vec<Sourced<'_>>| {
        let servers: BTreeSet<_> = versions.iter().map(|it| it.server.name.clone()).collect();
        if let Some(first) = versions.first()
            && servers.len() > 1
        {
            let routed = versions.iter().filter(|it| routing.resolve(it.server).is_some());
            let order =
                |it: &&Sourced<'_>| (!it.tool.version.is_prerelease(), it.tool.version.clone());
            let called = routed.max_by_key(order).map(|it| it.server.name.clone());
            let name = first.tool.name.clone();
            shared.entry((servers, called)).or_default().insert(name);
        }
        versions.clear();
    };
    for (tool, record) in catalog.of_kind(Kind::Tool).filter(|(_, record)| record.is_active()) {
        // Edges are available without parsing the document.
        let server = record.document.edges().iter().find(|edge| edge.kind == Kind::Server);
        let Some(server) = server else { continue };
        if versions.first().is_some_and(|first| first.tool.name != tool.name) {
            note(&mut versions);
        }
        versions.push(Sourced { tool, server });
    }
    note(&mut versions);
    let finding = |((servers, called), tools)| Finding::SharedNames { servers, called, tools };
    shared.into_iter().map(finding).collect()
}

/// Logs new findings and updates the metric, until `stop`.
pub async fn monitor(
    mut catalog: watch::Receiver<Arc<Catalog>>,
    mut definitions: watch::Receiver<Arc<Definitions>>,
    mut api_keys: watch::Receiver<Vec<ApiKeyConfig>>,
    origin: Origin,
    deciders: Deciders,
    stop: CancellationToken,
) {
    let mut known = BTreeSet::new();
    loop {
        let now = catalog.borrow_and_update().clone();
        let routing = definitions.borrow_and_update().routing().clone();
        let keys = api_keys.borrow_and_update().clone();
        let inspection = move || inspect(&now, &routing, origin, deciders, &keys);
        let inspected = tokio::task::spawn_blocking(inspection).await;
        let found: BTreeSet<_> = inspected.unwrap_or_default().into_iter().collect();
        for finding in found.difference(&known) {
            let code = finding.code();
            if finding.is_warning() {
                tracing::warn!(code, "{finding}");
            } else {
                tracing::info!(code, "{finding}");
            }
        }
        count(&found);
        known = found;
        let next = async {
            let changed = tokio::select! {
                changed = catalog.changed() => changed,
                changed = definitions.changed() => changed,
                changed = api_keys.changed() => changed,
            };
            sleep(BATCH_DELAY).await;
            changed.is_ok()
        };
        if stop.run_until_cancelled(next).await != Some(true) {
            return;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn count(found: &BTreeSet<Finding>) {
    for code in Finding::CODES {
        let of_code = found.iter().filter(|finding| finding.code() == code);
        let count: usize = of_code.map(Finding::count).sum();
        metrics::gauge!("gateway_routing_findings", "code" => code).set(count as f64);
    }
}

#[cfg(test)]
mod tests {
    use registry_core::{Digest, Scope};
    use serde_json::json;

    use super::*;
    use crate::testing::{Registered, agent, catalog, policy, server, tool};

    const REGISTRY: Deciders = Deciders::Registry { identifies_callers: true };

    fn tool_of(name: &str, version: &str, server: &str, server_version: &str) -> Registered {
        let source = json!({ "server": server, "serverVersion": server_version });
        tool(name, version, json!({ "source": source }))
    }

    fn found(entities: Vec<Registered>, targets: &[&str]) -> Vec<String> {
        let routing = targets.iter().map(|target| target.parse().unwrap()).collect();
        let catalog = catalog(1, entities);
        let found = inspect(&catalog, &routing, Origin::Registry, REGISTRY, &[]);
        found.iter().map(|finding| format!("{}: {finding}", finding.code())).collect()
    }

    fn two_servers() -> Vec<Registered> {
        vec![
            server("a", &["find", "read"], &[]),
            server("b", &["find", "read"], &[]),
            tool_of("find", "1.0.0", "a", "1.0.0"),
            tool_of("find", "2.0.0", "b", "1.0.0"),
            tool_of("read", "1.0.0", "a", "1.0.0"),
            tool_of("read", "2.0.0", "b", "1.0.0"),
        ]
    }

    #[test]
    fn shared_names_tell_which_server_is_called() {
        let remedy = "import one server with `registryctl import mcp --prefix` or `--rename`, or \
                      deprecate the tools that are replaced";
        let shared = |called: &str| {
            format!(
                "tool-name-shared: a, b have tools of the same name (find, read); {called}; {remedy}"
            )
        };
        let reach = |server: &str| {
            shared(&format!("callers without an agent's identity reach those of {server}"))
        };
        assert_eq!(found(two_servers(), &["server/a@*", "server/b@*"]), [reach("b")]);
        let only_a = found(two_servers(), &["server/a@1.0.0"]);
        let no_target =
            "no-target: no target is configured for b; tools without a target are not listed";
        assert_eq!(only_a, [reach("a"), no_target.to_owned()]);
        let none = shared("this gateway has no target for any of them");
        assert_eq!(found(two_servers(), &[])[0], none);
    }

    #[test]
    fn deprecated_tool_shares_no_name() {
        let mut entities = two_servers();
        entities.retain(|entity| entity.document["name"] != "read");
        entities.push(tool_of("read", "1.0.0", "a", "1.0.0").deprecated());
        entities.push(tool_of("read", "2.0.0", "b", "1.0.0"));
        let found = found(entities, &["server/a@*", "server/b@*"]);
        assert!(found[0].contains("(find)"), "{found:?}");
    }

    #[test]
    fn scope_root_without_entity_is_found() {
        let scope = Scope::from_roots(&["server/a@*", "server/c@*", "tag:none"]).unwrap();
        let catalog = Catalog::clone(&catalog(1, vec![server("a", &["find"], &[])]));
        let routing = ["server/a@*"].iter().map(|target| target.parse().unwrap()).collect();
        let catalog = catalog.with_scope(scope.into());
        let found = inspect(&catalog, &routing, Origin::Registry, REGISTRY, &[]);
        let [Finding::UnmatchedRoots { roots }] = &found[..] else { panic!("{found:?}") };
        let roots: Vec<_> = roots.iter().map(ToString::to_string).collect();
        assert_eq!(roots, ["server/c@*", "tag:none"]);
        assert!(found[0].is_warning());
    }

    #[test]
    fn approval_without_possible_approvers_is_found() {
        let found = |deciders| {
            let approvals = [
                json!({}),
                json!({ "approvers": ["caller"] }),
                json!({ "approvers": ["team:finance"] }),
                json!({ "quorum": 2 }),
                json!({ "fourEyes": true }),
                json!({ "approvers": ["role:approver", "team:finance"] }),
            ];
            let approvals = approvals.into_iter().enumerate();
            let mut policies: Vec<_> = approvals
                .map(|(i, approval)| policy(&format!("p{i}"), json!({ "approval": approval })))
                .collect();
            let members = json!({ "mode": "audit", "approval": { "quorum": 2 } });
            policies.push(policy("audited", members));
            inspect(&catalog(1, policies), &Routing::default(), Origin::File, deciders, &[])
        };
        let assert_found = |deciders, names: &[&str]| {
            let keys = names.iter().map(|name| format!("policy/{name}@1.0.0").parse().unwrap());
            let undecidable = Finding::UndecidableApprovals { policies: keys.collect(), deciders };
            assert_eq!(found(deciders), [undecidable]);
        };
        assert!(found(REGISTRY).is_empty());
        assert_found(Deciders::Registry { identifies_callers: false }, &["p4"]);
        assert_found(Deciders::Operator, &["p2", "p3", "p4"]);
        assert_found(Deciders::Missing, &["p0", "p2", "p3", "p4", "p5"]);
    }

    #[test]
    fn target_of_unregistered_version_is_found() {
        let a = || vec![server("a", &["find"], &[])];
        assert_eq!(
            found(a(), &["server/a@2.0.0"]),
            [
                "no-target: no target is configured for a; tools without a target are not listed",
                "target-unused: the target of server/a@2.0.0 serves no version in the catalog, \
                 which has 1.0.0; correct the `version` of the target, or register this version"
            ]
        );
        assert_eq!(
            found(a(), &["server/a@*", "server/b@*"]),
            ["target-unused: the target of server/b@* serves no version in the catalog; \
              register the server, or correct the name of the target"]
        );
        let fallback = found(a(), &["server/a@0.9.0"]);
        assert!(fallback.len() == 1 && fallback[0].starts_with("previous-target"), "{fallback:?}");
        assert_eq!(found(a(), &["server/a@1.0.0", "server/a@*"]), <[&str; 0]>::default());
        assert_eq!(found(Vec::new(), &["server/a@2.0.0"]), <[&str; 0]>::default());
    }

    #[test]
    fn silent_target_without_registry_is_no_finding() {
        let routing = ["server/a@*", "server/b@*"].iter().map(|target| target.parse().unwrap());
        let catalog = catalog(1, vec![server("a", &["find"], &[])]);
        let found = inspect(&catalog, &routing.collect(), Origin::Targets, Deciders::Operator, &[]);
        assert!(found.is_empty());
    }

    #[test]
    fn agent_of_key_without_usable_version_is_found() {
        let key = |agent: &str, version: Option<&str>| ApiKeyConfig {
            agent: agent.to_owned(),
            version: version.map(str::to_owned),
            digest: Digest::compute(agent.as_bytes()),
            scopes: Vec::new(),
        };
        let keys = [key("a", None), key("a", Some("9.9.9")), key("b", None), key("gone", None)];
        let found = |origin, entities| {
            let routing = Routing::default();
            inspect(&catalog(1, entities), &routing, origin, REGISTRY, &keys)
        };
        let agents = || vec![agent("a", "1.0.0", &[]), agent("gone", "1.0.0", &[]).retired()];
        let unregistered = |agent: &str| Finding::UnregisteredAgent { agent: agent.to_owned() };
        assert_eq!(
            found(Origin::Registry, agents()),
            ["agent/a@9.9.9", "agent/b", "agent/gone"].map(unregistered)
        );
        assert!(found(Origin::Registry, Vec::new()).is_empty(), "no catalog yet");
        assert!(found(Origin::Targets, agents()).is_empty(), "data agents register themselves");
    }

    #[test]
    fn version_at_previous_target_is_found() {
        let mut new = server("a", &["find"], &[]);
        new.document["version"] = json!("1.1.0");
        let entities = vec![server("a", &["find"], &[]), new];
        assert_eq!(
            found(entities, &["server/a@1.0.0"]),
            [
                "previous-target: server/a@1.1.0 has no target and uses the target of server/a@1.0.0; \
              add a target with `version: 1.1.0`, or one with `version: \"*\"`"
            ]
        );
    }
}
