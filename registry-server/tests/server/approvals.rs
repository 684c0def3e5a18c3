//! Approvals of calls, with gateways and people of a server without authentication.

use acceptance::postgres::database;
use futures_util::future::join_all;
use registry_core::{Digest, Document, Kind};
use registry_proto::v1::{
    self, ApprovalOutcome, ApprovalRefusalReason as Reason, ApprovalState as State,
    approval_service_client::ApprovalServiceClient, decide_approval_request::Choice,
    request_approval_response::Outcome,
};
use serde_json::{Value, json};
use tonic::{Code, transport::Channel};

use crate::harness::{TestServer, batch, connect, reason, register};

const PREVIEW: &str = r#"{"amount":7331}"#;

/// A server with a tool and a policy, and a gateway and people as its clients.
struct Bank {
    server: TestServer,
    client: ApprovalServiceClient<Channel>,
    tool: Document,
    policy: Document,
}

fn document(kind: Kind, value: &Value) -> Document {
    Document::parse(kind, value).unwrap()
}

fn policy(version: &str) -> Document {
    document(Kind::Policy, &json!({ "name": "payments", "version": version }))
}

impl Bank {
    async fn start(flags: &[&str]) -> Self {
        let server = TestServer::with(flags).await;
        let provides = [json!({ "tool": "pay", "version": "1.0.0" })];
        let bank = json!({ "name": "bank", "version": "1.0.0", "provides": provides });
        let source = json!({ "server": "bank", "serverVersion": "1.0.0", "tool": "pay" });
        let tool = json!({ "name": "pay", "version": "1.0.0", "inputSchema": { "type": "object" },
            "source": source });
        let (tool, policy) = (document(Kind::Tool, &tool), policy("1.0.0"));
        let bank = document(Kind::Server, &bank);
        let entities = [&bank, &tool, &policy].map(|document| register(document.entity().into()));
        server.registry().await.apply_changes(batch(entities)).await.unwrap();
        let client = ApprovalServiceClient::new(server.channel().await);
        Self { server, client, tool, policy }
    }

    fn wanted(&self, id: u32, arguments: &str) -> v1::RequestApprovalRequest {
        let text = |text: &str| text.to_owned();
        let demand = v1::ApprovalDemand {
            policy: text("payments@1.0.0"),
            digest: self.policy.digest().to_string(),
            rule: Some(v1::PolicyApproval::default()),
        };
        let caller = v1::ApprovalAccount {
            issuer: text("https://id.example"),
            subject: text("clerk"),
            person: String::new(),
        };
        v1::RequestApprovalRequest {
            id: format!("{id:032x}"),
            call: Some(v1::ApprovedCall {
                caller: Some(caller),
                agent: String::new(),
                resource: text("tool/pay"),
                version: text("1.0.0"),
                definition_digest: self.tool.digest().to_string(),
                arguments_digest: Digest::compute(arguments.as_bytes()).to_string(),
                demands: vec![demand],
            }),
            preview: text(PREVIEW),
            ..Default::default()
        }
    }

    async fn request(&self, id: u32, arguments: &str) -> v1::Approval {
        let wanted = self.wanted(id, arguments);
        let answer = self.client.clone().request_approval(wanted).await.unwrap().into_inner();
        match answer.outcome.unwrap() {
            Outcome::Approval(approval) => approval,
            Outcome::Refusal(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    async fn approve(&self, id: &str) -> v1::Approval {
        let choice = Some(Choice::Approve(v1::ApproveChoice::default()));
        let wanted = v1::DecideApprovalRequest { id: id.to_owned(), choice, is_batch: false };
        let decided = self.client.clone().decide_approval(wanted).await.unwrap().into_inner();
        decided.approval.unwrap()
    }

    async fn show(&self, id: &str) -> v1::GetApprovalResponse {
        let wanted = v1::GetApprovalRequest { id: id.to_owned() };
        self.client.clone().get_approval(wanted).await.unwrap().into_inner()
    }
}

/// Claims the first round. Returns the reason of a refusal.
async fn claim(
    mut client: ApprovalServiceClient<Channel>,
    approval: &v1::Approval,
    attempt: u32,
) -> Option<Reason> {
    let wanted = v1::ClaimApprovalRequest {
        id: approval.id.clone(),
        call_digest: approval.call_digest.clone(),
        round: 0,
        attempt: format!("{attempt:032x}"),
        outcome_within: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        gateway: String::new(),
    };
    let answer = client.claim_approval(wanted).await.unwrap().into_inner();
    answer.refusal.map(|refusal| refusal.reason())
}

async fn call_is_approved_once(flags: &[&str]) {
    let bank = Bank::start(flags).await;
    let claim = |approval, attempt| claim(bank.client.clone(), approval, attempt);
    let requested = bank.request(1, "a").await;
    assert_eq!(requested.state(), State::Pending);
    assert_eq!(bank.request(2, "a").await.id, requested.id, "a repeated call has one request");
    assert_eq!(claim(&requested, 1).await, Some(Reason::NotApproved));
    assert_eq!(bank.approve(&requested.id).await.state(), State::Approved);
    assert_eq!(claim(&requested, 1).await, None);
    assert_eq!(claim(&requested, 1).await, None, "the answer was lost");
    assert_eq!(claim(&requested, 2).await, Some(Reason::Used));
    let outcome = v1::ReportApprovalOutcomeRequest {
        id: requested.id.clone(),
        attempt: format!("{:032x}", 1),
        outcome: ApprovalOutcome::Succeeded.into(),
        gateway: String::new(),
    };
    let reported = bank.client.clone().report_approval_outcome(outcome).await.unwrap();
    assert_eq!(reported.into_inner().refusal, None);
    let v1::GetApprovalResponse { approval, steps } = bank.show(&requested.id).await;
    let states: Vec<_> = steps.iter().map(v1::ApprovalStep::state).collect();
    assert_eq!(states, [State::Pending, State::Approved, State::Consumed, State::Succeeded]);
    assert_eq!(approval.unwrap().preview.as_deref(), Some(PREVIEW));
    assert_eq!(bank.request(3, "a").await.state(), State::Pending, "the next call needs another");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_approved_once_on_sqlite() {
    call_is_approved_once(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_approved_once_on_postgres() {
    let database = database().await;
    call_is_approved_once(&["--database", database.url()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_one_database_share_approvals() {
    let database = database().await;
    let flags = ["--database", database.url()];
    let bank = Bank::start(&flags).await;
    let second = TestServer::with(&flags).await;
    let second = ApprovalServiceClient::new(second.channel().await);
    let key = async |client: &ApprovalServiceClient<Channel>| {
        let wanted = v1::GetArgumentsKeyRequest {};
        client.clone().get_arguments_key(wanted).await.unwrap().into_inner().key
    };
    let shared = key(&bank.client).await;
    assert_eq!((shared.len(), &shared), (32, &key(&second).await));
    let requested = bank.request(1, "a").await;
    bank.approve(&requested.id).await;
    let servers = [&bank.client, &second];
    let claims = (0_u32..16).zip(servers.into_iter().cycle());
    let claims = claims.map(|(attempt, client)| claim(client.clone(), &requested, attempt));
    let refusals: Vec<_> = join_all(claims).await.into_iter().flatten().collect();
    assert_eq!(refusals, [Reason::Used; 15]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_policy_ends_request_at_decision() {
    let bank = Bank::start(&[]).await;
    let requested = bank.request(1, "a").await;
    let newer = register(policy("1.1.0").entity().into());
    bank.server.registry().await.apply_changes(batch([newer])).await.unwrap();
    assert_eq!(bank.approve(&requested.id).await.state(), State::Invalid);
    assert_eq!(claim(bank.client.clone(), &requested, 1).await, Some(Reason::NotApproved));
}

#[tokio::test(flavor = "multi_thread")]
async fn database_has_no_readable_arguments() {
    let bank = Bank::start(&[]).await;
    let requested = bank.request(1, "a").await;
    assert_eq!(requested.preview, None, "gateways know the arguments");
    let mut database = connect(&bank.server).await;
    let stored =
        sqlx::query_as::<_, (String, String)>("SELECT preview, document FROM approval_requests");
    let (preview, document) = stored.fetch_one(&mut database).await.unwrap();
    assert!(!preview.contains("7331") && !document.contains("7331"), "{preview} {document}");
}

#[tokio::test(flavor = "multi_thread")]
async fn list_has_pages_and_filters() {
    let bank = Bank::start(&[]).await;
    for id in 1..=3 {
        bank.request(id, &id.to_string()).await;
    }
    bank.approve(&format!("{:032x}", 2)).await;
    let list = async |state: State, page_token: String| {
        let wanted =
            v1::ListApprovalsRequest { state: state.into(), own: false, page_size: 2, page_token };
        let page = bank.client.clone().list_approvals(wanted).await.unwrap().into_inner();
        let ids = page.approvals.iter().map(|approval| approval.id[31..].to_owned());
        (ids.collect::<Vec<_>>().concat(), page.next_page_token)
    };
    let (first, next) = list(State::Unspecified, String::new()).await;
    assert_eq!((&*first, next.is_empty()), ("12", false));
    assert_eq!(list(State::Unspecified, next.clone()).await, ("3".to_owned(), String::new()));
    assert_eq!(list(State::Pending, String::new()).await.0, "13");
    assert_eq!(list(State::Approved, String::new()).await.0, "2");
    let other = v1::ListApprovalsRequest { own: true, page_token: next, ..Default::default() };
    let status = bank.client.clone().list_approvals(other).await.unwrap_err();
    assert_eq!(reason(&status), "PAGE_TOKEN_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_messages_name_their_field() {
    let bank = Bank::start(&[]).await;
    let no_call = v1::RequestApprovalRequest { call: None, ..bank.wanted(1, "a") };
    let no_id = v1::RequestApprovalRequest { id: "1".to_owned(), ..bank.wanted(1, "a") };
    let preview = "x".repeat(48_001);
    let long = v1::RequestApprovalRequest { preview, ..bank.wanted(1, "a") };
    let text = v1::RequestApprovalRequest { preview: "x".to_owned(), ..bank.wanted(1, "a") };
    for (message, expected) in [
        (no_call, "INVALID_REQUEST"),
        (no_id, "INVALID_REQUEST"),
        (long, "LIMIT_EXCEEDED"),
        (text, "INVALID_REQUEST"),
    ] {
        let status = bank.client.clone().request_approval(message).await.unwrap_err();
        assert_eq!((status.code(), &*reason(&status)), (Code::InvalidArgument, expected));
    }
}
