//! Assembles a gateway from its configuration, serves until shutdown, and drains.
//!
//! The order matters: the gateway loads the cached catalog, starts serving, and only then connects
//! to the registry.

mod body;
mod connections;
mod layers;
mod limited_stream;
mod open_requests;
mod reload;
mod routes;
mod surfaces;

use std::{future::Future, net::SocketAddr, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use approval::Approvals;
use atomic_file::with_suffix;
use axum::Router;
use gateway_compose::{CompositionState, Sagas};
use gateway_upstream::{TargetHealth, TargetState, Upstreams, WorkerRuntimes, redact_url};
use ledger::Ledger;
use registry_core::{Kind, entity::policy::Reach};
use registry_follow::{ApprovalClient, LedgerClient, RegistrationClient, TraceClient, UsageClient};
use registry_tls::{Acceptor, InvalidFile, MetricsHooks};
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use self::{
    connections::BoundListener,
    reload::{ConfigVersions, Reloader},
    routes::Routes,
    surfaces::Surfaces,
};
use crate::{
    a2a::{PushConfigs, PushFile, TaskIndex, TaskJournal},
    admin,
    approvals::{CallApprovals, LocalApprovals},
    cache::{Cache, CacheError, Writer},
    capacity, clock,
    config::Config,
    contract::Contracts,
    feed::{Feed, Status},
    findings,
    freshness::StalenessMonitor,
    graphs::Graphs,
    health::{self, Health},
    identity::{authenticator::Authenticator, settings::ApiKeyConfig},
    pipeline::{Gateway, GatewayHandle, GatewayParts, recover_sagas, serve_data_agents},
    registrations::{LocalAgents, LocalRegistrations, Registrations, SelfRegistration},
    seal::{KeyFile, Sealer},
    source::{self, ContentRejected, Discovery, Source},
    spending::{LocalLedger, Reporter, Spending, SpendingClock},
    tls_metrics,
    trace::Tracer,
    usage::Usage,
};

/// The file of data agents without a registry.
const DATA_AGENTS: &str = "agents.json";

/// The purpose of the key of digests of arguments.
const APPROVED_ARGUMENTS: &[u8] = b"approved-arguments-1";

/// Maximum drain time of the admin listener, after the callers' listener.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// Maximum start time of an embedded gateway, whose client waits for the catalog and the upstreams.
const EMBEDDED_START: Duration = Duration::from_secs(5);
/// The same if the lists of the last run are known.
const EMBEDDED_RESTART: Duration = Duration::from_secs(3);
/// Maximum wait for the comparison of the first lists with the contracts.
const EMBEDDED_COMPARISON: Duration = Duration::from_secs(1);
/// Polling interval of both waits.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum drain time of an embedded gateway after its client has ended.
const EMBEDDED_DRAIN: Duration = Duration::from_secs(1);

/// Why the gateway does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cache cannot be opened.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The registry file is rejected, and there is no cached catalog.
    #[error("the registry file is rejected, and the cache has no catalog to serve instead: {0}")]
    ContentRejected(#[from] ContentRejected),
    /// A TLS file is invalid.
    #[error(transparent)]
    Tls(#[from] InvalidFile),
    /// The admin listener cannot bind.
    #[error(
        "cannot listen on the admin address {address}: {source}; choose another address (`admin`)"
    )]
    Admin {
        /// The configured address.
        address: SocketAddr,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The saga journal cannot be opened.
    #[error(
        "cannot open the saga journal next to the cache {}: {source}; make the directory writable, \
         or set another one with --cache, or with --data for MCP servers",
        .cache.display()
    )]
    Sagas {
        /// The path of the cache.
        cache: PathBuf,
        /// The file system's error.
        source: std::io::Error,
    },
    /// The files of budgets cannot be opened.
    #[error(
        "cannot open the crash marks or the ledger of budgets next to the cache {}: {source}; make \
         both readable and the directory writable, or set another one with --cache, or with --data \
         for MCP servers",
        .cache.display()
    )]
    Spending {
        /// The path of the cache.
        cache: PathBuf,
        /// The file system's error.
        source: std::io::Error,
    },
    /// The file of approvals cannot be opened.
    #[error(
        "cannot open the approvals {}: {source}",
        .path.display()
    )]
    Approvals {
        /// The path of the file.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// The file of data agents cannot be opened.
    #[error(
        "cannot open the registrations of data agents {}: {source}; correct the file, or delete it to \
         start without registrations",
        .path.display()
    )]
    DataAgents {
        /// The path of the file.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// The list of A2A tasks cannot be opened.
    #[error(
        "cannot open the list of A2A tasks {}: {source}; make it readable, or delete it to start \
         with an empty list",
        .path.display()
    )]
    Tasks {
        /// The path of the list.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// The file of push notification configurations cannot be opened.
    #[error(
        "cannot open the push notification configurations {}: {source}; make the file readable, or \
         delete it to start without configurations",
        .path.display()
    )]
    PushConfigs {
        /// The path of the file.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// The identity provider's key file is invalid.
    #[error(transparent)]
    Keys(#[from] registry_jwt::InvalidFile),
    /// A worker thread cannot start.
    #[error("cannot start worker threads: {0}")]
    Lanes(std::io::Error),
    /// The listener has no local address.
    #[error("cannot read the address of the listener: {0}")]
    Socket(#[from] std::io::Error),
}

/// The entry point of callers.
#[derive(Debug)]
pub enum EntryPoint {
    /// Connections to a socket.
    Socket(TcpListener),
    /// Requests of this process, through the router that the gateway sends to this channel.
    Routes(oneshot::Sender<Router>),
}

/// Serves until `shutdown` completes, then drains.
pub async fn run(
    entry: EntryPoint,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let is_embedded = matches!(entry, EntryPoint::Routes(_));
    // Taken before reading the files, so that later changes are detected.
    let versions = ConfigVersions::read(&config).await;
    let metrics = health::install_metrics();
    let Assembly {
        tls,
        cache,
        writer,
        staleness,
        upstreams,
        contracts,
        compositions,
        reporting,
        keys,
        sealer,
        tracer,
        tasks,
        push,
        agents,
        gateway,
    } = Assembly::open(&config).await?;
    let origin = CatalogOrigin::at_start(&cache, &config);
    let start = EmbeddedStart::begin((&upstreams, &contracts), origin);
    let surfaces = Surfaces::start(&gateway, tasks, push);
    let reloader =
        Arc::new(Reloader::new((config.clone(), versions), gateway.clone(), contracts.clone()));
    let status = Status::new(&name_of(&config), &config.registry.cache);
    let stop = CancellationToken::new();
    let discovered = config.args.data().join("registry.json");
    let mut discovery =
        Discovery::new(reloader.mcp_servers(), agents, upstreams.clone(), discovered);
    let health = Health {
        cache: cache.clone(),
        staleness: staleness.clone(),
        status: status.clone(),
        upstreams: upstreams.clone(),
        buffers: Arc::clone(gateway.current().buffers()),
        metrics,
        draining: CancellationToken::new(),
    };
    let feed = feed(&health, &config, &stop);
    let draining = health.draining.clone();
    let lanes = Arc::new(WorkerRuntimes::start().map_err(Error::Lanes)?);
    let admin = admin_routes(&reloader, &gateway, (&tracer, &contracts, &upstreams), &reporting);
    let (probes, admin_probes) = (health::router(health.clone()), health::admin_router(health));
    let admin = open_admin(&config, (tls.clone(), lanes.clone()), (admin, admin_probes)).await?;
    let callers = surfaces.routes(probes);
    let mut shutdown = pin!(shutdown);
    tokio::select! {
        prepared = source::prepare(&config.registry.source, &mut discovery, &feed) => prepared?,
        () = &mut shutdown => {
            upstreams.shutdown().await;
            return Ok(());
        }
    }
    let max_per_address = config.address_connections.unwrap_or_else(capacity::address_connections);
    let bind = |listener| BoundListener { listener, tls, lanes: lanes.clone(), max_per_address };
    let described = describe_catalog(&cache, origin);
    let kept = (cache, writer);
    let mut running = match entry {
        EntryPoint::Socket(listener) => {
            RunningGateway::start((bind(listener), described), callers, kept, stop)?
        }
        EntryPoint::Routes(sender) => {
            RunningGateway::embed((sender, layers::embedded(callers)), kept, start, stop)
        }
    };
    running.admin = admin.map(|(listener, router)| running.serve_admin(listener, router.into()));
    running.spawn_monitors(&config, contracts, &upstreams, reloader.api_keys());
    let reporting = reporting.start();
    recover_sagas(&gateway.current());
    running.spawn_refreshes(keys, sealer, Arc::clone(&reloader));
    running.until_stop(keep_data_agents(gateway.clone()));
    let mut following = tokio::spawn(async move {
        source::follow(&config.registry.source, config.name, discovery, feed).await
    });
    let outcome = tokio::select! {
        () = &mut shutdown => Ok(()),
        ended = &mut following => rejected(ended),
    };
    draining.cancel();
    if outcome.is_ok() && !is_embedded {
        notify_load_balancers(reloader.config().drain_notice).await;
    }
    let limit = if is_embedded { EMBEDDED_DRAIN } else { reloader.config().drain_timeout() };
    tracing::info!(?limit, "stopping: running calls may finish within the limit");
    gateway.current().close_streams();
    running.stop(limit, surfaces.drained()).await;
    surfaces.shutdown().await;
    end_calls(&compositions, &upstreams, reporting).await;
    // All requests to upstreams have ended.
    drop(lanes);
    tracer.shutdown().await;
    outcome
}

/// The reports to the ledger of budgets, and those of usage and of traces, before they start, and the
/// approvals.
struct Reporting {
    reporter: Reporter,
    ledger: Arc<dyn Ledger>,
    approvals: ApprovalStore,
    /// `None` without a registry.
    usage: Option<UsageReporting>,
    graphs: Arc<Graphs>,
}

struct UsageReporting {
    usage: Arc<Usage>,
    client: UsageClient,
}

impl Reporting {
    /// Opens the crash marks and the ledger: that of the registry, or a local one.
    fn open(
        config: &Config,
        cache: &Cache,
        approvals: ApprovalStore,
    ) -> std::io::Result<(Arc<Spending>, Self)> {
        let (path, clock) = (&config.registry.cache, SpendingClock::System);
        let registry = source::reported_to(&config.registry.source);
        let reach = if registry.is_some() { Reach::Fleet } else { Reach::Gateway };
        let (spending, reporter) = Spending::open(path, &config.name, reach, clock)?;
        let Some(registry) = registry else {
            let ledger = Arc::new(LocalLedger::open(path, cache.subscribe(), clock)?);
            let graphs = Arc::default();
            return Ok((spending, Self { reporter, ledger, approvals, usage: None, graphs }));
        };
        let usage = Usage::open(clock)?;
        let client = UsageClient::new(registry.clone());
        let graphs = Arc::new(Graphs::in_fleet(TraceClient::new(registry.clone())));
        let ledger = Arc::new(LedgerClient::new(registry));
        let usage = Some(UsageReporting { usage, client });
        Ok((spending, Self { reporter, ledger, approvals, usage, graphs }))
    }

    fn usage(&self) -> Option<Arc<Usage>> {
        self.usage.as_ref().map(|reporting| Arc::clone(&reporting.usage))
    }

    fn start(self) -> RunningReports {
        let Self { reporter, ledger, approvals, usage, graphs } = self;
        let stop = CancellationToken::new();
        let spending = reporter.run(ledger, stop.clone());
        let counting = stop.clone();
        let reporting_usage = async move {
            if let Some(UsageReporting { usage, client }) = usage {
                usage.report(&client, counting).await;
            }
        };
        let recording = stop.clone();
        let reporting_traces = async move { graphs.report(recording).await };
        let sweep_end = stop.clone();
        let sweeping = async move {
            if let Some(own) = approvals.own {
                sweep_end.run_until_cancelled(own.sweep()).await;
            }
        };
        let task = tokio::spawn(async move {
            tokio::join!(spending, reporting_usage, reporting_traces, sweeping);
        });
        RunningReports { task, approvals: approvals.calls, stop }
    }
}

/// The task that reports to the ledger, usage and traces, and the reports of approved calls.
struct RunningReports {
    task: JoinHandle<()>,
    approvals: Arc<CallApprovals>,
    stop: CancellationToken,
}

impl RunningReports {
    /// Closes the accounts, and reports the last usage and outcomes. All calls must have ended.
    async fn stop(self) {
        self.approvals.shutdown().await;
        self.stop.cancel();
        // A panic was already logged.
        let _ = self.task.await;
    }
}

struct Assembly {
    tls: Option<Acceptor>,
    cache: Cache,
    writer: Writer,
    staleness: StalenessMonitor,
    upstreams: Arc<Upstreams>,
    contracts: Arc<Contracts>,
    compositions: Arc<CompositionState>,
    reporting: Reporting,
    keys: KeyFile,
    sealer: Arc<Sealer>,
    tracer: Arc<Tracer>,
    tasks: (Arc<TaskIndex>, TaskJournal),
    push: (Arc<PushConfigs>, PushFile),
    agents: watch::Receiver<LocalAgents>,
    gateway: GatewayHandle,
}

/// The approvals of calls: in the store of the registry, or in a file or in memory.
struct ApprovalStore {
    calls: Arc<CallApprovals>,
    /// Those of the gateway without a registry.
    own: Option<Arc<LocalApprovals>>,
}

impl ApprovalStore {
    fn open(config: &Config, sealer: &Sealer) -> Result<Self, Error> {
        if let Some(registry) = source::reported_to(&config.registry.source) {
            let calls = CallApprovals::new(Arc::new(ApprovalClient::new(registry)), &config.name);
            return Ok(Self { calls, own: None });
        }
        let path = &config.registry.proposals;
        let failed = |source| Error::Approvals { path: path.clone(), source };
        let key = sealer.secrets(APPROVED_ARGUMENTS).into_iter().next();
        let key = key.ok_or_else(|| failed(std::io::Error::other("no random bytes available")))?;
        // People decide at the admin address.
        let own = match &config.admin {
            Some(_) => LocalApprovals::open(path, key, SpendingClock::System).map_err(failed)?,
            None => LocalApprovals::of_confirmations(key, SpendingClock::System),
        };
        let own = Arc::new(own);
        let calls = CallApprovals::new(Arc::clone(&own) as Arc<dyn Approvals>, &config.name);
        Ok(Self { calls, own: Some(own) })
    }
}

impl Assembly {
    /// Opens the files of a gateway and starts its upstreams.
    async fn open(config: &Config) -> Result<Self, Error> {
        let hooks = MetricsHooks {
            reloaded: tls_metrics::count_reload,
            rejected: tls_metrics::count_rejected_certificate,
        };
        let tls = config.tls.clone().map(|files| Acceptor::open(files, hooks)).transpose()?;
        let authenticator = Authenticator::open(config.authenticator()).await?;
        // Before the upstreams: a gateway that cannot lock the cache must not start child
        // processes.
        let (cache, writer) =
            Cache::open(&config.registry.cache, config.registry.catalog_verifier())?;
        let upstreams = Upstreams::start(&config.targets, config.limits);
        let staleness = StalenessMonitor::new(cache.clone(), config.registry.max_staleness);
        let catalog = cache.subscribe();
        let definitions = upstreams.definitions();
        let contracts = Arc::new(Contracts::open(
            &config.registry.cache,
            config.contracts(),
            definitions.borrow().clone(),
        ));
        let cache_file = &config.registry.cache;
        let sagas = Sagas::open(cache_file)
            .map_err(|source| Error::Sagas { cache: cache_file.clone(), source })?;
        let compositions = Arc::new(CompositionState::new(sagas));
        let keys = KeyFile::new(config.session_key_file.as_deref(), &config.registry.cache);
        let sealer = Arc::new(keys.open());
        let approvals = ApprovalStore::open(config, &sealer)?;
        let calls = Arc::clone(&approvals.calls);
        let (spending, reporting) = Reporting::open(config, &cache, approvals)
            .map_err(|source| Error::Spending { cache: cache_file.clone(), source })?;
        let tasks = TaskIndex::open(cache_file, clock::timestamp()).map_err(|source| {
            let path = with_suffix(cache_file, ".tasks");
            Error::Tasks { path, source }
        })?;
        let push = PushConfigs::open(cache_file, clock::timestamp()).map_err(|source| {
            let path = with_suffix(cache_file, ".push");
            Error::PushConfigs { path, source }
        })?;
        let (registrations, agents) = open_registrations(config)?;
        // Only the admin listener serves recent traces.
        let recent = config.admin.is_some().then_some(config.tracing.recent);
        let tracer = Tracer::start(recent, config.tracing.otlp.as_ref(), &config.name);
        let parts = GatewayParts {
            catalog,
            staleness: staleness.clone(),
            upstreams: upstreams.clone(),
            contracts: contracts.clone(),
            compositions: compositions.clone(),
            spending,
            approvals: calls,
            registrations: Arc::new(registrations),
            usage: reporting.usage(),
            graphs: Arc::clone(&reporting.graphs),
            sealer: Arc::clone(&sealer),
            tracer: Arc::clone(&tracer),
        };
        let gateway = GatewayHandle::new(Gateway::new(config.pipeline(), authenticator, parts));
        Ok(Self {
            tls,
            cache,
            writer,
            staleness,
            upstreams,
            contracts,
            compositions,
            reporting,
            keys,
            sealer,
            tracer,
            tasks,
            push,
            agents,
            gateway,
        })
    }
}

/// The place of the registrations of data agents, and those of a gateway without a registry.
fn open_registrations(
    config: &Config,
) -> Result<(Registrations, watch::Receiver<LocalAgents>), Error> {
    let source = &config.registry.source;
    if let Some(registry) = source::reported_to(source) {
        let client = RegistrationClient::new(registry);
        let (_, none) = watch::channel(LocalAgents::default());
        return Ok((Registrations::in_registry(client), none));
    }
    if !source.address.is_discovered() {
        let (_, none) = watch::channel(LocalAgents::default());
        return Ok((Registrations::none(), none));
    }
    let path = config.args.data().join(DATA_AGENTS);
    let local = match LocalRegistrations::open(path.clone()) {
        Err(error) if config.data_agents.registration == SelfRegistration::Off => {
            let file = path.display();
            tracing::warn!(%file, %error, "data agents are not listed: their registrations cannot be opened; correct the file, or delete it");
            let (_, none) = watch::channel(LocalAgents::default());
            return Ok((Registrations::none(), none));
        }
        opened => opened.map_err(|source| Error::DataAgents { path, source })?,
    };
    let agents = local.subscribe();
    Ok((Registrations::local(local), agents))
}

/// Creates the targets of data agents after each change of the catalog or of the configuration.
async fn keep_data_agents(gateway: GatewayHandle) {
    loop {
        let current = gateway.current();
        let (mut catalog, _) = current.views().subscribe();
        catalog.borrow_and_update();
        serve_data_agents(&current);
        tokio::select! {
            changed = catalog.changed() => if changed.is_err() { return },
            // A reload replaces the gateway; a stop ends this task.
            () = current.closing().cancelled() => sleep(POLL_INTERVAL).await,
        }
    }
}

/// Ends the calls that continue without a client, and then closes the accounts of budgets.
async fn end_calls(
    compositions: &CompositionState,
    upstreams: &Upstreams,
    reporting: RunningReports,
) {
    compositions.shutdown().await;
    upstreams.shutdown().await;
    reporting.stop().await;
}

/// Keeps accepting calls after `/readyz` reports not ready, so that load balancers can react.
async fn notify_load_balancers(notice: Duration) {
    tracing::info!("stopping: not ready, new calls are accepted for {notice:?}");
    sleep(notice).await;
}

/// The parts of the gateway that its source updates.
fn feed(health: &Health, config: &Config, stop: &CancellationToken) -> Feed {
    Feed {
        cache: health.cache.clone(),
        staleness: health.staleness.clone(),
        status: health.status.clone(),
        catalog_verifier: config.registry.catalog_verifier(),
        stop: stop.clone(),
    }
}

fn admin_routes(
    reloader: &Arc<Reloader>,
    gateway: &GatewayHandle,
    (tracer, contracts, upstreams): (&Arc<Tracer>, &Arc<Contracts>, &Arc<Upstreams>),
    reporting: &Reporting,
) -> Router {
    admin::traces::router(Arc::clone(tracer))
        .merge(admin::contracts::router(Arc::clone(contracts)))
        .merge(admin::targets::router(Arc::clone(upstreams)))
        .merge(admin::sagas::router(gateway.clone()))
        .merge(admin::graphs::router(Arc::clone(gateway.current().graphs())))
        .merge(admin::budgets::router(Arc::clone(gateway.current().spending())))
        .merge(admin::approvals::router(reporting.approvals.own.clone()))
        .merge(reload::router(Arc::clone(reloader)))
}

/// Binds the admin listener, if configured. It shares the callers' TLS. Probes need no token.
async fn open_admin(
    config: &Config,
    (tls, lanes): (Option<Acceptor>, Arc<WorkerRuntimes>),
    (routes, probes): (Router, Router),
) -> Result<Option<(BoundListener, Router)>, Error> {
    let Some(admin) = &config.admin else { return Ok(None) };
    let address = admin.listen;
    let listener =
        TcpListener::bind(address).await.map_err(|source| Error::Admin { address, source })?;
    let address = listener.local_addr()?;
    tracing::info!(%address, "listening for admin requests");
    let listener =
        BoundListener { listener, tls, lanes, max_per_address: capacity::address_connections() };
    let routes = admin::guarded(routes, admin, address).merge(probes);
    Ok(Some((listener, routes)))
}

/// The result of the source's task, which ended before shutdown.
fn rejected(
    ended: Result<Result<(), ContentRejected>, tokio::task::JoinError>,
) -> Result<(), Error> {
    match ended {
        Ok(outcome) => Ok(outcome?),
        Err(e) => std::panic::resume_unwind(e.into_panic()),
    }
}

/// The background tasks of a serving gateway.
struct RunningGateway {
    cache: Cache,
    serving: JoinHandle<()>,
    admin: Option<JoinHandle<()>>,
    writing: JoinHandle<()>,
    stop: CancellationToken,
    /// Cancelled when the drain timeout expires.
    abort: CancellationToken,
    stop_admin: CancellationToken,
    stop_writing: CancellationToken,
}

impl RunningGateway {
    /// Serves connections and prints the address.
    fn start(
        (listener, catalog): (BoundListener, String),
        routes: Routes,
        (cache, writer): (Cache, Writer),
        stop: CancellationToken,
    ) -> std::io::Result<Self> {
        let address = listener.listener.local_addr()?;
        let scheme = if listener.tls.is_some() { "https" } else { "http" };
        let abort = CancellationToken::new();
        let serving =
            tokio::spawn(connections::serve(listener, routes, (stop.clone(), abort.clone())));
        print_line(&format!("gateway-agent listening on {scheme}://{address} ({catalog})"));
        Ok(Self::with(serving, (stop, abort), (cache, writer)))
    }

    /// Serves through the router only. Standard output belongs to the client.
    fn embed(
        (sender, routes): (oneshot::Sender<Router>, Router),
        (cache, writer): (Cache, Writer),
        start: EmbeddedStart,
        stop: CancellationToken,
    ) -> Self {
        tokio::spawn(start.send_when_ready(sender, routes, cache.clone()));
        let abort = CancellationToken::new();
        let serving = tokio::spawn(stop.clone().cancelled_owned());
        Self::with(serving, (stop, abort), (cache, writer))
    }

    fn with(
        serving: JoinHandle<()>,
        (stop, abort): (CancellationToken, CancellationToken),
        (cache, writer): (Cache, Writer),
    ) -> Self {
        let [stop_admin, stop_writing] = [(); 2].map(|()| CancellationToken::new());
        let writing = tokio::spawn(writer.run(stop_writing.clone()));
        Self { cache, serving, admin: None, writing, stop, abort, stop_admin, stop_writing }
    }

    /// Serves the admin routes until the callers' calls have ended.
    fn serve_admin(&self, listener: BoundListener, routes: Routes) -> JoinHandle<()> {
        let (stop, abort) = (self.stop_admin.clone(), CancellationToken::new());
        tokio::spawn(async move {
            let mut serving =
                pin!(connections::serve(listener, routes, (stop.clone(), abort.clone())));
            let late = async {
                stop.cancelled().await;
                sleep(ADMIN_DRAIN).await;
            };
            tokio::select! {
                () = &mut serving => {}
                () = late => {
                    abort.cancel();
                    serving.await;
                }
            }
        })
    }

    /// Runs `work` in the background until the gateway stops.
    fn until_stop(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(work).await });
    }

    /// Stops following and accepting, waits for running calls within the limit, and flushes the
    /// cache.
    async fn stop(&mut self, limit: Duration, drained: impl Future<Output = ()>) {
        self.stop.cancel();
        let finished = async {
            // A panic was already logged; the other tasks must still stop.
            let _ = (&mut self.serving).await;
            // Last: a call can lose its connection while connections are open.
            drained.await;
        };
        if timeout(limit, finished).await.is_err() {
            tracing::warn!("some calls did not finish within {limit:?} and were aborted");
            self.abort.cancel();
            if !self.serving.is_finished() {
                let _ = (&mut self.serving).await;
            }
        }
        self.stop_admin.cancel();
        if let Some(admin) = &mut self.admin {
            let _ = admin.await;
        }
        self.stop_writing.cancel();
        let _ = (&mut self.writing).await;
    }

    /// Reads changed files until the stop.
    fn spawn_refreshes(&self, keys: KeyFile, sealer: Arc<Sealer>, reloader: Arc<Reloader>) {
        self.until_stop(async move { keys.refresh(sealer).await });
        self.until_stop(async move { reloader.watch().await });
    }

    /// Monitors the contracts and findings until the stop.
    fn spawn_monitors(
        &self,
        config: &Config,
        contracts: Arc<Contracts>,
        upstreams: &Upstreams,
        keys: watch::Receiver<Vec<ApiKeyConfig>>,
    ) {
        let (catalog, definitions) = (self.cache.subscribe(), upstreams.definitions());
        tokio::spawn(contracts.monitor(catalog, definitions, self.stop.clone()));
        let (catalog, definitions) = (self.cache.subscribe(), upstreams.definitions());
        let origin = config.registry.source.address.origin();
        let (deciders, stop) = (config.deciders(origin), self.stop.clone());
        tokio::spawn(findings::monitor(catalog, definitions, keys, origin, deciders, stop));
    }
}

/// The start of an embedded gateway. Its only client receives the routes at the end, because the
/// first response has the `instructions` of the servers, and clients request them only once.
struct EmbeddedStart {
    deadline: Instant,
    upstreams: Arc<Upstreams>,
    contracts: Arc<Contracts>,
    origin: CatalogOrigin,
}

impl EmbeddedStart {
    fn begin(
        (upstreams, contracts): (&Arc<Upstreams>, &Arc<Contracts>),
        origin: CatalogOrigin,
    ) -> Self {
        let (upstreams, contracts) = (Arc::clone(upstreams), Arc::clone(contracts));
        let is_cached = origin == CatalogOrigin::Cache;
        let limit = if is_cached { EMBEDDED_RESTART } else { EMBEDDED_START };
        Self { deadline: Instant::now() + limit, upstreams, contracts, origin }
    }

    /// Sends the routes when the gateway is ready or the deadline passes.
    async fn send_when_ready(self, sender: oneshot::Sender<Router>, routes: Router, cache: Cache) {
        let tried = until(|| cache.has_catalog() && self.are_upstreams_tried());
        let _ = timeout_at(self.deadline, tried).await;
        let _ = timeout(EMBEDDED_COMPARISON, until(|| self.are_lists_compared())).await;
        let catalog = describe_catalog(&cache, self.origin);
        tracing::info!("the embedded gateway is ready ({catalog})");
        // If the client has ended, the gateway stops anyway.
        let _ = sender.send(routes);
    }

    fn are_upstreams_tried(&self) -> bool {
        let is_tried = |target: &TargetHealth| !matches!(target.state, TargetState::Connecting);
        self.upstreams.health().iter().all(is_tried)
    }

    /// Callers see the lists of an upstream after their comparison.
    fn are_lists_compared(&self) -> bool {
        let listed = self.upstreams.definitions().borrow().clone();
        let compared = self.contracts.definitions().borrow().clone();
        let is_compared = |target: TargetHealth| {
            listed.lists(&target.server).is_none() || compared.lists(&target.server).is_some()
        };
        self.upstreams.health().into_iter().all(is_compared)
    }
}

async fn until(is_reached: impl Fn() -> bool) {
    while !is_reached() {
        sleep(POLL_INTERVAL).await;
    }
}

fn tool_count(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}

/// The origin of the catalog at the start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CatalogOrigin {
    Cache,
    /// The tools of servers without a registry.
    Discovery,
    /// A registry or its file.
    Registry,
}

impl CatalogOrigin {
    fn at_start(cache: &Cache, config: &Config) -> Self {
        if cache.has_catalog() {
            Self::Cache
        } else if config.registry.source.address.is_discovered() {
            Self::Discovery
        } else {
            Self::Registry
        }
    }
}

/// The catalog at the start: its size and its origin.
fn describe_catalog(cache: &Cache, origin: CatalogOrigin) -> String {
    let catalog = cache.current();
    let (revision, tools) = (catalog.revision(), catalog.of_kind(Kind::Tool).count());
    match origin {
        CatalogOrigin::Cache => {
            format!("catalog revision {revision} from cache with {}", tool_count(tools))
        }
        _ if !cache.has_catalog() => "0 tools, no cache yet".to_owned(),
        CatalogOrigin::Registry => {
            format!("catalog revision {revision}, {} registered", tool_count(tools))
        }
        CatalogOrigin::Discovery if tools == 0 => "discovering tools, no cache yet".to_owned(),
        CatalogOrigin::Discovery => format!("{} discovered, no cache yet", tool_count(tools)),
    }
}

/// Prints a line on standard output, for people and for scripts that wait for the start.
fn print_line(line: &str) {
    use std::io::Write as _;
    // A closed standard output must not stop the gateway.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn name_of(config: &Config) -> String {
    match &config.registry.source.address {
        Source::Grpc(addresses) => addresses.join(",").replace("http", "grpc"),
        Source::Http(url) => redact_url(url),
        Source::File(path) => format!("file://{}", path.display()),
        Source::Discovered => {
            let file = config.mcp_servers.as_ref().map(|servers| servers.file.display());
            file.map(|file| file.to_string()).unwrap_or_default()
        }
    }
}
