//! Policies for tests.

use std::sync::Arc;

use registry_core::{Document, Kind};
use serde_json::Value;

use super::ApplicablePolicies;
use crate::{
    Caller, PoliciesInForce, Resource, ResourceKind, arguments::ArgumentType, in_force::Version,
};

/// The policies that apply to a call of the tool `pay`, in ascending order. The names are `p0`, `p1`
/// … and the version is 1.0.0, unless given.
pub(super) fn applicable(policies: &[Value]) -> ApplicablePolicies {
    let document = |(number, policy): (usize, &Value)| {
        let mut policy = policy.clone();
        for (member, default) in [("name", format!("p{number}")), ("version", "1.0.0".to_owned())] {
            if policy.get(member).is_none() {
                policy[member] = default.into();
            }
        }
        Arc::new(Document::parse(Kind::Policy, &policy).unwrap())
    };
    let documents: Vec<_> = policies.iter().enumerate().map(document).collect();
    let versions = documents.iter().map(|document| Version {
        key: document.key(),
        document,
        is_retired: false,
    });
    let resource = Resource {
        kind: ResourceKind::Tool,
        name: "pay".to_owned(),
        version: "1.0.0".to_owned(),
        tools: vec!["pay".to_owned()],
        skills: Vec::new(),
        servers: Vec::new(),
        tags: Vec::new(),
        is_destructive: true,
        is_read_only: false,
        is_open_world: true,
    };
    let arguments = || ArgumentType::of_schema(None, &|_| None);
    let policies = PoliciesInForce::from_versions(versions, None);
    policies.applicable(&Caller::Unregistered, &resource, arguments).unwrap()
}
