//! Reloads the configuration when its file changes, and for `POST /admin/reload`.
//!
//! An invalid file changes nothing. Settings that need a restart keep their value and are reported.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use registry_jwt::InvalidFile;
use serde_json::json;
use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};

use crate::{
    config::{Config, InvalidConfig, Problem},
    contract::Contracts,
    identity::settings::ApiKeyConfig,
    pipeline::GatewayHandle,
    source::DiscoveryConfig,
};

/// Polling interval of the files.
const INTERVAL: Duration = Duration::from_secs(2);

/// Applies changes of the configuration.
#[derive(Debug)]
pub(super) struct Reloader {
    /// The configuration at the start.
    started: Config,
    current: ArcSwap<Config>,
    gateway: GatewayHandle,
    contracts: Arc<Contracts>,
    /// The versions of the files of the current configuration.
    known: Mutex<ConfigVersions>,
    mcp_servers: watch::Sender<Arc<DiscoveryConfig>>,
    api_keys: watch::Sender<Vec<ApiKeyConfig>>,
    one_at_a_time: Mutex<()>,
}

/// Why a reload failed. The previous configuration stays in effect.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReloadError {
    #[error(transparent)]
    Config(#[from] InvalidConfig),
    #[error(transparent)]
    Keys(#[from] InvalidFile),
}

impl Reloader {
    pub(super) fn new(
        (started, known): (Config, ConfigVersions),
        gateway: GatewayHandle,
        contracts: Arc<Contracts>,
    ) -> Self {
        let current = ArcSwap::from_pointee(started.clone());
        report_servers_file(&started);
        let servers = started.mcp_servers.clone().unwrap_or_default();
        let api_keys = watch::channel(started.authentication.api_keys.clone()).0;
        Self {
            started,
            current,
            gateway,
            contracts,
            known: Mutex::new(known),
            mcp_servers: watch::channel(Arc::new(servers)).0,
            api_keys,
            one_at_a_time: Mutex::default(),
        }
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.current.load_full()
    }

    pub(super) fn mcp_servers(&self) -> watch::Receiver<Arc<DiscoveryConfig>> {
        self.mcp_servers.subscribe()
    }

    pub(super) fn api_keys(&self) -> watch::Receiver<Vec<ApiKeyConfig>> {
        self.api_keys.subscribe()
    }

    /// Reads and applies the configuration. Returns the names of changed settings that need a
    /// restart.
    async fn reload(&self) -> Result<Vec<&'static str>, ReloadError> {
        let _turn = self.one_at_a_time.lock().await;
        let outcome = self.apply().await;
        let label = if outcome.is_ok() { "applied" } else { "rejected" };
        metrics::counter!("gateway_config_reloads_total", "outcome" => label).increment(1);
        match &outcome {
            Ok(waiting) if waiting.is_empty() => tracing::info!("configuration reloaded"),
            Ok(waiting) => tracing::warn!(
                "configuration reloaded; these changed settings need a restart: {}",
                waiting.join(", ")
            ),
            Err(e) => {
                tracing::error!(
                    "configuration not reloaded, the previous one stays in effect: {e}"
                );
            }
        }
        outcome
    }

    async fn apply(&self) -> Result<Vec<&'static str>, ReloadError> {
        let file = self.started.args.file();
        let known = self.known.lock().await.config.is_some();
        let versions = ConfigVersions::read(&self.config()).await;
        if known && versions.config.is_none() {
            let message = "the file has been deleted; restore it".to_owned();
            let problems = vec![Problem { line: None, field: String::new(), message }];
            return Err(InvalidConfig { file, problems }.into());
        }
        let args = self.started.args.clone();
        let config = tokio::task::spawn_blocking(move || Config::load(&args)).await;
        let config = config.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()))?;
        // The new configuration can name another servers file.
        let versions =
            ConfigVersions { servers: ConfigVersions::read(&config).await.servers, ..versions };
        *self.known.lock().await = versions;
        let waiting = config.needs_restart(&self.started);
        let config = config.with_started_values(&self.started)?;
        // Definitions that the new gateway reads must be judged by the new rules.
        self.contracts.configure(config.contracts());
        if let Err(e) = self.gateway.reconfigure(config.pipeline(), config.authenticator()).await {
            self.contracts.configure(self.config().contracts());
            return Err(e.into());
        }
        self.gateway.current().upstreams().configure(&config.targets, config.limits);
        report_servers_file(&config);
        let servers = config.mcp_servers.clone().unwrap_or_default();
        self.mcp_servers.send_if_modified(|current| {
            let is_other = **current != servers;
            *current = Arc::new(servers);
            is_other
        });
        self.api_keys.send_if_modified(|current| {
            let keys = &config.authentication.api_keys;
            let is_other = current != keys;
            current.clone_from(keys);
            is_other
        });
        self.current.store(Arc::new(config));
        Ok(waiting)
    }

    /// Reloads changed files until the future is dropped.
    pub(super) async fn watch(&self) {
        let (mut last, mut error_response, mut is_gone) = (ConfigVersions::default(), None, false);
        loop {
            sleep(INTERVAL).await;
            let now = ConfigVersions::read(&self.config()).await;
            let known = self.known.lock().await.clone();
            // A file is reloaded only after one interval without changes, so that half-written
            // files are not read. A missing file may be in the middle of a replacement.
            let is_same = now == last;
            if is_same && now.is_missing_file_of(&known) != is_gone {
                is_gone = !is_gone;
                if is_gone {
                    tracing::warn!(
                        "a configuration file has been deleted; the previous configuration stays in effect"
                    );
                }
            }
            let is_at_rest = is_same && !is_gone;
            last.clone_from(&now);
            if is_at_rest && Some(&now) != error_response.as_ref() && now != known {
                // A rejected version is not read again; log and metrics report it.
                error_response = self.reload().await.is_err().then_some(now);
            }
        }
    }
}

/// Logs the problems of the servers file.
fn report_servers_file(config: &Config) {
    let servers = config.mcp_servers.as_ref();
    for problem in servers.iter().flat_map(|servers| &servers.skipped) {
        tracing::warn!("MCP server not loaded: {problem}");
    }
    for problem in servers.iter().flat_map(|servers| &servers.warnings) {
        tracing::warn!("{problem}");
    }
}

/// The versions of the configuration files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ConfigVersions {
    config: Option<FileVersion>,
    /// `mcpServers.file`.
    servers: Option<FileVersion>,
}

impl ConfigVersions {
    pub(super) async fn read(config: &Config) -> Self {
        let servers = match &config.mcp_servers {
            Some(servers) => FileVersion::read(&servers.file).await,
            None => None,
        };
        Self { config: FileVersion::read(&config.args.file()).await, servers }
    }

    /// Whether a file of `others` has been deleted.
    fn is_missing_file_of(&self, others: &Self) -> bool {
        self.config.is_none() && others.config.is_some()
            || self.servers.is_none() && others.servers.is_some()
    }
}

/// Distinguishes versions of a file without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileVersion {
    modified: SystemTime,
    bytes: u64,
    inode: u64,
}

impl FileVersion {
    async fn read(file: &Path) -> Option<Self> {
        let found = tokio::fs::metadata(PathBuf::from(file)).await.ok()?;
        Some(Self { modified: found.modified().ok()?, bytes: found.len(), inode: found.ino() })
    }
}

pub(super) fn router(reloader: Arc<Reloader>) -> Router {
    Router::new().route("/admin/reload", post(reload)).with_state(reloader)
}

async fn reload(State(reloader): State<Arc<Reloader>>) -> Response {
    match reloader.reload().await {
        Ok(waiting) => Json(json!({ "needsRestart": waiting })).into_response(),
        Err(ReloadError::Config(invalid)) => {
            let problems: Vec<_> = invalid.problems.iter().map(ToString::to_string).collect();
            let noun = if problems.len() == 1 { "problem" } else { "problems" };
            let error = format!(
                "{}: {} {noun}; the previous configuration stays in effect",
                invalid.file.display(),
                problems.len()
            );
            let told = json!({ "error": error, "problems": problems });
            (StatusCode::UNPROCESSABLE_ENTITY, Json(told)).into_response()
        }
        Err(error @ ReloadError::Keys(_)) => {
            crate::admin::error_response(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string())
        }
    }
}
