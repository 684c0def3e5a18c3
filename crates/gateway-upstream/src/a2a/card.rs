//! The card that an agent serves now. It is only compared with the registration: addresses and behavior
//! never come from it.

use std::sync::Arc;

use a2a::card::{Card, CardLimits, LEGACY_WELL_KNOWN_PATH, WELL_KNOWN_PATH, has_address_at};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
};

use super::AgentLink;
use crate::{
    error::{Error, ProtocolViolation},
    http::{Address, read_whole, status_error},
};

/// A card as received.
#[derive(Debug)]
pub(super) struct ServedCard {
    /// The path of the target's host.
    path: String,
    tag: Option<HeaderValue>,
    text: Arc<str>,
}

/// The answer of one path.
enum Fetched {
    Card(ServedCard),
    /// The known card is current.
    Unchanged,
    /// The path has no card.
    Missing,
}

impl AgentLink {
    /// The card at the last fetch.
    pub(crate) fn card(&self) -> Option<Arc<str>> {
        self.card.load_full().map(|card| Arc::clone(&card.text))
    }

    /// Fetches the card below the target's URL, or at the root of its host. Redirects are not followed.
    /// Returns whether the card has changed.
    pub(crate) async fn refresh_card(&self) -> Result<bool, Error> {
        let known = self.card.load_full();
        for path in self.card_paths() {
            let known = known.as_deref().filter(|known| known.path == path);
            let fetched = match Box::pin(self.fetch_card(path, known)).await {
                // Some servers of gRPC reset other requests.
                Err(Error::Protocol { what: ProtocolViolation::Closed })
                    if self.is_grpc && known.is_none() =>
                {
                    Fetched::Missing
                }
                fetched => fetched?,
            };
            match fetched {
                Fetched::Missing => {}
                Fetched::Unchanged => return Ok(false),
                Fetched::Card(card) => {
                    let before = self.card.swap(Some(Arc::new(card)));
                    return Ok(before.map(|card| Arc::clone(&card.text)) != self.card());
                }
            }
        }
        Ok(self.card.swap(None).is_some())
    }

    fn card_paths(&self) -> Vec<String> {
        let base = self.transport.address.base_path();
        let bases = if base.is_empty() { vec![""] } else { vec![base, ""] };
        let below = |base: &str| {
            [WELL_KNOWN_PATH, LEGACY_WELL_KNOWN_PATH].map(|path| format!("{base}{path}"))
        };
        bases.into_iter().flat_map(below).collect()
    }

    async fn fetch_card(&self, path: String, known: Option<&ServedCard>) -> Result<Fetched, Error> {
        let address = &self.transport.address;
        let mut headers: HeaderMap = address.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(tag) = known.and_then(|known| known.tag.clone()) {
            headers.insert(IF_NONE_MATCH, tag);
        }
        let request = Address::request_at(&path, Method::GET, headers, Bytes::new());
        let Some(request) = request else { return Ok(Fetched::Missing) };
        let response = self.transport.send(request, &None).await?;
        let status = response.status();
        if status == StatusCode::NOT_MODIFIED && known.is_some() {
            return Ok(Fetched::Unchanged);
        }
        if status.is_server_error() {
            return Err(status_error(status));
        }
        if status != StatusCode::OK {
            return Ok(Fetched::Missing);
        }
        let (head, body) = response.into_parts();
        let limits = CardLimits::default();
        let body = read_whole(body, limits.bytes, None).await?.bytes;
        // Some servers answer unknown paths with a page or with an error as 200.
        let (Ok(text), Ok(card)) = (std::str::from_utf8(&body), Card::parse(&body, &limits)) else {
            return Ok(Fetched::Missing);
        };
        let base = address.base_path();
        // The root can have the card of another agent of the host.
        if !path.starts_with(base) && !has_address_at(&card.to_value(), base) {
            return Ok(Fetched::Missing);
        }
        let tag = head.headers.get(ETAG).cloned();
        Ok(Fetched::Card(ServedCard { path, tag, text: text.into() }))
    }
}
