//! `--check`: compares the targets with the catalog of the registry file or cache. It does not
//! contact the registry.

use gateway_upstream::Routing;

use crate::{
    cache::Cache,
    config::Config,
    findings::{self, Finding},
    source::{self, Source},
};

/// Returns the findings, or the reason why no catalog is available.
pub fn check(config: &Config) -> Result<Vec<Finding>, String> {
    let catalog_verifier = config.registry.catalog_verifier();
    let catalog = match &config.registry.source.address {
        Source::File(path) => source::load_file(path, &catalog_verifier)?,
        Source::Grpc(_) | Source::Http(_) | Source::Discovered => {
            let cache = &config.registry.cache;
            Cache::read(cache, &catalog_verifier).ok_or_else(|| {
                format!(
                    "the cache {} has no catalog; start the gateway once, or run `registryctl export \
                     --out registry.json` and check with `--registry file://./registry.json`",
                    cache.display()
                )
            })?
        }
    };
    let routing: Routing = config.targets.iter().map(|target| target.server.clone()).collect();
    Ok(findings::inspect(&catalog, &routing))
}
