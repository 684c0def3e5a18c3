//! Errors of commands, and their exit codes.

mod status;

use std::{
    error::Error,
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use registry_proto::v1;
use registry_tls::InvalidFile;

use crate::{
    address::Address,
    diagnose::{self, UnreachableServer},
    input::Unreadable,
    report::{Finding, Report},
    style::{Paint, Style, printable, printable_lines},
};

/// The error of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Invalid arguments.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {reason}", .path.display())]
    File {
        /// The failed action, such as `read` or `write`.
        action: &'static str,
        path: PathBuf,
        reason: String,
    },
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    /// The connection failed or was lost.
    #[error("cannot reach the registry at {}", unreachable(.0))]
    Unreachable(Vec<UnreachableServer>),
    /// The connection to a live server failed or was lost.
    #[error("cannot reach {target}: {reason}")]
    LiveUnreachable { target: String, reason: String },
    /// A live server sent an invalid response.
    #[error("invalid response from {target}: {reason}")]
    InvalidLiveResponse { target: String, reason: String },
    /// Rejected by validation, after the findings were printed.
    #[error("{0}")]
    Rejected(String),
    /// A comparison found differences, after they were printed.
    #[error("there are differences")]
    Different,
    /// Rejected by validation; the findings are not printed yet.
    #[error("rejected by validation")]
    Invalid(Vec<v1::Diagnostic>),
    /// A change is pending, and the caller asked for an exit code.
    #[error("{0}")]
    WouldChange(String),
    /// Too few gateways have applied a revision.
    #[error("{0}")]
    NotRolledOut(String),
    /// The registry rejected the request.
    #[error("{message}")]
    RequestRejected {
        /// The machine-readable reason.
        reason: String,
        message: String,
    },
    /// The registry failed.
    #[error("the registry failed: {message}")]
    Server {
        /// The machine-readable reason, or the gRPC code.
        code: String,
        message: String,
    },
    /// The registry sent an invalid response, or one whose proof failed.
    #[error("invalid response from the registry: {0}")]
    InvalidResponse(String),
    /// Another failure with its remedy.
    #[error("{failure}")]
    WithHelp { failure: Box<Failure>, help: String },
}

/// The addresses and the reasons of servers that cannot be reached.
fn unreachable(servers: &[UnreachableServer]) -> String {
    let addresses: Vec<_> = servers.iter().map(|server| server.address.to_string()).collect();
    let reasons: Vec<_> = servers.iter().map(|server| server.reason.as_str()).collect();
    format!("{}: {}", addresses.join(","), reasons.join("; "))
}

/// The registry's transient reasons: a retry may succeed.
const TRANSIENT: [&str; 8] = [
    "CONTENTION",
    "DRAINING",
    "REQUEST_MEMORY_LIMIT",
    "OUTCOME_UNKNOWN",
    "RATE_LIMITED",
    "SLOW_READER",
    "TOO_MANY_STREAMS",
    "WRITE_QUEUE_FULL",
];

/// The registry's reasons that concern one server only.
const OF_ONE_SERVER: [&str; 3] = ["DATABASE_SCHEMA_TOO_NEW", "DATABASE_UNAVAILABLE", "READ_ONLY"];

impl From<Unreadable> for Failure {
    fn from(Unreadable { path, reason }: Unreadable) -> Self {
        Self::File { action: "read", path, reason }
    }
}

impl From<InvalidFile> for Failure {
    fn from(InvalidFile { path, reason }: InvalidFile) -> Self {
        Self::File { action: "use", path, reason }
    }
}

impl Failure {
    pub(crate) fn usage(reason: impl fmt::Display) -> Self {
        Self::Usage(reason.to_string())
    }

    pub(crate) fn unreachable(address: &Address, reason: String) -> Self {
        Self::Unreachable(vec![UnreachableServer { address: address.clone(), reason }])
    }

    pub(crate) fn unreadable(path: &Path, reason: impl fmt::Display) -> Self {
        Self::File { action: "read", path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn invalid_response(reason: impl fmt::Display) -> Self {
        Self::InvalidResponse(reason.to_string())
    }

    /// The failure of a request for a revision after the current one.
    pub(crate) fn revision_ahead(revision: u64, head: u64) -> Self {
        let message =
            format!("there is no revision {revision}; the registry is at revision {head}");
        Self::RequestRejected { reason: "REVISION_AHEAD".to_owned(), message }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Rejected(_)
            | Self::Different
            | Self::Invalid(_)
            | Self::RequestRejected { .. } => 1,
            Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Usage(_) | Self::File { .. } | Self::Output(_) | Self::Runtime(_) => 2,
            Self::Unreachable { .. } | Self::LiveUnreachable { .. } => 3,
            Self::WouldChange(_) => 5,
            Self::NotRolledOut(_) => 6,
            Self::Server { .. } | Self::InvalidResponse(_) | Self::InvalidLiveResponse { .. } => 4,
            Self::WithHelp { failure, .. } => failure.exit_code(),
        }
    }

    /// Whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        let reason = match self {
            Self::Unreachable { .. } => return true,
            Self::Server { code: reason, .. } | Self::RequestRejected { reason, .. } => reason,
            _ => return false,
        };
        TRANSIENT.contains(&reason.as_str())
    }

    /// Whether the request may succeed at another server of the registry.
    pub(crate) fn is_server_specific(&self) -> bool {
        matches!(self, Self::Server { code, .. } if OF_ONE_SERVER.contains(&code.as_str()))
    }

    /// Whether a write may have been committed.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Server { code, .. } => {
                ["DEADLINE_EXCEEDED", "OUTCOME_UNKNOWN"].iter().any(|name| code.contains(name))
            }
            _ => false,
        }
    }

    /// Adds the last output of a child process on its standard error.
    pub(crate) fn with_stderr(self, stderr: &str) -> Self {
        let with = |reason: String| match stderr {
            "" => reason,
            text => format!("{reason}; stderr: {}", text.replace(['\n', '\r'], " | ")),
        };
        match self {
            Self::LiveUnreachable { target, reason } => {
                Self::LiveUnreachable { target, reason: with(reason) }
            }
            Self::InvalidLiveResponse { target, reason } => {
                Self::InvalidLiveResponse { target, reason: with(reason) }
            }
            other => other,
        }
    }

    pub(crate) fn with_help(self, help: String) -> Self {
        Self::WithHelp { failure: Box::new(self), help }
    }

    /// The same failure, with a help line if one is known.
    pub(crate) fn with_known_help(self, help: Option<impl Into<String>>) -> Self {
        match help {
            Some(help) => self.with_help(help.into()),
            None => self,
        }
    }

    /// Whether too few gateways have applied a revision.
    pub(crate) fn is_incomplete_rollout(&self) -> bool {
        match self {
            Self::NotRolledOut(_) => true,
            Self::WithHelp { failure, .. } => failure.is_incomplete_rollout(),
            _ => false,
        }
    }

    /// Adds the likely cause of a failed connection or authentication.
    pub(crate) async fn explained(self) -> Self {
        let help = match &self {
            Self::Unreachable(servers) => diagnose::remedy(servers).await,
            Self::RequestRejected { reason, .. } if reason == "CREDENTIALS_MISSING" => {
                "set REGISTRY_TOKEN, or pass --token-file FILE or --client-cert".to_owned()
            }
            Self::RequestRejected { reason, .. } if reason == "CREDENTIALS_INVALID" => {
                "check REGISTRY_TOKEN, --token-file or --client-cert".to_owned()
            }
            _ => return self,
        };
        self.with_help(help)
    }

    /// The machine-readable reason of the registry.
    fn reason(&self) -> Option<&str> {
        match self {
            Self::RequestRejected { reason, .. } | Self::Server { code: reason, .. } => {
                Some(reason.as_str()).filter(|reason| !reason.is_empty())
            }
            Self::WithHelp { failure, .. } => failure.reason(),
            _ => None,
        }
    }

    /// Prints the error and returns the exit code.
    pub(crate) fn report(self, style: Style) -> ExitCode {
        let code = self.exit_code();
        if code == 0 || matches!(self, Self::Different) {
            return ExitCode::from(code);
        }
        let findings = match &self {
            Self::Invalid(found) => {
                Report::new(found.iter().map(Finding::from).collect()).render(style)
            }
            _ => String::new(),
        };
        let help = match &self {
            Self::WithHelp { help, .. } => format!("  = help: {}\n", printable(help)),
            _ => String::new(),
        };
        let head = match self.reason() {
            Some(reason) => format!("error[{}]", printable(reason)),
            None => "error".to_owned(),
        };
        let head = style.paint(Paint::Bad, head);
        let text = format!("{findings}{head}: {}\n{help}", printable_lines(&self.to_string()));
        // If standard error is closed, only the exit code remains.
        let _ = io::stderr().write_all(text.as_bytes());
        ExitCode::from(code)
    }
}

/// The innermost cause of an error: `connection refused` instead of `transport error`.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
