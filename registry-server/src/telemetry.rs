//! Logging to standard error. Export of traces is not supported.

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, filter::ParseError, fmt};

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Readable lines.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging. Call it once in a process.
pub fn start(filter: &str, format: LogFormat) -> Result<(), ParseError> {
    let filter = EnvFilter::builder().parse(filter)?;
    let lines =
        fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    // Only tests call this twice; the first subscriber stays.
    let _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    Ok(())
}

/// Reports the error that ends the process. The filter does not apply to it.
pub fn fatal(message: &str, format: LogFormat) {
    match format {
        LogFormat::Text => {
            // A closed standard error is not a failure.
            let _ = writeln!(io::stderr(), "registry-server: {message}");
        }
        LogFormat::Json => {
            let lines = fmt().with_writer(io::stderr).json().flatten_event(true).finish();
            tracing::subscriber::with_default(lines, || tracing::error!("{message}"));
        }
    }
}
