//! The policy for every mode and caller.

use std::time::Duration;

use gateway_policy::{Access, CallerIdentity, ValidationMode};
use registry_core::Catalog;

use super::*;
use crate::{
    freshness::MaxStaleness,
    identity::{Caller, identify, settings::IdentityConfig},
    testing::{agent, catalog, composed, definitions, tool},
    view::Views,
};
use serde_json::json;
use tokio::sync::watch;

const ALL: [Access; 3] = [Access::Allow, Access::Warn, Access::Deny];

fn policy(unknown_caller: Access, undeclared_dependency: Access) -> RuntimeValidation {
    RuntimeValidation {
        input_validation: ValidationMode::Ignore,
        output_validation: ValidationMode::Ignore,
        contract_drift: ValidationMode::Ignore,
        unknown_caller,
        undeclared_dependency,
    }
}

fn registry() -> Arc<Catalog> {
    catalog(
        1,
        vec![
            tool("own", "1.0.0", json!({})),
            tool("own", "2.0.0", json!({})),
            tool("other", "1.0.0", json!({})),
            tool("other", "1.1.0", json!({})),
            tool("other", "9.0.0", json!({})).retired(),
            tool("mapped", "1.0.0", json!({ "outputTransform": { "mappings": {} } })),
            tool("gone", "1.0.0", json!({})).retired(),
            tool("moved", "1.0.0", json!({})).retired(),
            tool("moved", "2.0.0", json!({})),
            composed("composed"),
            agent("over", "1.0.0", &[("own", "1.0.0")]).retired(),
            agent(
                "a",
                "1.0.0",
                &[
                    ("own", "1.0.0"),
                    ("mapped", "1.0.0"),
                    ("gone", "1.0.0"),
                    ("moved", "1.0.0"),
                    ("composed", "1.0.0"),
                    ("missing", "1.0.0"),
                ],
            ),
        ],
    )
}

fn caller(name: &str) -> Caller {
    let config = IdentityConfig { trust_headers: true, scope_by_client_info: false };
    let (name, version) = name.split_once('@').map_or((name, None), |(n, v)| (n, Some(v)));
    let claim = CallerIdentity::Asserted { name: name.into(), version: version.map(Into::into) };
    identify(config, &registry(), &claim, None)
}

type Outcome = Result<(String, Option<PolicyFinding>), Denial>;

/// Calls a tool. Returns its version and the finding, or the denial.
fn call(policy: RuntimeValidation, agent: &str, tool: &str) -> Outcome {
    let views = Views::new(
        watch::channel(registry()).1,
        watch::channel(definitions(&["server/up@*"])).1,
        Arc::default(),
    );
    let snapshot = views.now();
    let fresh = Freshness::new(Some(Duration::ZERO), MaxStaleness::default());
    let resolved = resolved(policy, &caller(agent), &views.lookup(&snapshot), tool)?;
    let version = resolved.served.key().version.to_string();
    let (route, finding) = authorize_route(policy, &fresh, Route::Tool(resolved))?;
    let AuthorizedRoute::Tool(_, ToolBackend::Upstream(permit)) = route else {
        panic!("{route:?}")
    };
    assert_eq!(permit.server().to_string(), "server/up@1.0.0");
    assert_eq!(permit.subject(), tool);
    Ok((version, finding))
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with outcomes")]
fn ok(version: &str, finding: Option<PolicyFinding>) -> Outcome {
    Ok((version.to_owned(), finding))
}

#[test]
fn declared_tool_is_allowed_in_exact_version() {
    for unknown in ALL {
        for undeclared in ALL {
            assert_eq!(call(policy(unknown, undeclared), "a", "own"), ok("1.0.0", None));
        }
    }
}

#[test]
fn undeclared_tool_follows_its_mode() {
    let finding = Some(PolicyFinding::UndeclaredDependency);
    for unknown in ALL {
        let called = |access, tool| call(policy(unknown, access), "a", tool);
        assert_eq!(called(Access::Allow, "other"), ok("1.1.0", None));
        assert_eq!(called(Access::Warn, "other"), ok("1.1.0", finding));
        assert_eq!(called(Access::Deny, "other"), Err(Denial::UndeclaredDependency));
        assert_eq!(called(Access::Deny, "nowhere"), Err(Denial::UndeclaredDependency));
    }
}

#[test]
fn unknown_caller_follows_its_mode() {
    let finding = Some(PolicyFinding::UnknownCaller);
    for undeclared in ALL {
        let called = |access| call(policy(access, undeclared), "stranger", "own");
        assert_eq!(called(Access::Allow), ok("2.0.0", None));
        assert_eq!(called(Access::Warn), ok("2.0.0", finding));
        assert_eq!(called(Access::Deny), Err(Denial::UnknownCaller));
    }
}

#[test]
fn retired_agent_is_denied_in_all_modes() {
    for (agent, denial) in [
        ("over", Denial::RetiredAgent),
        ("over@1.0.0", Denial::RetiredAgent),
        ("over@2.0.0", Denial::UnknownVersion),
        ("a@9.9.9", Denial::UnknownVersion),
    ] {
        for access in ALL {
            let policy = policy(access, access);
            assert_eq!(call(policy, agent, "own"), Err(denial), "{agent} {access:?}");
            assert_eq!(audience(policy, &caller(agent)), Audience::Nobody, "{agent} {access:?}");
        }
    }
}

#[test]
fn unservable_tool_is_unknown() {
    let open = policy(Access::Allow, Access::Allow);
    for agent in ["a", "stranger"] {
        for tool in ["composed", "mapped", "missing", "nowhere", "no such/name", ""] {
            assert_eq!(call(open, agent, tool), Err(Denial::NoSuchTool), "{agent} {tool}");
        }
    }
    assert_eq!(call(open, "stranger", "gone"), Err(Denial::NoSuchTool), "it is retired");
}

#[test]
fn retired_dependency_follows_mode_with_own_reason() {
    let finding = Some(PolicyFinding::RetiredDependency);
    let called = |access, tool| call(policy(Access::Allow, access), "a", tool);
    assert_eq!(called(Access::Allow, "moved"), ok("2.0.0", None));
    assert_eq!(called(Access::Warn, "moved"), ok("2.0.0", finding));
    assert_eq!(called(Access::Deny, "moved"), Err(Denial::RetiredDependency));
    for access in ALL {
        assert_eq!(called(access, "gone"), Err(Denial::RetiredDependency), "{access:?}");
    }
}

#[test]
fn lists_and_calls_agree() {
    for access in ALL {
        let policy = policy(access, Access::Deny);
        let agent = Key::parse(Kind::Agent, "a", "1.0.0").unwrap();
        assert_eq!(audience(policy, &caller("a")), Audience::Agent(agent));
        let expected = if access == Access::Deny { Audience::Nobody } else { Audience::Everyone };
        assert_eq!(audience(policy, &caller("stranger")), expected);
        let listed = expected == Audience::Everyone;
        assert_eq!(call(policy, "stranger", "own").is_ok(), listed);
    }
}
