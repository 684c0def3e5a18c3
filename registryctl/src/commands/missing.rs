//! Suggestions for entities that are not registered: other versions, or similar names.

use registry_core::{Kind, Name, PointInTime, Version, suggest::closest};
use registry_proto::v1;

use super::list;
use crate::{
    client::{Client, PAGE_SIZE, request},
    failure::Failure,
    view::RecordView,
};

/// Maximum number of versions in a suggestion.
const VERSIONS: usize = 5;

/// Adds a suggestion to the failure of a request for an entity that is not registered.
pub(super) async fn explain(
    client: &Client,
    failure: Failure,
    kind: Kind,
    name: &Name,
    version: Option<&Version>,
    at: Option<PointInTime>,
) -> Failure {
    if !matches!(&failure, Failure::RequestRejected { reason, .. } if reason == "NOT_FOUND") {
        return failure;
    }
    if failure.to_string().contains("registered versions") {
        // The registry lists the versions itself.
        return failure;
    }
    if let Some(at) = at
        && let Some(revision) = registered_in(client, kind, name, version).await
    {
        let help = format!("it was registered in revision {revision}");
        return not_found(kind, name, version, Some(at)).with_help(help);
    }
    failure.with_known_help(suggestion(client, kind, name, version).await)
}

/// The failure of a request for a name or version that is not registered, with a suggestion.
pub(super) async fn not_registered(
    client: &Client,
    kind: Kind,
    name: &Name,
    version: Option<&Version>,
    at: Option<PointInTime>,
) -> Failure {
    let failure = not_found(kind, name, version, at);
    explain(client, failure, kind, name, version, at).await
}

fn not_found(
    kind: Kind,
    name: &Name,
    version: Option<&Version>,
    at: Option<PointInTime>,
) -> Failure {
    let version = version.map(|version| format!("@{version}")).unwrap_or_default();
    let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
    let message = format!("{kind}/{name}{version} is not registered{at}");
    Failure::RequestRejected { reason: "NOT_FOUND".to_owned(), message }
}

/// The revision that registered the version, or the first version of the name.
async fn registered_in(
    client: &Client,
    kind: Kind,
    name: &Name,
    version: Option<&Version>,
) -> Option<u64> {
    let records = list::versions(client, kind, name, None).await.ok()?;
    let version = version.map(Version::to_string);
    let is_wanted =
        |record: &&RecordView| version.as_ref().is_none_or(|wanted| *wanted == record.key.version);
    records.iter().filter(is_wanted).map(|record| record.registered_revision).min()
}

async fn suggestion(
    client: &Client,
    kind: Kind,
    name: &Name,
    version: Option<&Version>,
) -> Option<String> {
    if version.is_some() {
        let versions = list::versions(client, kind, name, None).await.ok()?;
        if !versions.is_empty() {
            let newest = versions.iter().take(VERSIONS).map(|record| &*record.key.version);
            let newest: Vec<_> = newest.collect();
            let more = if versions.len() > VERSIONS { ", …" } else { "" };
            return Some(format!("registered versions: {}{more}", newest.join(", ")));
        }
    }
    let candidates = candidates(client, kind, name).await;
    let similar = closest(name.as_str(), candidates.iter().map(String::as_str));
    Some(match similar {
        Some(similar) => format!("did you mean {kind}/{similar}?"),
        None => format!("`registryctl search {name}` finds similar entities"),
    })
}

/// A similar name, if the name has no version.
pub(super) async fn similar(client: &Client, kind: Kind, name: &Name) -> Option<String> {
    let candidates = candidates(client, kind, name).await;
    let similar = closest(name.as_str(), candidates.iter().map(String::as_str))?;
    (similar != name.as_str()).then(|| format!("did you mean {kind}/{similar}?"))
}

/// Names of the kind: the results of a search, which tolerates typos, and the first page of the list.
async fn candidates(client: &Client, kind: Kind, name: &Name) -> Vec<String> {
    let kind = v1::EntityKind::from(kind).into();
    let wanted = v1::SearchEntitiesRequest {
        query: name.to_string(),
        kinds: vec![kind],
        ..Default::default()
    };
    let found = client.answer(client.discovery().search_entities(request(wanted))).await;
    let found = found.map(|page| page.results).unwrap_or_default();
    let wanted = v1::ListEntitiesRequest { kind, page_size: PAGE_SIZE, ..Default::default() };
    let listed = client.answer(client.registry().list_entities(request(wanted))).await;
    let listed = listed.map(|page| page.records).unwrap_or_default();
    let records = found.into_iter().filter_map(|result| result.record).chain(listed);
    records.filter_map(|record| Some(record.key?.name)).collect()
}
