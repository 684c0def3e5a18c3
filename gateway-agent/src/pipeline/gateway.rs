//! The shared state of all calls: policy, views, validators, upstreams.

use std::sync::{Arc, OnceLock};

use gateway_compose::CompositionState;
use gateway_policy::{
    BufferPool, BufferReservation, CallerIdentity, QuotaKey, Rates, RuntimeValidation, Traces,
};
use gateway_protocol::naming::ResourceNames;
use gateway_upstream::{FeatureExposure, Upstreams};
use registry_core::{Catalog, Key, entity::Exposure};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Settings, approval::trace_owner, route, streams::EventStreams};
use crate::{
    approvals::CallApprovals,
    contract::Contracts,
    freshness::StalenessMonitor,
    graphs::{Graphs, RequestTrace},
    identity::{
        Caller, ClientInfo,
        authenticator::{Authentication, Authenticator},
        identify,
    },
    inspection::Inspections,
    registrations::Registrations,
    seal::Sealer,
    spending::Spending,
    trace::Tracer,
    usage::Usage,
    view::{
        Snapshot, View, Views,
        validators::Validators,
        visible_servers::{VisibleServers, exposures},
    },
    workers::Workers,
};

/// The shared state of the gateway.
#[derive(Debug)]
pub struct Gateway {
    settings: Settings,
    authenticator: Authenticator,
    parts: GatewayParts,
    views: Views,
    shared: SharedState,
    closing: CancellationToken,
    /// The gateway that continues event streams after a reload.
    successor: OnceLock<Arc<Gateway>>,
}

/// State that survives a change of the configuration.
#[derive(Debug, Clone)]
struct SharedState {
    validators: Arc<Validators>,
    workers: Arc<Workers>,
    buffers: Arc<BufferPool>,
    rates: Arc<Rates>,
    traces: Arc<Traces>,
    inspections: Arc<Inspections>,
    streams: Arc<EventStreams>,
}

impl SharedState {
    fn new(settings: &Settings) -> Self {
        Self {
            validators: Arc::default(),
            workers: Arc::default(),
            buffers: Arc::default(),
            rates: Arc::default(),
            traces: Arc::default(),
            inspections: Arc::default(),
            streams: Arc::new(EventStreams::new(settings.upstream.sessions)),
        }
    }
}

/// The parts of a gateway that do not depend on its settings.
#[derive(Debug, Clone)]
pub struct GatewayParts {
    /// The catalog of the registry.
    pub catalog: watch::Receiver<Arc<Catalog>>,
    /// Measures the age of the catalog.
    pub staleness: StalenessMonitor,
    /// The upstream servers.
    pub upstreams: Arc<Upstreams>,
    /// The contracts of their tools.
    pub contracts: Arc<Contracts>,
    /// The state of compositions: sagas and idempotency keys.
    pub compositions: Arc<CompositionState>,
    /// The reservations in budgets.
    pub spending: Arc<Spending>,
    /// The approvals of calls.
    pub approvals: Arc<CallApprovals>,
    /// Stores the registrations of data agents.
    pub registrations: Arc<Registrations>,
    /// Counts calls for the registry. `None` without a registry.
    pub usage: Option<Arc<Usage>>,
    /// The execution graphs.
    pub(crate) graphs: Arc<Graphs>,
    /// Seals the ids of sessions and tasks.
    pub(crate) sealer: Arc<Sealer>,
    /// The tracer of calls.
    pub tracer: Arc<Tracer>,
}

impl Gateway {
    /// Creates a gateway. Its catalog is empty until one is loaded.
    pub fn new(settings: Settings, authenticator: Authenticator, parts: GatewayParts) -> Self {
        let shared = SharedState::new(&settings);
        Self::assemble(settings, authenticator, parts, shared)
    }

    pub(super) fn reconfigured(&self, settings: Settings, authenticator: Authenticator) -> Self {
        Self::assemble(settings, authenticator, self.parts.clone(), self.shared.clone())
    }

    fn assemble(
        settings: Settings,
        authenticator: Authenticator,
        parts: GatewayParts,
        shared: SharedState,
    ) -> Self {
        let GatewayParts { catalog, contracts, .. } = &parts;
        let views = Views::new(catalog.clone(), contracts.definitions(), Arc::clone(contracts))
            .with_skills(settings.agents.as_tools)
            .with_policy(settings.own_policy.clone());
        let (closing, successor) = (CancellationToken::new(), OnceLock::new());
        Self { settings, authenticator, parts, views, shared, closing, successor }
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// The gateway that replaced this one, if it authenticates callers by the same rules.
    pub(crate) fn successor(&self) -> Option<&Arc<Self>> {
        self.successor.get()
    }

    pub(super) fn set_successor(&self, successor: &Arc<Self>) {
        // Reloads do not overlap, so there is none yet.
        let _ = self.successor.set(Arc::clone(successor));
    }

    /// Ends open event streams, so that a graceful shutdown can complete. Calls continue.
    pub fn close_streams(&self) {
        self.closing.cancel();
    }

    /// Cancelled when the gateway closes its streams.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// The settings of the pipeline.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The checks of callers, calls and definitions.
    pub fn policy(&self) -> RuntimeValidation {
        self.settings.policy
    }

    /// The targets.
    pub fn upstreams(&self) -> &Arc<Upstreams> {
        &self.parts.upstreams
    }

    /// The state of compositions.
    pub fn compositions(&self) -> &Arc<CompositionState> {
        &self.parts.compositions
    }

    /// The views of callers.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// The limits of the age of the catalog.
    pub fn staleness(&self) -> &StalenessMonitor {
        &self.parts.staleness
    }

    /// The compiled schemas.
    pub fn validators(&self) -> &Validators {
        &self.shared.validators
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.shared.workers
    }

    /// The memory quota of buffered requests and results.
    pub(crate) fn buffers(&self) -> &Arc<BufferPool> {
        &self.shared.buffers
    }

    /// The rates of policies.
    pub(crate) fn rates(&self) -> &Rates {
        &self.shared.rates
    }

    /// The reservations in budgets.
    pub(crate) fn spending(&self) -> &Arc<Spending> {
        &self.parts.spending
    }

    /// The approvals of calls.
    pub(crate) fn approvals(&self) -> &Arc<CallApprovals> {
        &self.parts.approvals
    }

    /// Stores the registrations of data agents.
    pub(crate) fn registrations(&self) -> &Registrations {
        &self.parts.registrations
    }

    /// Counts calls for the registry. `None` without a registry.
    pub(crate) fn usage(&self) -> Option<&Arc<Usage>> {
        self.parts.usage.as_ref()
    }

    /// The execution graphs.
    pub(crate) fn graphs(&self) -> &Arc<Graphs> {
        &self.parts.graphs
    }

    /// The trace of a request. `named`: the caller's id of it. While a policy inspects data, its graph
    /// has digests only.
    pub(crate) fn trace_of(&self, caller: &Authentication, named: Option<&str>) -> RequestTrace {
        let snapshot = self.views.now();
        let governance = snapshot.governance.as_ref();
        let inspects = governance.is_some_and(|governance| governance.inspects());
        let has_values = self.settings.trace_values && !inspects;
        RequestTrace::new(&self.parts.graphs, trace_owner(caller), named, has_values)
    }

    /// The counts of calls in traces.
    pub(crate) fn traces(&self) -> &Traces {
        &self.shared.traces
    }

    /// Opens an empty reservation of a caller's memory quota.
    pub(crate) fn open_buffer(&self, caller: &Authentication) -> Arc<BufferReservation> {
        Arc::new(self.buffers().open(caller.payer.clone(), self.settings.buffered_bytes))
    }

    /// The limit of event streams.
    pub(crate) fn streams(&self) -> &EventStreams {
        &self.shared.streams
    }

    /// The state of inspections.
    pub(crate) fn inspections(&self) -> &Arc<Inspections> {
        &self.shared.inspections
    }

    /// The tracer of calls.
    pub fn tracer(&self) -> &Arc<Tracer> {
        &self.parts.tracer
    }

    pub(crate) fn sealer(&self) -> &Arc<Sealer> {
        &self.parts.sealer
    }

    /// The view of a caller in a snapshot.
    pub fn view(&self, snapshot: &Snapshot, caller: &Caller) -> Arc<View> {
        self.views.view(snapshot, &route::audience(self.policy(), caller))
    }

    /// The prompts and resources that servers of a view expose.
    pub fn visible_servers(
        &self,
        snapshot: &Snapshot,
        view: &View,
        caller: &Caller,
    ) -> VisibleServers {
        let exposure = |server: &Key| self.upstreams().feature_exposure(server);
        VisibleServers::new(snapshot, (view, caller.agent()), exposure)
    }

    /// The names of a server's resources for callers, if the server exposes resources.
    pub(crate) fn resource_names(
        &self,
        snapshot: &Snapshot,
        server: &Key,
    ) -> Option<ResourceNames> {
        let FeatureExposure { prefix, exposes } = self.upstreams().feature_exposure(server)?;
        let exposes = exposures(snapshot, server, exposes)?;
        let interfaces = snapshot.definitions.interfaces().clone();
        let names = ResourceNames { prefix, interfaces };
        exposes.contains(&Exposure::Resources).then_some(names)
    }

    /// Resolves the caller in a snapshot.
    pub fn identify(
        &self,
        snapshot: &Snapshot,
        claim: &CallerIdentity,
        client: Option<Arc<ClientInfo>>,
    ) -> Caller {
        let named = snapshot.named(claim);
        let caller = identify(self.settings.identity, &snapshot.catalog, &named, client);
        caller.without_agents_of_others(&snapshot.catalog, claim, &named)
    }

    /// The quota key of a caller.
    pub(crate) fn principal(&self, claim: &CallerIdentity) -> QuotaKey {
        // `clientInfo` is unverified, so it never selects a quota.
        self.identify(&self.views.now(), claim, None).principal(claim)
    }
}
