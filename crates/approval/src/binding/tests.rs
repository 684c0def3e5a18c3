//! Tests of keys and of distinct people.

use serde_json::json;

use super::*;
use crate::testing::{account, binding, demand, rule};

#[test]
fn change_of_any_part_changes_key() {
    let call = binding("a", rule());
    let changes: [fn(&mut Binding); 9] = [
        |call| call.caller.issuer.push('x'),
        |call| call.caller.subject.push('x'),
        |call| call.agent = None,
        |call| call.resource.push('x'),
        |call| call.version.push('x'),
        |call| call.definition = Digest::compute(b"other"),
        |call| call.arguments = Digest::compute(b"other"),
        |call| call.demands.push(demand("z@1.0.0", rule())),
        |call| call.demands[0].digest = Digest::compute(b"other"),
    ];
    let keys: std::collections::BTreeSet<_> = changes
        .iter()
        .map(|change| {
            let mut call = call.clone();
            change(&mut call);
            call.key()
        })
        .chain([call.key()])
        .collect();
    assert_eq!(keys.len(), changes.len() + 1);
}

#[test]
fn moved_boundary_of_fields_changes_key() {
    let mut first = binding("a", rule());
    let mut second = first.clone();
    (first.caller.issuer, first.caller.subject) = ("ab".into(), "c".into());
    (second.caller.issuer, second.caller.subject) = ("a".into(), "bc".into());
    assert_ne!(first.key(), second.key());
    (first.agent, second.agent) = (None, Some(String::new()));
    second.caller = first.caller.clone();
    assert_ne!(first.key(), second.key());
}

#[test]
fn call_ignores_versions_and_policies() {
    let call = binding("a", rule());
    let mut newer = call.clone();
    newer.version = "2.0.0".into();
    newer.definition = Digest::compute(b"other");
    newer.demands[0].policy = "payments@2.0.0".into();
    assert_eq!(newer.call(), call.call());
    assert_ne!(binding("b", rule()).call(), call.call());
}

#[test]
fn argument_digests_depend_on_key_and_every_digit() {
    let key = ArgumentsKey::new(&[1; 32]);
    let digest = |text: &str| key.digest(&serde_json::from_str(text).unwrap());
    assert_eq!(digest(r#"{"a":1,"b":2.50}"#), digest(r#"{"b":2.5,"a":1}"#));
    // RFC 8785 writes both as the same double.
    assert_ne!(digest("[9007199254740992]"), digest("[9007199254740993]"));
    assert_eq!(digest("[0.12345678901234567]"), None);
    let other = ArgumentsKey::new(&[2; 32]);
    assert_ne!(other.digest(&json!([])), key.digest(&json!([])));
}

#[test]
fn accounts_of_one_person_are_not_distinct() {
    let (ann, bob) = (account("ann", Some("1")), account("bob", Some("2")));
    let service = account("service", None);
    let elsewhere = Principal { issuer: "https://other.example".into(), ..bob.clone() };
    assert_eq!(ann.check_distinct(&bob), Ok(()));
    assert_eq!(ann.check_distinct(&ann), Err(Indistinct::Account));
    assert_eq!(ann.check_distinct(&account("ann-2", Some("1"))), Err(Indistinct::Person));
    assert_eq!(ann.check_distinct(&elsewhere), Err(Indistinct::Issuer));
    assert_eq!(ann.check_distinct(&service), Err(Indistinct::UnknownPerson));
    assert_eq!(service.check_distinct(&ann), Ok(()));
    assert_eq!(service.check_distinct(&account("service-2", None)), Ok(()));
}

#[test]
fn registration_is_known_by_its_resource() {
    let mut binding = binding("a", rule());
    assert!(!binding.is_registration());
    binding.resource = format!("{}extractor", Binding::REGISTRATION);
    assert!(binding.is_registration());
}
