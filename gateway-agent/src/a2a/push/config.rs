//! The configuration of a caller: its URL and the credentials for it.

use a2a::{Failure, Version};
use http::{HeaderValue, Uri};
use registry_core::{Secret, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::pipeline::{PushSettings, TaskOwner};

/// Maximum length of a URL, in bytes.
const URL_BYTES: usize = 2 * 1024;
/// Maximum length of an id, a token, a scheme or credentials, in bytes.
const TEXT_BYTES: usize = 4 * 1024;

/// A configuration as its caller knows it. Empty texts are absent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientConfig {
    pub(super) id: Box<str>,
    /// The path or query of some receivers contains a password.
    #[serde(with = "plain")]
    pub(super) url: Secret,
    #[serde(with = "plain")]
    token: Secret,
    scheme: Box<str>,
    #[serde(with = "plain")]
    credentials: Secret,
    /// Whether notifications have the form of 0.3.
    pub(super) is_legacy: bool,
}

/// A configuration at the gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Registration {
    /// The id at the gateway and at the agent.
    pub(super) id: Box<str>,
    pub(super) owner: TaskOwner,
    /// The request's sender. Notifications have its rights while its credentials are accepted.
    pub(super) caller: gateway_policy::CallerIdentity,
    /// The name of the agent.
    pub(super) agent: Box<str>,
    /// The caller's id of the task. `None`: the message that starts it has no answer yet.
    pub(super) task: Option<Box<str>>,
    /// The token of the agent.
    #[serde(with = "plain")]
    pub(super) token: Secret,
    pub(super) client: ClientConfig,
    pub(super) created: Timestamp,
    /// Whether the task has ended.
    pub(super) has_ended: bool,
}

/// The file has secrets in plain text; only its owner can read it.
mod plain {
    use registry_core::Secret;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::from)
    }
}

impl ClientConfig {
    /// Reads a configuration at a JSON pointer. `id`: the id if it has none.
    pub(super) fn read(
        (config, pointer): (&Map<String, Value>, &str),
        version: Version,
        id: &str,
        settings: PushSettings,
    ) -> Result<Self, Failure> {
        let authentication = config.get("authentication").and_then(Value::as_object);
        let none = Map::new();
        let text = |of: &Map<String, Value>, name: &str, place: &str| {
            let text = of.get(name).and_then(Value::as_str).unwrap_or_default();
            let is_valid = text.len() <= TEXT_BYTES && HeaderValue::from_str(text).is_ok();
            is_valid.then(|| text.to_owned()).ok_or_else(|| {
                let problem = format!("at most {TEXT_BYTES} visible characters are allowed");
                Failure::invalid_params(&format!("{pointer}/{place}"), problem)
            })
        };
        let authentication = authentication.unwrap_or(&none);
        let url = config.get("url").and_then(Value::as_str).unwrap_or_default();
        check_url(url, settings)
            .map_err(|problem| Failure::invalid_params(&format!("{pointer}/url"), problem))?;
        let own = text(config, "id", "id")?;
        Ok(Self {
            id: if own.is_empty() { id.into() } else { own.into() },
            url: url.to_owned().into(),
            token: text(config, "token", "token")?.into(),
            scheme: text(authentication, "scheme", "authentication/scheme")?.into(),
            credentials: text(authentication, "credentials", "authentication/credentials")?.into(),
            is_legacy: version == Version::V03,
        })
    }

    /// The configuration for its caller. Credentials are not returned.
    pub(super) fn shown(&self, task: &str) -> Value {
        let mut shown = json!({ "taskId": task, "id": self.id, "url": self.url.expose() });
        if !self.token.expose().is_empty() {
            shown["token"] = self.token.expose().into();
        }
        if !self.scheme.is_empty() {
            shown["authentication"] = json!({ "scheme": self.scheme });
        }
        shown
    }

    /// The token that the receiver compares.
    pub(super) fn token(&self) -> Option<HeaderValue> {
        secret_header(self.token.expose())
    }

    /// The value of `Authorization`. `None`: the configuration has no credentials.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let (scheme, credentials) = (&self.scheme, self.credentials.expose());
        if scheme.is_empty() || credentials.is_empty() {
            return None;
        }
        secret_header(&format!("{scheme} {credentials}"))
    }
}

/// A header value that is not logged. `None` for an empty one.
pub(super) fn secret_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok().filter(|value| !value.is_empty())?;
    value.set_sensitive(true);
    Some(value)
}

/// Checks a URL by the current settings. Names are resolved and checked when a connection opens.
pub(super) fn check_url(url: &str, settings: PushSettings) -> Result<Uri, String> {
    if url.len() > URL_BYTES {
        return Err(format!("the URL is longer than {URL_BYTES} bytes"));
    }
    let uri = url.parse::<Uri>().map_err(|e| format!("invalid URL: {e}"))?;
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if settings.allow_http => {}
        _ => return Err("an https URL is required".to_owned()),
    }
    let authority = uri.authority().filter(|authority| !authority.host().is_empty());
    if authority.is_none_or(|authority| authority.as_str().contains('@')) {
        return Err("the URL needs a host, and must not have credentials".to_owned());
    }
    settings.addresses.check(&uri).map_err(|blocked| blocked.to_string())?;
    Ok(uri)
}
