//! Pages for browsers: sign-in, and the decisions about approval requests.
//!
//! The pages contain no script. `GET` changes no request. `POST` needs a session, the `Origin` of the pages, and a
//! token that binds the form to the session and to the request that the person has seen.

mod cookie;
mod detail;
mod form;
mod html;
mod inbox;
mod pending;
mod problem;
mod provider;
mod secret;
mod sessions;
mod settings;
mod sign_in;
mod target;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ORIGIN, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use registry_core::{Digest, Timestamp};

use self::{
    cookie::{Cookie, Cookies},
    form::{Form, FormKey, MAX_FORM_BYTES},
    html::{Html, Page},
    pending::PendingSignIns,
    problem::Problem,
    provider::Provider,
    sessions::Sessions,
};
pub use self::{
    provider::InvalidSignIn,
    secret::RandomFailed,
    settings::{PublicUrl, WebConfig},
};
use crate::{
    access::{Access, Method, OidcConfig, Principal},
    app::approvals::{Approvals, GatewayApprovals, Viewer},
    clock::Clock,
};

/// The headers of all responses. `Referrer-Policy: no-referrer` would replace the `Origin` of forms by `null`.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; \
         base-uri 'none'",
    ),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// The pages, before the server serves them.
pub struct Pages {
    public: PublicUrl,
    provider: Option<Provider>,
    forms: FormKey,
    approvals: Arc<Approvals>,
}

impl Pages {
    /// Prepares the sign-in. `None`: the pages are disabled.
    pub async fn open(
        config: &WebConfig,
        oidc: &OidcConfig,
        approvals: &GatewayApprovals,
    ) -> Result<Option<Self>, Error> {
        let (Some(public), GatewayApprovals::Own(approvals)) =
            (config.public_url.clone(), approvals)
        else {
            return Ok(None);
        };
        let provider = Provider::open(config, &public, oidc).await?;
        let (forms, approvals) = (FormKey::generate()?, approvals.clone());
        Ok(Some(Self { public, provider, forms, approvals }))
    }

    /// The routes of the pages.
    pub fn router(self, access: Arc<Access>, clock: Arc<dyn Clock>) -> Router {
        let Self { public, provider, forms, approvals } = self;
        let (sessions, pending) = (Sessions::default(), PendingSignIns::default());
        let web = Web { public, provider, forms, access, clock, approvals, sessions, pending };
        Router::new()
            .route("/sign-in", get(sign_in::show))
            .route("/sign-in/oidc", get(sign_in::begin))
            .route(provider::CALLBACK, get(sign_in::finish))
            .route("/sign-in/token", post(sign_in::exchange))
            .route("/sign-out", post(sign_in::sign_out))
            .route("/approvals", get(inbox::show).post(inbox::decide))
            .route("/approvals/style.css", get(style))
            .route("/approvals/{id}", get(detail::show).post(detail::decide))
            .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
            .layer(map_response(protect))
            .with_state(Arc::new(web))
    }
}

/// The pages cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sign-in.
    #[error(transparent)]
    SignIn(#[from] InvalidSignIn),
    /// No key for the tokens of forms.
    #[error(transparent)]
    Random(#[from] RandomFailed),
}

/// The state of the pages.
struct Web {
    public: PublicUrl,
    provider: Option<Provider>,
    forms: FormKey,
    access: Arc<Access>,
    clock: Arc<dyn Clock>,
    approvals: Arc<Approvals>,
    sessions: Sessions,
    pending: PendingSignIns,
}

/// A session of a request.
struct Session {
    key: Digest,
    principal: Principal,
}

impl Session {
    fn viewer(&self) -> Viewer {
        Viewer::new(&self.principal)
    }
}

async fn protect(mut response: Response) -> Response {
    let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("web/style.css"))
}

impl Web {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn cookies(&self) -> Cookies {
        Cookies { is_secure: self.public.is_secure }
    }

    /// The session of a request.
    fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let id = self.cookies().read(headers, Cookie::Session)?;
        let (key, principal) = self.sessions.find(id, self.now())?;
        if matches!(&principal.method, Method::Token(id) if !self.access.tokens.is_active(id)) {
            self.sessions.end(&key);
            return None;
        }
        Some(Session { key, principal })
    }

    /// Rejects a form of another site.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let is_own = origins.next().is_some_and(|origin| *origin == *self.public.origin);
        if is_own && origins.next().is_none() { Ok(()) } else { Err(Problem::foreign()) }
    }

    /// The session of a form, which may change something.
    fn session_of_form(&self, headers: &HeaderMap) -> Result<Session, Problem> {
        self.check_origin(headers)?;
        self.session(headers).ok_or_else(Problem::signed_out)
    }

    /// Rejects a form without the token of its session.
    fn check_token(
        &self,
        token: Option<&str>,
        session: &Session,
        form: Form<'_>,
    ) -> Result<(), Problem> {
        let is_valid = token.is_some_and(|token| self.forms.accepts(token, &session.key, form));
        if is_valid { Ok(()) } else { Err(Problem::stale_form()) }
    }

    /// A page of a session.
    fn page(&self, session: &Session, title: impl Into<String>, content: Html) -> Page {
        let mut header = Html::default();
        header.markup("<form method=\"post\" action=\"/sign-out\">\n<span>Signed in as ");
        header.text(&session.principal.name).markup("</span>\n");
        header.markup("<input type=\"hidden\" name=\"form\" value=\"");
        header.text(self.forms.token(&session.key, Form::SignOut));
        header.markup("\">\n<button>Sign out</button>\n</form>\n");
        Page { title: title.into(), forward: None, header, content }
    }
}
