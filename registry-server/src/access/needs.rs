//! Which call needs which role: one table, and what is not in it is refused.

use http::Method;

use super::{Role, Roles};

/// What a caller must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: whoever reaches the server may call.
    Nothing,
    /// To be authenticated.
    Anybody,
    /// One of these roles.
    OneOf(Roles),
}

const READ: Need =
    Need::OneOf(Roles::of(&[Role::Reader, Role::Publisher, Role::Auditor, Role::Admin]));
const WRITE: Need = Need::OneOf(Roles::of(&[Role::Publisher, Role::Admin]));
const AUDIT: Need = Need::OneOf(Roles::of(&[Role::Auditor, Role::Admin]));
const ADMIN: Need = Need::OneOf(Roles::of(&[Role::Admin]));
/// A gateway follows; so do people who export or watch.
const FOLLOW: Need = Need::OneOf(Roles::ALL);

/// Every gRPC method and every path of HTTP.
const TABLE: &[(&str, Need)] = &[
    ("/registry.v1.RegistryService/Apply", WRITE),
    ("/registry.v1.RegistryService/Get", READ),
    ("/registry.v1.RegistryService/List", READ),
    ("/registry.v1.RegistryService/ListSettings", READ),
    ("/registry.v1.HistoryService/ListCommits", READ),
    ("/registry.v1.HistoryService/GetCommit", READ),
    ("/registry.v1.HistoryService/GetEntityHistory", READ),
    ("/registry.v1.HistoryService/CompareRevisions", READ),
    ("/registry.v1.HistoryService/Blame", READ),
    ("/registry.v1.HistoryService/ExportCatalog", READ),
    ("/registry.v1.AuditService/GetCheckpoint", READ),
    ("/registry.v1.AuditService/Prove", READ),
    // It reads the whole database.
    ("/registry.v1.AuditService/VerifyLog", AUDIT),
    ("/registry.v1.AuditService/ListAccessEvents", AUDIT),
    ("/registry.v1.GraphService/GetDependencies", READ),
    ("/registry.v1.GraphService/GetDependents", READ),
    ("/registry.v1.GraphService/Why", READ),
    ("/registry.v1.GraphService/Impact", READ),
    ("/registry.v1.GraphService/Resolve", READ),
    ("/registry.v1.DiscoveryService/Search", READ),
    ("/registry.v1.SbomService/ExportSbom", READ),
    ("/registry.v1.SbomService/WhoHas", READ),
    ("/registry.v1.SyncService/Sync", FOLLOW),
    ("/registry.v1.SyncService/ListGateways", AUDIT),
    ("/registry.v1.AccessService/CreateToken", ADMIN),
    ("/registry.v1.AccessService/ListTokens", ADMIN),
    ("/registry.v1.AccessService/RevokeToken", ADMIN),
    ("/registry.v1.AccessService/WhoAmI", Need::Anybody),
    // Probes carry no credentials.
    ("/grpc.health.v1.Health/Check", Need::Nothing),
    ("/grpc.health.v1.Health/Watch", Need::Nothing),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Need::Anybody),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Need::Anybody),
    ("/livez", Need::Nothing),
    ("/readyz", Need::Nothing),
    ("/registry.json", FOLLOW),
];

/// The MCP registry API, whose clients cannot all send a token.
pub(crate) const MCP_REGISTRY: &str = "/v0.1/";
const VALIDATE: &str = "/v0.1/validate";

/// What a call needs; `None` for what is not in the table. Reading the MCP registry API needs
/// nothing where it is public.
pub(crate) fn of(method: &Method, path: &str, is_mcp_public: bool) -> Option<Need> {
    if path.starts_with(MCP_REGISTRY) {
        // Checking a document changes nothing, so it is like reading.
        let is_read = method.is_safe() || path == VALIDATE;
        return Some(match (is_read, is_mcp_public) {
            // A browser asks first whether it may ask, and shows nothing then.
            _ if method == Method::OPTIONS => Need::Nothing,
            (true, true) => Need::Nothing,
            (true, false) => READ,
            (false, _) => WRITE,
        });
    }
    TABLE.iter().find(|(known, _)| *known == path).map(|(_, need)| *need)
}

/// The path, where it is one in the table: the label of a metric, of which there must not be many.
pub fn known_path(path: &str) -> Option<&'static str> {
    TABLE.iter().find(|(known, _)| *known == path).map(|(known, _)| *known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_table_has_no_need_that_could_be_met() {
        assert_eq!(of(&Method::POST, "/registry.v1.RegistryService/Drop", true), None);
        assert_eq!(of(&Method::GET, "/registry.json/", true), None);
        assert_eq!(of(&Method::GET, "/v0.1", true), None);
    }

    #[test]
    fn only_reads_of_the_mcp_registry_can_be_public() {
        assert_eq!(of(&Method::GET, "/v0.1/servers", true), Some(Need::Nothing));
        assert_eq!(of(&Method::GET, "/v0.1/servers", false), Some(READ));
        assert_eq!(of(&Method::POST, "/v0.1/publish", true), Some(WRITE));
        assert_eq!(of(&Method::OPTIONS, "/v0.1/servers", false), Some(Need::Nothing));
        assert_eq!(of(&Method::POST, "/v0.1/validate", false), Some(READ));
        assert_eq!(of(&Method::POST, "/v0.1/validate", true), Some(Need::Nothing));
    }
}
