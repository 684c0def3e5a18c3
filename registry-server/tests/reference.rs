//! The reference pages of the options and metrics of registry-server.

use clap::CommandFactory as _;
use registry_server::Config;

#[test]
fn reference_of_options_is_current() {
    let command = Config::command();
    let body = format!(
        "Options override environment variables; an empty variable counts as unset. \
         `registry-server --help` shows the same.\n\n{}{}",
        reference_pages::options(&command),
        reference_pages::subcommands(&command),
    );
    reference_pages::check("registry-server.md", "Options of registry-server", &body);
}

#[test]
fn reference_of_metrics_is_current() {
    reference_pages::check_metrics(
        "registry-server-metrics.md",
        "Metrics of registry-server",
        registry_server::metrics::METRICS,
    );
}
