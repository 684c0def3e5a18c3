//! Cards of agents and of the gateway: generated from the registration, with the addresses, the
//! security and the capabilities of the gateway, and signed by it.

use a2a::{
    Binding, Dialect, ErrorKind, Failure, Version,
    card::{
        Card, CardLimits, Facade, Interface, InvalidCard, LEGACY_WELL_KNOWN_PATH, Shape,
        WELL_KNOWN_PATH, entity_tag, matches_entity_tag,
    },
    version::VERSION_HEADER,
};
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::{
    HeaderValue, Method, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LAST_MODIFIED, VARY},
    request::Parts,
};
use registry_core::Timestamp;
use serde_json::{Value, json};

use super::{
    A2a, Served,
    address::{AgentName, PREFIX},
    answer::{AnswerForm, reject},
    enter,
    failure::Refusal,
    own_agent,
    signer::key_set,
};
use crate::{
    identity::sender::RequestHead,
    ingress::{EnteredRequest, authentication},
    pipeline::{Directory, Gateway, VisibleAgent},
};

/// The path of the key set of signatures.
pub(super) const KEYS_PATH: &str = "/.well-known/jwks.json";
/// Clients ask again after this time, with the entity tag.
const CACHING: &str = "private, max-age=60";
/// The headers that select the agents, skills and shape of a card.
const VARYING: &str = "A2A-Version, Authorization, X-API-Key, X-Agent-Name, X-Caller-Agent";

/// Whether the rest of a path is that of a card.
pub(super) fn is_card(rest: &str) -> bool {
    matches!(rest, WELL_KNOWN_PATH | LEGACY_WELL_KNOWN_PATH)
}

/// Serves the card of an agent, or of the gateway without one.
pub(super) fn of_agent(
    a2a: &A2a,
    EnteredRequest { gateway, parts, .. }: EnteredRequest,
    (method, agent, form): (&Method, Option<AgentName>, &AnswerForm),
) -> Response {
    // The router removes the body of an answer to HEAD.
    if !matches!(*method, Method::GET | Method::HEAD) {
        return reject(form, "method", &Refusal::method_not_allowed("GET, HEAD"));
    }
    let source = CardSource { a2a, gateway: &gateway, parts: &parts };
    let card = match agent {
        None => source.of_gateway(),
        Some(agent) => source.find(&agent).and_then(|visible| source.of_agent(&agent, &visible)),
    };
    card.unwrap_or_else(|refusal| reject(form, "card", &refusal))
}

/// `GET` of the gateway's own card.
pub(super) async fn of_gateway(State(a2a): State<A2a>, request: Request) -> Response {
    let form = AnswerForm::new(Dialect::http_json(Version::V1));
    match enter(&a2a, request).await {
        Ok(entered) => of_agent(&a2a, entered, (&Method::GET, None, &form)),
        Err(error) => reject(&form, error.as_str(), &error.into()),
    }
}

/// `GET` of the public keys of signatures. Verifiers need no credentials.
pub(super) async fn keys(State(a2a): State<A2a>) -> Response {
    let keys = a2a.gateway.read(|gateway| key_set(gateway.sealer()));
    let mut response = Response::new(Body::from(keys.to_string()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}

/// The answer of `GetExtendedAgentCard`: the card with the skills that the caller may use, for
/// callers that the gateway knows.
pub(super) fn extended(served: &Served<'_>, agent: &AgentName) -> Result<Value, Refusal> {
    let Served { a2a, gateway, parts, caller, version, .. } = served;
    let source = CardSource { a2a, gateway, parts };
    let visible = source.find(agent)?;
    let card = Card::of_agent(&visible.agent().ok_or_else(unusable)?);
    if !card.capabilities().extended_card {
        let message = format!("{} has no extended card", visible.key());
        return Err(no_extended_card(*version, message).into());
    }
    if caller.claim.quota_key().is_none() {
        let message = "the extended card needs an authenticated caller";
        return Err(Failure::new(ErrorKind::Unauthenticated, message).into());
    }
    let facade = source.facade(Some((agent, &visible)))?;
    let card = card.publish(&facade, Shape::V1).map_err(|error| invalid(&error))?;
    // The answer is translated to the version of its request, which a signature would not cover.
    let is_signed = *version == Version::V1;
    Ok(if is_signed { source.signed(card.clone(), card) } else { card })
}

/// The error of an agent without an extended card. 1.0 distinguishes an agent that declares none from
/// one that declares a card it does not have. The gateway has each declared card.
pub(super) fn no_extended_card(version: Version, message: impl Into<String>) -> Failure {
    let kind = match version {
        Version::V1 => ErrorKind::UnsupportedOperation,
        Version::V03 => ErrorKind::ExtendedAgentCardNotConfigured,
    };
    Failure::new(kind, message)
}

/// The facts that a card depends on, except for its agent.
struct CardSource<'a> {
    a2a: &'a A2a,
    gateway: &'a Gateway,
    parts: &'a RequestHead,
}

impl CardSource<'_> {
    fn find(&self, agent: &AgentName) -> Result<VisibleAgent, Refusal> {
        let directory = Directory::of(self.gateway, &authentication(self.parts));
        if !directory.has_catalog() {
            return Err(Refusal::no_catalog());
        }
        let visible = directory.find(&agent.name, agent.version.as_ref());
        let listed = visible.and_then(|visible| directory.listed(visible));
        listed.ok_or_else(|| AgentName::not_found(&agent.to_string()).into())
    }

    fn of_agent(&self, agent: &AgentName, visible: &VisibleAgent) -> Result<Response, Refusal> {
        let card = Card::of_agent(&visible.agent().ok_or_else(unusable)?);
        self.respond(&card, Some((agent, visible)))
    }

    /// The card of the gateway, whose interfaces serve all agents. Its own skills are composed tools.
    fn of_gateway(&self) -> Result<Response, Refusal> {
        let skills = if self.gateway.settings().agents.of_tools {
            own_agent::skills(self.gateway, &authentication(self.parts))
        } else {
            Vec::new()
        };
        let card = json!({
            "name": "Agent gateway",
            "description": "Forwards requests to the agents that a caller may use. \
                            /.well-known/agents lists them with their own addresses; requests to \
                            this address name the agent as tenant or as agent in their metadata.",
            "version": env!("CARGO_PKG_VERSION"),
            "url": self.base()?,
            // The gateway's own agent has no push notifications; other agents have their own cards.
            "capabilities": { "streaming": true },
            "defaultInputModes": ["text/plain", "application/json"],
            "defaultOutputModes": ["text/plain", "application/json"],
            "skills": skills,
        });
        // The limits are for the cards of others.
        let limits = CardLimits {
            bytes: usize::MAX,
            depth: usize::MAX,
            skills: usize::MAX,
            ..CardLimits::default()
        };
        let card = Card::parse(card.to_string().as_bytes(), &limits);
        self.respond(&card.map_err(|error| invalid(&error))?, None)
    }

    fn respond(
        &self,
        card: &Card,
        agent: Option<(&AgentName, &VisibleAgent)>,
    ) -> Result<Response, Refusal> {
        let shape = shape(self.parts)?;
        let facade = self.facade(agent)?;
        let served = card.publish(&facade, shape).map_err(|error| invalid(&error))?;
        // Verifiers of 1.0 do not know the members of 0.3, so that the signature of a card with
        // both covers those of 1.0.
        let covered = match shape {
            Shape::Combined => card.publish(&facade, Shape::V1).map_err(|error| invalid(&error))?,
            Shape::V1 | Shape::V03 => served.clone(),
        };
        let card = self.signed(served, covered);
        let tag = entity_tag(&card);
        let known = self.parts.headers.get_all(IF_NONE_MATCH).iter();
        let is_known =
            known.filter_map(|tags| tags.to_str().ok()).any(|tags| matches_entity_tag(tags, &tag));
        let mut response = if is_known {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            Response::new(Body::from(card.to_string()))
        };
        let headers = response.headers_mut();
        if !is_known {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(CACHING));
        headers.insert(VARY, HeaderValue::from_static(VARYING));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(ETAG, tag);
        }
        if let Some((_, visible)) = agent {
            headers.insert(LAST_MODIFIED, http_date(visible.record().registered_at));
        }
        Ok(response)
    }

    fn facade(&self, agent: Option<(&AgentName, &VisibleAgent)>) -> Result<Facade, Refusal> {
        let mut url = format!("{}{PREFIX}", self.base()?);
        let mut hidden = None;
        if let Some((agent, visible)) = agent {
            url = format!("{url}/{agent}");
            hidden = self.gateway.upstreams().http_url(visible.key());
        }
        let mut interfaces = Vec::new();
        for version in Version::ALL {
            for binding in [Binding::JsonRpc, Binding::HttpJson] {
                let url = url.clone();
                interfaces.push(Interface { url, binding, version, tenant: None });
            }
        }
        interfaces.push(Interface {
            url: origin(&self.base()?).to_owned(),
            binding: Binding::Grpc,
            version: Version::V1,
            tenant: agent.map(|(agent, _)| agent.to_string()),
        });
        let security = self.gateway.authenticator().card_security();
        Ok(Facade {
            interfaces,
            streaming: true,
            push_notifications: self.gateway.settings().push().is_some(),
            extended_card: true,
            security_schemes: security.schemes,
            security_requirements: security.requirements,
            hidden: hidden.into_iter().collect(),
        })
    }

    fn base(&self) -> Result<String, Refusal> {
        base_url(self.gateway, self.parts)
    }

    /// The card with the signature of `covered`. A card with the address of `Host` is not signed: its
    /// client could choose the address, and show the card to others.
    fn signed(&self, mut card: Value, covered: Value) -> Value {
        let Some(base) = &self.gateway.settings().a2a_url else { return card };
        let keys_url = format!("{base}{KEYS_PATH}");
        let signers = &self.a2a.state.signers;
        let Some(signer) = signers.current(self.gateway.sealer(), &keys_url) else { return card };
        match signer.sign(covered) {
            Ok(mut with_own) => card["signatures"] = with_own.card["signatures"].take(),
            Err(e) => tracing::warn!("cannot sign an agent card: {e}"),
        }
        card
    }
}

/// The base URL of the surface for callers: `a2a.url`, else the address that the request names.
pub(super) fn base_url(gateway: &Gateway, parts: &Parts) -> Result<String, Refusal> {
    let configured = gateway.settings().a2a_url.clone();
    configured.or_else(|| gateway.authenticator().base_url(parts)).ok_or_else(|| {
        let message = "the request has no valid Host header, and a2a.url is not configured";
        Failure::new(ErrorKind::InvalidRequest, message).into()
    })
}

/// The part of a URL before its path: methods of gRPC have fixed paths.
fn origin(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path = url[authority..].find('/');
    path.map_or(url, |at| &url[..authority + at])
}

/// The shape of a card by the version of its request. Clients without a version get the members of
/// both, unless they ask for the card of versions before 0.3.
fn shape(parts: &Parts) -> Result<Shape, Failure> {
    let query = parts.uri.query();
    let names_version =
        query.is_some_and(|query| query.to_ascii_lowercase().contains("a2a-version="));
    if !names_version && !parts.headers.contains_key(VERSION_HEADER) {
        let is_legacy = parts.uri.path().ends_with(LEGACY_WELL_KNOWN_PATH);
        return Ok(if is_legacy { Shape::V03 } else { Shape::Combined });
    }
    Ok(match Version::of_request(&parts.headers, query)? {
        Version::V1 => Shape::V1,
        Version::V03 => Shape::V03,
    })
}

fn http_date(time: Timestamp) -> HeaderValue {
    let time = std::time::UNIX_EPOCH + time.since(Timestamp::EPOCH);
    let text = httpdate::fmt_http_date(time);
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"))
}

fn unusable() -> Failure {
    Failure::new(ErrorKind::Internal, "the registered agent is not usable").with_reason("NO_CARD")
}

fn invalid(error: &InvalidCard) -> Refusal {
    let message = format!("the registered agent has no valid card: {error}");
    Failure::new(ErrorKind::Internal, message).with_reason("INVALID_CARD").into()
}
