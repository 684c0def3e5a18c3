//! What every call needs: policy, views, validators, upstreams.
//!
//! Deliberately absent: sessions and streams, which belong to a protocol.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use registry_core::{Catalog, Key, entity::Exposure};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    audit,
    buffers::Buffers,
    composition::Memory,
    config::{Config, IdentityConfig, LimitsConfig, RuntimeValidation},
    contract::Contracts,
    freshness::Watchman,
    identity::{Caller, ClientInfo, HeaderClaim, identify},
    permit,
    seal::Sealer,
    shares::Principal,
    trace::Tracer,
    upstream::{ResourceNames, Showing, Upstreams},
    view::{
        Snapshot, View, Views,
        shown::{Showcase, exposures},
        validators::Validators,
    },
    workers::Workers,
};

/// Where the gateway is, and from where web pages may call it.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Origins whose pages may call; without any, those of this machine.
    pub origins: Vec<String>,
    /// Names under which it may be called; without any, those of this machine where it listens on
    /// loopback, and all where it does not.
    pub hosts: Vec<String>,
}

impl Reach {
    /// Whether the configuration names this origin.
    pub(crate) fn is_listed(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|listed| listed.as_bytes().eq_ignore_ascii_case(origin))
    }
}

/// The gateway's shared state.
#[derive(Debug)]
pub struct Gateway {
    reach: Reach,
    config: Config,
    parts: Parts,
    views: Views,
    kept: Kept,
    closing: CancellationToken,
}

/// State that a change of the configuration keeps.
#[derive(Debug, Clone)]
struct Kept {
    validators: Arc<Validators>,
    workers: Arc<Workers>,
    buffers: Arc<Buffers>,
    tracer: Arc<Tracer>,
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
}

impl Gateway {
    /// Puts the parts together. Before anything is loaded, the catalog is an empty one.
    pub fn new(config: &Config, parts: Parts) -> Self {
        audit::describe_metrics();
        let kept = Kept {
            validators: Arc::default(),
            workers: Arc::default(),
            buffers: Arc::default(),
            tracer: Tracer::start(config),
        };
        Self::assemble(config, parts, kept)
    }

    /// The same gateway by another configuration. What is under way stays with this one.
    pub fn reconfigured(&self, config: &Config) -> Self {
        Self::assemble(config, self.parts.clone(), self.kept.clone())
    }

    fn assemble(config: &Config, parts: Parts, kept: Kept) -> Self {
        let Parts { catalog, contracts, .. } = &parts;
        let views = Views::new(catalog.clone(), contracts.definitions(), Arc::clone(contracts));
        let reach = Reach {
            listen: config.listen,
            origins: config.allowed_origins.clone(),
            hosts: config.allowed_hosts.clone(),
        };
        let (config, closing) = (config.clone(), CancellationToken::new());
        Self { reach, config, parts, views, kept, closing }
    }

    /// Ends the open event streams, so that a graceful shutdown can come to an end. Calls go on.
    pub fn close_streams(&self) {
        self.closing.cancel();
    }

    /// Cancelled when the gateway closes its streams.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Where it is, and from where web pages may call it.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// What its operator has set.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How callers are recognised.
    pub fn identity(&self) -> IdentityConfig {
        self.config.identity
    }

    /// What is checked at run time.
    pub fn policy(&self) -> &RuntimeValidation {
        &self.config.registry.runtime
    }

    /// What a caller may cost.
    pub fn limits(&self) -> LimitsConfig {
        self.config.limits
    }

    /// Values for `${NAME}` in defaults.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.config.variables
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
        &self.kept.tracer
    }

    /// Seals the ids of sessions and tasks, which outlive the process.
    pub(crate) fn sealer(&self) -> &Arc<Sealer> {
        &self.parts.sealer
    }

    /// What a caller may see, at that moment.
    pub fn view(&self, snapshot: &Snapshot, caller: &Caller) -> Arc<View> {
        self.views.of(snapshot, &permit::audience(self.policy(), caller))
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
        identify(self.identity(), &snapshot.catalog, claim, client)
    }

    /// Against whose share it counts what such a caller takes now.
    pub(crate) fn principal(&self, claim: &HeaderClaim) -> Principal {
        // What a client says of itself makes nobody a principal.
        self.identify(&self.views.now(), claim, None).principal(claim)
    }
}
