//! `gateway-agent stdio`: a bridge to a running gateway or to an embedded one.

use std::{
    env,
    fs::{self, File},
    io as std_io,
    path::Path,
};

use gateway_agent::{
    bridge::{self, Address, Endpoint, Identity, Sizes, Token},
    cache::CacheError,
    config::{Args, Config, StdioArgs, state_file},
    server::{self, EntryPoint},
};
use registry_tls::ClientFiles;
use tempfile::TempDir;
use tokio::{io, sync::oneshot};
use tokio_util::sync::CancellationToken;

use crate::{ExitError, FAILED, MISCONFIGURED, load, on_runtime, until_signals};

/// The prefix of the temporary directories of bridges.
const DIRECTORY_PREFIX: &str = "gateway-agent-";
/// The file in a temporary directory that its bridge keeps locked.
const LOCK_FILE: &str = "bridge.lock";
/// Room for the JSON-RPC envelope around a result, in bytes.
const ENVELOPE_BYTES: usize = 1024 * 1024;

pub(crate) fn run(args: &Args, bridge: &StdioArgs) -> Result<(), ExitError> {
    check(args, bridge).map_err(|message| (MISCONFIGURED, message))?;
    match &bridge.gateway {
        Some(url) => connect(url, bridge),
        None => embed(args, bridge),
    }
}

/// Checks that the flags select one gateway. The flag parser cannot, because some flags can precede
/// `stdio`.
fn check(args: &Args, bridge: &StdioArgs) -> Result<(), String> {
    if args.approve.is_some() {
        return Err(
            "--approve needs an admin address for the decisions, and a gateway over stdio \
                    has none; start `gateway-agent --approve` as a service, and connect to it with \
                    `stdio --gateway URL`"
                .to_owned(),
        );
    }
    let flags = [
        ("--mcp-servers", args.mcp_servers.is_some()),
        ("--config", args.config.is_some()),
        ("--registry", args.registry.is_some()),
    ];
    let set = flags.into_iter().find_map(|(flag, is_set)| is_set.then_some(flag));
    match (bridge.gateway.is_some(), set) {
        (true, Some(flag)) => Err(format!(
            "--gateway connects to a running gateway, and {flag} configures one in this process; \
             remove one of them or its environment variable"
        )),
        (false, None) if !args.file().exists() => Err(format!(
            "no gateway is configured, and {} does not exist: connect to a running gateway with \
             --gateway URL, or start one in this process with --mcp-servers FILE or --config FILE",
            args.file().display()
        )),
        _ => Ok(()),
    }
}

fn connect(url: &str, bridge: &StdioArgs) -> Result<(), ExitError> {
    let identity = bridge.client_cert.clone().zip(bridge.client_key.clone());
    let files = ClientFiles { ca: bridge.gateway_ca.clone(), identity };
    let tls = Some(files).filter(|files| *files != ClientFiles::default());
    let address = Address { url: url.to_owned(), tls };
    let mut code = FAILED;
    let outcome = on_runtime(async {
        let endpoint = Endpoint::connect(address, &identity_of(bridge)).map_err(|e| {
            code = MISCONFIGURED;
            e.to_string()
        })?;
        until_signals(async |stop| serve(endpoint, Sizes::default(), stop).await).await
    });
    outcome.map_err(|message| (code, message))
}

fn embed(args: &Args, bridge: &StdioArgs) -> Result<(), ExitError> {
    // A client may start this process in any directory, for instance in `/`.
    let default_cache = state_file(args);
    let directory = default_cache.as_deref().and_then(Path::parent).map(Path::to_owned);
    let args = Args { default_cache, data: args.data.clone().or(directory), ..args.clone() };
    let mut config = load(&args)?;
    // Several bridges with one configuration cannot share an address.
    config.admin = None;
    remove_stale_directories(&env::temp_dir());
    let outcome = on_runtime(until_signals(async |stop| {
        let mut directory = None;
        loop {
            let serving = Box::pin(serve_embedded(config.clone(), bridge, stop.clone()));
            match serving.await {
                Err(server::Error::Cache(CacheError::Locked(path))) if directory.is_none() => {
                    directory = Some(use_temporary_cache(&mut config, &path)?);
                }
                served => return served.map_err(|e| e.to_string())?,
            }
        }
    }));
    outcome.map_err(|message| (FAILED, message))
}

/// A directory that is removed when it is dropped, or by a later bridge if this process is killed.
#[derive(Debug)]
struct TemporaryDirectory {
    directory: TempDir,
    /// The lock shows that the directory is in use.
    _lock: File,
}

impl TemporaryDirectory {
    fn new(parent: &Path) -> std_io::Result<Self> {
        let directory = tempfile::Builder::new().prefix(DIRECTORY_PREFIX).tempdir_in(parent)?;
        let path = directory.path();
        // The file is locked before it has its name, so that it is never seen unlocked.
        let unnamed = path.join("new.lock");
        let lock = File::create_new(&unnamed)?;
        lock.lock()?;
        fs::rename(&unnamed, path.join(LOCK_FILE))?;
        Ok(Self { directory, _lock: lock })
    }
}

/// Removes the temporary directories of killed bridges. Directories that cannot be removed stay.
fn remove_stale_directories(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let has_prefix = entry.file_name().to_string_lossy().starts_with(DIRECTORY_PREFIX);
        if !has_prefix || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let lock = entry.path().join(LOCK_FILE);
        if !fs::symlink_metadata(&lock).is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        let is_stale = File::open(&lock).is_ok_and(|file| file.try_lock().is_ok());
        if is_stale && let Err(error) = fs::remove_dir_all(entry.path()) {
            let path = entry.path();
            tracing::warn!(path = %path.display(), %error, "cannot remove the temporary directory of a stopped bridge; remove it");
        }
    }
}

/// Gives a second gateway its own cache: a copy in a temporary directory, which is returned.
fn use_temporary_cache(config: &mut Config, cache: &Path) -> Result<TemporaryDirectory, String> {
    let parent = env::temp_dir();
    let directory = TemporaryDirectory::new(&parent).map_err(|e| {
        format!(
            "cannot create a temporary directory in {}: {e}; free disk space, or set TMPDIR",
            parent.display()
        )
    })?;
    let path = directory.directory.path();
    let copy = path.join("registry-v2.json");
    // Without a copy, the gateway waits for the registry.
    let _ = fs::copy(cache, &copy);
    tracing::warn!(
        cache.path = %cache.display(), temporary.path = %path.display(),
        "another gateway uses the cache; this one keeps its state in a temporary directory until it ends"
    );
    config.args.cache = Some(copy.clone());
    config.registry.cache = copy;
    Ok(directory)
}

/// Serves the client until it ends. The inner error is that of the bridge.
async fn serve_embedded(
    config: Config,
    bridge: &StdioArgs,
    stop: CancellationToken,
) -> Result<Result<(), String>, server::Error> {
    let (sender, routes) = oneshot::channel();
    let sizes = Sizes {
        message_bytes: config.request_bytes,
        response_bytes: config.limits.response_bytes.saturating_add(ENVELOPE_BYTES),
    };
    let host = config.allowed_hosts.first().cloned();
    let mut served = Ok(());
    let bridging = async {
        let Some(routes) = stop.run_until_cancelled(routes).await else { return };
        // The sender is dropped only if the gateway fails to start, which also ends this future.
        let Ok(routes) = routes else { return std::future::pending().await };
        let endpoint = Endpoint::embedded(routes, host.as_deref(), &identity_of(bridge));
        served = match endpoint {
            Ok(endpoint) => serve(endpoint, sizes, stop).await,
            Err(e) => Err(e.to_string()),
        };
    };
    Box::pin(server::run(EntryPoint::Routes(sender), config, bridging)).await?;
    Ok(served)
}

async fn serve(endpoint: Endpoint, sizes: Sizes, stop: CancellationToken) -> Result<(), String> {
    let streams = (io::stdin(), io::stdout());
    let served = bridge::run(endpoint, sizes, streams, stop.cancelled_owned()).await;
    served.map_err(|e| format!("cannot read from standard input: {e}"))
}

fn identity_of(bridge: &StdioArgs) -> Identity {
    let file = bridge.token_file.clone().map(Token::File);
    let agent = bridge.agent.as_ref().map(|agent| match agent.split_once('@') {
        Some((name, version)) => (name.to_owned(), Some(version.to_owned())),
        None => (agent.clone(), None),
    });
    Identity {
        token: bridge.token.clone().map(Token::Text).or(file),
        agent,
        allows_insecure_token: bridge.allow_insecure_token,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_directories_of_bridges_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let used = TemporaryDirectory::new(parent.path()).unwrap();
        let TemporaryDirectory { directory, _lock: lock } =
            TemporaryDirectory::new(parent.path()).unwrap();
        // A killed process releases its lock and leaves its directory.
        let stale = directory.keep();
        drop(lock);
        let other = parent.path().join("gateway-agent-other");
        fs::create_dir(&other).unwrap();
        remove_stale_directories(parent.path());
        assert!(!stale.exists());
        assert!(used.directory.path().exists() && other.exists());
    }
}
