//! The gateway process: flags, logging, resource limits, signals, exit codes. It also runs as the
//! supervisor of child processes (`guard`).
//!
//! Exit codes: 0 stopped by a signal, 1 failed to run, 2 invalid configuration.

mod stdio;

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use gateway_agent::{
    check::{self, CheckError},
    config::{Args, Command, Config, ConfigCommand, LogFormat, init},
    logging::{FlushGuard, LogOutput, PlainFields},
    server::{self, EntryPoint},
    startup,
};
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FAILED: u8 = 1;
const MISCONFIGURED: u8 = 2;
/// Maximum wait for blocked reads and writes (a pipe, a network file system) at exit.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(ended) = gateway_upstream::guard::run_if_asked() {
        return ended;
    }
    keep_pages_small();
    allow_many_files();
    let args = Args::parse_process();
    let logging = match start_logging(&args) {
        Ok(logging) => logging,
        Err(message) => return fail(MISCONFIGURED, &message, args.log_format),
    };
    let outcome = match &args.command {
        Some(Command::Config(ConfigCommand::Init(file))) => init(file).map_err(|e| {
            let code = if e.is_usage() { MISCONFIGURED } else { FAILED };
            (code, e.to_string())
        }),
        Some(Command::Stdio(bridge)) => stdio::run(&args, bridge),
        None => serve_callers(&args),
    };
    drop(logging);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => fail(code, &message, args.log_format),
    }
}

/// An exit code and its reason.
type ExitError = (u8, String);

fn serve_callers(args: &Args) -> Result<(), ExitError> {
    let config = load(args)?;
    if args.check {
        return check(&config);
    }
    on_runtime(serve(config)).map_err(|message| (FAILED, message))
}

/// Prints the findings. Errors in the registry file fail the check. Other findings do not prevent
/// serving.
fn check(config: &Config) -> Result<(), ExitError> {
    let checked = match check::check(config) {
        Err(rejected @ CheckError::Rejected { .. }) => return Err((FAILED, rejected.to_string())),
        checked => checked,
    };
    let policies = checked.as_ref().map(|found| found.policies.as_slice()).unwrap_or_default();
    let errors = policies.iter().filter(|found| found.is_error()).count();
    if errors == 0 {
        println!("the configuration is valid");
    }
    let skipped = config.mcp_servers.iter().flat_map(|servers| &servers.skipped);
    skipped.for_each(|problem| println!("warning[server-left-out]: {problem}"));
    let warnings = config.mcp_servers.iter().flat_map(|servers| &servers.warnings);
    warnings.for_each(|problem| println!("warning[mcp-servers-file]: {problem}"));
    for found in policies {
        println!("{}", startup::with_remedy(found));
    }
    match &checked {
        Ok(found) => {
            for finding in &found.routing {
                let level = if finding.is_warning() { "warning" } else { "note" };
                println!("{level}[{}]: {finding}", finding.code());
            }
        }
        Err(reason) => println!("warning[not-checked]: tool routing was not checked: {reason}"),
    }
    if errors == 0 {
        return Ok(());
    }
    let noun = if errors == 1 { "error" } else { "errors" };
    let message = format!(
        "{errors} {noun} in the policies of the registry file; correct them, because the gateway \
         denies calls under invalid conditions"
    );
    Err((FAILED, message))
}

/// Transparent huge pages would double the memory of this process without a gain in speed (see
/// `docs/adr/0006-disable-transparent-huge-pages.md`).
#[cfg(target_os = "linux")]
fn keep_pages_small() {
    // Kernels without this setting ignore it.
    let _ = nix::sys::prctl::set_thp_disable(true);
}

/// Every connection needs a file descriptor, and the usual soft limit (1,024) is far below the hard
/// limit.
#[cfg(target_os = "linux")]
fn allow_many_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    // On failure, fewer connections are accepted.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[cfg(not(target_os = "linux"))]
fn keep_pages_small() {}

#[cfg(not(target_os = "linux"))]
fn allow_many_files() {}

/// Reports the error that ends the process. The filter does not apply to it.
fn fail(code: u8, message: &str, format: LogFormat) -> ExitCode {
    match format {
        LogFormat::Text => eprintln!("gateway-agent: {message}"),
        LogFormat::Json => {
            let lines = tracing_subscriber::fmt().with_writer(std::io::stderr);
            let lines = lines.json().flatten_event(true).finish();
            tracing::subscriber::with_default(lines, || tracing::error!("{message}"));
        }
    }
    ExitCode::from(code)
}

fn load(args: &Args) -> Result<Config, ExitError> {
    Config::load(args).map_err(|e| (MISCONFIGURED, e.to_string()))
}

fn start_logging(args: &Args) -> Result<FlushGuard, String> {
    let filter = EnvFilter::try_new(&args.log).map_err(|e| format!("--log or GATEWAY_LOG: {e}"))?;
    let (output, guard) =
        LogOutput::start().map_err(|e| format!("the thread of the log cannot start: {e}"))?;
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(output);
    match args.log_format {
        LogFormat::Text if std::io::stderr().is_terminal() => logging.with_ansi(true).init(),
        LogFormat::Text => logging.with_ansi(false).fmt_fields(PlainFields).init(),
        LogFormat::Json => logging.json().flatten_event(true).init(),
    }
    Ok(guard)
}

fn on_runtime(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = Runtime::new().map_err(|e| format!("the runtime cannot start: {e}"))?;
    let outcome = runtime.block_on(async {
        // An error means that a provider is already installed.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        work.await
    });
    runtime.shutdown_timeout(EXIT_TIMEOUT);
    outcome
}

async fn serve(config: Config) -> Result<(), String> {
    let listen = config.listen;
    if config.is_exposed() {
        tracing::warn!(address = %listen, "CALLERS NEED NOT AUTHENTICATE OVER TLS: anyone who can reach this address may be able to call tools; set `tls.clientCaFile`, or `tls.certFile` and `identity.required` with `apiKeys` or `jwt`, or listen on 127.0.0.1");
    }
    let listener = TcpListener::bind(listen).await.map_err(|e| {
        format!(
            "cannot listen on {listen}: {e}; stop the other process or choose another address \
                 (--listen)"
        )
    })?;
    until_signals(async |stop| {
        let ended = server::run(EntryPoint::Socket(listener), config, stop.cancelled_owned()).await;
        ended.map_err(|e| e.to_string())
    })
    .await
}

/// Runs `work` until it ends. The first signal cancels the token; the second one aborts the work.
async fn until_signals(
    work: impl AsyncFnOnce(CancellationToken) -> Result<(), String>,
) -> Result<(), String> {
    let signals = Signals::catch().map_err(|e| format!("cannot wait for signals: {e}"))?;
    let stop = CancellationToken::new();
    tokio::select! {
        ended = work(stop.clone()) => ended,
        () = signals.twice(stop) => Err("received a second signal: running calls were aborted".to_owned()),
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if the parent process ignores hang-ups (`nohup`).
    hang_up: Option<Signal>,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        let hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
        let (terminate, interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hang_up })
    }

    /// Cancels the token at the first signal, and completes at the second.
    async fn twice(mut self, stop: CancellationToken) {
        let hung_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hung_up => {}
        }
        stop.cancel();
        // A hang-up does not count as the second signal: supervisors and terminals send it along
        // with the first.
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Whether SIGHUP is ignored; a handler would undo that. `SigIgn` is a signal mask whose lowest bit
/// is SIGHUP.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
