//! How the user names what a command is about: `KIND NAME VERSION` or `KIND/NAME@VERSION`.
//!
//! Ranges and `latest` are not supported: versions are exact.

use clap::Args;
use registry_core::{Key, Kind, Name as EntityName, Version};

use crate::failure::Failure;

/// One entity.
#[derive(Debug, Args)]
pub(crate) struct Entity {
    /// KIND NAME VERSION, or KIND/NAME@VERSION
    #[arg(value_name = "ENTITY", num_args = 1..=3, required = true)]
    entity: Vec<String>,
}

/// One name, or one version of it.
#[derive(Debug, Args)]
pub(crate) struct Name {
    /// KIND NAME [VERSION], or KIND/NAME[@VERSION]
    #[arg(value_name = "ENTITY", num_args = 1..=3, required = true)]
    entity: Vec<String>,
}

/// Two versions of one name.
#[derive(Debug, Args)]
pub(crate) struct VersionPair {
    /// KIND NAME OLD NEW, KIND/NAME OLD NEW, or KIND/NAME@OLD KIND/NAME@NEW
    #[arg(value_name = "VERSIONS", num_args = 2..=4, required = true)]
    pub(super) versions: Vec<String>,
}

fn wrong(said: &[String], form: &str) -> Failure {
    Failure::Usage(format!("`{}` is not of the form {form}", said.join(" ")))
}

impl Entity {
    /// The key that the user named.
    pub(crate) fn key(&self) -> Result<Key, Failure> {
        match self.entity.as_slice() {
            [key] => key.parse().map_err(Failure::usage),
            [kind, name, version] => {
                let kind = kind.parse().map_err(Failure::usage)?;
                Key::parse(kind, name, version).map_err(Failure::usage)
            }
            other => Err(wrong(other, "KIND NAME VERSION or KIND/NAME@VERSION")),
        }
    }
}

impl Name {
    /// The kind, the name and, if one was given, the version.
    pub(crate) fn parts(&self) -> Result<(Kind, EntityName, Option<Version>), Failure> {
        let (kind, name, version) = match self.entity.as_slice() {
            [key] => match (key.split_once('/'), key.rsplit_once('@')) {
                (Some(_), Some(_)) => {
                    let Key { kind, name, version } = key.parse().map_err(Failure::usage)?;
                    return Ok((kind, name, Some(version)));
                }
                (Some((kind, name)), None) => (kind, name, None),
                (None, _) => return Err(wrong(&self.entity, "KIND NAME or KIND/NAME")),
            },
            [kind, name] => (kind.as_str(), name.as_str(), None),
            [kind, name, version, ..] => (kind.as_str(), name.as_str(), Some(version)),
            [] => return Err(wrong(&self.entity, "KIND NAME or KIND/NAME")),
        };
        let kind = kind.parse().map_err(Failure::usage)?;
        let name = EntityName::parse(kind, name).map_err(Failure::usage)?;
        let version = version.map(|v| Version::parse(v)).transpose().map_err(Failure::usage)?;
        Ok((kind, name, version))
    }
}

impl VersionPair {
    /// The keys of both versions, in the order that the user gave.
    pub(crate) fn keys(&self) -> Result<(Key, Key), Failure> {
        let form = "KIND NAME OLD NEW, KIND/NAME OLD NEW or KIND/NAME@OLD KIND/NAME@NEW";
        let (kind, name, old, new) = match self.versions.as_slice() {
            [old, new] => {
                let key = |text: &String| text.parse().map_err(Failure::usage);
                return Ok((key(old)?, key(new)?));
            }
            [kind, name, old, new] => (kind.as_str(), name.as_str(), old, new),
            [both, old, new] => {
                let parts = both.split_once('/').ok_or_else(|| wrong(&self.versions, form))?;
                (parts.0, parts.1, old, new)
            }
            other => return Err(wrong(other, form)),
        };
        let kind = kind.parse().map_err(Failure::usage)?;
        let key = |version: &str| Key::parse(kind, name, version).map_err(Failure::usage);
        Ok((key(old)?, key(new)?))
    }
}
