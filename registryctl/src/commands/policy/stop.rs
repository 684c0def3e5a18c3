//! `policy stop SELECTOR… --reason TEXT`: an emergency policy that forbids calls.
//!
//! The command verifies that the policy is in force, and waits for gateways, because a commit stops
//! nothing until they have applied it.

use std::{collections::HashSet, sync::Arc};

use policy::PolicyInForce;
use registry_core::{Document, Key, Kind, Name, Version, policies::EMERGENCY_PREFIX};
use registry_proto::v1;
use serde_json::{Map, Value, json};

use super::{Versions, registration};
use crate::{
    cli::{Format, StopArgs, StopSelector},
    client::{Client, request},
    commands::{Session, commit, review, rollout, settings},
    failure::Failure,
};

/// The conditions of an emergency policy. Running tasks of a stopped tool can be cancelled.
const FORBID: &str =
    "forbid (principal, action, resource) unless { action == Action::\"cancel\" };";
/// Prefix of the policies that publishers register to stop calls of their own names.
const OWN_PREFIX: &str = "own-stop-";
/// Maximum length of the part of the name that describes the selectors.
const NAME_CHARS: usize = 80;

pub(super) async fn run(session: &Session, args: StopArgs) -> Result<(), Failure> {
    let StopArgs { selectors, reason, wait, timeout, confirm, commit: author } = args;
    let client = session.connect().await?;
    let wait = (wait, timeout);
    rollout::check_list_access(&client).await?;
    let caller = Caller::fetch(&client).await?;
    let revision = client.head().await?.0;
    let document = json!({
        "description": reason, "appliesTo": applies_to(&selectors),
        "authorization": { "cedar": FORBID },
    });
    let base = base_name(caller.prefix(), &selectors);
    let stop = Stop::identify(&client, &caller, &base, document, revision).await?;
    let changes = vec![registration(&stop.document)?];
    let mut wanted = commit::new_request(changes, reason, author, &session.globals.access);
    wanted.base_revision = wanted.base_revision.or(Some(revision));
    let done = review::run_and_wait(session, &client, &wanted, confirm, Some(wait)).await;
    // The policy is registered also if some gateways have not applied it yet.
    let is_registered = done.as_ref().err().is_none_or(Failure::is_incomplete_rollout);
    if is_registered && !confirm.dry_run {
        let revision = stop.require_in_force(&client).await?;
        eprintln!(
            "note: a relay counts as one gateway, and the gateways behind it are not counted: \
             registryctl rollout status {revision} --registry RELAY"
        );
        if session.screen.format == Format::Table {
            let key = stop.key();
            session.screen.line(&format!("to allow the calls again: registryctl retire {key}"))?;
        }
    }
    done
}

fn applies_to(selectors: &[StopSelector]) -> Value {
    let mut lists = Map::new();
    for StopSelector { list, pattern, .. } in selectors {
        let list = lists.entry(*list).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(pattern.as_str().into());
        }
    }
    lists.into()
}

/// The permissions of the caller.
struct Caller {
    team: String,
    /// Whether it writes policies about names of any team.
    is_governor: bool,
    /// Whether it writes names of any team.
    is_admin: bool,
}

impl Caller {
    async fn fetch(client: &Client) -> Result<Self, Failure> {
        let who = client.answer(client.access().who_am_i(request(v1::WhoAmIRequest {}))).await?;
        let authentication = who.authentication.as_ref();
        let is_open =
            authentication.is_none_or(|found| found.method() == v1::AuthenticationMethod::Disabled);
        let has = |role| who.roles().any(|own| own == role);
        let is_admin = is_open || has(v1::AccessRole::Admin);
        let is_governor = is_admin || has(v1::AccessRole::Governor);
        Ok(Self { team: who.team, is_governor, is_admin })
    }

    /// The first part of the names of its emergency policies.
    fn prefix(&self) -> &'static str {
        if self.is_governor { EMERGENCY_PREFIX } else { OWN_PREFIX }
    }

    /// Whether it may write a name with this owner.
    fn writes(&self, owner: Option<&str>) -> bool {
        self.is_admin || owner.is_none_or(|owner| owner == self.team)
    }
}

/// The emergency policy.
struct Stop {
    name: Name,
    version: Version,
    document: Value,
}

impl Stop {
    /// Gives the policy a name and a version. A stop that is in force already keeps both, with its
    /// content. A name with another policy, with another owner or without new versions is skipped.
    async fn identify(
        client: &Client,
        caller: &Caller,
        base: &str,
        mut document: Value,
        revision: u64,
    ) -> Result<Self, Failure> {
        let archived = archived(client).await?;
        for i in 1_u32.. {
            let text = if i == 1 { base.to_owned() } else { format!("{base}-{i}") };
            let name =
                Name::parse(Kind::Policy, &text).map_err(|e| Failure::Usage(e.to_string()))?;
            let versions = Versions::fetch(client, name.clone(), revision).await?;
            let is_own = caller.writes(versions.owner());
            if let Some((version, is_retired)) = versions.release() {
                let held = versions.content(version).await?;
                if !is_same_stop(&held, &document) {
                    continue;
                }
                // Another team could retire a stop outside of the governors' names.
                if !is_retired && (is_own || caller.is_governor) {
                    return Ok(Self { name, version: version.clone(), document: held });
                }
            }
            if !is_own || archived.contains(&format!("policy/{text}")) {
                continue;
            }
            let version = versions.next()?;
            document["name"] = text.into();
            document["version"] = version.to_string().into();
            return Ok(Self { name, version, document });
        }
        Err(Failure::Usage("no name is free".to_owned()))
    }

    fn key(&self) -> Key {
        Key::new(Kind::Policy, self.name.clone(), self.version.clone())
    }

    /// Fails unless the registered version is in force and rejects every call that it selects, by
    /// the code of gateways. Returns the revision of the check.
    async fn require_in_force(&self, client: &Client) -> Result<u64, Failure> {
        let revision = client.head().await?.0;
        let versions = Versions::fetch(client, self.name.clone(), revision).await?;
        if versions.release() == Some((&self.version, false)) {
            let document = Document::parse(Kind::Policy, &versions.content(&self.version).await?);
            let document = document.map_err(|_| {
                Failure::invalid_response(format!("{} is no valid policy", self.key()))
            })?;
            let compiled = PolicyInForce::new(Arc::new(document)).map(Arc::new);
            if compiled.is_some_and(|policy| policy.denies_every_call()) {
                return Ok(revision);
            }
        }
        let message =
            format!("calls are not stopped: {} is not in force at revision {revision}", self.key());
        let help = "another commit changed the policy; run the command again".to_owned();
        Err(Failure::Rejected(message).with_help(help))
    }
}

/// The selectors of archived names.
async fn archived(client: &Client) -> Result<HashSet<String>, Failure> {
    let settings = settings::fetch(client, None).await?.into_iter();
    Ok(settings.filter(|state| state.archived).map(|state| state.target).collect())
}

/// Whether two policies differ in name, version and description only.
fn is_same_stop(held: &Value, wanted: &Value) -> bool {
    let digest = |document: &Value| {
        let mut document = document.clone();
        let members = document.as_object_mut()?;
        members.remove("description");
        members.insert("name".to_owned(), "stop".into());
        members.insert("version".to_owned(), "1.0.0".into());
        Some(Document::parse(Kind::Policy, &document).ok()?.digest())
    };
    digest(held).is_some_and(|held| Some(held) == digest(wanted))
}

/// The name of the policy: a prefix and the selectors. Without `.` and `/`, so that no namespace
/// contains it.
fn base_name(prefix: &str, selectors: &[StopSelector]) -> String {
    let texts: Vec<String> = selectors.iter().map(ToString::to_string).collect();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = texts.join("-").chars().map(allowed).take(NAME_CHARS).collect();
    format!("{prefix}{}", name.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_become_name_and_lists() {
        let selectors: Vec<StopSelector> = ["caller/rogue", "tool/payment_*", "tool/refund"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        assert_eq!(base_name("stop-", &selectors), "stop-caller-rogue-tool-payment_--tool-refund");
        assert_eq!(
            applies_to(&selectors),
            json!({ "callers": ["rogue"], "tools": ["payment_*", "refund"] })
        );
        let long: Vec<StopSelector> = vec![format!("tool/{}", "x".repeat(200)).parse().unwrap()];
        assert!(Name::parse(Kind::Policy, &base_name("own-stop-", &long)).is_ok());
    }
    #[test]
    fn only_equal_content_is_the_same_stop() {
        let wanted = json!({
            "description": "now", "appliesTo": { "tools": ["fetch"] },
            "authorization": { "cedar": FORBID },
        });
        let held = |members: Value| {
            let mut held = wanted.clone();
            let more = json!({ "name": "stop-tool-fetch", "version": "1.2.0" });
            for members in [more, members] {
                held.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            }
            is_same_stop(&held, &wanted)
        };
        assert!(held(json!({ "description": "earlier" })));
        for other in [
            json!({ "mode": "audit" }),
            json!({ "default": "deny" }),
            json!({ "appliesTo": { "tools": ["fetch"], "callers": ["a"] } }),
            json!({ "appliesTo": { "tools": ["fetch"], "destructive": true } }),
            json!({ "authorization": { "cedar": "forbid (principal, action, resource);" } }),
            json!({ "maxStaleness": "PT1H" }),
            json!({ "metadata": { "note": "x" } }),
        ] {
            assert!(!held(other.clone()), "{other}");
        }
    }
}
