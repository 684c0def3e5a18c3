//! Where catalogs come from: each source puts them into the cache and says how it is doing.

mod content;
mod discovered;
mod file;
mod http;
mod intake;
mod scope;
mod settings;

use registry_follow::{Follower, Timing};

pub(crate) use self::file::load as load_file;
pub use self::{
    content::Rejected,
    discovered::{DiscoveredServer, Discovery, DiscoveryConfig},
    settings::{InvalidSource, ScopeConfig, Source, SourceConfig},
};

use crate::{feed::Feed, sync};

/// Waits for the first catalog of a source that has one within seconds.
pub async fn prepare(
    config: &SourceConfig,
    discovery: &mut Discovery,
    feed: &Feed,
) -> Result<(), Rejected> {
    match config.address {
        Source::Discovered => discovery.first(feed).await,
        Source::Grpc(_) | Source::Http(_) | Source::File(_) => Ok(()),
    }
}

/// Follows the source until it is stopped. `gateway` is the name of the gateway in the registry.
///
/// Fails if there is no catalog to serve and the first one is rejected.
pub async fn follow(
    config: &SourceConfig,
    gateway: String,
    discovery: Discovery,
    feed: Feed,
) -> Result<(), Rejected> {
    match &config.address {
        Source::Grpc(addresses) => {
            let (scope, keep) = scope::follow(&config.scope);
            let follower = Follower {
                addresses: addresses.clone(),
                credentials: config.credentials.clone(),
                timing: Timing::default(),
                agent: sync::AGENT,
            };
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
