//! Commands beside serving: tokens, straight in the database, for the first of them and for the
//! day when nobody has one that works; and the key that signs checkpoints, for the day it is lost.

use clap::Subcommand;

use crate::access::Role;

/// What to do instead of serving.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Make, list and end API tokens, straight in the database
    #[command(subcommand)]
    Token(TokenCommand),
    /// Say which key signs checkpoints, straight in the database
    #[command(subcommand)]
    CheckpointKey(CheckpointKeyCommand),
    /// Create or migrate the schema of the database, and end. Servers of the version before may run meanwhile
    Migrate,
}

/// What to do about the key that signs checkpoints.
#[derive(Debug, Clone, Subcommand)]
pub enum CheckpointKeyCommand {
    /// Let the key of --checkpoint-key sign from now on, where the one before is lost; prints the
    /// public key for auditors
    Adopt {
        /// Make a relay's copy the registry, where the registry is lost for good and the relay is
        /// stopped: commits that had not reached the relay are gone, and followers that have them
        /// refuse what comes instead
        #[arg(long)]
        promote_relay: bool,
    },
}

/// What to do about tokens.
#[derive(Debug, Clone, Subcommand)]
pub enum TokenCommand {
    /// Make a token, and print its text, which cannot be read again
    Create {
        /// Who will hold it; commits get this name as their author
        #[arg(long)]
        name: String,
        /// The team that owns what it registers [default: as the name]
        #[arg(long)]
        team: Option<String>,
        /// What it may do; may be given several times
        #[arg(long = "role", value_name = "ROLE", required = true)]
        roles: Vec<Role>,
        /// What it may write: `team/*`, `com.example.*`, `tool/fetch`; may be given several times
        /// [default: all that its team may]
        #[arg(long = "scope", value_name = "SELECTOR")]
        scopes: Vec<String>,
        /// Until when: 12h, 90d, a time like 2027-01-31T00:00:00Z, or never
        #[arg(long, value_name = "WHEN", default_value = "90d")]
        expires: String,
    },
    /// List the tokens
    List {
        /// Also those that were revoked or have expired
        #[arg(long)]
        all: bool,
    },
    /// End a token; every server refuses it within seconds
    Revoke {
        /// Its id, as `list` shows it: the first part of its text
        id: String,
    },
}
