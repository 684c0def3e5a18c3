//! `AccessService`: tokens, and who the caller is.

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
    app::{
        page::{self, Page},
        tokens,
    },
    store::{Revoked, StoredToken, TokenFilter},
};

/// Who calls; the gate before the services has put it there.
pub(super) fn principal<T>(request: &Request<T>) -> Result<Arc<Principal>, Status> {
    request.extensions().get::<Arc<Principal>>().cloned().ok_or_else(status::nobody)
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
        // Where that fails, it is known here within seconds, as it is elsewhere.
        let _ = self.app.access.tokens.refresh().await;
        let token = Some(encode(token));
        Ok(Response::new(v1::CreateTokenResponse { secret: secret.expose().to_owned(), token }))
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let v1::ListTokensRequest { include_ended, page_size, page_token } = request.into_inner();
        let which = if include_ended {
            TokenFilter::All
        } else {
            TokenFilter::Active(self.app.clock.now())
        };
        let size = page::size(page_size)?;
        let Page { items, next_page_token } =
            tokens::list(&self.app.store, which, size, &page_token).await?;
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
            method: principal.method.to_string(),
            address: principal.address_text(),
        }))
    }
}

fn read_token(request: v1::CreateTokenRequest) -> Result<NewToken, InvalidRequest> {
    let v1::CreateTokenRequest { name, team, roles, scopes, expires_at } = request;
    let team = if team.is_empty() { name.clone() } else { team };
    let roles = invalid::list("roles", roles, Role::ALL.len())?;
    let roles = roles.into_iter().map(read_role).collect::<Result<_, _>>();
    let scopes = invalid::list("scopes", scopes, MAX_SCOPES)?;
    let expires_at = expires_at.map(convert::read_timestamp).transpose();
    Ok(NewToken {
        name,
        team,
        roles: roles.map_err(|e| field("roles", &e))?,
        scopes: Scopes::parse_list(&scopes).map_err(|e| field("scopes", &e))?,
        expires_at: expires_at.map_err(|e| field("expires_at", &e))?,
    })
}

fn read_role(number: i32) -> Result<Role, String> {
    match v1::Role::try_from(number) {
        Ok(v1::Role::Reader) => Ok(Role::Reader),
        Ok(v1::Role::Publisher) => Ok(Role::Publisher),
        Ok(v1::Role::Auditor) => Ok(Role::Auditor),
        Ok(v1::Role::Gateway) => Ok(Role::Gateway),
        Ok(v1::Role::Admin) => Ok(Role::Admin),
        Ok(v1::Role::Unspecified) | Err(_) => Err(format!("{number} is no role")),
    }
}

fn encode_roles(roles: Roles) -> Vec<i32> {
    let encode = |role| match role {
        Role::Reader => v1::Role::Reader,
        Role::Publisher => v1::Role::Publisher,
        Role::Auditor => v1::Role::Auditor,
        Role::Gateway => v1::Role::Gateway,
        Role::Admin => v1::Role::Admin,
    };
    roles.iter().map(|role| encode(role).into()).collect()
}

/// A role that only a newer server knows is `ROLE_UNSPECIFIED`.
fn encode_stored_roles(roles: &str) -> Vec<i32> {
    let encode = |role: &str| match role.parse::<Roles>() {
        Ok(known) => encode_roles(known),
        Err(_) => vec![v1::Role::Unspecified.into()],
    };
    roles.split_whitespace().flat_map(encode).collect()
}

fn encode(token: StoredToken) -> v1::Token {
    let StoredToken { id, digest: _, name, team, roles, scopes, .. } = token;
    let (revoked_at, revoked_by) = match token.revoked {
        Some(Revoked { at, by }) => (Some(convert::timestamp(at)), by),
        None => (None, String::new()),
    };
    v1::Token {
        id,
        name,
        team,
        roles: encode_stored_roles(&roles),
        scopes: scopes.split_whitespace().map(str::to_owned).collect(),
        created_at: Some(convert::timestamp(token.created_at)),
        created_by: token.created_by,
        expires_at: token.expires_at.map(convert::timestamp),
        revoked_at,
        revoked_by,
        last_used_at: token.last_used_at.map(convert::timestamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_of_a_newer_server_is_listed_as_unspecified() {
        let roles = encode_stored_roles("reader oracle admin");
        let expected = [v1::Role::Reader, v1::Role::Unspecified, v1::Role::Admin].map(i32::from);
        assert_eq!(roles, expected);
    }
}
