//! The gRPC surface: each handler decodes a request, calls one use case and encodes the response.
//!
//! Other modules use neither generated types nor `tonic::Status`.

/// Takes the page fields out of a request. The other fields must be equal on all pages, so `min_revision` is
/// taken out before.
macro_rules! page_request {
    ($method:literal, $request:ident) => {
        page_request!($method, $request, $crate::app::page::size)
    };
    ($method:literal, $request:ident, $size:path) => {{
        let size = $size(std::mem::take(&mut $request.page_size))?;
        let token = std::mem::take(&mut $request.page_token);
        let query = prost::Message::encode_to_vec(&$request);
        $crate::app::page::PageRequest::new(size, token, $method, &query)
    }};
}

mod access;
mod approvals;
mod audit;
mod deadline;
mod direct;
mod discovery;
mod findings;
mod gateways;
mod graph;
mod history;
mod intake;
mod invalid;
mod ledger;
mod oversize;
mod refusal;
mod registry;
mod sbom;
mod status;
mod sync;
mod traces;
mod usage;

use std::{sync::Arc, time::Duration};

use axum::Router;
use registry_core::Revision;
use registry_proto::{
    FILE_DESCRIPTOR_SET,
    v1::{
        access_service_server::AccessServiceServer, approval_service_server::ApprovalServiceServer,
        audit_service_server::AuditServiceServer, discovery_service_server::DiscoveryServiceServer,
        graph_service_server::GraphServiceServer, history_service_server::HistoryServiceServer,
        ledger_service_server::LedgerServiceServer, registry_service_server::RegistryServiceServer,
        sbom_service_server::SbomServiceServer, trace_service_server::TraceServiceServer,
        usage_service_server::UsageServiceServer,
    },
};
use tonic::{codec::CompressionEncoding::Gzip, service::Routes};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::app::App;

pub(crate) use direct::{attach_response, detach_request};
pub use intake::layer as limit_intake;
pub(crate) use status::connect;
pub use status::{denied, panicked, too_large, unimplemented};

/// The maximum size of a request of `AccessService`.
const ACCESS_REQUEST_BYTES: usize = 64 << 10;

/// The services of health checks; the empty name is the whole server.
const SERVICES: &[&str] = &[
    "",
    "registry.v1.RegistryService",
    "registry.v1.HistoryService",
    "registry.v1.DiscoveryService",
    "registry.v1.AuditService",
    "registry.v1.GraphService",
    "registry.v1.SyncService",
    "registry.v1.SbomService",
    "registry.v1.AccessService",
    "registry.v1.LedgerService",
    "registry.v1.UsageService",
    "registry.v1.TraceService",
    "registry.v1.ApprovalService",
];

/// Limits of requests.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum size of a message, except messages of Sync.
    pub message_bytes: usize,
    /// The timeout of a request other than Sync.
    pub request_timeout: Duration,
}

/// Implements the services.
#[derive(Clone)]
struct Service {
    app: Arc<App>,
    /// The limit on the size of a message.
    message_bytes: usize,
}

impl Service {
    /// Waits until this server has applied the minimum revision of a request.
    async fn reach(&self, min_revision: u64) -> Result<(), tonic::Status> {
        Ok(self.app.catalogs.reach(Revision(min_revision)).await?)
    }
}

/// A service with bounded messages that compresses responses if the client accepts gzip.
macro_rules! bounded {
    ($limit:expr, $service:expr) => {
        $service
            .max_decoding_message_size($limit)
            .max_encoding_message_size($limit)
            .accept_compressed(Gzip)
            .send_compressed(Gzip)
    };
}

/// Routes all services.
pub async fn router(
    app: &Arc<App>,
    limits: Limits,
) -> Result<(Router, Health), tonic_reflection::server::Error> {
    let Limits { message_bytes: limit, request_timeout } = limits;
    let service = Service { app: app.clone(), message_bytes: limit };
    let registry = bounded!(limit, RegistryServiceServer::new(service.clone()));
    let history = bounded!(limit, HistoryServiceServer::new(service.clone()));
    let audit = bounded!(limit, AuditServiceServer::new(audit::Service::new(app.clone())));
    let graph = bounded!(limit, GraphServiceServer::new(service.clone()));
    let discovery = bounded!(limit, DiscoveryServiceServer::new(service.clone()));
    let sbom = bounded!(limit, SbomServiceServer::new(service.clone()));
    let ledger = bounded!(limit, LedgerServiceServer::new(service.clone()));
    let usage = bounded!(limit, UsageServiceServer::new(service.clone()));
    let traces = bounded!(limit, TraceServiceServer::new(service.clone()));
    let approvals = bounded!(limit, ApprovalServiceServer::new(service.clone()));
    let access =
        AccessServiceServer::new(service.clone()).max_decoding_message_size(ACCESS_REQUEST_BYTES);
    let (reporter, health) = tonic_health::server::health_reporter();
    let health_of = Health { reporter };
    health_of.set(ServingStatus::Serving).await;
    let routes = Routes::new(registry)
        .add_service(history)
        .add_service(discovery)
        .add_service(audit)
        .add_service(graph)
        .add_service(sbom)
        .add_service(access)
        .add_service(ledger)
        .add_service(usage)
        .add_service(traces)
        .add_service(approvals)
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let services = routes.into_axum_router().reset_fallback().merge(sync::routes(app.clone()));
    let services = oversize::layer(services, limit);
    Ok((deadline::layer(services, request_timeout), health_of))
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
}

/// Sets the results of gRPC health checks.
#[derive(Clone)]
pub struct Health {
    reporter: HealthReporter,
}

impl Health {
    /// Reports that the server drains.
    pub async fn drain(&self) {
        self.set(ServingStatus::NotServing).await;
    }

    /// Ends the streams of watchers, which would keep their connections open.
    pub async fn close(&self) {
        let mut reporter = self.reporter.clone();
        for service in SERVICES.iter().copied() {
            reporter.clear_service_status(service).await;
        }
    }

    async fn set(&self, status: ServingStatus) {
        for service in SERVICES.iter().copied() {
            self.reporter.set_service_status(service, status).await;
        }
    }
}
