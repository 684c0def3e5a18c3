//! Calls every method that the server lists by reflection, without credentials and with a token of
//! each role. A method without a rule in this file fails the test.

use std::collections::BTreeSet;

use acceptance::access::Guarded;
use prost::{
    Message as _,
    bytes::{Buf, BufMut, Bytes},
};
use tonic::{
    Code, Request, Status,
    client::{Grpc, GrpcService},
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};
use tonic_types::StatusExt as _;

const ROLES: [&str; 8] =
    ["reader", "publisher", "auditor", "gateway", "relay", "governor", "approver", "admin"];

/// The callers that may call a method.
#[derive(Clone, Copy)]
enum Allowed {
    /// All callers, authenticated or not.
    Everyone,
    /// Authenticated callers.
    Authenticated,
    Roles(&'static [&'static str]),
}

const READERS: Allowed =
    Allowed::Roles(&["reader", "publisher", "auditor", "governor", "approver", "admin"]);
const WRITERS: Allowed = Allowed::Roles(&["publisher", "governor", "admin"]);
const FLEET: Allowed = Allowed::Roles(&["auditor", "governor", "admin"]);
const AUDITORS: Allowed = Allowed::Roles(&["auditor", "admin"]);
const GATEWAYS: Allowed = Allowed::Roles(&["gateway", "relay", "admin"]);
const GOVERNORS: Allowed = Allowed::Roles(&["governor", "admin"]);
const APPROVERS: Allowed = Allowed::Roles(&["approver", "admin"]);
const REVIEWERS: Allowed = Allowed::Roles(&["approver", "governor", "admin"]);
const GRANT_READERS: Allowed = Allowed::Roles(&["auditor", "approver", "governor", "admin"]);
const ADMINS: Allowed = Allowed::Roles(&["admin"]);

const RULES: &[(&str, Allowed)] = &[
    ("registry.v1.RegistryService/ApplyChanges", WRITERS),
    ("registry.v1.RegistryService/GetEntity", READERS),
    ("registry.v1.RegistryService/BatchGetEntities", READERS),
    ("registry.v1.RegistryService/ListEntities", READERS),
    ("registry.v1.RegistryService/GetRegistryInfo", Allowed::Authenticated),
    ("registry.v1.RegistryService/ListSettings", READERS),
    ("registry.v1.HistoryService/ListCommits", READERS),
    ("registry.v1.HistoryService/GetCommit", READERS),
    ("registry.v1.HistoryService/ListEntityEvents", READERS),
    ("registry.v1.HistoryService/CompareRevisions", READERS),
    ("registry.v1.HistoryService/BlameEntity", READERS),
    ("registry.v1.HistoryService/ExportCatalog", READERS),
    ("registry.v1.AuditService/GetCheckpoint", READERS),
    ("registry.v1.AuditService/GetInclusionProof", READERS),
    ("registry.v1.AuditService/VerifyLog", AUDITORS),
    ("registry.v1.AuditService/ListAccessEvents", AUDITORS),
    ("registry.v1.GraphService/GetDependencies", READERS),
    ("registry.v1.GraphService/GetDependents", READERS),
    ("registry.v1.GraphService/ExplainDependency", READERS),
    ("registry.v1.GraphService/AnalyzeImpact", READERS),
    ("registry.v1.GraphService/ResolveVersions", READERS),
    ("registry.v1.DiscoveryService/SearchEntities", READERS),
    ("registry.v1.SbomService/ExportSbom", READERS),
    ("registry.v1.SbomService/FindComponentUsers", READERS),
    ("registry.v1.SyncService/Sync", Allowed::Authenticated),
    ("registry.v1.SyncService/ListGateways", FLEET),
    ("registry.v1.LedgerService/ReportSpending", GATEWAYS),
    ("registry.v1.LedgerService/WatchRecalls", GATEWAYS),
    ("registry.v1.LedgerService/ListBudgets", FLEET),
    ("registry.v1.LedgerService/GetBudget", FLEET),
    ("registry.v1.LedgerService/AdjustBudget", GOVERNORS),
    ("registry.v1.LedgerService/ReclaimBudget", GOVERNORS),
    ("registry.v1.UsageService/ReportUsage", GATEWAYS),
    ("registry.v1.UsageService/QueryUsage", FLEET),
    ("registry.v1.TraceService/ReportTraceCalls", GATEWAYS),
    ("registry.v1.TraceService/ListTraceCalls", Allowed::Authenticated),
    ("registry.v1.ApprovalService/GetArgumentsKey", GATEWAYS),
    ("registry.v1.ApprovalService/RequestApproval", GATEWAYS),
    ("registry.v1.ApprovalService/ConfirmApproval", GATEWAYS),
    ("registry.v1.ApprovalService/WithdrawApproval", GATEWAYS),
    ("registry.v1.ApprovalService/ClaimApproval", GATEWAYS),
    ("registry.v1.ApprovalService/ReportApprovalOutcome", GATEWAYS),
    ("registry.v1.ApprovalService/ListApprovals", Allowed::Authenticated),
    ("registry.v1.ApprovalService/GetApproval", Allowed::Authenticated),
    ("registry.v1.ApprovalService/DecideApproval", APPROVERS),
    ("registry.v1.ApprovalService/CancelApproval", Allowed::Authenticated),
    ("registry.v1.ApprovalService/ListStandingGrants", GRANT_READERS),
    ("registry.v1.ApprovalService/RevokeStandingGrant", REVIEWERS),
    ("registry.v1.AccessService/CreateToken", ADMINS),
    ("registry.v1.AccessService/ListTokens", ADMINS),
    ("registry.v1.AccessService/RevokeToken", ADMINS),
    ("registry.v1.AccessService/WhoAmI", Allowed::Authenticated),
    ("grpc.health.v1.Health/Check", Allowed::Everyone),
    ("grpc.health.v1.Health/Watch", Allowed::Everyone),
    ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Allowed::Authenticated),
    UNLISTED,
];

/// The older reflection service is served, but does not list itself.
const UNLISTED: (&str, Allowed) =
    ("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Allowed::Authenticated);

#[tokio::test]
async fn methods_enforce_their_required_roles() {
    let guarded = Guarded::start(&[]);
    let mut served = served(&guarded).await;
    served.insert(UNLISTED.0.to_owned());
    let ruled: BTreeSet<_> = RULES.iter().map(|(method, _)| (*method).to_owned()).collect();
    let missing: Vec<_> = served.difference(&ruled).collect();
    assert!(missing.is_empty(), "methods without an authorization test: {missing:?}");
    let gone: Vec<_> = ruled.difference(&served).collect();
    assert!(gone.is_empty(), "rules of methods that are not served: {gone:?}");

    let tokens = ROLES.map(|role| (role, guarded.token(role, "team", role)));
    for (method, may) in RULES {
        let stranger = call(guarded.registry.channel().await, method).await;
        match may {
            Allowed::Everyone => assert_accepted(&stranger, method, "nobody"),
            _ => assert_refused(&stranger, method, (Code::Unauthenticated, "CREDENTIALS_MISSING")),
        }
        for (role, token) in &tokens {
            let answer = call(guarded.channel(token).await, method).await;
            match may {
                Allowed::Roles(roles) if !roles.contains(role) => {
                    assert_refused(&answer, method, (Code::PermissionDenied, "PERMISSION_DENIED"));
                }
                _ => assert_accepted(&answer, method, role),
            }
        }
    }
}

#[tokio::test]
async fn unknown_method_is_unimplemented_for_every_role() {
    let guarded = Guarded::start(&[]);
    for method in ["registry.v1.RegistryService/Drop", "registry.v9.Nothing/At"] {
        let answers = [
            call(guarded.registry.channel().await, method).await,
            call(guarded.channel(&guarded.admin).await, method).await,
        ];
        for answer in answers {
            assert_refused(&answer, method, (Code::Unimplemented, "UNIMPLEMENTED"));
        }
    }
}

#[tokio::test]
async fn http_paths_enforce_their_required_roles() {
    let guarded = Guarded::start(&[]);
    let get = async |path: &str, token: Option<&str>| {
        let mut request = reqwest::Client::new().get(format!("{}{path}", guarded.registry.url()));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        request.send().await.expect("it answers").status().as_u16()
    };
    assert_eq!(get("/metrics", None).await, 404, "only on the admin address");
    for open in ["/livez", "/readyz"] {
        assert_eq!(get(open, None).await, 200, "{open}");
    }
    assert_eq!(get("/registry.json", None).await, 401);
    assert_eq!(get("/registry.json", Some("rgy_wrong")).await, 401);
    for role in ROLES {
        let token = guarded.token(role, "team", role);
        assert_eq!(get("/registry.json", Some(&token)).await, 200, "{role}");
    }
    assert_eq!(get("/nothing", None).await, 404);
}

fn assert_accepted(answer: &Result<(), Status>, method: &str, who: &str) {
    if let Err(status) = answer {
        let refused = [Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented];
        assert!(!refused.contains(&status.code()), "{who} is refused by {method}: {status:?}");
    }
}

fn assert_refused(answer: &Result<(), Status>, method: &str, (code, reason): (Code, &str)) {
    let status = answer.as_ref().expect_err(method);
    assert_eq!(status.code(), code, "{method}: {status:?}");
    let info = status.get_details_error_info().expect("an ErrorInfo");
    assert_eq!((&*info.domain, &*info.reason), ("registry", reason), "{method}");
}

/// Calls a method with an empty message. A stream counts as successful when it starts.
async fn call<S>(connection: S, method: &str) -> Result<(), Status>
where
    S: GrpcService<tonic::body::Body>,
    S::ResponseBody: tonic::codegen::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as tonic::codegen::Body>::Error: Into<tonic::codegen::StdError> + Send,
{
    let mut client = Grpc::new(connection);
    client.ready().await.map_err(|e| Status::internal(e.into().to_string()))?;
    let path = format!("/{method}").parse().expect("a path");
    let empty = tokio_stream::iter([Vec::new()]);
    client.streaming(Request::new(empty), path, Raw).await.map(drop)
}

/// The methods of all services, by reflection.
async fn served(guarded: &Guarded) -> BTreeSet<String> {
    let mut client = ServerReflectionClient::new(guarded.channel(&guarded.admin).await);
    let mut ask = async |message_request| {
        let request =
            ServerReflectionRequest { host: String::new(), message_request: Some(message_request) };
        let answers = client.server_reflection_info(tokio_stream::iter([request])).await;
        let mut answers = answers.expect("reflection").into_inner();
        let answer = answers.message().await.expect("an answer").expect("one answer");
        answer.message_response.expect("a message")
    };
    let services = ask(MessageRequest::ListServices(String::new())).await;
    let MessageResponse::ListServicesResponse(services) = services else { panic!("no services") };
    let mut methods = BTreeSet::new();
    for service in services.service {
        let file = ask(MessageRequest::FileContainingSymbol(service.name.clone())).await;
        let MessageResponse::FileDescriptorResponse(file) = file else { panic!("no file") };
        for bytes in file.file_descriptor_proto {
            let file = prost_types::FileDescriptorProto::decode(&*bytes).expect("a descriptor");
            for described in &file.service {
                if format!("{}.{}", file.package(), described.name()) == service.name {
                    let name = |method: &prost_types::MethodDescriptorProto| {
                        format!("{}/{}", service.name, method.name())
                    };
                    methods.extend(described.method.iter().map(name));
                }
            }
        }
    }
    assert!(methods.len() > 10, "{methods:?}");
    methods
}

/// Messages as raw bytes.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        buffer.advance(buffer.remaining());
        Ok(Some(()))
    }
}
