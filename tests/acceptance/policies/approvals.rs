//! Approvals of calls, with a gateway that sends single messages, and people at the command line.

use std::fs;

use acceptance::{
    Registry,
    access::{Authorized, Bearer, Guarded, server},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use registry_core::{Digest, Document, Kind};
use registry_proto::v1::{
    self, ApprovalRefusalReason as Reason, ApprovalState as State,
    approval_service_client::ApprovalServiceClient, request_approval_response::Outcome,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::{Code, Status, service::interceptor::InterceptedService};

use super::{
    alerts::Webhook, bank, budgets::reason, limit, relayed_budgets::relay_of, roles::apply,
    roles::run,
};
use crate::access::identity_provider::jwk;

const ISSUER: &str = "https://id.example";
const PREVIEW: &str = r#"{"amount":7331}"#;

/// A registry with a bank and a policy.
fn guarded_bank(flags: &[&str]) -> Guarded {
    let guarded = Guarded::start(flags);
    for file in [bank(), limit("1.0.0", &json!({}))] {
        let applied = apply(&guarded, &guarded.admin, &file);
        assert!(applied.success(), "{applied:?}");
    }
    guarded
}

/// A gateway whose caller is `clerk`.
struct FakeGateway {
    client: ApprovalServiceClient<Authorized>,
}

impl FakeGateway {
    async fn start(guarded: &Guarded) -> Self {
        let token = guarded.token("gateway-1", "fleet", "gateway");
        Self::with_token(&guarded.registry, token).await
    }

    async fn with_token(registry: &Registry, token: String) -> Self {
        let channel = InterceptedService::new(registry.channel().await, Bearer(token));
        Self { client: ApprovalServiceClient::new(channel) }
    }

    async fn outcome(&self, message: v1::RequestApprovalRequest) -> Result<Outcome, Status> {
        let answer = self.client.clone().request_approval(message).await?.into_inner();
        Ok(answer.outcome.expect("an outcome"))
    }

    async fn send(&self, message: v1::RequestApprovalRequest) -> Result<v1::Approval, Status> {
        match self.outcome(message).await? {
            Outcome::Approval(approval) => Ok(approval),
            Outcome::Refusal(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    /// Cancels a request in the name of its caller.
    async fn withdraw(&self, approval: v1::Approval) {
        let caller = approval.call.and_then(|call| call.caller);
        let message = v1::WithdrawApprovalRequest { id: approval.id, caller, ..Default::default() };
        self.client.clone().withdraw_approval(message).await.expect("it is cancelled");
    }

    /// Requests the approval of a call with these arguments.
    async fn request(&self, arguments: &str, rule: v1::PolicyApproval) -> v1::Approval {
        self.send(wanted(arguments, rule)).await.expect("an answer")
    }

    /// Claims the first round. Returns the refusal.
    async fn claim(&self, approval: &v1::Approval, attempt: u32) -> Option<v1::ApprovalRefusal> {
        let claim = v1::ClaimApprovalRequest {
            id: approval.id.clone(),
            call_digest: approval.call_digest.clone(),
            attempt: format!("{attempt:032x}"),
            outcome_within: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
            ..Default::default()
        };
        self.client.clone().claim_approval(claim).await.expect("an answer").into_inner().refusal
    }
}

/// The digest of the only entity of a kind with a name in a file.
fn digest(kind: Kind, entities: &Value, name: &str) -> String {
    let entities = entities.as_array().expect("a list").iter();
    let entity = entities.clone().find(|entity| entity["name"] == name).expect("an entity");
    Document::parse(kind, entity).expect("a document").digest().to_string()
}

fn wanted(arguments: &str, rule: v1::PolicyApproval) -> v1::RequestApprovalRequest {
    let text = |text: &str| text.to_owned();
    let arguments_digest = Digest::compute(arguments.as_bytes()).to_string();
    let policy = limit("1.0.0", &json!({}));
    let demand = v1::ApprovalDemand {
        policy: text("limit@1.0.0"),
        digest: digest(Kind::Policy, &policy["policies"], "limit"),
        rule: Some(rule),
    };
    let caller =
        v1::ApprovalAccount { issuer: text(ISSUER), subject: text("clerk"), person: String::new() };
    v1::RequestApprovalRequest {
        id: arguments_digest["sha256:".len()..][..32].to_owned(),
        call: Some(v1::ApprovedCall {
            caller: Some(caller),
            agent: String::new(),
            resource: text("tool/charge"),
            version: text("1.0.0"),
            definition_digest: digest(Kind::Tool, &bank()["tools"], "charge"),
            arguments_digest,
            demands: vec![demand],
        }),
        preview: text(PREVIEW),
        ..Default::default()
    }
}

fn one_approver() -> v1::PolicyApproval {
    v1::PolicyApproval::default()
}

fn four_eyes() -> v1::PolicyApproval {
    v1::PolicyApproval { four_eyes: true, ..Default::default() }
}

#[tokio::test]
async fn approver_decides_at_command_line() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let approval = gateway.request("a", one_approver()).await;
    let id = &*approval.id;
    let approver = guarded.token("ann", "security", "approver");
    let reader = guarded.token("rob", "bank", "reader");

    let listed = run(&guarded, &approver, &["proposals", "list"]).json();
    assert_eq!((&listed[0]["id"], &listed[0]["state"]), (&json!(id), &json!("pending")));
    assert_eq!(run(&guarded, &reader, &["approvals", "list"]).json(), json!([]));
    let hidden = run(&guarded, &reader, &["approvals", "show", id]);
    assert!(hidden.code == 1 && hidden.has_code("NOT_FOUND"), "{hidden:?}");
    let denied = run(&guarded, &reader, &["approve", id, "--yes"]);
    assert!(denied.code == 1 && denied.has_code("PERMISSION_DENIED"), "{denied:?}");
    let shown = run(&guarded, &approver, &["approvals", "show", id]).json();
    assert_eq!(shown["approval"]["arguments"], json!({ "amount": 7331 }));

    assert_eq!(gateway.claim(&approval, 1).await.map(|r| r.reason()), Some(Reason::NotApproved));
    let decided = run(&guarded, &approver, &["approve", id, "--yes"]);
    assert_eq!(decided.json(), json!([{ "id": id, "state": "approved" }]));
    assert_eq!(gateway.claim(&approval, 1).await, None);
    assert_eq!(gateway.claim(&approval, 2).await.map(|r| r.reason()), Some(Reason::Used));
    let shown = run(&guarded, &approver, &["approvals", "show", id]).json();
    assert_eq!(shown["approval"]["rounds"][0]["gateway"], "gateway-1");
    let metrics = guarded.registry.metrics().await;
    for state in ["pending", "approved", "consumed"] {
        let line = format!("registry_approval_steps_total{{state=\"{state}\"}} 1");
        assert!(metrics.lines().any(|found| found == line), "{metrics}");
    }
}

#[tokio::test]
async fn governor_sees_requests_without_arguments() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let approval = gateway.request("a", one_approver()).await;
    let governor = guarded.token("gov", "security", "governor");
    let shown = run(&guarded, &governor, &["approvals", "show", &approval.id]).json();
    assert_eq!(shown["approval"]["arguments"], Value::Null);
    let cancelled = run(&guarded, &governor, &["approvals", "cancel", &approval.id, "--yes"]);
    assert_eq!(cancelled.json()[0]["state"], "cancelled");
}

#[tokio::test]
async fn auditor_sees_deciders_without_arguments() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let approval = gateway.request("a", one_approver()).await;
    let id = &*approval.id;
    let approver = guarded.token("ann", "security", "approver");
    let denied = run(&guarded, &approver, &["approvals", "deny", id, "--reason", "late", "--yes"]);
    assert!(denied.success(), "{denied:?}");
    let auditor = guarded.token("rev", "security", "auditor");
    let run = |arguments: &[&str]| run(&guarded, &auditor, arguments);
    let listed = run(&["approvals", "list", "--all"]).json();
    assert_eq!([&listed[0]["id"], &listed[0]["state"]], [&json!(id), &json!("denied")]);
    let shown = run(&["approvals", "show", id]).json()["approval"].clone();
    let decision = &shown["decisions"][0];
    assert_eq!([&decision["by"]["subject"], &decision["reason"]], ["ann", "late"]);
    assert!(decision["at"].is_string(), "{shown}");
    assert_eq!([&shown["resource"], &shown["caller"]["subject"]], ["tool/charge", "clerk"]);
    assert_eq!(shown["arguments"], Value::Null);
    assert!(run(&["approvals", "grants"]).success());
    let trail = run(&["audit", "access"]).json();
    let events = trail.as_array().expect("a list");
    let recorded = events.iter().find(|event| event["principal"] == "ann").expect("an event");
    let call = format!("tool/charge@1.0.0 for clerk of {ISSUER}: late");
    assert_eq!(
        ["event", "principal", "subject", "detail"].map(|field| &recorded[field]),
        ["approval-denied", "ann", id, &call]
    );
    let refused = run(&["approvals", "cancel", id, "--yes"]);
    assert!(refused.code == 1, "{refused:?}");
}

#[tokio::test]
async fn approver_sees_which_arguments_are_shown() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let rule = v1::PolicyApproval { show: vec!["/amount".to_owned()], ..Default::default() };
    let approval = gateway.request("a", rule).await;
    let approver = guarded.token("ann", "security", "approver");
    let shown = run(&guarded, &approver, &["approvals", "show", &approval.id]).json();
    assert_eq!(shown["approval"]["policies"][0]["show"], json!(["/amount"]));
}

#[tokio::test]
async fn batch_denies_and_reports_each_request() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let first = gateway.request("a", one_approver()).await;
    let second = gateway.request("b", one_approver()).await;
    let approver = guarded.token("ann", "security", "approver");
    let deny = |ids: &[&str]| {
        let arguments =
            [&["approvals", "deny"][..], ids, &["--reason", "too late", "--yes"]].concat();
        run(&guarded, &approver, &arguments)
    };
    assert!(deny(&[&first.id, &second.id]).success());
    let denied = gateway.request("a", one_approver()).await;
    assert_eq!(denied.state(), State::Denied, "the caller receives the denial");
    let third = gateway.request("c", one_approver()).await;
    let mixed = deny(&[&first.id, &third.id]);
    assert_eq!(mixed.code, 1, "{mixed:?}");
    let results = mixed.json();
    assert!(results[0]["error"].is_string(), "{results}");
    assert_eq!(results[1], json!({ "id": third.id, "state": "denied" }));
}

#[tokio::test]
async fn standing_grant_approves_until_revoked() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let rule = || {
        let hours = prost_types::Duration { seconds: 8 * 3_600, nanos: 0 };
        v1::PolicyApproval { standing_for: Some(hours), ..Default::default() }
    };
    let first = gateway.request("a", rule()).await;
    let approver = guarded.token("ann", "security", "approver");
    let auditor = guarded.token("rev", "security", "auditor");
    let trail = || run(&guarded, &auditor, &["audit", "access"]).json();
    let run = |arguments: &[&str]| run(&guarded, &approver, arguments);
    let long = run(&["approve", &first.id, "--for", "9h", "--yes"]);
    assert!(long.code == 1 && long.has_code("GRANT_NOT_PERMITTED"), "{long:?}");
    assert!(run(&["approve", &first.id, "--for", "1h", "--any-arguments", "--yes"]).success());
    assert_eq!(gateway.request("b", rule()).await.state(), State::Approved);
    let grants = run(&["approvals", "grants"]).json();
    assert_eq!((&grants[0]["id"], &grants[0]["scope"]), (&json!(first.id), &json!("tool")));
    let trail = trail();
    let mut events = trail.as_array().expect("a list").iter();
    let decided = events.find(|event| event["event"] == "approval-approved").expect("an event");
    let call = format!("tool/charge@1.0.0 for clerk of {ISSUER}");
    let detail = format!("{call}, and later calls with any arguments for PT1H");
    assert_eq!(decided["detail"], detail);
    assert!(run(&["approvals", "revoke", &first.id, "--yes"]).success());
    assert_eq!(gateway.request("c", rule()).await.state(), State::Pending);
}

#[tokio::test]
async fn requests_are_listed_in_order_of_creation() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let approver = guarded.token("ann", "security", "approver");
    let list = || run(&guarded, &approver, &["approvals", "list"]).json();
    let (mut created, mut listed) = (Vec::new(), Value::Null);
    // The ids are digests of the arguments and descend. Between two requests, a command runs.
    for arguments in ["a", "b", "c"] {
        created.push(gateway.request(arguments, one_approver()).await.id);
        listed = list();
    }
    let listed = listed.as_array().expect("a list").iter();
    assert_eq!(listed.map(|approval| approval["id"].clone()).collect::<Vec<_>>(), created);
}

/// An identity provider, and the flags of servers that trust it.
struct Provider {
    pair: KeyPair,
    flags: [String; 6],
    _dir: TempDir,
}

impl Provider {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let file = dir.path().join("jwks.json");
        fs::write(&file, json!({ "keys": [jwk(&pair, "k1")] }).to_string()).expect("written");
        let file = file.to_str().expect("UTF-8");
        let flags =
            ["--oidc-issuer", ISSUER, "--oidc-audience", "registry", "--oidc-jwks-file", file];
        Self { pair, flags: flags.map(str::to_owned), _dir: dir }
    }

    fn token(&self, subject: &str) -> String {
        self.signed(&json!({ "sub": subject }))
    }

    /// A token of an approver with these claims.
    fn signed(&self, more: &Value) -> String {
        let header = Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::ES256) };
        let now = get_current_timestamp();
        let mut claims = json!({ "iss": ISSUER, "aud": "registry", "team": "security",
            "iat": now, "exp": now + 600, "roles": "approver" });
        for (name, value) in more.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        let key = EncodingKey::from_ec_der(self.pair.serialized_der());
        encode(&header, &claims, &key).expect("a token")
    }
}

#[tokio::test]
async fn four_eyes_need_another_person_of_same_issuer() {
    let provider = Provider::new();
    let flags: Vec<_> = provider.flags.iter().map(String::as_str).collect();
    let guarded = guarded_bank(&flags);
    let gateway = FakeGateway::start(&guarded).await;
    let id = gateway.request("a", four_eyes()).await.id;
    let approve = |token: &str| run(&guarded, token, &["approve", &id, "--yes"]);
    let api_token = guarded.token("ann", "security", "approver");
    for token in [api_token, provider.token("clerk")] {
        let refused = approve(&token);
        assert!(refused.code == 1 && refused.has_code("APPROVER_INELIGIBLE"), "{refused:?}");
    }
    assert_eq!(approve(&provider.token("bob")).json()[0]["state"], "approved");
}

/// A call of the agent `clerk` by an account.
fn by_clerk(arguments: &str, caller: v1::ApprovalAccount) -> v1::RequestApprovalRequest {
    let mut wanted = wanted(arguments, four_eyes());
    wanted.owner_teams = vec!["owners".to_owned()];
    let call = wanted.call.as_mut().expect("a call");
    (call.agent, call.caller) = ("clerk".to_owned(), Some(caller));
    wanted
}

/// The account of an employee.
fn employee(issuer: &str, person: &str) -> v1::ApprovalAccount {
    let (issuer, person) = (issuer.to_owned(), person.to_owned());
    v1::ApprovalAccount { issuer, subject: "clerk".to_owned(), person }
}

#[tokio::test]
async fn four_eyes_of_a_calling_agent_exclude_its_owners() {
    let provider = Provider::new();
    let flags: Vec<_> = provider.flags.iter().map(String::as_str).collect();
    let guarded = guarded_bank(&flags);
    let gateway = FakeGateway::start(&guarded).await;
    let wanted = by_clerk("a", employee("gateway-agent", ""));
    let id = gateway.send(wanted).await.expect("an answer").id;
    let owner = provider.signed(&json!({ "sub": "olga", "team": "owners" }));
    let refused = run(&guarded, &owner, &["approve", &id, "--yes"]);
    assert!(refused.code == 1 && refused.has_code("APPROVER_INELIGIBLE"), "{refused:?}");
    let approved = run(&guarded, &provider.token("bob"), &["approve", &id, "--yes"]);
    assert_eq!(approved.json()[0]["state"], "approved");
}

#[tokio::test]
async fn call_that_no_person_can_approve_is_refused_at_once() {
    let provider = Provider::new();
    let flags: Vec<_> = provider.flags.iter().map(String::as_str).collect();
    for (flags, issuer) in [
        (flags.clone(), "https://other.example"),
        (flags, "gateway-certificate"),
        (Vec::new(), "gateway-agent"),
    ] {
        let guarded = guarded_bank(&flags);
        let gateway = FakeGateway::start(&guarded).await;
        let wanted = by_clerk("a", employee(issuer, ""));
        let outcome = gateway.outcome(wanted).await.expect("an answer");
        let Outcome::Refusal(refusal) = &outcome else { panic!("{issuer}: {outcome:?}") };
        assert_eq!(refusal.reason(), Reason::Undecidable, "{issuer}");
        assert!(refusal.message.contains("--oidc-issuer"), "{refusal:?}");
    }
}

/// A bank whose identity provider names employees.
fn bank_with_employees(provider: &Provider) -> Guarded {
    let flags: Vec<_> = provider.flags.iter().map(String::as_str).collect();
    guarded_bank(&[&flags[..], &["--oidc-person-claim", "employee"]].concat())
}

#[tokio::test]
async fn four_eyes_exclude_owners_and_second_accounts() {
    let provider = Provider::new();
    let guarded = bank_with_employees(&provider);
    let gateway = FakeGateway::start(&guarded).await;
    let wanted = by_clerk("a", employee(ISSUER, "17"));
    let id = gateway.send(wanted).await.expect("an answer").id;
    let bob = provider.signed(&json!({ "sub": "bob", "employee": "19" }));
    let second_account = provider.signed(&json!({ "sub": "clerk-admin", "employee": "17" }));
    let owner = provider.signed(&json!({ "sub": "olga", "employee": "18", "team": "owners" }));
    let nameless = provider.token("eve");
    for token in [&second_account, &owner, &nameless] {
        let refused = run(&guarded, token, &["approve", &id, "--yes"]);
        assert!(refused.code == 1 && refused.has_code("APPROVER_INELIGIBLE"), "{refused:?}");
    }
    assert_eq!(run(&guarded, &bob, &["approve", &id, "--yes"]).json()[0]["state"], "approved");
}

#[tokio::test]
async fn quorum_counts_a_person_once() {
    let provider = Provider::new();
    let guarded = bank_with_employees(&provider);
    let gateway = FakeGateway::start(&guarded).await;
    let two = v1::PolicyApproval { quorum: Some(2), ..Default::default() };
    let id = gateway.request("a", two).await.id;
    let approve = |subject: &str, employee: &str| {
        let token = provider.signed(&json!({ "sub": subject, "employee": employee }));
        run(&guarded, &token, &["approve", &id, "--yes"])
    };
    let bob = provider.signed(&json!({ "sub": "bob", "employee": "19" }));
    let first = guarded.registry.run(&["approve", &id, "--yes", "--token", &bob]);
    insta::assert_snapshot!(first.replace(&id, "ID"), @"ID: pending, 1 of 2 approvals");
    let again = approve("bob", "19");
    assert!(again.code == 1 && again.has_code("APPROVAL_DECIDED"), "{again:?}");
    let second_account = approve("bob-admin", "19");
    assert!(second_account.code == 1 && second_account.has_code("APPROVER_INELIGIBLE"));
    assert_eq!(approve("eve", "20").json()[0]["state"], "approved");
}

#[tokio::test]
async fn caller_has_at_most_twenty_open_requests() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let mut last = None;
    for number in 0..20 {
        last = Some(gateway.request(&number.to_string(), one_approver()).await);
    }
    let full = gateway.outcome(wanted("20", one_approver())).await.expect("an answer");
    assert!(matches!(full, Outcome::Refusal(refusal) if refusal.reason() == Reason::TooManyOpen));
    let mut other = wanted("21", one_approver());
    other.call.as_mut().and_then(|call| call.caller.as_mut()).expect("a caller").subject =
        "cashier".to_owned();
    assert_eq!(gateway.send(other).await.expect("an answer").state(), State::Pending);
    gateway.withdraw(last.expect("a request")).await;
    assert_eq!(gateway.request("20", one_approver()).await.state(), State::Pending);
}

#[tokio::test]
async fn flood_of_withdrawn_requests_is_bounded() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    for number in 0..210 {
        let approval = gateway.request(&number.to_string(), one_approver()).await;
        gateway.withdraw(approval).await;
    }
    let approver = guarded.token("ann", "security", "approver");
    let stored = run(&guarded, &approver, &["approvals", "list", "--all"]).json();
    let stored = stored.as_array().map_or(0, Vec::len);
    assert!((1..=200).contains(&stored), "the oldest of {stored} made room");
}

#[tokio::test]
async fn caller_sees_and_cancels_its_own_request() {
    let provider = Provider::new();
    let flags: Vec<_> = provider.flags.iter().map(String::as_str).collect();
    let guarded = guarded_bank(&flags);
    let gateway = FakeGateway::start(&guarded).await;
    let approval = gateway.request("a", one_approver()).await;
    let clerk = provider.token("clerk");
    let own = run(&guarded, &clerk, &["approvals", "list", "--own"]).json();
    assert_eq!(own[0]["id"], json!(approval.id));
    let cancelled = run(&guarded, &clerk, &["approvals", "cancel", &approval.id, "--yes"]);
    assert_eq!(cancelled.json()[0]["state"], "cancelled");
}

#[tokio::test]
async fn relay_forwards_messages_of_gateways() {
    let guarded = guarded_bank(&[]);
    let relay = relay_of(&guarded);
    let token = relay.token("gateway-9", "gateway");
    let gateway = FakeGateway::with_token(&relay.server, token).await;
    let approval = gateway.request("a", one_approver()).await;
    let approver = guarded.token("ann", "security", "approver");
    assert!(run(&guarded, &approver, &["approve", &approval.id, "--yes"]).success());
    assert_eq!(gateway.claim(&approval, 1).await, None);
    let shown = run(&guarded, &approver, &["approvals", "show", &approval.id]).json();
    assert_eq!(shown["approval"]["rounds"][0]["gateway"], "gateway-9");
    let people = FakeGateway::with_token(&relay.server, relay.token("ann", "approver")).await;
    let wanted = v1::ListApprovalsRequest::default();
    let refused = people.client.clone().list_approvals(wanted).await.expect_err("a relay");
    assert_eq!(reason(&refused), (Code::FailedPrecondition, "READ_ONLY_RELAY".to_owned()));
}

#[tokio::test]
async fn gateway_sends_no_message_in_other_name() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let forged =
        v1::RequestApprovalRequest { gateway: "other".to_owned(), ..wanted("a", one_approver()) };
    let refused = gateway.send(forged).await.expect_err("it is forged");
    assert_eq!(reason(&refused), (Code::PermissionDenied, "PERMISSION_DENIED".to_owned()));
}

#[tokio::test]
async fn webhook_receives_no_arguments() {
    let webhook = Webhook::start(|| 204).await;
    let guarded = guarded_bank(&webhook.flags());
    let gateway = FakeGateway::start(&guarded).await;
    // Only the caller decides about this one.
    let own = v1::PolicyApproval { approvers: vec!["caller".to_owned()], ..Default::default() };
    gateway.request("b", own).await;
    let approval = gateway.request("a", one_approver()).await;
    let approver = guarded.token("ann", "security", "approver");
    assert!(run(&guarded, &approver, &["approve", &approval.id, "--yes"]).success());
    let seen = || async { webhook.server.all_seen().len() >= 2 };
    acceptance::eventually("the webhook receives both messages", seen).await;
    let seen = webhook.server.all_seen();
    let kinds: Vec<_> = seen.iter().map(|request| &request.body["type"]).collect();
    assert_eq!(kinds, ["approval.pending", "approval.decided"]);
    for request in &seen {
        assert_eq!(request.body["data"]["id"], json!(approval.id));
        assert!(!request.text.contains("7331"), "{}", request.text);
    }
}

#[tokio::test]
async fn restored_database_ends_approvals() {
    let guarded = guarded_bank(&[]);
    let gateway = FakeGateway::start(&guarded).await;
    let approval = gateway.request("a", one_approver()).await;
    let approver = guarded.token("ann", "security", "approver");
    assert!(run(&guarded, &approver, &["approve", &approval.id, "--yes"]).success());
    assert!(server(&guarded.database, &["ledger", "recover"]).status.success());
    let refusal = gateway.claim(&approval, 1).await.expect("a refusal");
    assert_eq!((refusal.reason(), refusal.state()), (Reason::NotApproved, State::Invalid));
}
