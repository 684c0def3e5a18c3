//! Settings of the ledger and of usage.

use std::time::Duration;

use clap::Args;
use registry_core::parse_positive_duration;

/// Currency and time limits of budgets, and the retention of usage.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Budgets")]
pub struct LedgerConfig {
    /// Currency of all prices and budgets (ISO 4217)
    #[arg(long, env = "REGISTRY_CURRENCY", default_value = "USD", value_name = "CODE", hide_short_help = true, value_parser = parse_currency)]
    pub currency: String,

    /// Time after which a gateway without an answer of the registry stops spending; the same on all gateways
    #[arg(long, env = "REGISTRY_BUDGET_OFFLINE_FOR", default_value = "1h", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub budget_offline_for: Duration,

    /// Maximum duration of a priced call; rights of a lost gateway cannot be reclaimed earlier
    #[arg(long, env = "REGISTRY_BUDGET_LONGEST_CALL", default_value = "15m", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub budget_longest_call: Duration,

    /// Delete the usage of tools after this time; after 48h it is kept by hour
    #[arg(long, env = "REGISTRY_USAGE_RETENTION", default_value = "2160h", value_name = "DURATION", hide_short_help = true, help_heading = "Usage", value_parser = parse_positive_duration)]
    pub usage_retention: Duration,
}

fn parse_currency(text: &str) -> Result<String, String> {
    let is_code = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_code {
        Ok(text.to_owned())
    } else {
        Err("write three capital letters such as USD".to_owned())
    }
}
