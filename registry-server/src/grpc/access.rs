//! `AccessService`: API tokens and the identity of the caller.

use std::sync::Arc;

use registry_proto::{convert, v1, v1::access_service_server::AccessService};
use tonic::{Request, Response, Status};

use super::{
    Service,
    deadline::begin_write,
    invalid::{self, FILTER_BYTES, InvalidRequest, field},
    status,
};
use crate::{
    access::{MAX_SCOPES, NewToken, Principal, Role, Roles, Scopes},
    app::{page::Page, tokens},
    store::{Revoked, StoredToken, TokenFilter},
};

/// The authenticated caller, which the access layer adds to each request.
pub(super) fn principal<T>(request: &Request<T>) -> Result<Arc<Principal>, Status> {
    request.extensions().get::<Arc<Principal>>().cloned().ok_or_else(status::principal_missing)
}

#[tonic::async_trait]
impl AccessService for Service {
    async fn create_token(
        &self,
        request: Request<v1::CreateTokenRequest>,
    ) -> Result<Response<v1::CreateTokenResponse>, Status> {
        let by = principal(&request)?;
        begin_write(&request);
        let wanted = read_token(request.into_inner())?;
        let now = self.app.clock.now();
        let (secret, token) = tokens::create(&self.app.store, &by, wanted, now).await?;
        // If this fails, the periodic refresh makes the token known within seconds.
        let _ = self.app.access.tokens.refresh().await;
        let token = Some(encode(token));
        Ok(Response::new(v1::CreateTokenResponse { secret: secret.expose().to_owned(), token }))
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let mut request = request.into_inner();
        let page = page_request!("ListTokens", request);
        let which = if request.include_inactive {
            TokenFilter::All
        } else {
            TokenFilter::Active(self.app.clock.now())
        };
        let Page { items, next_page_token } = tokens::list(&self.app.store, which, &page).await?;
        let tokens = items.into_iter().map(encode).collect();
        Ok(Response::new(v1::ListTokensResponse { tokens, next_page_token }))
    }

    async fn revoke_token(
        &self,
        request: Request<v1::RevokeTokenRequest>,
    ) -> Result<Response<v1::RevokeTokenResponse>, Status> {
        let by = principal(&request)?;
        begin_write(&request);
        let v1::RevokeTokenRequest { id } = request.into_inner();
        let id = invalid::line("id", id, FILTER_BYTES)?;
        tokens::revoke(&self.app.store, &by, &id, self.app.clock.now()).await?;
        let _ = self.app.access.tokens.refresh().await;
        Ok(Response::new(v1::RevokeTokenResponse {}))
    }

    async fn who_am_i(
        &self,
        request: Request<v1::WhoAmIRequest>,
    ) -> Result<Response<v1::WhoAmIResponse>, Status> {
        let principal = principal(&request)?;
        Ok(Response::new(v1::WhoAmIResponse {
            name: principal.name.to_string(),
            team: principal.team.to_string(),
            roles: encode_roles(principal.roles),
            scopes: principal.scopes.selectors().iter().map(ToString::to_string).collect(),
            authentication: Some(convert::authentication(&principal.method.to_string())),
            address: principal.address_text(),
        }))
    }
}

fn read_token(request: v1::CreateTokenRequest) -> Result<NewToken, InvalidRequest> {
    let v1::CreateTokenRequest { name, team, roles, scopes, expire_time } = request;
    let team = if team.is_empty() { name.clone() } else { team };
    let roles = invalid::list("roles", roles, Role::ALL.len())?;
    let roles = roles.into_iter().map(read_role).collect::<Result<_, _>>();
    let scopes = invalid::list("scopes", scopes, MAX_SCOPES)?;
    let expires_at = expire_time.map(convert::read_timestamp).transpose();
    Ok(NewToken {
        name,
        team,
        roles: roles.map_err(|e| field("roles", &e))?,
        scopes: Scopes::parse_list(&scopes).map_err(|e| field("scopes", &e))?,
        expires_at: expires_at.map_err(|e| field("expire_time", &e))?,
    })
}

fn read_role(number: i32) -> Result<Role, String> {
    match v1::AccessRole::try_from(number) {
        Ok(v1::AccessRole::Reader) => Ok(Role::Reader),
        Ok(v1::AccessRole::Publisher) => Ok(Role::Publisher),
        Ok(v1::AccessRole::Auditor) => Ok(Role::Auditor),
        Ok(v1::AccessRole::Gateway) => Ok(Role::Gateway),
        Ok(v1::AccessRole::Admin) => Ok(Role::Admin),
        Ok(v1::AccessRole::Governor) => Ok(Role::Governor),
        Ok(v1::AccessRole::Approver) => Ok(Role::Approver),
        Ok(v1::AccessRole::Relay) => Ok(Role::Relay),
        Ok(v1::AccessRole::Unspecified) | Err(_) => Err(format!("{number} is not a known role")),
    }
}

fn encode_roles(roles: Roles) -> Vec<i32> {
    let encode = |role| match role {
        Role::Reader => v1::AccessRole::Reader,
        Role::Publisher => v1::AccessRole::Publisher,
        Role::Auditor => v1::AccessRole::Auditor,
        Role::Gateway => v1::AccessRole::Gateway,
        Role::Admin => v1::AccessRole::Admin,
        Role::Governor => v1::AccessRole::Governor,
        Role::Approver => v1::AccessRole::Approver,
        Role::Relay => v1::AccessRole::Relay,
    };
    roles.iter().map(|role| encode(role).into()).collect()
}

/// Roles of newer servers are `ACCESS_ROLE_UNSPECIFIED`.
fn encode_stored_roles(roles: &str) -> Vec<i32> {
    let encode = |role: &str| match role.parse::<Roles>() {
        Ok(known) => encode_roles(known),
        Err(_) => vec![v1::AccessRole::Unspecified.into()],
    };
    roles.split_whitespace().flat_map(encode).collect()
}

fn encode(token: StoredToken) -> v1::ApiToken {
    let StoredToken { id, digest: _, name, team, roles, scopes, .. } = token;
    let (revoke_time, revoker) = match token.revoked {
        Some(Revoked { at, by }) => (Some(convert::timestamp(at)), by),
        None => (None, String::new()),
    };
    v1::ApiToken {
        id,
        name,
        team,
        roles: encode_stored_roles(&roles),
        scopes: scopes.split_whitespace().map(str::to_owned).collect(),
        create_time: Some(convert::timestamp(token.created_at)),
        creator: token.created_by,
        expire_time: token.expires_at.map(convert::timestamp),
        revoke_time,
        revoker,
        last_use_time: token.last_used_at.map(convert::timestamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_of_a_newer_server_is_listed_as_unspecified() {
        let roles = encode_stored_roles("reader oracle admin");
        let expected = [v1::AccessRole::Reader, v1::AccessRole::Unspecified, v1::AccessRole::Admin]
            .map(i32::from);
        assert_eq!(roles, expected);
    }
}
