//! How a live server is reached: headers, tokens, environment, patience.
//!
//! OAuth is not supported: a token comes from a file or from the environment.

use std::{path::PathBuf, str::FromStr};

use clap::Args;

use super::unrepeated::unrepeated;

/// What is needed to reach a live server.
#[derive(Debug, Clone, Args)]
pub(crate) struct LiveArgs {
    /// Send this header with every request; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = unrepeated::<Header>())]
    pub(crate) header: Vec<Header>,
    /// Read a bearer token from this file; without it `MCP_BEARER_TOKEN` is sent, if it is set
    #[arg(long, value_name = "FILE")]
    pub(crate) bearer_file: Option<PathBuf>,
    #[arg(long, env = "MCP_BEARER_TOKEN", hide = true, hide_env_values = true)]
    pub(crate) bearer_token: Option<String>,
    /// Set a variable for the program; it gets PATH and HOME, and nothing else
    #[arg(long, value_name = "NAME=VALUE", value_parser = unrepeated::<Variable>())]
    pub(crate) env: Vec<Variable>,
    /// Start the program in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// How long everything may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(crate) timeout: u16,
    #[arg(long, env = "PATH", hide = true, hide_env_values = true, default_value = "")]
    pub(crate) program_path: String,
    #[arg(long, env = "HOME", hide = true, hide_env_values = true, default_value = "")]
    pub(crate) program_home: String,
}

/// A header of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').ok_or("it has no colon; write `Name: value`")?;
        Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
    }
}

/// A variable of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("it has no `=`; write NAME=VALUE")?;
        if name.is_empty() || text.contains('\0') {
            return Err("no name of a variable is before the `=`; write NAME=VALUE".to_owned());
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}
