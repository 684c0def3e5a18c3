//! Tokens, roles and the access log in the output of commands.

use registry_proto::{
    convert::authentication_text,
    v1::{self, access_event::Subject},
};
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

impl From<v1::ApiToken> for TokenView {
    fn from(token: v1::ApiToken) -> Self {
        let v1::ApiToken {
            id,
            name,
            team,
            roles: numbers,
            scopes,
            create_time,
            creator,
            expire_time,
            revoke_time,
            revoker,
            last_use_time,
        } = token;
        Self {
            id,
            name,
            team,
            roles: roles(&numbers),
            scopes,
            created_at: time(create_time),
            created_by: creator,
            expires_at: time(expire_time),
            revoked_at: time(revoke_time),
            revoked_by: Some(revoker).filter(|by| !by.is_empty()),
            last_used_at: time(last_use_time),
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
    pub(crate) event: &'static str,
    pub(crate) subject: String,
    pub(crate) detail: String,
}

impl From<v1::AccessEvent> for AccessEventView {
    fn from(event: v1::AccessEvent) -> Self {
        let v1::AccessEvent {
            number,
            event_time,
            principal,
            authentication,
            address,
            r#type: kind,
            subject,
            detail,
        } = event;
        let event = match v1::AccessEventType::try_from(kind) {
            Ok(v1::AccessEventType::TokenCreated) => "token-created",
            Ok(v1::AccessEventType::TokenRevoked) => "token-revoked",
            Ok(v1::AccessEventType::Committed) => "committed",
            Ok(v1::AccessEventType::CheckpointKeyReplaced) => "checkpoint-key-replaced",
            Ok(v1::AccessEventType::LedgerRecoveryStarted) => "ledger-recovery-started",
            Ok(v1::AccessEventType::LedgerRecoveryEnded) => "ledger-recovery-ended",
            Ok(v1::AccessEventType::ApprovalApproved) => "approval-approved",
            Ok(v1::AccessEventType::ApprovalDenied) => "approval-denied",
            Ok(v1::AccessEventType::ApprovalGrantRevoked) => "approval-grant-revoked",
            Ok(v1::AccessEventType::BudgetAdjusted) => "budget-adjusted",
            Ok(v1::AccessEventType::BudgetReclaimed) => "budget-reclaimed",
            Ok(v1::AccessEventType::Unspecified) | Err(_) => "unknown",
        };
        let subject = match subject {
            Some(
                Subject::TokenId(id)
                | Subject::VerifierKey(id)
                | Subject::ApprovalId(id)
                | Subject::Budget(id),
            ) => id,
            Some(Subject::Revision(number) | Subject::LedgerGeneration(number)) => {
                number.to_string()
            }
            None => String::new(),
        };
        let method = authentication_text(&authentication.unwrap_or_default());
        let at = time(event_time);
        Self { number, at, principal, method, address, event, subject, detail }
    }
}

pub(crate) fn roles(numbers: &[i32]) -> Vec<&'static str> {
    let name = |number: &i32| match v1::AccessRole::try_from(*number) {
        Ok(v1::AccessRole::Reader) => "reader",
        Ok(v1::AccessRole::Publisher) => "publisher",
        Ok(v1::AccessRole::Auditor) => "auditor",
        Ok(v1::AccessRole::Gateway) => "gateway",
        Ok(v1::AccessRole::Admin) => "admin",
        Ok(v1::AccessRole::Governor) => "governor",
        Ok(v1::AccessRole::Approver) => "approver",
        Ok(v1::AccessRole::Relay) => "relay",
        Ok(v1::AccessRole::Unspecified) | Err(_) => "unknown",
    };
    numbers.iter().map(name).collect()
}
