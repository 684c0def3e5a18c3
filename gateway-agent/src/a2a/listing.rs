//! `/.well-known/agents`: the agents that a caller can see, with the addresses of their cards.
//! A2A defines no such list.

use a2a::{Dialect, Failure, Version, card::WELL_KNOWN_PATH, hidden::Hidden};
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
    request::Parts,
};
use registry_core::Key;
use serde_json::{Value, json};

use super::{
    A2a,
    address::PREFIX,
    answer::{AnswerForm, reject},
    cards::base_url,
    enter,
    failure::Refusal,
};
use crate::{
    audit,
    ingress::{EnteredRequest, authentication},
    pipeline::{Directory, VisibleAgent},
};

/// The path of the list.
pub(super) const PATH: &str = "/.well-known/agents";
const DEFAULT_PAGE_SIZE: usize = 50;
const MAX_PAGE_SIZE: usize = 100;

/// The wanted page.
struct Page {
    size: usize,
    /// The last agent of the page before.
    after: Option<Key>,
}

/// `GET` of the list.
pub(super) async fn agents(State(a2a): State<A2a>, request: Request) -> Response {
    let form = AnswerForm::new(Dialect::http_json(Version::V1));
    let entered = match enter(&a2a, request).await {
        Ok(entered) => entered,
        Err(error) => return reject(&form, error.as_str(), &error.into()),
    };
    match list(&entered) {
        Ok(list) => {
            audit::count_list(super::era(Version::V1));
            let mut response = Response::new(Body::from(list.to_string()));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
            response
        }
        Err(refusal) => reject(&form, "invalid-request", &refusal),
    }
}

fn list(EnteredRequest { gateway, parts, .. }: &EnteredRequest) -> Result<Value, Refusal> {
    let directory = Directory::of(gateway, &authentication(parts));
    if !directory.has_catalog() {
        return Err(Refusal::no_catalog());
    }
    let (page, base) = (Page::of(parts)?, base_url(gateway, parts)?);
    let agents = directory.agents();
    let is_after = |agent: &&VisibleAgent| page.after.as_ref().is_none_or(|key| agent.key() > key);
    let mut left = agents.iter().filter(is_after);
    let shown: Vec<_> = left.by_ref().take(page.size).collect();
    let next = left.next().and_then(|_| shown.last()).map(|last| token(last.key()));
    let item = |agent: &VisibleAgent| {
        let addresses: Vec<_> = gateway.upstreams().http_url(agent.key()).into_iter().collect();
        let mut item = item(agent, &base);
        Hidden::new(&addresses, &base).replace_in(&mut item);
        item
    };
    let shown: Vec<_> = shown.into_iter().map(item).collect();
    Ok(json!({ "agents": shown, "nextPageToken": next.unwrap_or_default(),
        "totalSize": agents.len() }))
}

fn item(visible: &VisibleAgent, base: &str) -> Value {
    let key = visible.key();
    // The exact version: a caller can declare several versions of one agent.
    let url = format!("{base}{PREFIX}/{}@{}", key.name, key.version);
    let agent = visible.agent();
    let skills = agent.iter().flat_map(|agent| &agent.skills).map(
        |skill| json!({ "id": skill.id, "name": skill.name, "description": skill.description }),
    );
    let skills: Vec<_> = skills.collect();
    json!({
        "name": key.name.as_str(),
        "version": key.version.to_string(),
        "description": agent.as_ref().map(|agent| agent.description.as_str()),
        "url": url,
        "cardUrl": format!("{url}{WELL_KNOWN_PATH}"),
        "skills": skills,
    })
}

/// The page token after an agent. It proves nothing: the agents after it are those that the caller
/// can see.
fn token(last: &Key) -> String {
    URL_SAFE_NO_PAD.encode(last.to_string())
}

impl Page {
    fn of(parts: &Parts) -> Result<Self, Failure> {
        let (mut size, mut after) = (DEFAULT_PAGE_SIZE, None);
        let query = parts.uri.query().unwrap_or_default();
        // Numbers and tokens have no characters that queries escape.
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "pageSize" => {
                    let number = value.parse().ok().filter(|n| (1..=MAX_PAGE_SIZE).contains(n));
                    size = number.ok_or_else(|| {
                        let problem = format!("a size between 1 and {MAX_PAGE_SIZE} is required");
                        Failure::invalid_params("/pageSize", problem)
                    })?;
                }
                "pageToken" if !value.is_empty() => {
                    let key = URL_SAFE_NO_PAD.decode(value).ok();
                    let key = key.and_then(|key| String::from_utf8(key).ok()?.parse().ok());
                    after = Some(key.ok_or_else(|| {
                        let problem = "the token is not one of this list";
                        Failure::invalid_params("/pageToken", problem)
                    })?);
                }
                _ => {}
            }
        }
        Ok(Self { size, after })
    }
}
