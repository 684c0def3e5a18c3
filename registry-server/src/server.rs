//! The lifecycle of the server: open, serve, drain.

mod layers;
mod unread;

use std::{future::Future, net::SocketAddr, num::NonZeroU32, sync::Arc, time::Duration};

use approval::SignIns;
use aws_lc_rs::signature::Ed25519KeyPair;
use prost_reflect::DescriptorError;
use registry_tls::Acceptor;
use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{service::Routes, transport::Server as Transport};
use tower::util::{MapRequestLayer, MapResponseLayer};

use crate::{
    access::{Access, AccessConfig, Certificates, Failures, Issued, Oidc, RateLimit, Tokens},
    app::{
        App,
        apply::Writes,
        approvals::{Approvals, GatewayApprovals, UpstreamApprovals},
        audit::{Auditor, Key},
        catalogs::Catalogs,
        component_users,
        concurrency::ConcurrencyLimit,
        export::Export,
        gateways::Gateways,
        ledger::{self, GatewayLedger, Ledger, UpstreamLedger},
        sbom,
        search::Searcher,
    },
    approval_key, checkpoint_key,
    clock::Clock,
    config::{Authentication, Config, InvalidConfig},
    connect::Api,
    connections::{self, AdminListen, ServeConfig, listen_remedy},
    cors::AllowedOrigins,
    feed::{Feed, FleetWriter, Hub, StateSigner},
    gate, grpc, http, metrics, registrar,
    relay::{self, Relay},
    store::{self, FileLock, Store},
    web,
};

/// Maximum concurrent document validations of the MCP registry API.
const VALIDATIONS: usize = 2;

/// Connection limits of the admin address.
const ADMIN_CONNECTIONS: connections::Limits = connections::Limits { all: 256, per_address: 64 };

/// Maximum bytes of request headers.
const MAX_HEADER_BYTES: u32 = 32 * 1024;
/// Time to store the final state of the followers.
const FLEET_FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// Minimum time for the last writes, even if open connections used up the drain timeout.
const LAST_WRITES_TIMEOUT: Duration = Duration::from_secs(1);

/// A failure at startup or while serving.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid settings.
    #[error(transparent)]
    Config(#[from] InvalidConfig),
    /// An unusable TLS file.
    #[error(transparent)]
    Tls(#[from] registry_tls::InvalidFile),
    /// An unusable file with the identity provider's keys.
    #[error(transparent)]
    Oidc(#[from] registry_jwt::InvalidFile),
    /// An unusable checkpoint key.
    #[error(transparent)]
    CheckpointKey(#[from] checkpoint_key::Error),
    /// An unusable key of approvals.
    #[error(transparent)]
    ApprovalKey(#[from] approval_key::Error),
    /// A relay that cannot start.
    #[error(transparent)]
    Relay(#[from] relay::Error),
    /// An unusable database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// An unusable webhook of alerts.
    #[error(transparent)]
    Webhook(#[from] ledger::InvalidWebhook),
    /// A currency other than that of the stored amounts.
    #[error(transparent)]
    Currency(#[from] ledger::OtherCurrency),
    /// Pages that cannot be served.
    #[error(transparent)]
    Web(#[from] web::Error),
    /// An admin address that cannot be bound.
    #[error("cannot listen on {address}: {source}; {} (--admin-listen)", listen_remedy(.source))]
    Admin {
        /// The address.
        address: SocketAddr,
        /// The failure.
        source: std::io::Error,
    },
    /// A failure of the gRPC reflection service.
    #[error("cannot build the gRPC reflection service: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// Unusable descriptors of the API, which is a bug.
    #[error("cannot load the descriptors of the API: {0}")]
    Descriptors(#[from] DescriptorError),
    /// A failure of the HTTP server.
    #[error("the HTTP server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// A writer task that stopped without a request.
    #[error("the writer task stopped unexpectedly: {0}")]
    Writer(String),
}

/// A server with a loaded catalog, ready to serve.
pub struct Server {
    app: Arc<App>,
    writer: JoinHandle<()>,
    fleet_writer: FleetWriter,
    pages: Option<web::Pages>,
    config: ServeConfig,
    tls: Option<Acceptor>,
    admin: Option<TcpListener>,
    _lock: FileLock,
}

impl Server {
    /// Opens the database and loads the catalog.
    pub async fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        metrics::recorder();
        let tls = config.tls.acceptor()?;
        let admin = open_admin(config.serve.admin_listen).await?;
        let database = config.database()?;
        let store = Store::open(&database).await?;
        let lock = database.lock_file()?;
        let (store, relay) = open_relay(&config, store).await?;
        let tokens = Tokens::open(store.clone(), clock.clone()).await?;
        let access = Arc::new(open_access(&config, tokens, clock.clone()).await?);
        let catalog = store.load().await?;
        let draining = CancellationToken::new();
        let (catalog, signer, key) = if let Some(relay) = &relay {
            let catalog = relay.latest_signed(&store, catalog, clock.now()).await?;
            let key = Key::Upstream { key: relay.key().clone(), address: relay.upstream() };
            (catalog, relay.signer(draining.clone()), key)
        } else {
            // Last, so that a failed start does not register a key in the database.
            let key = open_key(&config, &store).await?;
            (catalog, StateSigner::Key(key.clone(), clock.clone()), Key::Own(key))
        };
        metrics::loaded(&catalog);
        let hub = Arc::new(Hub::new(catalog, &config.feed, signer));
        hub.load_recent(&store).await?;
        let opening = open_ledger(&config, relay.as_ref(), &hub, &store, &clock, &draining);
        let (ledger, approvals) = Box::pin(opening).await?;
        let pages = Box::pin(web::Pages::open(&config.web, &config.oidc, &approvals)).await?;
        let parts = registrar::Parts {
            store: store.clone(),
            hub: hub.clone(),
            clock: clock.clone(),
            config: config.registrar,
        };
        let (registrar, writer) = match &relay {
            None => registrar::start(parts).await?,
            Some(relay) => relay.start(parts, draining.clone()).await?,
        };
        let feed = Arc::new(Feed::new(
            hub.clone(),
            store.clone(),
            clock.clone(),
            config.feed,
            draining.clone(),
        ));
        let app = Arc::new(App {
            approvals,
            ledger,
            search: Searcher::start(hub.clone()),
            writes: Writes::new(registrar.clone(), hub.clone()),
            catalogs: Catalogs::new(hub.clone(), store.clone(), clock.clone()),
            gateways: Gateways::new(feed.clone(), hub.clone(), store.clone(), clock.clone()),
            auditor: Auditor::new(key, hub, store.clone(), clock.clone()),
            access,
            clock,
            registrar,
            store,
            feed,
            relay,
            export: Export::default(),
            component_users: component_users::Recent::default(),
            sboms: ConcurrencyLimit::new(sbom::WRITERS),
            validations: ConcurrencyLimit::new(VALIDATIONS),
            namespace: config.mcp_namespace,
            draining,
        });
        let fleet_writer = FleetWriter::start(app.feed.clone());
        app.feed.start_retention();
        app.ledger.start(app.draining.clone());
        let config = config.serve;
        Ok(Self { app, writer, fleet_writer, pages, config, tls, admin, _lock: lock })
    }

    /// Line for standard output that announces the address.
    pub fn banner(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let (registry, revision) = (self.app.registry(), self.app.catalog().revision());
        format!(
            "registry-server listening on {scheme}://{address} (registry {registry}, revision {revision})"
        )
    }

    /// Bound admin address, if enabled.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref()?.local_addr().ok()
    }

    /// Serves until `shutdown` completes, then drains.
    pub async fn serve(
        mut self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let access = &self.app.access;
        let (services, health) = grpc::router(&self.app, self.limits()).await?;
        let services = gate::layer(layers::catch_panics(services), access.clone());
        let origins = AllowedOrigins::new(&self.config.cors_origins);
        let api = Api::load(origins.clone(), self.config.max_message_bytes)?;
        let services = grpc::limit_intake(api.layer(services), self.config.max_buffered_bytes);
        let documents = http::documents(self.app.clone()).merge(api.document());
        // Preflight requests have no credentials.
        let documents = origins.layer(gate::layer(documents, access.clone()));
        let mut routes = http::router(self.app.clone());
        if let Some(pages) = self.pages.take() {
            routes = routes.merge(pages.router(access.clone(), self.app.clock.clone()));
        }
        let routes = gate::layer(routes, access.clone()).merge(documents);
        let routes = unread::layer(layers::trace(layers::join(services, routes)));
        let refuse = CancellationToken::new();
        let limits = connections::Limits {
            all: self.config.max_connections,
            per_address: self.config.connections_per_address(),
        };
        let serving = self
            .transport()
            .layer(MapRequestLayer::new(grpc::detach_request))
            .layer(MapResponseLayer::new(grpc::attach_response))
            .add_routes(Routes::from(routes))
            .serve_with_incoming_shutdown(
                connections::connections(listener, limits, self.tls.clone()),
                refuse.clone().cancelled_owned(),
            );
        let mut serving = std::pin::pin!(serving);
        // Stops when this function returns, so that health checks work during the drain.
        let _admin = self.admin.take().map(|listener| self.serve_admin(listener));
        tokio::select! {
            served = &mut serving => return Ok(served?),
            ended = &mut self.writer => return Err(Error::Writer(describe(ended))),
            () = shutdown => {}
        }
        tracing::info!("draining: waiting for running requests");
        health.drain().await;
        self.app.draining.cancel();
        let notice = async {
            sleep(self.config.drain_notice).await;
            health.close().await;
            refuse.cancel();
        };
        let limit = Instant::now() + self.config.drain_notice + self.config.drain_timeout();
        let (drained, ()) = tokio::join!(timeout_at(limit, serving), notice);
        if let Ok(served) = drained {
            served?;
        } else {
            tracing::warn!("drain timeout: closing the remaining connections");
        }
        self.app.registrar.close();
        if timeout_at(limit.max(Instant::now() + LAST_WRITES_TIMEOUT), self.writer).await.is_err() {
            tracing::error!("drain timeout: the last writes got no response");
        }
        self.fleet_writer.finish(FLEET_FLUSH_TIMEOUT).await;
        self.app.store.close().await;
        Ok(())
    }

    /// Serves the admin address in a task that stops when the guard is dropped.
    fn serve_admin(&self, listener: TcpListener) -> DropGuard {
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        let serving = Transport::builder()
            .accept_http1(true)
            .add_routes(Routes::from(http::admin(self.app.clone())))
            .serve_with_incoming_shutdown(
                connections::connections(listener, ADMIN_CONNECTIONS, None),
                stop.cancelled_owned(),
            );
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the server of the admin address stopped");
            }
        });
        guard
    }

    fn limits(&self) -> grpc::Limits {
        grpc::Limits {
            message_bytes: self.config.max_message_bytes,
            request_timeout: self.config.request_timeout,
        }
    }

    fn transport(&self) -> Transport {
        Transport::builder()
            .accept_http1(true)
            .max_concurrent_streams(self.config.max_streams_per_connection)
            .http2_keepalive_interval(Some(self.config.keepalive_interval))
            .http2_keepalive_timeout(Some(self.config.keepalive_interval))
            .http2_max_header_list_size(MAX_HEADER_BYTES)
    }
}

/// Binds the admin address. The default address may be in use by another server of the same host, which
/// is a warning only.
async fn open_admin(configured: Option<AdminListen>) -> Result<Option<TcpListener>, Error> {
    let (address, is_default) = match configured {
        Some(AdminListen::None) => return Ok(None),
        Some(AdminListen::At(address)) => (address, false),
        None => (AdminListen::DEFAULT, true),
    };
    let failed = |source| Error::Admin { address, source };
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) if is_default => {
            tracing::warn!(
                %address, %error,
                "cannot listen on the default admin address; metrics are disabled. Set --admin-listen"
            );
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let address = listener.local_addr().map_err(failed)?;
    tracing::info!(%address, "serving metrics and health checks on the admin address");
    Ok(Some(listener))
}

/// Loads the checkpoint key and compares it with the public key in the database.
async fn open_key(config: &Config, store: &Store) -> Result<Arc<Ed25519KeyPair>, Error> {
    checkpoint_key::reject_relay(store).await?;
    let file = config.checkpoint_key()?;
    let key = Arc::new(checkpoint_key::open(&file)?);
    checkpoint_key::register_or_compare(store, &file, &key).await?;
    Ok(key)
}

/// Opens the ledger of budgets and the approvals. A relay uses those of its upstream registry.
async fn open_ledger(
    config: &Config,
    relay: Option<&Relay>,
    hub: &Arc<Hub>,
    store: &Store,
    clock: &Arc<dyn Clock>,
    draining: &CancellationToken,
) -> Result<(GatewayLedger, GatewayApprovals), Error> {
    if let Some(relay) = relay {
        let ledger = UpstreamLedger::new(relay.follower().clone());
        let approvals = UpstreamApprovals::new(relay.follower().clone());
        return Ok((
            GatewayLedger::Upstream(Arc::new(ledger)),
            GatewayApprovals::Upstream(Arc::new(approvals)),
        ));
    }
    let file = config.approval_key()?;
    let key = approval_key::open(&file)?;
    approval_key::register_or_compare(store, &file, &key).await?;
    let (hub, store, clock) = (hub.clone(), store.clone(), clock.clone());
    let opened = Ledger::open(store.clone(), hub.clone(), clock, config.ledger.clone()).await;
    let ledger = opened.map_err(|error| match error {
        ledger::OpenError::Store(error) => Error::Store(error),
        ledger::OpenError::Webhook(error) => Error::Webhook(error),
        ledger::OpenError::Currency(error) => Error::Currency(error),
    })?;
    let ledger = Arc::new(ledger);
    let pages = config.web.public_url.as_ref().map(|public| public.origin().to_owned());
    let sign_ins = SignIns {
        issuer: config.oidc.oidc_issuer.clone(),
        has_certificates: !config.tls.tls_clients.is_empty(),
    };
    let approvals = Approvals::start(ledger.clone(), hub, store, (&key, pages), sign_ins, draining);
    Ok((GatewayLedger::Own(ledger), GatewayApprovals::Own(approvals)))
}

/// Connects a relay to its upstream registry; `None` without `--follow`.
async fn open_relay(config: &Config, store: Store) -> Result<(Store, Option<Relay>), Error> {
    let Some(follower) = config.relay.follower()? else { return Ok((store, None)) };
    let pinned = config.relay.follow_key.clone();
    let (name, most) = (config.relay.name(), config.relay.relay_buffer_bytes);
    let (relay, store) = Relay::open(store, follower, pinned, name, most).await?;
    Ok((store, Some(relay)))
}

/// Authentication, with a warning if it is disabled or if no caller has a credential.
async fn open_access(
    config: &Config,
    tokens: Arc<Tokens>,
    clock: Arc<dyn Clock>,
) -> Result<Access, Error> {
    let issued = tokens.issued().await?;
    let is_open = config.authentication(issued)? == Authentication::Disabled;
    let address = config.listen;
    if is_open {
        tracing::warn!(%address, "AUTHENTICATION IS DISABLED: anyone who can reach this address has full access; create the first token with `registry-server token create` and restart");
    } else if issued != Issued::Active && !config.has_other_credentials() {
        let reason = match issued {
            Issued::Inactive => "every token is expired or revoked",
            _ => "the database has no token",
        };
        tracing::warn!(
            "no caller can authenticate: {reason}; create a token with `registry-server token create --name NAME --role admin` on this database"
        );
    }
    if is_open && config.relay.has_credential() {
        tracing::warn!(
            principal = "anonymous",
            "this relay authenticates at its registry, and its gateways do not authenticate here: it reports the spending of all gateways as that of one principal. Create a token for each gateway with `registry-server token create --name NAME --role gateway`, with the names that they had in an earlier database, and restart the relay"
        );
    }
    let AccessConfig { rate_limit, rate_burst, public_mcp_registry, .. } = config.access;
    let rate = NonZeroU32::new(rate_limit).map(|rate| RateLimit::new(rate, rate_burst));
    Ok(Access {
        is_open,
        is_mcp_public: is_open || public_mcp_registry,
        tokens,
        oidc: Oidc::open(&config.oidc).await?,
        certificates: Certificates::new(config.tls.tls_clients.clone()),
        rate,
        failures: Failures::default(),
        clock,
    })
}

fn describe(ended: Result<(), tokio::task::JoinError>) -> String {
    ended.map_or_else(|e| e.to_string(), |()| "the write queue was closed".to_owned())
}
