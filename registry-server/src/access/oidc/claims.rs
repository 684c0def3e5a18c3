//! Maps the claims of a verified token to a principal.

use std::{net::SocketAddr, sync::Arc};

use registry_jwt::find;
use serde_json::Value;

use super::{OidcConfig, RoleRule};
use crate::access::{
    Method, Principal, Role, Roles, Scopes,
    name::{invalid_reason, is_personal, personal_team},
};

/// Maximum bytes of the name of a principal or team.
const NAME_BYTES: usize = 128;
/// Maximum bytes of the claim `sub` by its specification, and of a human.
const SUBJECT_BYTES: usize = 255;

/// Mapping of claims.
pub(super) struct Claims {
    issuer: Arc<str>,
    name: String,
    person: Option<String>,
    team: String,
    roles: String,
    rules: Vec<RoleRule>,
}

impl Claims {
    pub(super) fn new(config: &OidcConfig) -> Self {
        Self {
            issuer: config.oidc_issuer.clone().unwrap_or_default().into(),
            name: config.oidc_name_claim.clone(),
            person: config.oidc_person_claim.clone(),
            team: config.oidc_team_claim.clone(),
            roles: config.oidc_roles_claim.clone(),
            rules: config.oidc_roles.clone(),
        }
    }

    /// Returns the principal, or the problem of its name or team.
    pub(super) fn principal(
        &self,
        claims: &Value,
        address: Option<SocketAddr>,
    ) -> Result<Principal, String> {
        let person = self.person.as_ref().and_then(|person| identity(find(claims, person)));
        let name = find(claims, &self.name).and_then(Value::as_str);
        let name =
            valid_name(&self.name, name.ok_or(format!("the claim `{}` is missing", self.name))?)?;
        Ok(Principal {
            name: name.into(),
            team: self.team(find(claims, &self.team), name)?.into(),
            roles: self.roles(find(claims, &self.roles)),
            scopes: Scopes::default(),
            method: Method::Oidc(self.issuer.clone()),
            subject: identity(find(claims, "sub")),
            lacks_person: self.person.is_some() && person.is_none(),
            person,
            address,
            until: None,
        })
    }

    /// Returns the team, or the personal team if the claim is missing.
    fn team(&self, claim: Option<&Value>, name: &str) -> Result<String, String> {
        let Some(claim) = claim else { return Ok(personal_team(name)) };
        let team = claim.as_str().ok_or(format!("the claim `{}` is not a string", self.team))?;
        if is_personal(team) {
            return Err(format!("the claim `{}` has the reserved prefix `user:`", self.team));
        }
        valid_name(&self.team, team).map(str::to_owned)
    }

    /// Returns the roles of the claim. Values without a role are ignored.
    fn roles(&self, claim: Option<&Value>) -> Roles {
        let role = |value: &str| -> Option<Role> {
            if self.rules.is_empty() {
                return value.parse().ok();
            }
            self.rules.iter().find(|rule| rule.value == value).map(|rule| rule.role)
        };
        match claim {
            Some(Value::String(words)) => words.split_whitespace().filter_map(role).collect(),
            Some(Value::Array(values)) => {
                values.iter().filter_map(Value::as_str).filter_map(role).collect()
            }
            _ => Roles::NONE,
        }
    }
}

/// The text of a claim that identifies an account or a human.
fn identity(claim: Option<&Value>) -> Option<Arc<str>> {
    let text = claim?.as_str()?;
    invalid_reason(text, SUBJECT_BYTES).is_none().then(|| text.into())
}

fn valid_name<'a>(claim: &str, text: &'a str) -> Result<&'a str, String> {
    match invalid_reason(text, NAME_BYTES) {
        Some(reason) => Err(format!("the claim `{claim}` is an invalid name: it {reason}")),
        None if text.contains(' ') => {
            Err(format!("the claim `{claim}` is an invalid name: it has spaces"))
        }
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*};
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn arbitrary_claims_never_produce_an_unnamed_principal(
            said in btree_map("email|team|realm|roles", "\\PC{0,200}", 0..4),
            shape in 0..3,
        ) {
            let wrapped = |text: String| match shape {
                0 => json!(text),
                1 => json!([text, 1, null]),
                _ => json!({ "roles": text }),
            };
            let said: Value = said.into_iter().map(|(name, text)| (name, wrapped(text))).collect();
            if let Ok(principal) = claims(&[]).principal(&said, None) {
                prop_assert!((1..=128).contains(&principal.name.len()), "{principal:?}");
                prop_assert!(!principal.name.contains(char::is_whitespace), "{principal:?}");
            }
        }
    }

    fn claims(rules: &[&str]) -> Claims {
        Claims {
            issuer: "https://issuer.example".into(),
            name: "email".to_owned(),
            person: Some("employee".to_owned()),
            team: "team".to_owned(),
            roles: "/realm/roles".to_owned(),
            rules: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn claims_become_a_principal() {
        let token =
            json!({"email": "ann@x", "team": "docs", "realm": {"roles": ["admin", "boss"]}});
        let principal = claims(&[]).principal(&token, None).unwrap();
        assert_eq!((&*principal.name, &*principal.team), ("ann@x", "docs"));
        assert_eq!(principal.roles, Roles::new(&[Role::Admin]));
        let mapped = claims(&["boss=publisher"]).principal(&token, None).unwrap();
        assert_eq!(mapped.roles, Roles::new(&[Role::Publisher]), "only the rules count");
        let plain = claims(&[]).principal(&json!({"email": "ann"}), None).unwrap();
        assert_eq!((&*plain.team, plain.roles), ("user:ann", Roles::NONE));
        for wrong in [json!(["docs", "x"]), json!(null), json!(7), json!(""), json!("user:ann")] {
            let said = json!({"email": "ann", "team": wrong});
            assert!(claims(&[]).principal(&said, None).is_err(), "{said}");
        }
    }

    #[test]
    fn account_and_human_are_read_from_their_claims() {
        let read = |claims_of: &Value| {
            let principal = claims(&[]).principal(claims_of, None).unwrap();
            assert_eq!(principal.lacks_person, principal.person.is_none());
            (principal.subject, principal.person)
        };
        let token = json!({"email": "ann@x", "sub": "a|1", "employee": "17"});
        assert_eq!(read(&token), (Some("a|1".into()), Some("17".into())));
        for unusable in [json!(null), json!(7), json!(""), json!("a".repeat(256))] {
            let token = json!({"email": "ann@x", "sub": unusable, "employee": unusable});
            assert_eq!(read(&token), (None, None), "{token}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for bad in [
            json!({}),
            json!({"email": 7}),
            json!({"email": ""}),
            json!({"email": "a b"}),
            json!({"email": "anonymous"}),
            json!({"email": "ann\u{202e}"}),
            json!({"email": "a\u{200b}nn"}),
            json!({"email": "*"}),
            json!({"email": "x".repeat(129)}),
        ] {
            assert!(claims(&[]).principal(&bad, None).is_err(), "{bad}");
        }
    }
}
