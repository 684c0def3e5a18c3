//! The server: put together, served, drained.

mod layers;

use std::{future::Future, net::SocketAddr, num::NonZeroU32, sync::Arc, time::Duration};

use aws_lc_rs::signature::Ed25519KeyPair;
use registry_tls::Acceptor;
use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{service::Routes, transport::Server as Transport};

use crate::{
    access::{Access, AccessConfig, Certificates, Failures, Issued, Oidc, RateLimit, Tokens},
    app::{
        App,
        apply::Writes,
        audit::{Auditor, Key},
        catalogs::Catalogs,
        export::Export,
        gateways::Gateways,
        sbom,
        search::Searcher,
        turns::Turns,
        who_has,
    },
    checkpoint_key,
    clock::Clock,
    config::{Authentication, Config, InvalidConfig},
    connections::{self, AdminListen, ServeConfig},
    feed::{Feed, Hub, Memory, Voucher},
    gate, grpc, http, metrics, registrar,
    relay::{self, Relay},
    store::{self, Claim, Store},
};

/// Most documents of the MCP registry API that are checked at once.
const VALIDATIONS: usize = 2;

/// Connections to the admin address.
const ADMIN_CONNECTIONS: connections::Limits = connections::Limits { all: 256, per_address: 64 };

/// Largest headers of a request.
const MAX_HEADER_BYTES: u32 = 32 * 1024;
/// How long it may take to note who has left.
const LAST_NOTES: Duration = Duration::from_secs(3);
/// What the last writes get even where connections took all the time.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// Why the server does not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings.
    #[error(transparent)]
    Config(#[from] InvalidConfig),
    /// A file of TLS.
    #[error(transparent)]
    Tls(#[from] registry_tls::InvalidFile),
    /// A file of the identity provider's keys.
    #[error(transparent)]
    Oidc(#[from] registry_jwt::InvalidFile),
    /// The key that signs checkpoints.
    #[error(transparent)]
    CheckpointKey(#[from] checkpoint_key::Error),
    /// The registry to follow.
    #[error(transparent)]
    Relay(#[from] relay::Error),
    /// The database, before anything is served.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The admin address.
    #[error("cannot listen on the admin address {address}: {source}")]
    Admin {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The reflection service.
    #[error("the API's description cannot be served: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The socket.
    #[error("serving failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The writer ended although nobody stopped it.
    #[error("the writer ended unexpectedly: {0}")]
    Writer(String),
}

/// A server that has read its catalog and is ready to serve.
pub struct Server {
    app: Arc<App>,
    writer: JoinHandle<()>,
    memory: Memory,
    config: ServeConfig,
    tls: Option<Acceptor>,
    admin: Option<TcpListener>,
    _claim: Claim,
}

impl Server {
    /// Opens the database and reads the catalog.
    pub async fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        metrics::recorder();
        let tls = config.tls.acceptor()?;
        let admin = open_admin(config.serve.admin_listen).await?;
        let database = config.database()?;
        let store = Store::open(&database).await?;
        let claim = database.claim()?;
        let (store, relay) = open_relay(&config, store).await?;
        let tokens = Tokens::open(store.clone(), clock.clone()).await?;
        let access = Arc::new(open_access(&config, tokens, clock.clone()).await?);
        let catalog = store.load().await?;
        let draining = CancellationToken::new();
        let (catalog, voucher, key) = if let Some(relay) = &relay {
            let catalog = relay.attested(&store, catalog, clock.now()).await?;
            let key = Key::Upstream { key: relay.key().clone(), address: relay.upstream() };
            (catalog, relay.voucher(draining.clone()), key)
        } else {
            // Late: a server that does not start for another reason makes no key known.
            let key = open_key(&config, &store).await?;
            (catalog, Voucher::Key(key.clone(), clock.clone()), Key::Own(key))
        };
        metrics::count(&catalog);
        let hub = Arc::new(Hub::new(catalog, &config.feed, voucher));
        hub.recall(&store).await?;
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
            holders: who_has::Recent::default(),
            sboms: Turns::new(sbom::WRITERS),
            validations: Turns::new(VALIDATIONS),
            namespace: config.mcp_namespace,
            draining,
        });
        let memory = Memory::start(app.feed.clone());
        app.feed.start_forgetting();
        Ok(Self { app, writer, memory, config: config.serve, tls, admin, _claim: claim })
    }

    /// The line that says that the server is there.
    pub fn banner(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let (registry, revision) = (self.app.registry(), self.app.catalog().revision());
        format!(
            "registry-server listening on {scheme}://{address} (registry {registry}, revision {revision})"
        )
    }

    /// The address that serves metrics, where there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref()?.local_addr().ok()
    }

    /// Serves until told to stop, then drains.
    pub async fn serve(
        mut self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let (services, health) = grpc::router(&self.app, self.limits()).await?;
        let routes = layers::join(services, http::router(self.app.clone()));
        let routes = layers::around(gate::layer(routes, self.app.access.clone()));
        let refuse = CancellationToken::new();
        let limits = connections::Limits {
            all: self.config.max_connections,
            per_address: self.config.address_connections(),
        };
        let serving =
            self.transport().add_routes(Routes::from(routes)).serve_with_incoming_shutdown(
                connections::connections(listener, limits, self.tls.clone()),
                refuse.clone().cancelled_owned(),
            );
        let mut serving = std::pin::pin!(serving);
        // It ends with this function: probes are answered while the callers' requests finish.
        let _admin = self.admin.take().map(|listener| self.serve_admin(listener));
        tokio::select! {
            served = &mut serving => return Ok(served?),
            ended = &mut self.writer => return Err(Error::Writer(describe(ended))),
            () = shutdown => {}
        }
        tracing::info!("draining: finishing what has begun");
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
            tracing::warn!("some connections did not end in time and are cut");
        }
        self.app.registrar.close();
        if timeout_at(limit.max(Instant::now() + LAST_WRITES), self.writer).await.is_err() {
            tracing::error!("the last writes did not end in time; their callers were not answered");
        }
        self.memory.finish(LAST_NOTES).await;
        self.app.store.close().await;
        Ok(())
    }

    /// Serves probes in a task that ends when the guard is dropped.
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
                tracing::error!(%error, "the admin address is no longer served");
            }
        });
        guard
    }

    fn limits(&self) -> grpc::Limits {
        grpc::Limits {
            message_bytes: self.config.max_message_bytes,
            buffered_bytes: self.config.max_buffered_bytes,
            request_timeout: self.config.request_timeout,
        }
    }

    fn transport(&self) -> Transport {
        Transport::builder()
            .accept_http1(true)
            .max_concurrent_streams(self.config.max_connection_streams)
            .http2_keepalive_interval(Some(self.config.keepalive))
            .http2_keepalive_timeout(Some(self.config.keepalive))
            .http2_max_header_list_size(MAX_HEADER_BYTES)
    }
}

/// Listens for probes and scrapers. Another server of the machine may have the default address.
async fn open_admin(wanted: Option<AdminListen>) -> Result<Option<TcpListener>, Error> {
    let (address, is_default) = match wanted {
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
                "the default admin address cannot be used, so metrics are not served; set --admin-listen"
            );
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let address = listener.local_addr().map_err(failed)?;
    tracing::info!(%address, "probes and metrics are served on the admin address");
    Ok(Some(listener))
}

/// The key that signs, which the database knows.
async fn open_key(config: &Config, store: &Store) -> Result<Arc<Ed25519KeyPair>, Error> {
    checkpoint_key::refuse_relay(store).await?;
    let file = config.checkpoint_key()?;
    let key = Arc::new(checkpoint_key::open(&file)?);
    checkpoint_key::recognise(store, &file, &key).await?;
    Ok(key)
}

/// What makes this server a relay, if it is to be one.
async fn open_relay(config: &Config, store: Store) -> Result<(Store, Option<Relay>), Error> {
    let Some(follower) = config.relay.follower()? else { return Ok((store, None)) };
    let pinned = config.relay.follow_key.clone();
    let (name, most) = (config.relay.name(), config.relay.max_unsigned_bytes);
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
        tracing::warn!(%address, "NOBODY IS ASKED WHO THEY ARE: whoever reaches this address may change the registry; `registry-server token create` makes a first token, and with one everybody is asked");
    } else if issued != Issued::Live && !config.has_other_credentials() {
        let why = match issued {
            Issued::Ended => "every token has expired or was revoked",
            _ => "there is no token yet",
        };
        tracing::warn!(
            "{why}, so nobody gets in; make one with `registry-server token create --name NAME --role admin`, on this database"
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
    ended.map_or_else(|e| e.to_string(), |()| "its queue was closed".to_owned())
}
