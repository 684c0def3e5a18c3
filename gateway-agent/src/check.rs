//! `--check`: compares the targets and the agents of API keys with the catalog of the registry file
//! or cache, and checks the policies of a registry file. It does not contact the registry.

use std::path::PathBuf;

use gateway_upstream::Routing;
use registry_core::Diagnostic;

use crate::{
    cache::Cache,
    config::Config,
    findings::{self, Finding},
    source::{self, ContentRejected, LoadError, LoadedFile, Source},
};

/// The findings about a catalog.
#[derive(Debug)]
pub struct CheckedCatalog {
    /// The findings about the policies of a plain registry file. Other catalogs were checked at
    /// registration.
    pub policies: Vec<Diagnostic>,
    /// The findings about targets, tool names, the scope, approvals and API keys.
    pub routing: Vec<Finding>,
}

/// Why no catalog was checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No catalog is available yet.
    #[error("{0}")]
    NoCatalog(String),
    /// The gateway would reject the registry file.
    #[error("{}: {reason}", .file.display())]
    Rejected {
        /// The file.
        file: PathBuf,
        /// The findings.
        reason: Box<ContentRejected>,
    },
}

/// Returns the findings, or the reason why there are none.
pub fn check(config: &Config) -> Result<CheckedCatalog, CheckError> {
    let catalog_verifier = config.registry.catalog_verifier();
    let LoadedFile { catalog, policy_findings: policies } = match &config.registry.source.address {
        Source::File(path) => {
            source::load_file(path, &catalog_verifier).map_err(|error| match error {
                LoadError::Unreadable(e) => {
                    CheckError::NoCatalog(format!("{}: {e}", path.display()))
                }
                LoadError::Rejected(reason) => {
                    CheckError::Rejected { file: path.clone(), reason: Box::new(reason) }
                }
            })?
        }
        Source::Grpc(_) | Source::Http(_) | Source::Discovered => {
            let cache = &config.registry.cache;
            let catalog = Cache::read(cache, &catalog_verifier).ok_or_else(|| {
                CheckError::NoCatalog(format!(
                    "the cache {} has no catalog; start the gateway once, or run `registryctl export \
                     --out registry.json` and check with `--registry file://./registry.json`",
                    cache.display()
                ))
            })?;
            LoadedFile { catalog, policy_findings: Vec::new() }
        }
    };
    let routing: Routing = config.targets.iter().map(|target| target.server.clone()).collect();
    let origin = config.registry.source.address.origin();
    let keys = &config.authentication.api_keys;
    let deciders = config.deciders(config.registry.written_origin);
    let routing = findings::inspect(&catalog, &routing, origin, deciders, keys);
    Ok(CheckedCatalog { policies, routing })
}
