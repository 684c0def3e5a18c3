//! Tokens, roles and the access log in the output of commands.

use registry_proto::v1;
use serde::Serialize;

use super::time_text as time;

/// A token without its secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenView {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) team: String,
    pub(crate) roles: Vec<&'static str>,
    pub(crate) scopes: Vec<String>,
    pub(crate) created_at: Option<String>,
    pub(crate) created_by: String,
    pub(crate) expires_at: Option<String>,
    pub(crate) revoked_at: Option<String>,
    pub(crate) revoked_by: Option<String>,
    pub(crate) last_used_at: Option<String>,
}

impl From<v1::Token> for TokenView {
    fn from(token: v1::Token) -> Self {
        let v1::Token {
            id,
            name,
            team,
            roles: numbers,
            scopes,
            created_at,
            created_by,
            expires_at,
            revoked_at,
            revoked_by,
            last_used_at,
        } = token;
        Self {
            id,
            name,
            team,
            roles: roles(&numbers),
            scopes,
            created_at: time(created_at),
            created_by,
            expires_at: time(expires_at),
            revoked_at: time(revoked_at),
            revoked_by: Some(revoked_by).filter(|by| !by.is_empty()),
            last_used_at: time(last_used_at),
        }
    }
}

/// An event of the access log.
#[derive(Debug, Serialize)]
pub(crate) struct AccessEventView {
    pub(crate) number: u64,
    pub(crate) at: Option<String>,
    pub(crate) principal: String,
    pub(crate) method: String,
    pub(crate) address: String,
    pub(crate) event: String,
    pub(crate) subject: String,
    pub(crate) detail: String,
}

impl From<v1::AccessEvent> for AccessEventView {
    fn from(event: v1::AccessEvent) -> Self {
        let v1::AccessEvent { number, at, principal, method, address, event, subject, detail } =
            event;
        Self { number, at: time(at), principal, method, address, event, subject, detail }
    }
}

pub(crate) fn roles(numbers: &[i32]) -> Vec<&'static str> {
    let name = |number: &i32| match v1::Role::try_from(*number) {
        Ok(v1::Role::Reader) => "reader",
        Ok(v1::Role::Publisher) => "publisher",
        Ok(v1::Role::Auditor) => "auditor",
        Ok(v1::Role::Gateway) => "gateway",
        Ok(v1::Role::Admin) => "admin",
        Ok(v1::Role::Unspecified) | Err(_) => "unknown",
    };
    numbers.iter().map(name).collect()
}
