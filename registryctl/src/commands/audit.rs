//! `audit`: verification, checkpoints, proofs and exports of the log, and the access log.

mod access;
mod exported;

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    iter,
    path::Path,
};

use indicatif::HumanCount;
use registry_core::{
    Checkpoint, Digest,
    checkpoint::{InvalidCheckpoint, VerifierKey},
    proof::{InvalidProof, Proof, VerifiedProof},
};
use registry_proto::v1;
use serde_json::json;

use super::{Session, export::save};
use crate::{
    cli::{AuditCommand, CheckArgs, ExportLogArgs, Format, ProveArgs},
    client::{PAGE_SIZE, request},
    failure::Failure,
    progress::Progress,
    style::{Paint, printable},
    view::CommitView,
};

pub(super) async fn run(session: &Session, command: AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::Verify => verify(session).await,
        AuditCommand::Checkpoint => {
            let checkpoint = checkpoint(session).await?.checkpoint;
            match session.screen.format {
                Format::Json => session.screen.json(&json!({ "checkpoint": checkpoint })),
                Format::Table => session.screen.bytes(checkpoint.as_bytes()),
            }
        }
        AuditCommand::Key => {
            let key = checkpoint(session).await?.verifier_key;
            match session.screen.format {
                Format::Json => session.screen.json(&json!({ "key": key })),
                Format::Table => session.screen.line(&key),
            }
        }
        AuditCommand::Prove(args) => prove(session, &args).await,
        AuditCommand::Check(args) => check(session, &args),
        AuditCommand::Export(args) => export(session, &args).await,
        AuditCommand::Access(args) => access::run(session, &args).await,
    }
}

async fn checkpoint(session: &Session) -> Result<v1::GetCheckpointResponse, Failure> {
    let client = session.connect().await?;
    client.answer(client.audit().get_checkpoint(request(v1::GetCheckpointRequest::default()))).await
}

async fn verify(session: &Session) -> Result<(), Failure> {
    let client = session.connect().await?;
    // The duration depends on the size of the log, so the call has no deadline.
    let call = client.audit();
    let mut stream = client.answer({ call }.verify_log(v1::VerifyLogRequest {})).await?;
    let (mut progress, mut reached) = (None, 0);
    loop {
        let message = stream.message().await.map_err(|status| client.failure(&status))?;
        let message = message
            .ok_or_else(|| Failure::invalid_response("the stream ended before the result"))?;
        let v1::VerifyLogResponse { revision, head_revision, findings, done, more_findings_count } =
            message;
        let bar = progress.get_or_insert_with(|| Progress::bar("verifying", head_revision));
        bar.advance(revision.saturating_sub(reached));
        reached = revision;
        if done {
            drop(progress);
            return verified(session, revision, (&findings, more_findings_count));
        }
    }
}

fn verified(
    session: &Session,
    revision: u64,
    (findings, more): (&[v1::LogFinding], u64),
) -> Result<(), Failure> {
    let screen = session.screen;
    if screen.format == Format::Json {
        let view = |v1::LogFinding { location: place, problem }: &v1::LogFinding| json!({ "place": place, "problem": problem });
        let findings: Vec<_> = findings.iter().map(view).collect();
        screen.json(&json!({ "revision": revision, "findings": findings, "more": more }))?;
    } else {
        for v1::LogFinding { location: place, problem } in findings {
            let place = screen.style.paint(Paint::Bad, printable(place));
            screen.line(&format!("{place}: {}", printable(problem)))?;
        }
        if more > 0 {
            screen.line(&format!("and {} more", HumanCount(more)))?;
        }
    }
    if findings.is_empty() {
        if screen.format == Format::Table {
            let commits = if revision == 1 { "commit, its" } else { "commits, their" };
            let count = HumanCount(revision);
            screen.line(&format!("verified: {count} {commits} chain, documents and the state"))?;
        }
        return Ok(());
    }
    let count = more + findings.len() as u64;
    let noun = if count == 1 { "finding" } else { "findings" };
    let count = HumanCount(count);
    Err(Failure::Rejected(format!("verification of the log failed: {count} {noun}")))
}

async fn prove(session: &Session, args: &ProveArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let wanted = v1::GetInclusionProofRequest {
        revision: args.revision,
        since_revision: args.since.unwrap_or_default(),
        min_revision: 0,
    };
    let answer = client.answer(client.audit().get_inclusion_proof(request(wanted))).await?;
    let proof = read_proof(answer)?;
    // Strings always serialize.
    let mut text = serde_json::to_string_pretty(&proof).unwrap_or_default();
    text.push('\n');
    save(session, args.out.as_deref(), text.as_bytes())
}

fn read_proof(answer: v1::GetInclusionProofResponse) -> Result<Proof, Failure> {
    let v1::GetInclusionProofResponse {
        checkpoint,
        previous_chain,
        commit,
        inclusion,
        consistency,
    } = answer;
    let digest = |bytes: &bytes::Bytes| {
        let node = <[u8; 32]>::try_from(&**bytes);
        node.map(Digest::from_bytes)
            .map_err(|_| Failure::invalid_response("a hash does not have 32 bytes"))
    };
    Ok(Proof {
        checkpoint,
        previous_chain: registry_proto::convert::chain_hash(&previous_chain)
            .map_err(Failure::invalid_response)?,
        commit: String::from_utf8(commit.to_vec()).map_err(Failure::invalid_response)?,
        inclusion: inclusion.iter().map(digest).collect::<Result<_, _>>()?,
        consistency: consistency.iter().map(digest).collect::<Result<_, _>>()?,
    })
}

/// Verifies a proof or an export offline, with the key and an earlier checkpoint.
fn check(session: &Session, args: &CheckArgs) -> Result<(), Failure> {
    let unreadable = |e: io::Error| Failure::unreadable(&args.file, e);
    let mut file = BufReader::new(File::open(&args.file).map_err(unreadable)?);
    let mut text = String::new();
    file.read_line(&mut text).map_err(unreadable)?;
    if exported::is_export(&text) {
        return exported::check(session, args, iter::once(Ok(text)).chain(file.lines()));
    }
    file.read_to_string(&mut text).map_err(unreadable)?;
    let proof: Proof = serde_json::from_str(&text).map_err(|e| {
        let path = args.file.display();
        Failure::Usage(format!("{path} is neither a proof nor an export of the log: {e}"))
    })?;
    let since = args.since.as_deref().map(read).transpose()?;
    let proven = proof.check(&key(&args.key)?, since.as_deref());
    let VerifiedProof { commit, checkpoint, since } =
        proven.map_err(|e| invalid_proof(&e, args.since.as_deref()))?;
    let Checkpoint { registry, revision, time, .. } = checkpoint;
    if session.screen.format == Format::Json {
        let since = since.map(|since| since.revision);
        return session.screen.json(&json!({
            "registry": registry, "checkpoint": revision, "signedAt": time, "since": since,
            "commit": commit,
        }));
    }
    let author = printable(&commit.author);
    session.screen.line(&format!(
        "proven: revision {} by {author} at {} is in registry {registry} as signed at revision \
         {revision} on {time}",
        commit.revision, commit.committed_at,
    ))?;
    match since {
        Some(since) => session.screen.line(&format!(
            "proven: that log continues the checkpoint of revision {} signed on {}",
            since.revision, since.time
        )),
        None => Ok(()),
    }
}

/// The failure of a check, with the file of `--since`.
fn invalid_proof(invalid: &InvalidProof, since: Option<&Path>) -> Failure {
    let failure = Failure::Rejected(format!("invalid proof: {invalid}"));
    match (invalid, since) {
        (InvalidProof::EarlierCheckpoint(invalid), Some(path)) => invalid_checkpoint(invalid, path),
        (InvalidProof::NotContinued { since, .. }, _) => failure.with_help(format!(
            "repeat `registryctl audit prove` with --since {since}, the revision of the checkpoint; \
             if this check fails again, the log was rewritten"
        )),
        _ => failure,
    }
}

/// The failure of a check because of the file of `--since`.
fn invalid_checkpoint(invalid: &InvalidCheckpoint, since: &Path) -> Failure {
    let reason = format!("invalid checkpoint {}: {invalid}", since.display());
    let help = match invalid {
        InvalidCheckpoint::Form(_) => {
            "--since requires a complete file of `registryctl audit checkpoint`"
        }
        _ => {
            "--since and --key require files of the same registry and key; a replacement key does \
             not verify older checkpoints"
        }
    };
    Failure::Rejected(reason).with_help(help.to_owned())
}

/// Parses a key or reads it from a file. Keys contain `+`.
fn key(text: &str) -> Result<VerifierKey, Failure> {
    let path = Path::new(text);
    let text = if path.is_file() || !text.contains('+') { read(path)? } else { text.to_owned() };
    text.parse().map_err(Failure::usage)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|e| Failure::unreadable(path, e))
}

async fn export(session: &Session, args: &ExportLogArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    if args.after > 0 {
        let head = client.head().await?.0;
        if head < args.after {
            return Err(Failure::revision_ahead(args.after, head));
        }
    }
    let mut wanted = v1::ListCommitsRequest {
        // A commit is twice as large with its canonical form.
        page_size: PAGE_SIZE / 2,
        include_canonical: true,
        after_revision: args.after,
        at: args.as_of.message(),
        ..Default::default()
    };
    let (progress, mut out) = (Progress::spinner("exporting"), Vec::new());
    loop {
        let page = client.answer(client.history().list_commits(request(wanted.clone()))).await?;
        for commit in page.commits {
            // Strings and numbers always serialize.
            out.extend(serde_json::to_vec(&CommitView::from(commit)).unwrap_or_default());
            out.push(b'\n');
        }
        // Standard output needs no complete log.
        if args.out.is_none() {
            session.screen.bytes(&std::mem::take(&mut out))?;
        }
        if page.next_page_token.is_empty() {
            drop(progress);
            return match &args.out {
                Some(path) => save(session, Some(path), &out),
                None => Ok(()),
            };
        }
        wanted.page_token = page.next_page_token;
    }
}
