//! From the claims of a proven token to a principal.

use std::{net::SocketAddr, sync::Arc};

use registry_jwt::find;
use serde_json::Value;

use super::{OidcConfig, RoleRule};
use crate::access::{
    Method, Principal, Role, Roles, Scopes,
    name::{is_personal, misfit, personal_team},
};

/// Longest name of a principal or a team, in bytes.
const NAME_BYTES: usize = 128;

/// Which claims mean what.
pub(super) struct Claims {
    issuer: Arc<str>,
    name: String,
    team: String,
    roles: String,
    rules: Vec<RoleRule>,
}

impl Claims {
    pub(super) fn of(config: &OidcConfig) -> Self {
        Self {
            issuer: config.oidc_issuer.clone().unwrap_or_default().into(),
            name: config.oidc_name_claim.clone(),
            team: config.oidc_team_claim.clone(),
            roles: config.oidc_roles_claim.clone(),
            rules: config.oidc_roles.clone(),
        }
    }

    /// The principal; what is wrong with its name or team, in words.
    pub(super) fn principal(
        &self,
        claims: &Value,
        address: Option<SocketAddr>,
    ) -> Result<Principal, String> {
        let name = find(claims, &self.name).and_then(Value::as_str);
        let name =
            fitting(&self.name, name.ok_or(format!("the claim `{}` is missing", self.name))?)?;
        Ok(Principal {
            name: name.into(),
            team: self.team(find(claims, &self.team), name)?.into(),
            roles: self.roles(find(claims, &self.roles)),
            scopes: Scopes::default(),
            method: Method::Oidc(self.issuer.clone()),
            address,
            until: None,
        })
    }

    /// Without the claim, a team of its own that nobody else can be in.
    fn team(&self, claim: Option<&Value>, name: &str) -> Result<String, String> {
        let Some(claim) = claim else { return Ok(personal_team(name)) };
        let team = claim.as_str().ok_or(format!("the claim `{}` is not a text", self.team))?;
        if is_personal(team) {
            return Err(format!("the claim `{}` begins like the teams of persons", self.team));
        }
        fitting(&self.team, team).map(str::to_owned)
    }

    /// A value that means no role gives none.
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
                // Several rules may be for one value.
                values.iter().filter_map(Value::as_str).filter_map(role).collect()
            }
            _ => Roles::NONE,
        }
    }
}

fn fitting<'a>(claim: &str, text: &'a str) -> Result<&'a str, String> {
    match misfit(text, NAME_BYTES) {
        Some(why) => Err(format!("the claim `{claim}` is no name: it {why}")),
        None if text.contains(' ') => Err(format!("the claim `{claim}` is no name: it has spaces")),
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
        fn whatever_is_claimed_a_principal_has_a_name_or_there_is_none(
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
        assert_eq!(principal.roles, Roles::of(&[Role::Admin]));
        let mapped = claims(&["boss=publisher"]).principal(&token, None).unwrap();
        assert_eq!(mapped.roles, Roles::of(&[Role::Publisher]), "only the rules count");
        let plain = claims(&[]).principal(&json!({"email": "ann"}), None).unwrap();
        assert_eq!((&*plain.team, plain.roles), ("user:ann", Roles::NONE));
        for wrong in [json!(["docs", "x"]), json!(null), json!(7), json!(""), json!("user:ann")] {
            let said = json!({"email": "ann", "team": wrong});
            assert!(claims(&[]).principal(&said, None).is_err(), "{said}");
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
