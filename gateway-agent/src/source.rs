//! Sources of catalogs. Each source updates the cache and reports its state.

mod content;
mod discovered;
mod file;
mod http;
mod loader;
mod scope;
mod settings;

use registry_follow::{Follower, Timing};

pub(crate) use self::file::{LoadError, LoadedFile, load as load_file};
pub use self::{
    content::ContentRejected,
    discovered::{DiscoveredServer, Discovery, DiscoveryConfig},
    settings::{InvalidSource, ScopeConfig, Source, SourceConfig},
};

use crate::{feed::Feed, sync};

/// The setting of the CA bundle for the registry.
const CA_SETTING: &str = "registry.caFile";

/// Waits for the first catalog of a source that takes seconds to deliver one.
pub async fn prepare(
    config: &SourceConfig,
    discovery: &mut Discovery,
    feed: &Feed,
) -> Result<(), ContentRejected> {
    match config.address {
        Source::Discovered => discovery.first(feed).await,
        Source::Grpc(_) | Source::Http(_) | Source::File(_) => Ok(()),
    }
}

/// Follows the source until it is stopped. `gateway` is the gateway's name in the registry.
///
/// Fails if the first catalog is rejected and there is none to serve.
pub async fn follow(
    config: &SourceConfig,
    gateway: String,
    discovery: Discovery,
    feed: Feed,
) -> Result<(), ContentRejected> {
    match &config.address {
        Source::Grpc(addresses) => {
            let (scope, keep) = scope::follow(&config.scope);
            let follower = follower(addresses, config);
            tokio::select! {
                () = sync::follow(&follower, gateway, feed, scope) => {}
                () = keep => {}
            }
            Ok(())
        }
        Source::Http(url) => http::poll(url, config, feed).await,
        Source::File(path) => file::watch(path, feed).await,
        Source::Discovered => discovery.follow(feed).await,
    }
}

/// The registry that takes reports. `None`: the source takes none.
pub fn reported_to(config: &SourceConfig) -> Option<Follower> {
    match &config.address {
        Source::Grpc(addresses) => Some(follower(addresses, config)),
        Source::Http(_) | Source::File(_) | Source::Discovered => None,
    }
}

fn follower(addresses: &[String], config: &SourceConfig) -> Follower {
    Follower {
        addresses: addresses.to_vec(),
        credentials: config.credentials.clone(),
        timing: Timing::default(),
        ca_setting: CA_SETTING,
        agent: sync::AGENT,
    }
}
