//! The checks of complete catalogs from a file, over HTTP or from the cache:
//! `registry.validation.startup`.
//!
//! Documents of the Sync stream are not checked again: the registry validated them at registration.

use std::fmt;

use gateway_policy::ValidationMode;
use registry_core::{
    Catalog, Code, Diagnostic, Kind, LifecycleState, Scope,
    edges::{Reference, Relation, references},
};

/// Maximum number of individually logged findings.
const LOGGED: usize = 20;

/// `registry.validation.startup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartupValidation {
    /// References to unregistered entities, and all other errors of the rules.
    pub missing_entity: ValidationMode,
    /// Dependencies on deprecated entities.
    pub deprecated_entity: ValidationMode,
    /// Schemas without references.
    pub unused_schema: ValidationMode,
}

impl Default for StartupValidation {
    fn default() -> Self {
        Self {
            missing_entity: ValidationMode::Error,
            deprecated_entity: ValidationMode::Warn,
            unused_schema: ValidationMode::Ignore,
        }
    }
}

/// A catalog rejected for its findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCatalog {
    /// The findings.
    pub errors: Vec<Diagnostic>,
}

impl std::error::Error for InvalidCatalog {}

impl fmt::Display for InvalidCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.errors.len();
        let noun = if count == 1 { "finding" } else { "findings" };
        write!(f, "{count} {noun} with the mode `error` in `registry.validation.startup`")?;
        for found in &self.errors {
            write!(f, "\n  {}", with_remedy(found))?;
        }
        Ok(())
    }
}

/// Checks a registered catalog. Warnings are logged.
pub fn verify(catalog: &Catalog, modes: StartupValidation) -> Result<(), InvalidCatalog> {
    apply_modes(inspect(catalog, modes), modes)
}

/// Applies the configured modes to findings. Warnings are logged.
pub fn apply_modes(found: Vec<Diagnostic>, modes: StartupValidation) -> Result<(), InvalidCatalog> {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for diagnostic in found {
        match mode_of(&diagnostic, modes) {
            ValidationMode::Error => errors.push(diagnostic),
            ValidationMode::Warn => warnings.push(diagnostic),
            ValidationMode::Ignore => {}
        }
    }
    log_warnings(&warnings);
    if errors.is_empty() { Ok(()) } else { Err(InvalidCatalog { errors }) }
}

/// Logs findings that do not reject the catalog.
pub fn log_warnings(found: &[Diagnostic]) {
    for finding in found.iter().take(LOGGED) {
        tracing::warn!("{}", with_remedy(finding));
    }
    if found.len() > LOGGED {
        tracing::warn!("and {} more findings in this catalog", found.len() - LOGGED);
    }
}

/// A finding on one line, with its remedy.
pub fn with_remedy(found: &Diagnostic) -> String {
    match &found.help {
        Some(help) => format!("{found}; {help}"),
        None => found.to_string(),
    }
}

fn mode_of(diagnostic: &Diagnostic, modes: StartupValidation) -> ValidationMode {
    match diagnostic.code {
        Code::DeprecatedDependency => modes.deprecated_entity,
        Code::SchemaUnused => modes.unused_schema,
        _ if diagnostic.is_error() => modes.missing_entity,
        _ => ValidationMode::Warn,
    }
}

/// The references of a catalog to unregistered entities.
pub fn missing(catalog: &Catalog) -> Vec<Diagnostic> {
    let (missing_entity, ignored) = (ValidationMode::Error, ValidationMode::Ignore);
    let modes =
        StartupValidation { missing_entity, deprecated_entity: ignored, unused_schema: ignored };
    inspect(catalog, modes).into_iter().filter(Diagnostic::is_error).collect()
}

/// Finds missing, deprecated and unused references, without compiling schemas.
fn inspect(catalog: &Catalog, modes: StartupValidation) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (key, record) in catalog.iter() {
        let about = |diagnostic: Diagnostic| Diagnostic { entity: Some(key.clone()), ..diagnostic };
        if needs_references(modes) && record.document.edges().iter().any(|e| is_notable(catalog, e))
        {
            let references = references(record.document.entity());
            found.extend(references.iter().filter_map(|r| examine(catalog, r)).map(about));
        }
        if key.kind == Kind::Schema
            && modes.unused_schema != ValidationMode::Ignore
            && catalog.dependents(key).next().is_none()
        {
            let message = format!("nothing refers to {key}");
            found.push(about(Diagnostic::warning(Code::SchemaUnused, "", message)));
        }
    }
    found
}

/// Whether a referenced entity is missing or inactive.
fn is_notable(catalog: &Catalog, key: &registry_core::Key) -> bool {
    catalog.find(key).is_none_or(|record| !record.is_active())
}

fn needs_references(modes: StartupValidation) -> bool {
    modes.missing_entity != ValidationMode::Ignore
        || modes.deprecated_entity != ValidationMode::Ignore
}

fn examine(catalog: &Catalog, reference: &Reference) -> Option<Diagnostic> {
    let Reference { relation, key, pointer } = reference;
    let Some(record) = catalog.find(key) else {
        // A partial catalog can contain a server without all its tools.
        if *relation == Relation::Provides && **catalog.scope() != Scope::Everything {
            return None;
        }
        let code = match relation {
            Relation::Provides => Code::ProvisionUnknown,
            Relation::Source => Code::SourceUnknown,
            Relation::Depends => Code::DependencyUnknown,
            Relation::Schema => Code::SchemaUnresolved,
        };
        return Some(Diagnostic::error(code, pointer, format!("{key} is not registered")));
    };
    let state = record.lifecycle.state;
    if state == LifecycleState::Active || *relation == Relation::Provides {
        return None;
    }
    let reason = record.lifecycle.message().unwrap_or("no reason was given");
    let message = format!("{key} is {state}: {reason}");
    Some(Diagnostic::warning(Code::DeprecatedDependency, pointer, message))
}
