//! `audit check` of an export: recomputes the chain and compares it with a signed checkpoint.

use std::io;

use registry_core::{ChainHash, Checkpoint, Revision, SealedCommit, document::parse_json};
use registry_proto::convert;
use serde_json::{Map, Value, json};

use crate::{
    cli::{CheckArgs, Format},
    commands::Session,
    failure::Failure,
    view::CommitView,
};

/// Whether a line is a commit of `audit export`.
pub(super) fn is_export(line: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(line).is_ok_and(|line| line.contains_key("revision"))
}

/// Verifies an export offline. Its line N is revision N.
pub(super) fn check(
    session: &Session,
    args: &CheckArgs,
    lines: impl Iterator<Item = io::Result<String>>,
) -> Result<(), Failure> {
    let Some(path) = &args.since else {
        return Err(Failure::usage("an export requires a signed checkpoint: pass --since FILE")
            .with_help("`registryctl audit checkpoint` writes one".to_owned()));
    };
    let checkpoint = Checkpoint::verify(&super::read(path)?, &super::key(&args.key)?)
        .map_err(|invalid| super::invalid_checkpoint(&invalid, path))?;
    let mut end = (Revision(0), ChainHash::genesis(&checkpoint.registry));
    for line in lines {
        let line = line.map_err(|e| Failure::unreadable(&args.file, e))?;
        let revision = end.0.next();
        let invalid = |reason: String| Failure::Rejected(format!("line {revision}: {reason}"));
        end = (revision, verify(&line, revision, &end.1).map_err(invalid)?);
        if revision == checkpoint.revision && end.1 != checkpoint.chain {
            return Err(Failure::Rejected(format!(
                "line {revision}: the log up to this line is not the log of the checkpoint: the chain hash \
                 is {}, and the signed one is {}",
                end.1, checkpoint.chain
            )));
        }
    }
    let Checkpoint { registry, revision: signed, time, .. } = checkpoint;
    let (last, _) = end;
    if last < signed {
        return Err(Failure::Rejected(format!(
            "the export ends at revision {last}, before the checkpoint of revision {signed}"
        ))
        .with_help("export the log after the checkpoint, without --at".to_owned()));
    }
    if session.screen.format == Format::Json {
        return session.screen.json(&json!({
            "registry": registry, "checkpoint": signed, "signedAt": time, "revision": last,
        }));
    }
    session.screen.line(&format!(
        "verified: revisions 1 to {signed} are the log of registry {registry}, as signed on {time}"
    ))?;
    if last > signed {
        session.screen.line(&format!(
            "not signed: revisions {} to {last} continue this log, but are later than the checkpoint",
            signed.next()
        ))?;
    }
    Ok(())
}

/// Verifies a line against the chain hash before it, and returns the one after it.
fn verify(line: &str, revision: Revision, previous: &ChainHash) -> Result<ChainHash, String> {
    let not_a_commit = |reason: String| format!("not a commit of `audit export`: {reason}");
    // People and other tools may read the first of two members with one name.
    let parsed = parse_json(line.as_bytes()).map_err(|e| not_a_commit(e.reason))?;
    let Value::Object(mut shown) = parsed else {
        return Err(not_a_commit("not an object".to_owned()));
    };
    let Some(Value::String(canonical)) = shown.remove("canonical") else {
        return Err("`canonical` is missing; export the log again, with this version of \
                    registryctl and of the server"
            .to_owned());
    };
    let commit = SealedCommit::parse(canonical.as_bytes()).map_err(|e| e.to_string())?;
    if commit.revision != revision {
        return Err(format!("revision {} instead of revision {revision}", commit.revision));
    }
    let chain = previous.append(canonical.as_bytes());
    let view = CommitView::from(convert::commit(&commit, &chain, None));
    let expected = match serde_json::to_value(view) {
        Ok(Value::Object(expected)) => expected,
        Ok(_) => Map::new(),
        Err(e) => return Err(e.to_string()),
    };
    let mut names = expected.keys().chain(shown.keys());
    match names.find(|name| expected.get(*name) != shown.get(*name)) {
        None => Ok(chain),
        Some(name) if name == "chain" => Err(format!(
            "the chain hash is {}, but the canonical commits up to here result in {chain}",
            shown.get(name).unwrap_or(&Value::Null)
        )),
        Some(name) => Err(format!("`{name}` differs from the canonical commit")),
    }
}
