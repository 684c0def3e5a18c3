//! Settings of the ledger, of usage and of traces.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use registry_core::{Secret, parse_positive_duration};

use crate::flags::https_url;

/// Currency, time limits and alerts of budgets, and the retention of usage and traces.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Budgets")]
pub struct LedgerConfig {
    /// Currency of all prices and budgets (ISO 4217)
    ///
    /// All servers of one database have the same currency. After the first amount, another one is rejected.
    #[arg(long, env = "REGISTRY_CURRENCY", default_value = "USD", value_name = "CODE", hide_short_help = true, value_parser = parse_currency)]
    pub currency: String,

    /// Time after which a gateway without an answer of the registry stops spending; at least 10s
    ///
    /// Gateways receive it with each answer. After lowering it, wait for the old time before a reclaim.
    #[arg(long, env = "REGISTRY_BUDGET_OFFLINE_FOR", default_value = "1h", value_name = "DURATION", hide_short_help = true, value_parser = parse_offline_for)]
    pub budget_offline_for: Duration,

    /// Maximum duration of a priced call; rights of a lost gateway cannot be reclaimed earlier
    #[arg(long, env = "REGISTRY_BUDGET_LONGEST_CALL", default_value = "15m", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub budget_longest_call: Duration,

    /// URL of the webhook that receives the alerts of budgets and messages about approvals
    ///
    /// Requires HTTPS, except on localhost. Redirects are not followed.
    #[arg(
        long,
        env = "REGISTRY_BUDGET_WEBHOOK_URL",
        value_name = "URL",
        hide_env_values = true,
        requires = "budget_webhook_secret_file",
        hide_short_help = true,
        value_parser = webhook_url
    )]
    pub budget_webhook_url: Option<Secret>,

    /// File with the secret that signs messages: `whsec_` and 24 to 64 bytes in base64
    ///
    /// All servers of one database use the same webhook and secret.
    #[arg(
        long,
        env = "REGISTRY_BUDGET_WEBHOOK_SECRET_FILE",
        value_name = "FILE",
        requires = "budget_webhook_url",
        hide_short_help = true
    )]
    pub budget_webhook_secret_file: Option<PathBuf>,

    /// Delete the usage of tools after this time; after 48h it is kept by hour
    #[arg(long, env = "REGISTRY_USAGE_RETENTION", default_value = "2160h", value_name = "DURATION", hide_short_help = true, help_heading = "Usage", value_parser = parse_positive_duration)]
    pub usage_retention: Duration,

    /// Delete the calls of traces after this time
    #[arg(long, env = "REGISTRY_TRACE_RETENTION", default_value = "168h", value_name = "DURATION", hide_short_help = true, help_heading = "Usage", value_parser = parse_positive_duration)]
    pub trace_retention: Duration,
}

/// The path or query of some receivers contains a password.
fn webhook_url(text: &str) -> Result<Secret, String> {
    https_url(text).map(Secret::from)
}

/// Gateways report every four seconds, and wait two seconds for an answer.
fn parse_offline_for(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_secs(10);
    let duration = parse_positive_duration(text).map_err(|e| e.to_string())?;
    if duration < SHORTEST {
        return Err("gateways report every few seconds; write at least 10s".to_owned());
    }
    Ok(duration)
}

fn parse_currency(text: &str) -> Result<String, String> {
    let is_code = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_code {
        Ok(text.to_owned())
    } else {
        Err("write three capital letters such as USD".to_owned())
    }
}
