//! Scopes with one root per line: parsing and lookup never panic, and each notation has one form.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use registry_core::{
    Catalog, Lifecycle, Record, RegistryFile, RegistryId, Revision, Scope, Timestamp,
    rules::Proposed,
};
use registry_proto::{convert, v1};

const EXAMPLE: &[u8] = include_bytes!("../../examples/registry-v2.json");

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let file = RegistryFile::parse(EXAMPLE).expect("the example is valid");
    let registered = (Revision(1), Timestamp::EPOCH);
    let records = file.proposals().iter().filter_map(|proposed| match proposed {
        Proposed::Register(document) => Some(Record {
            document: document.clone(),
            owner: "fuzz".into(),
            registered: registered.0,
            registered_at: registered.1,
            lifecycle: Lifecycle::active(registered),
        }),
        Proposed::SetLifecycle { .. } => None,
    });
    let empty = Catalog::empty(RegistryId::new("fuzz"));
    Catalog::restore(empty.registry().clone(), registered.0, empty.chain(), records)
});

fuzz_target!(|text: &str| {
    let roots: Vec<&str> = text.lines().collect();
    let Ok(scope) = Scope::from_roots(&roots) else { return };
    let written: Vec<String> = scope.roots().map(ToString::to_string).collect();
    assert_eq!(Scope::from_roots(&written).as_ref(), Ok(&scope));
    assert_eq!(convert::scope(v1::FollowScope::from(&scope)).as_ref(), Ok(&scope));
    let json = serde_json::to_string(&scope).expect("texts");
    assert_eq!(serde_json::from_str::<Scope>(&json).expect("a scope"), scope);
    for key in scope.keys(&CATALOG) {
        assert!(CATALOG.find(&key).is_some(), "{key}");
    }
});
