//! Arguments that name entities: `KIND NAME VERSION` or `KIND/NAME@VERSION`.
//!
//! Ranges and `latest` are not supported: versions are exact.

use clap::Args;
use registry_core::{Key, Kind, Name, Version, suggest::closest};

use crate::{failure::Failure, style::printable, suggest};

/// One entity.
#[derive(Debug, Args)]
pub(crate) struct EntityArg {
    /// KIND NAME VERSION, or KIND/NAME@VERSION
    #[arg(value_name = "ENTITY", num_args = 1..=3, required = true)]
    entity: Vec<String>,
}

/// One name, or one version of it.
#[derive(Debug, Args)]
pub(crate) struct NameArg {
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

/// Parses a kind. The error suggests a similar kind.
pub(crate) fn parse_kind(text: &str) -> Result<Kind, String> {
    text.parse().map_err(|e: registry_core::kind::InvalidKind| {
        suggest::with_suggestion(e.to_string(), similar_kind(text))
    })
}

fn similar_kind(text: &str) -> Option<&'static str> {
    closest(text.strip_suffix('s').unwrap_or(text), Kind::ALL.into_iter().map(Kind::as_str))
}

/// Parses the kind at the start of an entity. The error suggests a similar kind, or the whole form.
pub(super) fn kind_of(kind: &str, entity: &str) -> Result<Kind, String> {
    parse_kind(kind).map_err(|e| match similar_kind(kind) {
        Some(_) => e,
        None => format!("{e}; write the kind before the name, such as tool/{}", printable(entity)),
    })
}

/// Parses a version. The error suggests a complete version for `1` and `1.0`.
pub(super) fn parse_version(text: &str) -> Result<Version, String> {
    Version::parse(text).map_err(|e| {
        suggest::with_suggestion(e.to_string(), suggest::complete_version(text).as_deref())
    })
}

/// Parses `KIND/NAME@VERSION`.
pub(super) fn parse_key(text: &str) -> Result<Key, String> {
    let Some((kind, rest)) = text.split_once('/') else {
        return text.parse::<Key>().map_err(|e| e.to_string());
    };
    let Some((name, version)) = rest.rsplit_once('@') else {
        let kind = kind_of(kind, text)?;
        return Err(format!("`{text}` has no version; write {kind}/{rest}@VERSION"));
    };
    key(kind, name, version)
}

fn key(kind: &str, name: &str, version: &str) -> Result<Key, String> {
    let kind = parse_kind(kind)?;
    let name = Name::parse(kind, name).map_err(|e| e.to_string())?;
    Ok(Key::new(kind, name, parse_version(version)?))
}

fn invalid_form(arguments: &[String], form: &str) -> Failure {
    let failure = Failure::Usage(format!("`{}` is not {form}", arguments.join(" ")));
    match arguments {
        [name] => failure.with_help(format!(
            "write the kind too, such as tool/{name}; `registryctl search {name}` finds entities"
        )),
        _ => failure,
    }
}

impl EntityArg {
    pub(crate) fn key(&self) -> Result<Key, Failure> {
        match self.entity.as_slice() {
            [text] => parse_key(text).map_err(Failure::Usage),
            [kind, name, version] => key(kind, name, version).map_err(Failure::Usage),
            other => Err(invalid_form(other, "KIND NAME VERSION or KIND/NAME@VERSION")),
        }
    }
}

impl NameArg {
    /// The kind, the name and the version, if there is one.
    pub(crate) fn parts(&self) -> Result<(Kind, Name, Option<Version>), Failure> {
        let (kind, name, version) = match self.entity.as_slice() {
            [text] => match (text.split_once('/'), text.rsplit_once('@')) {
                (Some(_), Some(_)) => {
                    let Key { kind, name, version } = parse_key(text).map_err(Failure::Usage)?;
                    return Ok((kind, name, Some(version)));
                }
                (Some((kind, name)), None) => (kind, name, None),
                (None, _) => return Err(invalid_form(&self.entity, "KIND NAME or KIND/NAME")),
            },
            [kind, name] => (kind.as_str(), name.as_str(), None),
            [kind, name, version, ..] => (kind.as_str(), name.as_str(), Some(version)),
            [] => return Err(invalid_form(&self.entity, "KIND NAME or KIND/NAME")),
        };
        let kind = match self.entity.as_slice() {
            [text] => kind_of(kind, text),
            _ => parse_kind(kind),
        };
        let kind = kind.map_err(Failure::Usage)?;
        let name = Name::parse(kind, name).map_err(Failure::usage)?;
        let version = version.map(|text| parse_version(text)).transpose();
        Ok((kind, name, version.map_err(Failure::Usage)?))
    }
}

impl VersionPair {
    /// The keys of both versions, in the order of the arguments.
    pub(crate) fn keys(&self) -> Result<(Key, Key), Failure> {
        let form = "KIND NAME OLD NEW, KIND/NAME OLD NEW or KIND/NAME@OLD KIND/NAME@NEW";
        let (kind, name, old, new) = match self.versions.as_slice() {
            [old, new] => {
                let key = |text: &String| parse_key(text).map_err(Failure::Usage);
                return Ok((key(old)?, key(new)?));
            }
            [kind, name, old, new] => (kind.as_str(), name.as_str(), old, new),
            [both, old, new] => {
                let parts =
                    both.split_once('/').ok_or_else(|| invalid_form(&self.versions, form))?;
                (parts.0, parts.1, old, new)
            }
            other => return Err(invalid_form(other, form)),
        };
        let key = |version: &str| key(kind, name, version).map_err(Failure::Usage);
        Ok((key(old)?, key(new)?))
    }
}
