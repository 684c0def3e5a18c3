//! The reference pages of the options and metrics of gateway-agent.

use clap::CommandFactory as _;
use gateway_agent::config::Args;

#[test]
fn reference_of_options_is_current() {
    let command = Args::command();
    let body = format!(
        "Options override environment variables, and both override the [configuration \
         file](gateway-config.md). An empty variable counts as unset. `gateway-agent --help` shows \
         the same.\n\n{}{}",
        reference_pages::options(&command),
        reference_pages::subcommands(&command),
    );
    reference_pages::check("gateway-agent.md", "Options of gateway-agent", &body);
}

#[test]
fn reference_of_metrics_is_current() {
    reference_pages::check_metrics(
        "gateway-agent-metrics.md",
        "Metrics of gateway-agent",
        gateway_agent::metric_table::METRICS,
    );
}
