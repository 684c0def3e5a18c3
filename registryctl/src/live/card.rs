//! Cards of live agents and the keys that verify their signatures.

use std::{path::Path, time::Instant};

use a2a::{
    card::{LEGACY_WELL_KNOWN_PATH, WELL_KNOWN_PATH, has_address_at},
    signature::{self, JwkSet, SignatureError},
    version::{VERSION_HEADER, Version},
};
use registry_import::{CardOrigin, ReceivedCard};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderValue},
};
use tokio::time::timeout;

use super::{Endpoint, Target, http, is_url, without_query};
use crate::{
    cli::live::{CardKeyArgs, LiveArgs},
    clock,
    failure::Failure,
    input::Source,
};

/// Maximum key sets that the signatures of one card name.
const MAX_KEY_SETS: usize = 8;

/// The first card found below the URL or at the root of its host. The root can have the card of another agent.
async fn get_card(target: &Target, url: &str) -> Result<ReceivedCard, Failure> {
    if without_query(url).to_ascii_lowercase().ends_with(".json") {
        let found = received(target, url).await?;
        return found.ok_or_else(|| target.invalid_response("no card at this URL"));
    }
    let address = without_query(url).trim_end_matches('/');
    let root = address.split('/').take(3).collect::<Vec<_>>().join("/");
    let bases = [address, root.as_str()];
    for base in bases.iter().take(if address == root { 1 } else { 2 }) {
        for well_known in [WELL_KNOWN_PATH, LEGACY_WELL_KNOWN_PATH] {
            let Some(card) = received(target, &format!("{base}{well_known}")).await? else {
                continue;
            };
            let path = address.strip_prefix(base).unwrap_or_default();
            if path.is_empty() || has_address_at(&card.value, path) {
                return Ok(card);
            }
            return Err(target.invalid_response(format!(
                "no card below this URL, and {} is of another agent: no address in it has the path \
                 `{path}`; check the URL and the credentials, or pass the URL of that card",
                card.url
            )));
        }
    }
    Err(target.invalid_response(format!(
        "no card: neither {WELL_KNOWN_PATH} nor {LEGACY_WELL_KNOWN_PATH} exists"
    )))
}

async fn received(target: &Target, url: &str) -> Result<Option<ReceivedCard>, Failure> {
    // Without a version, a gateway adds the members of 0.3, which its signature does not cover.
    let version = HeaderValue::from_static(Version::V1.as_str());
    let headers = HeaderMap::from_iter([(VERSION_HEADER, version)]);
    let Some(text) = http::get_text(target, url, headers).await? else { return Ok(None) };
    let value = registry_core::document::parse_json(text.as_bytes())
        .map_err(|e| target.invalid_response(e.to_string()))?;
    Ok(Some(ReceivedCard { url: without_query(url).to_owned(), text, value }))
}

/// The keys that an operator trusts.
pub(crate) struct CardKeys {
    /// The keys of `--card-keys`.
    keys: Option<JwkSet>,
    /// The origins of `--card-jku`.
    origins: Vec<String>,
}

impl CardKeys {
    /// Reads the keys.
    pub(crate) async fn open(args: &CardKeyArgs, live: &LiveArgs) -> Result<Self, Failure> {
        let keys = match &args.card_keys {
            None => None,
            Some(url) if is_url(url) => {
                let target = Target::new(Endpoint::url(url)?, live)?;
                Some(fetch(&target, url).await?)
            }
            Some(path) => {
                let source = Source::read(Path::new(path))?;
                let keys = signature::key_set(source.text().as_bytes());
                Some(keys.map_err(|e| Failure::unreadable(Path::new(path), e))?)
            }
        };
        let origins: Result<_, _> = args.card_jku.iter().map(|url| origin(url)).collect();
        Ok(Self { keys, origins: origins? })
    }

    /// Gets the card of an agent and verifies its signature, up to the timeout since `started`.
    pub(crate) async fn verified_card(
        &self,
        target: &Target,
        url: &str,
        started: Instant,
    ) -> Result<(ReceivedCard, CardOrigin), Failure> {
        let read = async {
            let card = get_card(target, url).await?;
            let keys = self.of_card(target, &card).await?;
            Ok::<_, Failure>((card, keys))
        };
        let read = timeout(target.timeout(), read).await;
        let (card, keys) = read.unwrap_or_else(|_| Err(target.timed_out()))?;
        let now = clock::timestamp();
        let verify = move || {
            let origin = keys.map_or(Ok(CardOrigin::NotVerified), |keys| card.verified(&keys, now));
            origin.map(|origin| (card, origin))
        };
        let verified = target.process(started, verify).await?;
        verified.map_err(|error| target.invalid_signature(error))
    }

    /// The trusted keys for a card. `None`: signatures are not verified.
    async fn of_card(
        &self,
        target: &Target,
        card: &ReceivedCard,
    ) -> Result<Option<JwkSet>, Failure> {
        if self.keys.is_none() && self.origins.is_empty() {
            return Ok(None);
        }
        let mut keys = self.keys.clone().unwrap_or_default();
        for url in self.trusted_urls(card) {
            keys.keys.extend(fetch(target, &url).await?.keys);
        }
        Ok(Some(keys))
    }

    /// The distinct key sets that signatures name, of trusted origins only.
    fn trusted_urls(&self, card: &ReceivedCard) -> Vec<String> {
        let urls = signature::headers(&card.value).into_iter().filter_map(|header| header.jku);
        let is_trusted = |url: &String| origin(url).is_ok_and(|url| self.origins.contains(&url));
        let mut urls: Vec<_> = urls.filter(is_trusted).collect();
        urls.sort_unstable();
        urls.dedup();
        urls.truncate(MAX_KEY_SETS);
        urls
    }
}

/// Scheme, host and port.
fn origin(url: &str) -> Result<String, Failure> {
    let url = Url::parse(url).ok().filter(Url::has_host);
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
    let help = || Failure::Usage("invalid --card-jku; write https://HOST".to_owned());
    Ok(url.ok_or_else(help)?.origin().ascii_serialization())
}

/// Fetches a key set without the credentials of the agent.
async fn fetch(target: &Target, url: &str) -> Result<JwkSet, Failure> {
    let target = target.without_credentials(url)?;
    let text = http::get_text(&target, url, HeaderMap::new()).await?;
    let text = text.ok_or_else(|| target.invalid_response("HTTP status 404 Not Found"))?;
    signature::key_set(text.as_bytes()).map_err(|e| target.invalid_response(e.to_string()))
}

impl Target {
    /// The failure of a verification.
    fn invalid_signature(&self, error: SignatureError) -> Failure {
        let failure = self.invalid_response(error.to_string());
        let help = "add its key to --card-keys, or trust the origin of its `jku` with --card-jku";
        failure.with_known_help((error == SignatureError::UnknownKey).then_some(help))
    }
}
