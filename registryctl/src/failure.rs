//! What can go wrong, and the exit code that each of it ends with.

mod status;

use std::{
    error::Error,
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use registry_proto::v1;

use crate::{
    input::Unreadable,
    report::{Finding, Report},
    style::{Paint, Style, printable_lines},
};

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments contradict each other or cannot be read.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {reason}", .path.display())]
    File {
        /// What was tried: `read`, `write`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why it failed.
        reason: String,
    },
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// The program cannot start.
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    /// No connection, or it broke.
    #[error("cannot reach the registry at {address}: {reason}")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// Why not.
        reason: String,
    },
    /// No connection to a live server, or it broke.
    #[error("cannot ask {target}: {reason}")]
    LiveUnreachable {
        /// Which server.
        target: String,
        /// Why not.
        reason: String,
    },
    /// A live server says what cannot be used.
    #[error("what {target} says cannot be used: {reason}")]
    LiveAnswer {
        /// Which server.
        target: String,
        /// Why not.
        reason: String,
    },
    /// Validation refused it; the findings have been shown.
    #[error("{0}")]
    Rejected(String),
    /// What was compared is different, which has been shown.
    #[error("there are differences")]
    Different,
    /// Validation refused it; the findings have not been shown.
    #[error("refused by validation")]
    Invalid(Vec<v1::Diagnostic>),
    /// Something would change or could, and the caller asked for an exit code that says so.
    #[error("{0}")]
    WouldChange(String),
    /// Too few gateways have applied what was waited for.
    #[error("{0}")]
    NotRolledOut(String),
    /// The answer is no.
    #[error("{message}")]
    Refused {
        /// The registry's machine-readable reason.
        reason: String,
        /// What it says.
        message: String,
    },
    /// The registry failed.
    #[error("the registry failed ({code}): {message}")]
    Server {
        /// The gRPC code and the registry's machine-readable reason.
        code: String,
        /// What it says.
        message: String,
    },
    /// The registry's answer cannot be understood, or does not prove itself.
    #[error("the registry's answer cannot be used: {0}")]
    Answer(String),
}

/// The registry's reasons that pass.
const TRANSIENT: [&str; 8] = [
    "CONTENTION",
    "DRAINING",
    "INTAKE_FULL",
    "OUTCOME_UNKNOWN",
    "RATE_LIMITED",
    "SLOW_READER",
    "TOO_MANY_STREAMS",
    "WRITE_QUEUE_FULL",
];

/// The registry's reasons that another server of it may not have.
const OF_ONE_SERVER: [&str; 3] = ["DATABASE_NEWER", "DATABASE_UNAVAILABLE", "READ_ONLY"];

impl From<Unreadable> for Failure {
    fn from(Unreadable { path, reason }: Unreadable) -> Self {
        Self::File { action: "read", path, reason }
    }
}

impl Failure {
    pub(crate) fn usage(reason: impl fmt::Display) -> Self {
        Self::Usage(reason.to_string())
    }

    /// A file that cannot be read.
    pub(crate) fn unreadable(path: &Path, reason: impl fmt::Display) -> Self {
        Self::File { action: "read", path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn answer(reason: impl fmt::Display) -> Self {
        Self::Answer(reason.to_string())
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Rejected(_) | Self::Different | Self::Invalid(_) | Self::Refused { .. } => 1,
            Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Usage(_) | Self::File { .. } | Self::Output(_) | Self::Runtime(_) => 2,
            Self::Unreachable { .. } | Self::LiveUnreachable { .. } => 3,
            Self::WouldChange(_) => 5,
            Self::NotRolledOut(_) => 6,
            Self::Server { .. } | Self::Answer(_) | Self::LiveAnswer { .. } => 4,
        }
    }

    /// Whether the same request may succeed a little later.
    pub(crate) fn is_transient(&self) -> bool {
        let reason = match self {
            Self::Unreachable { .. } => return true,
            Self::Server { code: reason, .. } | Self::Refused { reason, .. } => reason,
            _ => return false,
        };
        TRANSIENT.contains(&reason.as_str())
    }

    /// Whether another server of the registry may do what this one does not.
    pub(crate) fn is_of_one_server(&self) -> bool {
        matches!(self, Self::Server { code, .. } if OF_ONE_SERVER.contains(&code.as_str()))
    }

    /// Whether a write may have been stored all the same.
    pub(crate) fn leaves_outcome_open(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Server { code, .. } => {
                ["DEADLINE_EXCEEDED", "OUTCOME_UNKNOWN"].iter().any(|open| code.contains(open))
            }
            _ => false,
        }
    }

    /// The same with what a child process said last on its standard error.
    pub(crate) fn with_last_words(self, said: &str) -> Self {
        let with = |reason: String| match said {
            "" => reason,
            said => format!("{reason}; it said: {}", said.replace(['\n', '\r'], " | ")),
        };
        match self {
            Self::LiveUnreachable { target, reason } => {
                Self::LiveUnreachable { target, reason: with(reason) }
            }
            Self::LiveAnswer { target, reason } => {
                Self::LiveAnswer { target, reason: with(reason) }
            }
            other => other,
        }
    }

    fn help(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { .. } => Some(
                "does a registry listen there? --registry URL or REGISTRY_URL says where it is",
            ),
            _ => None,
        }
    }

    /// Says what went wrong and gives the exit code.
    pub(crate) fn end(self, style: Style) -> ExitCode {
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
        let help = self.help().map(|help| format!("  = help: {help}\n")).unwrap_or_default();
        let head = style.paint(Paint::Bad, "error");
        let text = format!("{findings}{head}: {}\n{help}", printable_lines(&self.to_string()));
        // When standard error is gone too, the exit code has to do.
        let _ = io::stderr().write_all(text.as_bytes());
        ExitCode::from(code)
    }
}

/// The innermost cause of an error: `connection refused`, not `transport error`.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
