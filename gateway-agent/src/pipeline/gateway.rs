//! What every call needs: policy, views, validators, upstreams.

use std::sync::{Arc, OnceLock};

use gateway_compose::Memory;
use gateway_policy::{Buffers, HeaderClaim, Principal, RuntimeValidation};
use gateway_protocol::naming::ResourceNames;
use gateway_upstream::{Showing, Upstreams};
use registry_core::{Catalog, Key, entity::Exposure};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Settings, route};
use crate::{
    audit,
    contract::Contracts,
    freshness::Watchman,
    identity::{Caller, ClientInfo, doorkeeper::Doorkeeper, identify},
    seal::Sealer,
    trace::Tracer,
    view::{
        Snapshot, View, Views,
        shown::{Showcase, exposures},
        validators::Validators,
    },
    workers::Workers,
};

/// The gateway's shared state.
#[derive(Debug)]
pub struct Gateway {
    settings: Settings,
    doorkeeper: Doorkeeper,
    parts: Parts,
    views: Views,
    kept: Kept,
    closing: CancellationToken,
    /// The gateway that takes over event streams after a reload.
    successor: OnceLock<Arc<Gateway>>,
}

/// State that a change of the configuration keeps.
#[derive(Debug, Clone, Default)]
struct Kept {
    validators: Arc<Validators>,
    workers: Arc<Workers>,
    buffers: Arc<Buffers>,
}

/// What a gateway stands on, whatever its configuration.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The registry, as far as it is known.
    pub catalog: watch::Receiver<Arc<Catalog>>,
    /// Who knows how old that is.
    pub watchman: Watchman,
    /// The upstream servers.
    pub upstreams: Arc<Upstreams>,
    /// What their tools promise.
    pub contracts: Arc<Contracts>,
    /// What compositions remember.
    pub compositions: Arc<Memory>,
    /// Seals the ids of sessions and tasks.
    pub(crate) sealer: Arc<Sealer>,
    /// The tracer of calls.
    pub tracer: Arc<Tracer>,
}

impl Gateway {
    /// Creates a gateway. Until a catalog is loaded, it has an empty one.
    pub fn new(settings: Settings, doorkeeper: Doorkeeper, parts: Parts) -> Self {
        audit::describe_metrics();
        Self::assemble(settings, doorkeeper, parts, Kept::default())
    }

    /// Creates the same gateway with other settings.
    pub(super) fn reconfigured(&self, settings: Settings, doorkeeper: Doorkeeper) -> Self {
        Self::assemble(settings, doorkeeper, self.parts.clone(), self.kept.clone())
    }

    fn assemble(settings: Settings, doorkeeper: Doorkeeper, parts: Parts, kept: Kept) -> Self {
        let Parts { catalog, contracts, .. } = &parts;
        let views = Views::new(catalog.clone(), contracts.definitions(), Arc::clone(contracts));
        let (closing, successor) = (CancellationToken::new(), OnceLock::new());
        Self { settings, doorkeeper, parts, views, kept, closing, successor }
    }

    /// Authenticates callers.
    pub(crate) fn doorkeeper(&self) -> &Doorkeeper {
        &self.doorkeeper
    }

    /// The gateway that replaced this one, if it authenticates callers by the same rules.
    pub(crate) fn successor(&self) -> Option<&Arc<Self>> {
        self.successor.get()
    }

    pub(super) fn set_successor(&self, successor: &Arc<Self>) {
        // Reloads do not overlap, so there is none yet.
        let _ = self.successor.set(Arc::clone(successor));
    }

    /// Ends the open event streams, so that a graceful shutdown can come to an end. Calls go on.
    pub fn close_streams(&self) {
        self.closing.cancel();
    }

    /// Cancelled when the gateway closes its streams.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The checks at run time.
    pub fn policy(&self) -> RuntimeValidation {
        self.settings.policy
    }

    /// The upstream servers.
    pub fn upstreams(&self) -> &Arc<Upstreams> {
        &self.parts.upstreams
    }

    /// What compositions remember.
    pub fn compositions(&self) -> &Arc<Memory> {
        &self.parts.compositions
    }

    /// What callers may see.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// Who knows how old the catalog is.
    pub fn watchman(&self) -> &Watchman {
        &self.parts.watchman
    }

    /// The compiled schemas.
    pub fn validators(&self) -> &Validators {
        &self.kept.validators
    }

    /// The threads for long computations.
    pub(crate) fn workers(&self) -> &Workers {
        &self.kept.workers
    }

    /// The memory of buffered requests and results.
    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.kept.buffers
    }

    /// The tracer of calls.
    pub fn tracer(&self) -> &Arc<Tracer> {
        &self.parts.tracer
    }

    /// Seals the ids of sessions and tasks, which outlive the process.
    pub(crate) fn sealer(&self) -> &Arc<Sealer> {
        &self.parts.sealer
    }

    /// What a caller may see, at that moment.
    pub fn view(&self, snapshot: &Snapshot, caller: &Caller) -> Arc<View> {
        self.views.of(snapshot, &route::audience(self.policy(), caller))
    }

    /// What the servers behind a view have besides tools, at that moment.
    pub fn showcase(&self, snapshot: &Snapshot, view: &View) -> Showcase {
        Showcase::of(snapshot, view, |server| self.upstreams().showing(server))
    }

    /// Resource names of a server for callers, if exposed.
    pub(crate) fn resource_names(
        &self,
        snapshot: &Snapshot,
        server: &Key,
    ) -> Option<ResourceNames> {
        let Showing { prefix, exposes } = self.upstreams().showing(server)?;
        let exposes = exposures(snapshot, server, exposes)?;
        let interfaces = snapshot.definitions.interfaces().clone();
        let names = ResourceNames { prefix, interfaces };
        exposes.contains(&Exposure::Resources).then_some(names)
    }

    /// Who is calling, at that moment.
    pub fn identify(
        &self,
        snapshot: &Snapshot,
        claim: &HeaderClaim,
        client: Option<Arc<ClientInfo>>,
    ) -> Caller {
        identify(self.settings.identity, &snapshot.catalog, claim, client)
    }

    /// Against whose share it counts what such a caller takes now.
    pub(crate) fn principal(&self, claim: &HeaderClaim) -> Principal {
        // What a client says of itself makes nobody a principal.
        self.identify(&self.views.now(), claim, None).principal(claim)
    }
}
