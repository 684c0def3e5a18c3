//! Converts the bytes of a registry file to a catalog: a verified export of a registry, or a plain
//! file.
//!
//! A plain file has no history. It becomes the registry `file`, whose revision counts the contents
//! that this gateway has loaded.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use policy::PolicyBreaks;
use registry_core::{
    Catalog, ChainHash, Code, Diagnostic, Key, Lifecycle, Record, RegistryFile, RegistryId,
    Revision, Timestamp,
    document::{InvalidJson, parse_json},
    registry_file::{FileError, InvalidExport, read_export},
    rules::{Proposed, validate},
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{
    cache::Cache,
    catalog_verifier::{CatalogRejected, CatalogVerifier},
    startup::{self, InvalidCatalog, StartupValidation},
};

/// The registry id of plain files.
pub(super) const PLAIN_REGISTRY: &str = "file";

/// Why a file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ContentRejected {
    /// An export that fails verification.
    #[error(transparent)]
    Export(Box<InvalidExport>),
    /// A plain file with errors.
    #[error("not a registry file:{}", list(.0))]
    File(Vec<Diagnostic>),
    /// Findings that the configuration treats as errors.
    #[error(transparent)]
    Findings(#[from] InvalidCatalog),
    /// The signature of the required key is missing or invalid.
    #[error(transparent)]
    CatalogRejected(#[from] CatalogRejected),
    /// A plain file, which cannot be signed.
    #[error(
        "a plain registry file has no signature, but `registry.key` requires one; use an export \
         (`registryctl export`, `/registry.json`), or remove `registry.key`"
    )]
    PlainFile,
    /// The file belongs to another registry.
    #[error(
        "the file belongs to registry `{found}`, but the cache belongs to `{served}`; if the registry \
         was replaced on purpose, stop the gateway, delete its cache (with .previous, .log and .pins) and \
         restart it"
    )]
    OtherRegistry {
        /// The served registry.
        served: RegistryId,
        /// The registry of the file.
        found: RegistryId,
    },
    /// The file is older than the served catalog.
    #[error(
        "the file has revision {found}, but revision {served} is already served; to roll back on \
         purpose, stop the gateway, delete its cache (with .previous and .log) and restart it"
    )]
    Older {
        /// The served revision.
        served: Revision,
        /// The revision of the file.
        found: Revision,
    },
    /// The same revision with another history.
    #[error(
        "the history differs from the served catalog at revision {0}; if the registry was restored on \
         purpose, stop the gateway, delete its cache (with .previous and .log) and restart it"
    )]
    OtherHistory(Revision),
}

fn list(found: &[Diagnostic]) -> String {
    found.iter().fold(String::new(), |text, one| text + "\n  " + &startup::with_remedy(one))
}

/// Parses a plain file: JSON, or YAML if its name says so.
fn parse(name: &str, bytes: &[u8]) -> Result<Value, Box<Diagnostic>> {
    let extension = Path::new(name).extension();
    let is_named = |wanted: &str| extension.is_some_and(|have| have.eq_ignore_ascii_case(wanted));
    if !is_named("yaml") && !is_named("yml") {
        return parse_json(bytes).map_err(|e| Box::new(e.into()));
    }
    let invalid = |problem: String| {
        let message = format!("not valid YAML: {problem}");
        Box::new(Diagnostic::error(Code::DocumentInvalid, "", message).with_help(InvalidJson::HELP))
    };
    let text = std::str::from_utf8(bytes).map_err(|e| invalid(e.to_string()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Emitted comments are limited to 32 before the first item of a block.
    let options = serde_saphyr::options! {
        strict_booleans: true, with_snippet: false, emit_comments: false
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| invalid(e.to_string()))
}

/// Loads a file into the cache, unless it is already served. A rejected file changes nothing.
/// `name` is the file name, for the syntax and for remedies. Returns the findings about the policies of a plain file.
///
/// Invalid conditions reject no file, because the gateway denies calls under them.
pub(super) fn load_content(
    cache: &Cache,
    (name, bytes): (&str, &[u8]),
    catalog_verifier: &CatalogVerifier,
) -> Result<Vec<Diagnostic>, ContentRejected> {
    let served = cache.current();
    let mut policy_findings = Vec::new();
    let catalog = if is_export(bytes) {
        let catalog = read_export(bytes).map_err(|e| ContentRejected::Export(Box::new(e)))?;
        check_position(cache, &catalog)?;
        if catalog.revision() == served.revision() && cache.has_catalog() {
            return Ok(policy_findings);
        }
        catalog_verifier.verify(&catalog)?;
        catalog
    } else if catalog_verifier.requires_signature() {
        return Err(ContentRejected::PlainFile);
    } else {
        let plain = read_plain((name, bytes), catalog_verifier.startup())?;
        policy_findings = plain.policy_findings;
        match next_plain(cache, plain.records)? {
            Some(catalog) => catalog,
            None => return Ok(policy_findings),
        }
    };
    let (revision, entities) = (catalog.revision(), catalog.len());
    cache.replace(catalog);
    tracing::info!(%revision, entities, "loaded a catalog");
    Ok(policy_findings)
}

/// Whether the file claims to be an export.
fn is_export(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Members {
        registry: Option<IgnoredAny>,
        chain: Option<IgnoredAny>,
        digest: Option<IgnoredAny>,
        records: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Members>(bytes).is_ok_and(|found| {
        let Members { registry, chain, digest, records } = found;
        registry.or(chain).or(digest).or(records).is_some()
    })
}

/// Checks that a catalog can follow the served one.
fn check_position(cache: &Cache, catalog: &Catalog) -> Result<(), ContentRejected> {
    if !cache.has_catalog() {
        return Ok(());
    }
    let served = cache.current();
    if served.registry() != catalog.registry() {
        let (served, found) = (served.registry().clone(), catalog.registry().clone());
        return Err(ContentRejected::OtherRegistry { served, found });
    }
    if catalog.revision() < served.revision() {
        let (served, found) = (served.revision(), catalog.revision());
        return Err(ContentRejected::Older { served, found });
    }
    if catalog.revision() == served.revision() && catalog.chain() != served.chain() {
        return Err(ContentRejected::OtherHistory(served.revision()));
    }
    Ok(())
}

type Records = BTreeMap<Key, Record>;

/// The content of a plain file.
struct PlainFile {
    records: Records,
    /// The findings that a registration of the file would have about its policies.
    policy_findings: Vec<Diagnostic>,
}

fn read_plain(
    (name, bytes): (&str, &[u8]),
    modes: StartupValidation,
) -> Result<PlainFile, ContentRejected> {
    let value = parse(name, bytes).map_err(|found| ContentRejected::File(vec![*found]))?;
    let file = RegistryFile::from_value(&value).map_err(|FileError { mut diagnostics }| {
        diagnostics.extend(registry_import::remedy(&value, name));
        ContentRejected::File(diagnostics)
    })?;
    let empty = Catalog::empty(RegistryId::new(PLAIN_REGISTRY));
    let located = |found: Diagnostic| {
        let pointer = file.locate(&found);
        Diagnostic { pointer, ..found }
    };
    let mut plan = validate(&empty, file.proposals());
    let by_rules = std::mem::take(&mut plan.diagnostics).into_iter().map(located);
    let found = file.warnings().iter().cloned().chain(by_rules).collect();
    startup::apply_modes(found, modes).map_err(|mut refused| {
        refused.errors.extend(registry_import::remedy(&value, name));
        refused
    })?;
    policy::check(&empty, file.proposals(), PolicyBreaks::Reject, &mut plan);
    let policy_findings = plan.diagnostics.into_iter().map(located).collect();
    Ok(PlainFile { records: records(&file), policy_findings })
}

fn records(file: &RegistryFile) -> Records {
    let mut records = Records::new();
    for proposed in file.proposals() {
        match proposed {
            Proposed::Register(document) => {
                let key = document.key().clone();
                records.insert(key, new_record(document.clone()));
            }
            Proposed::SetLifecycle { key, state, notice } => {
                if let Some(record) = records.get_mut(key) {
                    record.lifecycle = Lifecycle::new(*state, notice.clone(), EPOCH);
                }
            }
        }
    }
    records
}

/// Plain files contain no times; revisions are assigned later.
const EPOCH: (Revision, Timestamp) = (Revision(0), Timestamp::EPOCH);

fn new_record(document: Arc<registry_core::Document>) -> Record {
    let (registered, registered_at) = EPOCH;
    let lifecycle = Lifecycle::active(EPOCH);
    Record { document, owner: PLAIN_REGISTRY.into(), registered, registered_at, lifecycle }
}

/// The next catalog of a plain file. `None` if nothing changed.
fn next_plain(cache: &Cache, records: Records) -> Result<Option<Catalog>, ContentRejected> {
    let registry = RegistryId::new(PLAIN_REGISTRY);
    let served = cache.current();
    let is_first = !cache.has_catalog();
    if !is_first && *served.registry() != registry {
        let served = served.registry().clone();
        return Err(ContentRejected::OtherRegistry { served, found: registry });
    }
    if !is_first && is_unchanged(&served, &records) {
        return Ok(None);
    }
    let (revision, chain) = if is_first {
        (Revision(1), ChainHash::genesis(&registry))
    } else {
        (served.revision().next(), served.chain())
    };
    let records =
        records.into_iter().map(|(key, record)| dated_record(&served, &key, record, revision));
    let listed = Catalog::restore(registry.clone(), revision, chain, records);
    let chain = chain.append(listed.digest().as_bytes());
    let records: Vec<_> = listed.iter().map(|(_, record)| Record::clone(record)).collect();
    Ok(Some(Catalog::restore(registry, revision, chain, records)))
}

fn is_unchanged(served: &Catalog, records: &Records) -> bool {
    served.len() == records.len()
        && records
            .iter()
            .all(|(key, record)| served.find(key).is_some_and(|old| is_same(old, record)))
}

fn is_same(old: &Record, new: &Record) -> bool {
    old.document.digest() == new.document.digest()
        && old.lifecycle.state == new.lifecycle.state
        && old.lifecycle.notice == new.lifecycle.notice
}

/// An unchanged record keeps its revisions, a changed one gets the current revision.
fn dated_record(served: &Catalog, key: &Key, record: Record, revision: Revision) -> Record {
    match served.find(key) {
        Some(old) if is_same(old, &record) => Record::clone(old),
        Some(old) if old.document.digest() == record.document.digest() => {
            Record { lifecycle: Lifecycle { revision, ..record.lifecycle }, ..Record::clone(old) }
        }
        _ => Record {
            registered: revision,
            lifecycle: Lifecycle { revision, ..record.lifecycle },
            ..record
        },
    }
}
