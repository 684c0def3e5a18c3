//! `--check`: compares the targets and the agents of API keys with the catalog of the registry file
//! or cache, and checks the policies of a registry file. It does not contact the registry.

use std::{collections::BTreeSet, path::PathBuf};

use gateway_upstream::Routing;
use registry_core::{Catalog, Diagnostic};

use crate::{
    cache::Cache,
    config::Config,
    findings::{self, Finding},
    identity::{self, Identity, settings::ApiKeyConfig},
    source::{self, ContentRejected, LoadError, LoadedFile, Source},
};

/// The findings about a catalog.
#[derive(Debug)]
pub struct CheckedCatalog {
    /// The findings about the policies of a plain registry file. Other catalogs were checked at
    /// registration.
    pub policies: Vec<Diagnostic>,
    /// The findings about targets, tool names, the scope and approvals.
    pub routing: Vec<Finding>,
    /// The agents of `identity.apiKeys` without a usable version in the catalog: `agent/NAME` or
    /// `agent/NAME@VERSION`.
    pub unregistered_agents: BTreeSet<String>,
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
    let unregistered_agents = unregistered_agents(&catalog, &config.authentication.api_keys);
    let deciders = config.deciders(config.registry.written_origin);
    let routing = findings::inspect(&catalog, &routing, origin, deciders);
    Ok(CheckedCatalog { policies, routing, unregistered_agents })
}

fn unregistered_agents(catalog: &Catalog, keys: &[ApiKeyConfig]) -> BTreeSet<String> {
    let unregistered = |key: &&ApiKeyConfig| {
        let found = identity::find_agent(catalog, &key.agent, key.version.as_deref());
        !matches!(found, Identity::Agent(_))
    };
    let shown = |key: &ApiKeyConfig| match &key.version {
        Some(version) => format!("agent/{}@{version}", key.agent),
        None => format!("agent/{}", key.agent),
    };
    keys.iter().filter(unregistered).map(shown).collect()
}
