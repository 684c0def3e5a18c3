//! `policy stop SELECTOR… --reason TEXT`: an emergency policy that forbids calls.
//!
//! The command waits for gateways, because a commit stops nothing until they have applied it.

use registry_core::{Kind, Name};
use serde_json::{Map, Value, json};

use super::{Versions, registration};
use crate::{
    cli::{Format, StopArgs, StopSelector},
    client::Client,
    commands::{Session, commit, review, rollout},
    failure::Failure,
};

/// The conditions of an emergency policy.
const FORBID: &str = "forbid (principal, action, resource);";
/// Maximum length of the part of the name that describes the selectors.
const NAME_CHARS: usize = 80;

pub(super) async fn run(session: &Session, args: StopArgs) -> Result<(), Failure> {
    let StopArgs { selectors, reason, wait, timeout, confirm, commit: author } = args;
    let client = session.connect().await?;
    let wait = (wait, timeout);
    rollout::check_list_access(&client).await?;
    let revision = client.head().await?.0;
    let mut document = json!({
        "description": reason, "appliesTo": applies_to(&selectors),
        "authorization": { "cedar": FORBID },
    });
    let key = identify(&client, &selectors, &mut document, revision).await?;
    let changes = vec![registration(&document)?];
    let mut wanted = commit::new_request(changes, reason, author, &session.globals.access);
    wanted.base_revision = wanted.base_revision.or(Some(revision));
    let done = review::run_and_wait(session, &client, &wanted, confirm, Some(wait)).await;
    // The policy is in force also if some gateways have not applied it yet.
    let is_registered = done.as_ref().err().is_none_or(Failure::is_incomplete_rollout);
    let is_in_force = is_registered && !confirm.dry_run;
    if is_in_force && session.screen.format == Format::Table {
        session.screen.line(&format!("to allow the calls again: registryctl retire {key}"))?;
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

/// Gives the policy a name and a version. A stop that is in force already keeps both, with its
/// content.
async fn identify(
    client: &Client,
    selectors: &[StopSelector],
    document: &mut Value,
    revision: u64,
) -> Result<String, Failure> {
    let base = base_name(selectors);
    for i in 1_u32.. {
        let text = if i == 1 { base.clone() } else { format!("{base}-{i}") };
        let name = Name::parse(Kind::Policy, &text).map_err(|e| Failure::Usage(e.to_string()))?;
        let versions = Versions::fetch(client, name, revision).await?;
        let version = match versions.release() {
            None => versions.next()?,
            Some((version, is_retired)) => {
                let held = versions.content(version).await?;
                // Another selector can have the same name, because `*` is not allowed in names.
                if held["appliesTo"] != document["appliesTo"] {
                    continue;
                }
                if !is_retired && held["authorization"] == document["authorization"] {
                    *document = held;
                    return Ok(format!("policy/{text}@{version}"));
                }
                versions.next()?
            }
        };
        document["name"] = text.as_str().into();
        document["version"] = version.to_string().into();
        return Ok(format!("policy/{text}@{version}"));
    }
    Err(Failure::Usage("no name is free".to_owned()))
}

/// The name of the policy: `stop-` and the selectors.
fn base_name(selectors: &[StopSelector]) -> String {
    let texts: Vec<String> = selectors.iter().map(ToString::to_string).collect();
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') { c } else { '-' }
    };
    let name: String = texts.join("-").chars().map(allowed).take(NAME_CHARS).collect();
    format!("stop-{}", name.trim_matches('-'))
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
        assert_eq!(base_name(&selectors), "stop-caller-rogue-tool-payment_--tool-refund");
        assert_eq!(
            applies_to(&selectors),
            json!({ "callers": ["rogue"], "tools": ["payment_*", "refund"] })
        );
        let long: Vec<StopSelector> = vec![format!("tool/{}", "x".repeat(200)).parse().unwrap()];
        assert!(Name::parse(Kind::Policy, &base_name(&long)).is_ok());
    }
}
