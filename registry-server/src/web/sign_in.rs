//! The sign-in with the identity provider or an API token, and the sign-out.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    body::Bytes,
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use http::{
    Extensions, HeaderMap, HeaderValue, StatusCode,
    header::{LOCATION, SET_COOKIE},
};
use subtle::ConstantTimeEq as _;

use super::{
    Web,
    cookie::Cookie,
    form::{Fields, Form},
    html::{Html, Page},
    pending::SignIn,
    problem::Problem,
    target::Target,
};
use crate::{
    access::{Denied, Principal},
    peer::Peer,
};

/// Shows the ways to sign in.
pub(super) async fn show(State(web): State<Arc<Web>>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let target = Target::read(&Fields::parse(query.as_bytes()));
    let mut content = Html::default();
    if web.provider.is_some() {
        content.markup("<p><a class=\"button\" href=\"/sign-in/oidc").text(target.query());
        content.markup("\">Sign in with the identity provider</a></p>\n");
    }
    content.markup(
        "<form method=\"post\" action=\"/sign-in/token\">\n<h2>Use an API token</h2>\n\
         <p id=\"token-help\">The token is exchanged for a session and not stored in the browser. It \
         cannot approve where a policy demands different people.</p>\n\
         <label for=\"token\">API token</label>\n\
         <input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"off\" required \
         aria-describedby=\"token-help\">\n",
    );
    if let Some(id) = target.0 {
        content
            .markup("<input type=\"hidden\" name=\"approval\" value=\"")
            .text(id)
            .markup("\">\n");
    }
    content.markup("<button>Sign in with the token</button>\n</form>\n");
    let page = Page { title: "Sign in".to_owned(), content, ..Page::default() };
    page.respond(StatusCode::OK)
}

/// Starts a sign-in at the identity provider.
pub(super) async fn begin(
    State(web): State<Arc<Web>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let provider = web.provider.as_ref().ok_or_else(Problem::not_found)?;
    let endpoints = provider.endpoints().await.map_err(|reason| failed(&reason, None))?;
    let query = query.unwrap_or_default();
    let (target, now) = (Target::read(&Fields::parse(query.as_bytes())), web.now());
    let sign_in = SignIn::start(target, now)?;
    let state = web.pending.add(sign_in.clone(), now)?;
    let url = provider.authorization_url(&endpoints, &state, &sign_in);
    let location = HeaderValue::try_from(url.as_str()).map_err(|_| Problem::failed_sign_in())?;
    let cookie = web.cookies().set(Cookie::SignIn, &state);
    Ok((StatusCode::SEE_OTHER, [(LOCATION, location), (SET_COOKIE, cookie)]).into_response())
}

/// Completes a sign-in after the redirect of the identity provider.
pub(super) async fn finish(
    State(web): State<Arc<Web>>,
    RawQuery(query): RawQuery,
    extensions: Extensions,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let provider = web.provider.as_ref().ok_or_else(Problem::not_found)?;
    let (query, address) = (query.unwrap_or_default(), address(&extensions));
    let redirect = Fields::parse(query.as_bytes());
    let state = redirect.one("state").unwrap_or_default();
    // The browser that started the sign-in must complete it. Otherwise a link could sign in another person.
    let own = web.cookies().read(&headers, Cookie::SignIn).unwrap_or_default();
    let is_own = !own.is_empty() && bool::from(own.as_bytes().ct_eq(state.as_bytes()));
    let pending = is_own.then(|| web.pending.take(state, web.now())).flatten();
    let sign_in = pending.ok_or_else(Problem::unknown_sign_in)?;
    let verified = async {
        let endpoints = provider.endpoints().await?;
        let code = provider.code(&endpoints, &redirect)?;
        provider.exchange(&endpoints, code, &sign_in, address).await
    };
    let verified = Box::pin(verified).await;
    let principal = verified.map_err(|reason| failed(&reason, address))?;
    start(&web, principal, &headers, sign_in.target)
}

/// Exchanges an API token for a session.
pub(super) async fn exchange(
    State(web): State<Arc<Web>>,
    extensions: Extensions,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    web.check_origin(&headers)?;
    let fields = Fields::parse(&body);
    let token = fields.one("token").unwrap_or_default().trim();
    let address = address(&extensions);
    let principal = web.access.exchange(token, address).await;
    let principal = principal.inspect_err(|denied| log_denied(denied, address))?;
    start(&web, principal, &headers, Target::read(&fields))
}

/// Ends a session.
pub(super) async fn sign_out(
    State(web): State<Arc<Web>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let session = web.session_of_form(&headers)?;
    web.check_token(Fields::parse(&body).one("form"), &session, Form::SignOut)?;
    web.sessions.end(&session.key);
    let principal = &*session.principal.name;
    tracing::info!(target: "audit", event = "signed_out", principal);
    let cookie = web.cookies().clear(Cookie::Session);
    let location = HeaderValue::from_static("/sign-in");
    Ok((StatusCode::SEE_OTHER, [(LOCATION, location), (SET_COOKIE, cookie)]).into_response())
}

/// Starts a session with a new id. A redirect would not send its cookie, because another site caused it. The response
/// is therefore a page that opens the next one.
fn start(
    web: &Web,
    principal: Principal,
    headers: &HeaderMap,
    target: Target,
) -> Result<Response, Problem> {
    let (name, method) = (principal.name.clone(), principal.method.to_string());
    let address = principal.address_text();
    let earlier = web.cookies().read(headers, Cookie::Session);
    let id = web.sessions.start(principal, earlier, web.now())?;
    let principal = &*name;
    tracing::info!(target: "audit", event = "signed_in", principal, method, address);
    let mut response = forward("Signed in", target).respond(StatusCode::OK);
    let cookies = response.headers_mut();
    cookies.append(SET_COOKIE, web.cookies().set(Cookie::Session, &id));
    cookies.append(SET_COOKIE, web.cookies().clear(Cookie::SignIn));
    Ok(response)
}

/// A page that opens another one of this server, as a request of this site.
pub(super) fn forward(title: &str, target: Target) -> Page {
    let mut content = Html::default();
    content.markup("<p><a href=\"").text(target).markup("\">Continue</a></p>\n");
    let forward = Some(target.to_string());
    Page { title: title.to_owned(), forward, content, ..Page::default() }
}

fn address(extensions: &Extensions) -> Option<SocketAddr> {
    extensions.get::<Peer>().and_then(|peer| peer.address)
}

/// Logs the reason of a failed sign-in, which the browser does not receive.
fn failed(reason: &str, address: Option<SocketAddr>) -> Problem {
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    tracing::warn!(target: "audit", event = "sign_in_failed", address, reason);
    Problem::failed_sign_in()
}

/// Logs a rejected token, but no flood of them.
fn log_denied(denied: &Denied, address: Option<SocketAddr>) {
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    match denied {
        Denied::Invalid(reason) => {
            tracing::info!(target: "audit", event = "sign_in_failed", address, reason);
        }
        other => {
            let reason = other.to_string();
            tracing::debug!(target: "audit", event = "sign_in_failed", address, reason);
        }
    }
}
