//! The journal of a large export: later commits, so that the cache of a gateway need not be rewritten
//! for each. It is the file `PATH.log` next to the export.
//!
//! A frame is the length of its body (4 bytes, little-endian), the SHA-256 of the body, and the
//! body: the chain hash, then the commit and each document with a 4-byte length, then, if the
//! registry signed the state, the time (8 bytes, little-endian) and the signature. Reading verifies
//! each commit by the chain, and stops at the first damaged or non-consecutive frame.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    attestation::Attestation,
    catalog::{ApplyError, Catalog},
    chain::{ChainHash, Revision},
    commit::{Action, Change, InvalidCommit, SealedCommit, UnverifiedCommit},
    document::{Digest, Document, InvalidDocument},
    timestamp::Timestamp,
};

/// The suffix of the path of a journal.
pub const SUFFIX: &str = ".log";

const LENGTH: usize = 4;
const HASH: usize = 32;
const HEADER: usize = LENGTH + HASH;
const ATTESTATION: usize = 8 + 64;

/// Why the rest of a journal is rejected.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file ends within a frame.
    #[error("the last frame is incomplete")]
    Torn,
    /// The checksum of a frame does not match.
    #[error("the checksum of a frame does not match")]
    Checksum,
    /// A frame is not a commit with its documents.
    #[error("a frame contains no commit")]
    Form,
    /// The commit does not continue the chain.
    #[error(transparent)]
    Commit(#[from] InvalidCommit),
    /// A document differs from the commit's digest.
    #[error(transparent)]
    Document(#[from] InvalidDocument),
    /// The commit does not follow the catalog.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// Appends the frame of a commit, with the signature of the state after it, if any.
pub fn append(
    out: &mut Vec<u8>,
    commit: &SealedCommit,
    attestation: Option<&Attestation>,
) -> Result<(), JournalError> {
    let mut body = Vec::from(commit.chain().as_bytes().as_slice());
    push_part(&mut body, commit.bytes())?;
    for document in commit.documents() {
        push_part(&mut body, document.bytes())?;
    }
    if let Some(Attestation { time, signature }) = attestation {
        body.extend_from_slice(&time.as_millis().to_le_bytes());
        body.extend_from_slice(signature);
    }
    let length = u32::try_from(body.len()).map_err(|_| JournalError::Form)?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(Digest::compute(&body).as_bytes());
    out.extend_from_slice(&body);
    Ok(())
}

fn push_part(body: &mut Vec<u8>, part: &[u8]) -> Result<(), JournalError> {
    let length = u32::try_from(part.len()).map_err(|_| JournalError::Form)?;
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(part);
    Ok(())
}

/// Applies the frames that follow the catalog, and skips older ones.
pub fn replay(catalog: &mut Catalog, journal: Bytes) -> Result<(), JournalError> {
    let mut rest = journal;
    while !rest.is_empty() {
        let body = take_frame(&mut rest)?;
        apply(catalog, body)?;
    }
    Ok(())
}

fn take_frame(rest: &mut Bytes) -> Result<Bytes, JournalError> {
    if rest.len() < HEADER {
        return Err(JournalError::Torn);
    }
    let mut header = rest.split_to(HEADER);
    let length = take_length(&mut header).ok_or(JournalError::Torn)?;
    if rest.len() < length {
        return Err(JournalError::Torn);
    }
    let body = rest.split_to(length);
    if Digest::compute(&body).as_bytes().as_slice() != header {
        return Err(JournalError::Checksum);
    }
    Ok(body)
}

fn take_length(bytes: &mut Bytes) -> Option<usize> {
    let length = bytes.get(..LENGTH)?.try_into().ok()?;
    let _ = bytes.split_to(LENGTH);
    usize::try_from(u32::from_le_bytes(length)).ok()
}

fn take_part(body: &mut Bytes) -> Option<Bytes> {
    let length = take_length(body)?;
    (length <= body.len()).then(|| body.split_to(length))
}

fn apply(catalog: &mut Catalog, mut body: Bytes) -> Result<(), JournalError> {
    if body.len() < HASH {
        return Err(JournalError::Form);
    }
    let chain: [u8; HASH] = (*body.split_to(HASH)).try_into().map_err(|_| JournalError::Form)?;
    let bytes = take_part(&mut body).ok_or(JournalError::Form)?;
    let parsed = UnverifiedCommit::parse(bytes)?;
    if parsed.commit().revision <= catalog.revision() {
        return Ok(());
    }
    let documents = documents(&parsed.commit().changes, &mut body)?;
    let chain = ChainHash::from_bytes(chain);
    let attestation = take_attestation(&mut body)?;
    if !body.is_empty() {
        return Err(JournalError::Form);
    }
    let sealed = parsed.verify(&catalog.chain(), chain, documents)?;
    catalog.apply(&sealed)?;
    *catalog = catalog.clone().with_attestation(attestation);
    Ok(())
}

fn take_attestation(body: &mut Bytes) -> Result<Option<Attestation>, JournalError> {
    if body.len() != ATTESTATION {
        return Ok(None);
    }
    let form = |_| JournalError::Form;
    let time = i64::from_le_bytes((*body.split_to(8)).try_into().map_err(form)?);
    let signature = (*body.split_off(0)).try_into().map_err(form)?;
    Ok(Some(Attestation { time: Timestamp::from_millis(time), signature }))
}

fn documents(changes: &[Change], body: &mut Bytes) -> Result<Vec<Arc<Document>>, JournalError> {
    let mut documents = Vec::new();
    for Change { key, action } in changes {
        if let Action::Register { digest, .. } = action {
            let bytes = take_part(body).ok_or(JournalError::Form)?;
            documents.push(Arc::new(Document::verify(key.kind, bytes, *digest)?));
        }
    }
    Ok(documents)
}

/// Whether the commits are consecutive from one revision to another.
pub fn are_consecutive(commits: &[SealedCommit], from: Revision, to: Revision) -> bool {
    let mut at = from;
    commits.iter().all(|commit| {
        let follows = commit.revision() == at.next();
        at = commit.revision();
        follows
    }) && at == to
}
