//! The accepted credentials as security schemes of agent cards, in the form of A2A 1.0.

use serde_json::{Map, Value, json};

use super::settings::AuthenticationConfig;

/// The members of a card about security.
#[derive(Debug, Default)]
pub(crate) struct CardSecurity {
    pub(crate) schemes: Map<String, Value>,
    /// Alternatives. Empty: callers need no credentials.
    pub(crate) requirements: Vec<Value>,
}

impl CardSecurity {
    pub(super) fn of(config: &AuthenticationConfig) -> Self {
        let mut security = Self::default();
        if let Some(jwt) = &config.jwt {
            let description = format!("An access token of {}", jwt.settings.issuer);
            let scheme = json!({ "scheme": "Bearer", "bearerFormat": "JWT",
                "description": description });
            security.add("bearer", ("httpAuthSecurityScheme", scheme), &jwt.required_scopes);
        }
        if !config.api_keys.is_empty() {
            let scheme = json!({ "location": "header", "name": "X-API-Key" });
            security.add("apiKey", ("apiKeySecurityScheme", scheme), &[]);
        }
        if config.certificates.is_some() {
            // Without the description the scheme would be empty, which signatures do not cover.
            let scheme = json!({ "description": "A client certificate" });
            security.add("mtls", ("mtlsSecurityScheme", scheme), &[]);
        }
        if !config.required {
            security.requirements.clear();
        }
        security
    }

    fn add(&mut self, name: &str, (kind, scheme): (&str, Value), scopes: &[String]) {
        self.schemes.insert(name.to_owned(), json!({ kind: scheme }));
        let scopes = if scopes.is_empty() { json!({}) } else { json!({ "list": scopes }) };
        self.requirements.push(json!({ "schemes": { name: scopes } }));
    }
}

#[cfg(test)]
mod tests {
    use registry_core::Digest;

    use super::*;
    use crate::identity::settings::{ApiKeyConfig, CertificatesConfig};

    #[test]
    fn card_names_accepted_credentials() {
        let key = ApiKeyConfig {
            agent: "a".to_owned(),
            version: None,
            digest: Digest::compute(b"key"),
            scopes: Vec::new(),
        };
        let certificates = Some(CertificatesConfig { spiffe: None, subject: true });
        let config = AuthenticationConfig {
            required: true,
            api_keys: vec![key],
            certificates,
            ..AuthenticationConfig::default()
        };
        let CardSecurity { schemes, requirements } = CardSecurity::of(&config);
        assert_eq!(schemes.keys().collect::<Vec<_>>(), ["apiKey", "mtls"]);
        assert_eq!(requirements.len(), 2);
        let optional = AuthenticationConfig { required: false, ..config };
        assert_eq!(CardSecurity::of(&optional).requirements, [Value::Null; 0]);
    }
}
