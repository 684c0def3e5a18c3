//! Version constraints, compared with a direct implementation of the rules.

use proptest::{collection::btree_map, prelude::*, sample::select};
use registry_core::{
    Kind, LifecycleState, Name, Version,
    resolve::{Constraint, Requirement, resolve},
};
use registry_fixtures::world::{Wish, catalog};
use serde_json::json;

const VERSIONS: [&str; 12] = [
    "0.1.0",
    "0.1.1",
    "0.2.0",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0-beta",
    "1.2.0",
    "1.2.3",
    "2.0.0-alpha.1",
    "2.0.0-alpha.2",
    "2.0.0",
];

fn constraint() -> impl Strategy<Value = String> {
    let operator = select(&["", "=", "^", "~", ">", ">=", "<", "<="][..]);
    let version = prop_oneof![
        select(&VERSIONS[..]),
        select(&["0", "0.1", "1", "1.0", "1.2", "1.x", "2", "2.*", "*", "9.9.9"][..]),
    ];
    let one = (operator, version).prop_map(|(operator, version)| format!("{operator}{version}"));
    prop_oneof![
        one.clone(),
        (one.clone(), one).prop_map(|(a, b)| format!("{a}, {b}")),
        Just("latest".to_owned()),
    ]
}

fn states() -> impl Strategy<Value = LifecycleState> {
    select(&[LifecycleState::Active, LifecycleState::Deprecated, LifecycleState::Retired][..])
}

/// The exact version named by a text: `1.2.3` or `=1.2.3`.
fn exact(text: &str) -> Option<semver::Version> {
    text.strip_prefix('=').unwrap_or(text).parse().ok()
}

fn expected(
    registered: &[(semver::Version, LifecycleState)],
    text: &str,
) -> Option<semver::Version> {
    if let Some(exact) = exact(text) {
        return registered.iter().map(|(version, _)| version).find(|v| **v == exact).cloned();
    }
    let fits = |version: &semver::Version| match text {
        "latest" => version.pre.is_empty(),
        range => semver::VersionReq::parse(range).unwrap().matches(version),
    };
    let newest = |wanted: LifecycleState| {
        let fitting =
            registered.iter().filter(|(version, state)| *state == wanted && fits(version));
        fitting.map(|(version, _)| version).max().cloned()
    };
    newest(LifecycleState::Active).or_else(|| newest(LifecycleState::Deprecated))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn resolve_matches_direct_implementation(
        registered in btree_map(select(&VERSIONS[..]), states(), 0..10),
        text in constraint(),
    ) {
        let mut wishes = Vec::new();
        for (version, state) in &registered {
            let value = json!({ "name": "s", "version": version, "provides": [] });
            wishes.push(Wish::Register(Kind::Server, value));
            let key = format!("server/s@{version}").parse().unwrap();
            wishes.push(Wish::SetLifecycle(key, *state, None));
        }
        let catalog = catalog(&wishes);
        let name = Name::parse(Kind::Server, "s").unwrap();
        let Ok(constraint) = text.parse::<Constraint>() else {
            // Exactly the texts that the library rejects are rejected here.
            prop_assert!(semver::VersionReq::parse(&text).is_err(), "{}", text);
            return Ok(());
        };
        let required = Requirement { kind: Kind::Server, name, constraint: constraint.clone() };
        let versions: Vec<_> =
            registered.iter().map(|(version, state)| (version.parse().unwrap(), *state)).collect();
        let meant = resolve(&catalog, &required)
            .map(|record| record.document.key().version.to_string());
        let expected = expected(&versions, &text).map(|version| version.to_string());
        prop_assert_eq!(meant.as_ref().ok(), expected.as_ref(), "{} of {:?}", text, registered);
        match meant {
            Ok(version) => prop_assert!(constraint.admits(&Version::parse(&version).unwrap())),
            Err(unresolved) => prop_assert_eq!(unresolved.total, registered.len()),
        }
    }

    #[test]
    fn constraint_parse_never_panics(text in ".{0,300}") {
        let _ = text.parse::<Constraint>();
        let _ = text.parse::<Requirement>();
    }
}
