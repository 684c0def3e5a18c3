//! Findings of validation: a stable code, a severity, a location, a message and a remedy.

use std::fmt;

use crate::{reference::Key, visible::escape_invisible};

/// The severity of a finding. An error rejects the batch; a warning does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The batch is accepted.
    Warning,
    /// The batch is rejected.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+) => {
        /// The stable, machine-readable code of a finding. Codes are part of the API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The serialized name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

codes! {
    /// A name with invalid characters or an invalid length.
    NameInvalid = "name-invalid",
    /// A version that is not an exact semantic version.
    VersionInvalid = "version-invalid",
    /// A missing, unknown or wrongly typed field, or an exceeded size, depth or number limit.
    DocumentInvalid = "document-invalid",
    /// The key is registered with other content.
    AlreadyRegistered = "already-registered",
    /// A change of a key that is not registered.
    NotRegistered = "not-registered",
    /// A JSON Schema that does not compile.
    SchemaInvalid = "schema-invalid",
    /// A `$ref` to a schema that is not registered.
    SchemaUnresolved = "schema-unresolved",
    /// A member of a JSON Schema that is likely a typo of a keyword.
    SchemaKeywordUnknown = "schema-keyword-unknown",
    /// A cycle of schema references.
    SchemaCycle = "schema-cycle",
    /// A server provides a tool version that is not registered.
    ProvisionUnknown = "provision-unknown",
    /// A tool's source is not a registered server version.
    SourceUnknown = "source-unknown",
    /// A tool's source does not provide it.
    SourceNotProvided = "source-not-provided",
    /// A tool name that another server also provides.
    ToolNameShared = "tool-name-shared",
    /// A tool with both or neither of `source` and `spec`.
    ImplementationAmbiguous = "implementation-ambiguous",
    /// A dependency that is not registered.
    DependencyUnknown = "dependency-unknown",
    /// A dependency on an agent without a skill, or on a skill that the agent does not have.
    DependencySkillUnknown = "dependency-skill-unknown",
    /// A cycle of dependencies.
    DependencyCycle = "dependency-cycle",
    /// A composition uses a tool or agent that it does not declare.
    DependencyUndeclared = "dependency-undeclared",
    /// A dependency on two versions of one name.
    DependencyAmbiguous = "dependency-ambiguous",
    /// A composition that violates the grammar.
    CompositionInvalid = "composition-invalid",
    /// A value in a composition that never (error) or not always (warning) matches its schema, or a
    /// path of an `outputTransform` that the output schema of its source does not declare (warning).
    CompositionMismatch = "composition-mismatch",
    /// An `x-mcp-header` annotation that violates the MCP specification.
    HeaderAnnotationInvalid = "header-annotation-invalid",
    /// A tool whose name says that it destroys or moves something, while its annotations deny it.
    AnnotationDoubtful = "annotation-doubtful",
    /// A dependency on a deprecated (warning) or retired (error) entity.
    DeprecatedDependency = "deprecated-dependency",
    /// A part of a server's `metadata.serverJson` that MCP clients would reject.
    ServerJsonInvalid = "server-json-invalid",
    /// A replacement that is not registered or not suitable.
    ReplacementUnknown = "replacement-unknown",
    /// A retirement of an entity that active entities depend on.
    StillNeeded = "still-needed",
    /// A new version of an archived name.
    NameArchived = "name-archived",
    /// An invalid setting.
    SettingInvalid = "setting-invalid",
    /// A version that is incompatible with an earlier one of its compatibility line.
    BreakingChange = "breaking-change",
    /// A version whose compatibility with an earlier one could not be decided.
    CompatibilityUndecided = "compatibility-undecided",
    /// A name that belongs to another team.
    NotOwner = "not-owner",
    /// A name outside of the caller's scopes.
    OutsideScope = "outside-scope",
    /// A policy whose conditions do not parse or have type errors.
    PolicyInvalid = "policy-invalid",
    /// A version of a tool or agent that a policy in force does not fit.
    PolicyIncompatible = "policy-incompatible",
    /// A change that requires a role that the caller does not have.
    RoleRequired = "role-required",
    /// A version of a policy that is not above the registered ones.
    PolicyVersionRegresses = "policy-version-regresses",
    /// A selector of a policy, or a name in its Cedar text, that matches nothing.
    PolicySelectorUnmatched = "policy-selector-unmatched",
    /// A policy that denies by default and has no `permit`.
    PolicyDeniesAll = "policy-denies-all",
    /// A policy whose Cedar text has no statement.
    PolicyEmpty = "policy-empty",
    /// An argument in the conditions of a policy that no selected tool declares.
    PolicyArgumentUndeclared = "policy-argument-undeclared",
    /// A statement in the conditions of a policy that no selected call can satisfy.
    PolicyUnsatisfiable = "policy-unsatisfiable",
    /// A replacement of a policy that rejects no calls, while the replaced version does.
    PolicyRelaxed = "policy-relaxed",
    /// A replacement of a policy that rejects calls, while the replaced version does not.
    PolicyTightened = "policy-tightened",
    /// A budget that an earlier version of its policy defines with other calls or another window.
    BudgetRedefined = "budget-redefined",
    /// A threshold for alerts above the limit of its budget.
    BudgetAlertAboveLimit = "budget-alert-above-limit",
    /// A tool or skill under a budget that no policy prices.
    BudgetUnpriced = "budget-unpriced",
    /// A tool or skill with the prices of several policies.
    PriceOverlap = "price-overlap",
    /// A part of an inspection without an effect.
    InspectionIneffective = "inspection-ineffective",
    /// A schema without references to it.
    SchemaUnused = "schema-unused",
    /// Findings that are omitted from a response.
    FindingsTruncated = "findings-truncated",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One finding of validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// The affected entity, if its name and version could be read.
    pub entity: Option<Key>,
    /// The index of the change in the batch, if there is one.
    pub change: Option<usize>,
    /// JSON pointer (RFC 6901) into the entity's document.
    pub pointer: String,
    /// The problem, including the offending value.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at a JSON pointer of a document. Invisible characters of the message are escaped.
    pub fn error(code: Code, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            entity: None,
            change: None,
            pointer: pointer.into(),
            message: escape_invisible(message),
            help: None,
        }
    }

    /// A warning at a JSON pointer of a document. Invisible characters of the message are escaped.
    pub fn warning(code: Code, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, pointer, message) }
    }

    /// Adds the remedy.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(escape_invisible(help));
        self
    }

    /// Adds the index of the change and the affected entity.
    pub fn for_change(mut self, change: usize, entity: &Key) -> Self {
        self.change = Some(change);
        self.entity = Some(entity.clone());
        self
    }

    /// Whether it rejects the batch.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.severity, self.code)?;
        if let Some(entity) = &self.entity {
            write!(f, " {entity}")?;
        }
        write!(f, " at {:?}: {}", self.pointer, self.message)
    }
}
