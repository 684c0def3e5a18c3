//! Required roles of every gRPC method and HTTP path. Methods that are not in the table are rejected.

use http::Method;

use super::{Role, Roles};

/// Requirement of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// No authentication.
    None,
    /// Authentication, with any role.
    Authenticated,
    /// Authentication and one of these roles.
    AnyRole(Roles),
}

const READ: Requirement = Requirement::AnyRole(Roles::new(&[
    Role::Reader,
    Role::Publisher,
    Role::Auditor,
    Role::Governor,
    Role::Approver,
    Role::Admin,
]));
/// Validation decides which entities a role may change.
const APPLY: Requirement =
    Requirement::AnyRole(Roles::new(&[Role::Publisher, Role::Governor, Role::Admin]));
const WRITE: Requirement = Requirement::AnyRole(Roles::new(&[Role::Publisher, Role::Admin]));
const AUDIT: Requirement = Requirement::AnyRole(Roles::new(&[Role::Auditor, Role::Admin]));
/// Governors wait for gateways after an emergency.
const FLEET: Requirement =
    Requirement::AnyRole(Roles::new(&[Role::Auditor, Role::Governor, Role::Admin]));
/// Governors change limits, and close the accounts of lost gateways.
const GOVERN: Requirement = Requirement::AnyRole(Roles::new(&[Role::Governor, Role::Admin]));
/// Only gateways spend, count and trace calls, and use approvals. Relays forward their messages.
const SPEND: Requirement =
    Requirement::AnyRole(Roles::new(&[Role::Gateway, Role::Relay, Role::Admin]));
/// People decide about calls. Validation decides which calls a person may decide about.
const DECIDE: Requirement = Requirement::AnyRole(Roles::new(&[Role::Approver, Role::Admin]));
const REVOKE: Requirement =
    Requirement::AnyRole(Roles::new(&[Role::Approver, Role::Governor, Role::Admin]));
const GRANTS: Requirement =
    Requirement::AnyRole(Roles::new(&[Role::Auditor, Role::Approver, Role::Governor, Role::Admin]));
const ADMIN: Requirement = Requirement::AnyRole(Roles::new(&[Role::Admin]));
/// Gateways follow the log, and so do users who export or watch it.
const FOLLOW: Requirement = Requirement::AnyRole(Roles::ALL);

/// Requirements of gRPC methods and HTTP paths.
const TABLE: &[(&str, Requirement)] = &[
    ("/registry.v1.RegistryService/ApplyChanges", APPLY),
    ("/registry.v1.RegistryService/GetEntity", READ),
    ("/registry.v1.RegistryService/BatchGetEntities", READ),
    ("/registry.v1.RegistryService/ListEntities", READ),
    ("/registry.v1.RegistryService/GetRegistryInfo", FOLLOW),
    ("/registry.v1.RegistryService/ListSettings", READ),
    ("/registry.v1.HistoryService/ListCommits", READ),
    ("/registry.v1.HistoryService/GetCommit", READ),
    ("/registry.v1.HistoryService/ListEntityEvents", READ),
    ("/registry.v1.HistoryService/CompareRevisions", READ),
    ("/registry.v1.HistoryService/BlameEntity", READ),
    ("/registry.v1.HistoryService/ExportCatalog", READ),
    ("/registry.v1.AuditService/GetCheckpoint", READ),
    ("/registry.v1.AuditService/GetInclusionProof", READ),
    // The method reads the whole database.
    ("/registry.v1.AuditService/VerifyLog", AUDIT),
    ("/registry.v1.AuditService/ListAccessEvents", AUDIT),
    ("/registry.v1.GraphService/GetDependencies", READ),
    ("/registry.v1.GraphService/GetDependents", READ),
    ("/registry.v1.GraphService/ExplainDependency", READ),
    ("/registry.v1.GraphService/AnalyzeImpact", READ),
    ("/registry.v1.GraphService/ResolveVersions", READ),
    ("/registry.v1.DiscoveryService/SearchEntities", READ),
    ("/registry.v1.SbomService/ExportSbom", READ),
    ("/registry.v1.SbomService/FindComponentUsers", READ),
    ("/registry.v1.SyncService/Sync", FOLLOW),
    ("/registry.v1.SyncService/ListGateways", FLEET),
    ("/registry.v1.LedgerService/ReportSpending", SPEND),
    ("/registry.v1.LedgerService/WatchRecalls", SPEND),
    ("/registry.v1.LedgerService/ListBudgets", FLEET),
    ("/registry.v1.LedgerService/GetBudget", FLEET),
    ("/registry.v1.LedgerService/AdjustBudget", GOVERN),
    ("/registry.v1.LedgerService/ReclaimBudget", GOVERN),
    ("/registry.v1.UsageService/ReportUsage", SPEND),
    ("/registry.v1.UsageService/QueryUsage", FLEET),
    ("/registry.v1.TraceService/ReportTraceCalls", SPEND),
    // Callers without a role see the calls of their own account.
    ("/registry.v1.TraceService/ListTraceCalls", Requirement::Authenticated),
    ("/registry.v1.ApprovalService/GetArgumentsKey", SPEND),
    ("/registry.v1.ApprovalService/RequestApproval", SPEND),
    ("/registry.v1.ApprovalService/ConfirmApproval", SPEND),
    ("/registry.v1.ApprovalService/WithdrawApproval", SPEND),
    ("/registry.v1.ApprovalService/ClaimApproval", SPEND),
    ("/registry.v1.ApprovalService/ReportApprovalOutcome", SPEND),
    // Callers without a role see and cancel their own requests.
    ("/registry.v1.ApprovalService/ListApprovals", Requirement::Authenticated),
    ("/registry.v1.ApprovalService/GetApproval", Requirement::Authenticated),
    ("/registry.v1.ApprovalService/DecideApproval", DECIDE),
    ("/registry.v1.ApprovalService/CancelApproval", Requirement::Authenticated),
    ("/registry.v1.ApprovalService/ListStandingGrants", GRANTS),
    ("/registry.v1.ApprovalService/RevokeStandingGrant", REVOKE),
    ("/registry.v1.AccessService/CreateToken", ADMIN),
    ("/registry.v1.AccessService/ListTokens", ADMIN),
    ("/registry.v1.AccessService/RevokeToken", ADMIN),
    ("/registry.v1.AccessService/WhoAmI", Requirement::Authenticated),
    // Health checks send no credentials.
    ("/grpc.health.v1.Health/Check", Requirement::None),
    ("/grpc.health.v1.Health/Watch", Requirement::None),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Requirement::Authenticated),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Requirement::Authenticated),
    ("/livez", Requirement::None),
    ("/readyz", Requirement::None),
    ("/registry.json", FOLLOW),
    // The document describes each server of this version and has no data of the registry.
    ("/openapi.json", Requirement::None),
    // The pages of people authenticate by their own sessions.
    ("/sign-in", Requirement::None),
    ("/sign-in/oidc", Requirement::None),
    ("/sign-in/callback", Requirement::None),
    ("/sign-in/token", Requirement::None),
    ("/sign-out", Requirement::None),
    ("/approvals", Requirement::None),
    ("/approvals/style.css", Requirement::None),
];

/// Path prefix of the pages of approval requests.
const APPROVALS: &str = "/approvals/";

/// Path prefix of the JSON Schemas. Editors send no credentials.
const SCHEMAS: &str = "/schemas/";

/// Path prefix of the MCP registry API. Some of its clients cannot send a token.
pub(crate) const MCP_REGISTRY: &str = "/v0.1/";
const VALIDATE: &str = "/v0.1/validate";

/// Returns the requirement of a request, or `None` for an unknown route. `is_mcp_public` makes reads of the
/// MCP registry API public.
pub(crate) fn requirement(method: &Method, path: &str, is_mcp_public: bool) -> Option<Requirement> {
    if path.starts_with(MCP_REGISTRY) {
        // Validation has no side effects, so it needs the same role as a read.
        let is_read = method.is_safe() || path == VALIDATE;
        return Some(match (is_read, is_mcp_public) {
            // A CORS preflight request has no credentials.
            _ if method == Method::OPTIONS => Requirement::None,
            (true, true) => Requirement::None,
            (true, false) => READ,
            (false, _) => WRITE,
        });
    }
    let entry = TABLE.iter().find(|(known, _)| *known == path);
    let is_public = || path.starts_with(APPROVALS) || path.starts_with(SCHEMAS);
    entry.map(|(_, requirement)| *requirement).or_else(|| is_public().then_some(Requirement::None))
}

/// Returns the path if it is in the table. Metrics use it as a label, which bounds the label's values.
pub fn known_path(path: &str) -> Option<&'static str> {
    TABLE.iter().find(|(known, _)| *known == path).map(|(known, _)| *known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_route_has_no_requirement() {
        assert_eq!(requirement(&Method::POST, "/registry.v1.RegistryService/Drop", true), None);
        assert_eq!(requirement(&Method::GET, "/registry.json/", true), None);
        assert_eq!(requirement(&Method::GET, "/v0.1", true), None);
    }

    #[test]
    fn schemas_are_public() {
        for path in ["/schemas/", "/schemas/tool.schema.json"] {
            assert_eq!(requirement(&Method::GET, path, false), Some(Requirement::None), "{path}");
        }
        assert_eq!(requirement(&Method::GET, "/schemas", false), None);
    }

    #[test]
    fn only_mcp_registry_reads_are_public() {
        assert_eq!(requirement(&Method::GET, "/v0.1/servers", true), Some(Requirement::None));
        assert_eq!(requirement(&Method::GET, "/v0.1/servers", false), Some(READ));
        assert_eq!(requirement(&Method::POST, "/v0.1/publish", true), Some(WRITE));
        assert_eq!(requirement(&Method::OPTIONS, "/v0.1/servers", false), Some(Requirement::None));
        assert_eq!(requirement(&Method::POST, "/v0.1/validate", false), Some(READ));
        assert_eq!(requirement(&Method::POST, "/v0.1/validate", true), Some(Requirement::None));
    }
}
