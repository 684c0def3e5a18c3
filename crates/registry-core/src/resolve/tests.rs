//! Tests of version resolution.

use super::{Constraint, Requirement, Wanted, resolve};
use crate::{
    Catalog,
    lifecycle::LifecycleState::{Deprecated, Retired},
    limits,
    rules::testing::{catalog, server, set, versioned},
};

fn registry() -> Catalog {
    let at = |version: &str| versioned(&server("s", &[]), version);
    catalog(&[
        at("0.9.0"),
        at("1.0.0"),
        at("1.1.0"),
        at("1.2.0-rc.1"),
        at("1.2.0"),
        at("1.3.0"),
        at("2.0.0-beta.1"),
        at("2.0.0-beta.2"),
        set("server/s@0.9.0", Deprecated, None),
        set("server/s@1.2.0", Deprecated, None),
        set("server/s@1.3.0", Retired, None),
    ])
}

fn meant(constraint: &str) -> Result<String, String> {
    let registry = registry();
    let required: Requirement = format!("server/s@{constraint}").parse().unwrap();
    match resolve(&registry, &required) {
        Ok(record) => Ok(format!("{} {}", record.document.key().version, record.lifecycle.state)),
        Err(unresolved) => Err(unresolved.to_string()),
    }
}

#[test]
fn resolve_selects_newest_active_version() {
    for constraint in ["latest", "*", "^1", "1.x", ">=1, <2", "1", "~1.1", ">0.1, <9"] {
        assert_eq!(meant(constraint).unwrap(), "1.1.0 active", "{constraint}");
    }
    assert_eq!(meant("~1.0.0").unwrap(), "1.0.0 active");
}

#[test]
fn resolve_falls_back_to_deprecated_version() {
    assert_eq!(meant("^1.2").unwrap(), "1.2.0 deprecated");
    assert_eq!(meant("<1").unwrap(), "0.9.0 deprecated");
}

#[test]
fn resolve_matches_retired_version_only_exactly() {
    assert_eq!(meant("1.3.0").unwrap(), "1.3.0 retired");
    assert_eq!(meant("=1.3.0").unwrap(), "1.3.0 retired");
    let why = meant("^1.3").unwrap_err();
    insta::assert_snapshot!(
        why,
        @"no version of server/s matches `^1.3`: 2.0.0-beta.2 does not match, 2.0.0-beta.1 does \
          not match, 1.3.0 is retired and matches only by its exact version, 1.2.0 does not match, \
          1.2.0-rc.1 does not match, 1.1.0 does not match, 1.0.0 does not match, 0.9.0 does not \
          match"
    );
    assert!(meant("=1.3").is_err(), "`=1.3` is a range");
    assert_eq!(
        "= 1.2.3+b1".parse::<Constraint>().unwrap().wanted,
        Wanted::Exact(crate::Version::parse("1.2.3+b1").unwrap())
    );
}

#[test]
fn resolve_matches_prerelease_only_if_named() {
    assert_eq!(meant("2.0.0-beta.1").unwrap(), "2.0.0-beta.1 active");
    assert_eq!(meant("^2.0.0-alpha").unwrap(), "2.0.0-beta.2 active");
    assert_eq!(meant("^1.2.0-rc.0, <1.3").unwrap(), "1.2.0-rc.1 active");
    insta::assert_snapshot!(
        meant("^2").unwrap_err(),
        @"no version of server/s matches `^2`: 2.0.0-beta.2 is a pre-release, and the constraint \
          names no pre-release of this release, 2.0.0-beta.1 is a pre-release, and the constraint \
          names no pre-release of this release, 1.3.0 does not match, 1.2.0 does not match, \
          1.2.0-rc.1 does not match, 1.1.0 does not match, 1.0.0 does not match, 0.9.0 does not \
          match"
    );
}

#[test]
fn resolve_excludes_prerelease_below_bound() {
    let why = meant("^2.0.0-rc.1").unwrap_err();
    insta::assert_snapshot!(
        why,
        @"no version of server/s matches `^2.0.0-rc.1`: 2.0.0-beta.2 does not match, 2.0.0-beta.1 \
          does not match, 1.3.0 does not match, 1.2.0 does not match, 1.2.0-rc.1 does not match, \
          1.1.0 does not match, 1.0.0 does not match, 0.9.0 does not match"
    );
}

#[test]
fn resolve_reports_unregistered_name() {
    let required: Requirement = "tool/s".parse().unwrap();
    assert_eq!(required.constraint, Constraint::latest());
    let why = resolve(&registry(), &required).unwrap_err();
    insta::assert_snapshot!(why, @"no version of tool/s is registered");
    assert_eq!(why.total, 0);
}

#[test]
fn resolve_failure_lists_newest_candidates() {
    let count = limits::CANDIDATES + 5;
    let all: Vec<_> =
        (0..count).map(|i| versioned(&server("s", &[]), &format!("1.{i}.0"))).collect();
    let registry = catalog(&all);
    let why = resolve(&registry, &"server/s@2".parse().unwrap()).unwrap_err();
    assert_eq!((why.candidates.len(), why.total), (limits::CANDIDATES, count));
    assert_eq!(why.candidates[0].version.to_string(), "1.24.0");
    insta::assert_snapshot!(
        why,
        @"no version of server/s matches `2`: 1.24.0 does not match, 1.23.0 does not match, 1.22.0 \
          does not match, 1.21.0 does not match, 1.20.0 does not match, 1.19.0 does not match, \
          1.18.0 does not match, 1.17.0 does not match, 1.16.0 does not match, 1.15.0 does not \
          match, 1.14.0 does not match, 1.13.0 does not match, 1.12.0 does not match, 1.11.0 does \
          not match, 1.10.0 does not match, 1.9.0 does not match, 1.8.0 does not match, 1.7.0 does \
          not match, 1.6.0 does not match, 1.5.0 does not match, and 5 older"
    );
}

#[test]
fn constraint_parse_error_lists_valid_forms() {
    let long = "1".repeat(limits::CONSTRAINT_BYTES + 1);
    let bad = ["", " ", "^", "one", ">=1 <2", "1 || 2", "v1.2.3", "^1.2.3.4", "latest!", &long];
    let refused = bad.map(|bad| bad.parse::<Constraint>().unwrap_err().to_string());
    insta::assert_snapshot!(refused.join("\n"), @"
    `` is not a version constraint: the text is empty; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    `` is not a version constraint: the text is empty; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    `^` is not a version constraint: unexpected end of input while parsing major version number; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    `one` is not a version constraint: unexpected character 'o' while parsing major version number; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    `>=1 <2` is not a version constraint: expected comma after major version number, found '<'; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    `1 || 2` is not a version constraint: expected comma after major version number, found '|'; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    `v1.2.3` is not a version constraint: unexpected character 'v' while parsing major version number; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    `^1.2.3.4` is not a version constraint: expected comma after patch version number, found '.'; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    `latest!` is not a version constraint: unexpected character 'l' while parsing major version number; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    `11111111111111111111111111111111` is not a version constraint: longer than 256 bytes; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest`
    ");
    for bad in ["tool", "tool/x@", "gadget/x@1", "tool/a b@1", "tool/x@^"] {
        assert!(bad.parse::<Requirement>().is_err(), "{bad}");
    }
    assert_eq!("agent/team/x@~1".parse::<Requirement>().unwrap().to_string(), "agent/team/x@~1");
}
