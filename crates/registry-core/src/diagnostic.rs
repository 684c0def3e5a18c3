//! What validation says: a stable code, a severity, where, what, and what to do.

use std::fmt;

use crate::reference::Key;

/// How bad it is. An error keeps a batch out; a warning goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Warning,
    /// Refused.
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
        /// The stable, machine-readable name of a finding; a contract with every client.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code as clients see it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

codes! {
    /// A name with characters or a length that are not allowed.
    NameInvalid = "name-invalid",
    /// A version that is not exact semver.
    VersionInvalid = "version-invalid",
    /// A missing, unknown or wrongly typed field; a size, depth or number out of bounds.
    DocumentInvalid = "document-invalid",
    /// The same key with other content.
    AlreadyRegistered = "already-registered",
    /// A change to something that is not registered.
    NotRegistered = "not-registered",
    /// A JSON Schema that does not compile.
    SchemaInvalid = "schema-invalid",
    /// A `$ref` to a schema that is not registered.
    SchemaUnresolved = "schema-unresolved",
    /// Schemas that refer to each other in a circle.
    SchemaCycle = "schema-cycle",
    /// A server provides a tool version that is not registered.
    ProvisionUnknown = "provision-unknown",
    /// A tool's source is not a registered server version.
    SourceUnknown = "source-unknown",
    /// A tool's source does not provide it.
    SourceNotProvided = "source-not-provided",
    /// A tool name that another server has, too.
    ToolNameShared = "tool-name-shared",
    /// A tool with both or neither of `source` and `spec`.
    ImplementationAmbiguous = "implementation-ambiguous",
    /// A dependency that is not registered.
    DependencyUnknown = "dependency-unknown",
    /// A dependency on an agent without a skill, or with one that it does not have.
    DependencySkillUnknown = "dependency-skill-unknown",
    /// A circle of dependencies.
    DependencyCycle = "dependency-cycle",
    /// A composition uses what it does not declare.
    DependencyUndeclared = "dependency-undeclared",
    /// A dependency on two versions of one name.
    DependencyAmbiguous = "dependency-ambiguous",
    /// A composition that breaks the grammar.
    CompositionInvalid = "composition-invalid",
    /// A value in a composition never fits its place (error), or may not fit (warning).
    CompositionMismatch = "composition-mismatch",
    /// An `x-mcp-header` annotation that breaks the MCP rules.
    HeaderAnnotationInvalid = "header-annotation-invalid",
    /// A dependency on something deprecated (warning) or retired (error).
    DeprecatedDependency = "deprecated-dependency",
    /// A part of a server's `metadata.serverJson` that MCP clients could not take.
    ServerJsonInvalid = "server-json-invalid",
    /// A replacement that is not registered, or cannot be one.
    ReplacementUnknown = "replacement-unknown",
    /// Something active depends on what is to be retired.
    StillNeeded = "still-needed",
    /// A new version of a name that is archived.
    NameArchived = "name-archived",
    /// A setting that cannot be.
    SettingInvalid = "setting-invalid",
    /// A version that breaks what an earlier one of its compatibility line promises.
    BreakingChange = "breaking-change",
    /// A version of which it could not be decided whether it breaks an earlier one.
    CompatibilityUndecided = "compatibility-undecided",
    /// A name that belongs to another team.
    NotOwner = "not-owner",
    /// A name outside of the scopes that the caller was given.
    OutsideScope = "outside-scope",
    /// A schema that nothing refers to.
    SchemaUnused = "schema-unused",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind of finding.
    pub code: Code,
    /// How bad.
    pub severity: Severity,
    /// The entity that it is about, when its name and version could be read.
    pub entity: Option<Key>,
    /// The index of the change in the proposed batch, when there is one.
    pub change: Option<usize>,
    /// JSON pointer (RFC 6901) into the entity's document.
    pub pointer: String,
    /// What is wrong, naming the offending value.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at a pointer of a document.
    pub fn error(code: Code, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            entity: None,
            change: None,
            pointer: pointer.into(),
            message: message.into(),
            help: None,
        }
    }

    /// A warning at a pointer of a document.
    pub fn warning(code: Code, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, pointer, message) }
    }

    /// Adds what to do about it.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says which change of the batch, and which entity, it is about.
    pub fn about(mut self, change: usize, entity: &Key) -> Self {
        self.change = Some(change);
        self.entity = Some(entity.clone());
        self
    }

    /// Whether it keeps the batch out.
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
