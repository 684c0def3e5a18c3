//! Access to a live server: headers, tokens, environment and timeout.
//!
//! OAuth is not supported: a token comes from a file or from the environment.

use std::{path::PathBuf, str::FromStr};

use clap::Args;

use super::redacted::redacted;

/// Access to a live server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Live server")]
pub(crate) struct LiveArgs {
    /// Header of every request; may be repeated
    #[arg(long, value_name = "NAME: VALUE", value_parser = redacted::<Header>())]
    pub(crate) header: Vec<Header>,
    /// File with a bearer token [default: the value of `MCP_BEARER_TOKEN`]
    #[arg(long, value_name = "FILE")]
    pub(crate) bearer_file: Option<PathBuf>,
    #[arg(long, env = "MCP_BEARER_TOKEN", hide = true, hide_env_values = true)]
    pub(crate) bearer_token: Option<String>,
    /// Environment variable of the program; may be repeated
    ///
    /// The program gets these variables, PATH and HOME.
    #[arg(long, value_name = "NAME=VALUE", value_parser = redacted::<Variable>())]
    pub(crate) env: Vec<Variable>,
    /// Working directory of the program
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Timeout of all requests together
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(crate) timeout: u16,
    #[command(flatten)]
    pub(crate) program: super::import::ProgramEnvironment,
}

/// The trusted keys of agent cards.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Signatures of agent cards")]
pub(crate) struct CardKeyArgs {
    /// Keys (JWK set) that verify the signatures of cards
    ///
    /// A card with signatures but without a valid one is rejected.
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) card_keys: Option<String>,
    /// Trust the keys at a `jku` of this origin; may be repeated
    ///
    /// Write `https://HOST`. Without this option, `jku` is ignored.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) card_jku: Vec<String>,
}

/// An HTTP header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) =
            text.split_once(':').ok_or("the colon is missing; write `Name: value`")?;
        Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
    }
}

/// A variable with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("`=` is missing; write NAME=VALUE")?;
        if name.is_empty() || text.contains('\0') {
            return Err("the name is empty or the text contains NUL; write NAME=VALUE".to_owned());
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}
