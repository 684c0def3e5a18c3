//! Principals and requests of tests.

use std::collections::BTreeSet;

use approval::{Binding, Demand, Principal as Account, Request, RequestId, State};
use registry_core::{Digest, Timestamp, entity::policy::Approval};

use crate::access::{Method, Principal};

fn account(subject: &str) -> Account {
    Account { issuer: "https://id.example".to_owned(), subject: subject.to_owned(), person: None }
}

pub(super) fn principal(name: &str) -> Principal {
    let method = Method::Oidc("https://id.example".into());
    Principal { method, subject: Some(name.into()), ..Principal::local(name) }
}

/// A pending request.
pub(super) fn request(id: u128) -> Request {
    let rule = Approval { four_eyes: true, ..Approval::default() };
    let digest = Digest::compute(b"policy");
    Request {
        id: RequestId::new(id),
        revision: 1,
        binding: Binding {
            caller: account("caller"),
            agent: Some("clerk".to_owned()),
            resource: "tool/pay".to_owned(),
            version: "1.0.0".to_owned(),
            definition: Digest::compute(b"definition"),
            arguments: Digest::compute(b"arguments"),
            demands: vec![Demand { policy: "payments@1.0.0".to_owned(), digest, rule }],
        },
        owners: BTreeSet::new(),
        preview: Some(r#"{"amount":10}"#.to_owned()),
        uncertain: None,
        state: State::Pending,
        created_at: Timestamp::EPOCH,
        changed_at: Timestamp::EPOCH,
        deadline: None,
        confirmed_at: None,
        decisions: Vec::new(),
        granted_by: None,
        uses: Vec::new(),
    }
}
