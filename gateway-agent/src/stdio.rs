//! `gateway-agent stdio`: a bridge to a running gateway or to an embedded one.

use std::{fs, path::Path};

use gateway_agent::{
    bridge::{self, Address, Endpoint, Identity, Sizes, Token},
    cache::CacheError,
    config::{Args, Config, StdioArgs, state_file},
    server::{self, Entry},
};
use registry_tls::ClientFiles;
use tempfile::TempDir;
use tokio::{io, sync::oneshot};
use tokio_util::sync::CancellationToken;

use crate::{FAILED, Failed, MISCONFIGURED, load, on_runtime, until_signals};

/// Room for the JSON-RPC envelope around a result, in bytes.
const ENVELOPE_BYTES: usize = 1024 * 1024;

pub(crate) fn run(args: &Args, bridge: &StdioArgs) -> Result<(), Failed> {
    check(args, bridge).map_err(|message| (MISCONFIGURED, message))?;
    match &bridge.gateway {
        Some(url) => connect(url, bridge),
        None => embed(args, bridge),
    }
}

/// Checks that the flags select one gateway. The flag parser cannot, because some flags can precede
/// `stdio`.
fn check(args: &Args, bridge: &StdioArgs) -> Result<(), String> {
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
			"no gateway is configured, and {} does not exist: connect to a running gateway with \\
			 --gateway URL, or start one in this process with --mcp-servers FILE or --config FILE",
            args.file().display()
        )),
        _ => Ok(()),
    }
}

fn connect(url: &str, bridge: &StdioArgs) -> Result<(), Failed> {
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

fn embed(args: &Args, bridge: &StdioArgs) -> Result<(), Failed> {
    // A client may start this process in any directory, for instance in `/`.
    let default_cache = state_file(args);
    let directory = default_cache.as_deref().and_then(Path::parent).map(Path::to_owned);
    let args = Args { default_cache, data: args.data.clone().or(directory), ..args.clone() };
    let mut config = load(&args)?;
    // Several bridges with one configuration cannot share an address.
    config.admin = None;
    let outcome = on_runtime(until_signals(async |stop| {
        let mut directory = None;
        loop {
            let serving = Box::pin(serve_embedded(config.clone(), bridge, stop.clone()));
            match serving.await {
                Err(server::Error::Cache(CacheError::Locked(path))) if directory.is_none() => {
                    directory = Some(beside_another(&mut config, &path)?);
                }
                served => return served.map_err(|e| e.to_string())?,
            }
        }
    }));
    outcome.map_err(|message| (FAILED, message))
}

/// Gives a second gateway its own cache: a copy in a temporary directory, which is returned.
fn beside_another(config: &mut Config, cache: &Path) -> Result<TempDir, String> {
    let directory = tempfile::Builder::new().prefix("gateway-agent-").tempdir();
    let directory = directory.map_err(|e| format!("cannot create a temporary directory: {e}"))?;
    let copy = directory.path().join("registry-v2.json");
    // Without a copy, the gateway waits for the registry.
    let _ = fs::copy(cache, &copy);
    tracing::warn!(
        "the cache {} is in use by another gateway; this one keeps its state in {} until it ends",
        cache.display(),
        directory.path().display()
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
    server::run(Entry::Routes(sender), config, bridging).await?;
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
        allows_plaintext: bridge.plaintext_token,
    }
}
