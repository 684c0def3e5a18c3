//! Administrative commands that work on the database directly.
//!
//! `token` creates the first token and replaces lost ones. `checkpoint-key` replaces a lost key.

use clap::Subcommand;

use crate::access::Role;

/// Administrative command.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Create, list and revoke API tokens in the database
    #[command(subcommand)]
    Token(TokenCommand),
    /// Manage the key that signs checkpoints
    #[command(subcommand)]
    CheckpointKey(CheckpointKeyCommand),
    /// Manage the ledger of budgets
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Create or migrate the database schema, then exit
    ///
    /// Servers of the previous version may run during the migration.
    Migrate,
}

/// Command for the ledger of budgets.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum LedgerCommand {
    /// Start a new generation after a backup of the database was restored
    ///
    /// The backup lacks the latest spending and grants. In the new generation, budgets grant nothing for 60 seconds and
    /// until every gateway that was active has reported its totals. Servers may run.
    Recover,
    /// End the recovery before every gateway has reported
    ///
    /// Rights of the gateways that have not reported may be granted again. Budgets can then be exceeded by these rights.
    EndRecovery,
}

/// Command for the checkpoint key.
#[derive(Debug, Clone, Subcommand)]
pub enum CheckpointKeyCommand {
    /// Replace a lost signing key by the key of --checkpoint-key
    ///
    /// Prints the new public key for auditors. A missing key file is created. Standing grants of approvals end, and the
    /// next start accepts another `approval.key`.
    Replace {
        /// Turn a relay's copy into the registry, because the registry is lost permanently
        ///
        /// Stop the relay first. Commits that had not reached the relay are lost. Followers that have
        /// those commits reject the new registry's commits.
        #[arg(long)]
        promote_relay: bool,
    },
}

/// Command for API tokens.
#[derive(Debug, Clone, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print its secret, which is shown only once
    Create {
        /// Name of the token's owner; recorded as the author of its commits
        #[arg(long)]
        name: String,
        /// Team that owns the entities registered with the token [default: the name]
        #[arg(long)]
        team: Option<String>,
        /// Role of the token; may be repeated
        #[arg(long = "role", value_name = "ROLE", required = true)]
        roles: Vec<Role>,
        /// Names that the token may write, for example team/*, com.example.* or tool/fetch; may be
        /// repeated [default: everything its team may write]
        #[arg(long = "scope", value_name = "SELECTOR")]
        scopes: Vec<String>,
        /// Expiry: a duration (12h, 90d), a time (2027-01-31T00:00:00Z) or never
        #[arg(long, value_name = "WHEN", default_value = "90d")]
        expires: String,
    },
    /// List active tokens
    List {
        /// Include revoked and expired tokens
        #[arg(long)]
        all: bool,
    },
    /// Revoke a token; every server rejects it within seconds
    Revoke {
        /// Token id, as shown by `list`
        id: String,
    },
}
