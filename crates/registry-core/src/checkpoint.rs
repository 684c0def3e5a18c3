//! Checkpoints: the registry's signed word about where its log is.
//!
//! A checkpoint is a note as of C2SP (signed-note, tlog-checkpoint): the origin
//! `registry/<id>`, the revision as the size of the Merkle tree, its root, the chain hash and the
//! time, signed with Ed25519. A kept checkpoint reveals a changed history.

use std::str::FromStr;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use sha2::{Digest as _, Sha256};

use crate::{
    chain::{ChainHash, RegistryId, Revision},
    document::Digest,
    limits,
    merkle::Node,
    timestamp::Timestamp,
};

/// The algorithm byte of Ed25519 in a note's keys.
const ED25519_NOTE: u8 = 1;
/// The dash that begins a signature line.
const DASH: &str = "\u{2014} ";

/// Where the log was at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which registry.
    pub registry: RegistryId,
    /// The last revision.
    pub revision: Revision,
    /// The root of the Merkle tree over the log up to it.
    pub root: Node,
    /// The chain hash after it.
    pub chain: ChainHash,
    /// When it was signed.
    pub time: Timestamp,
}

/// Why a text is not a checkpoint, or not one that this key signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCheckpoint {
    /// A line is missing or cannot be read.
    #[error("the checkpoint has no {0} where it belongs")]
    Form(&'static str),
    /// Nobody with this key signed it.
    #[error("the checkpoint has no signature by the key {0}")]
    NotSigned(String),
    /// The signature is not over this text.
    #[error("the signature does not fit: the checkpoint was changed, or another key signed it")]
    Signature,
    /// Two registries share a key, and it is of the other one.
    #[error("the checkpoint is of registry/{registry}, the key of {key}")]
    OtherRegistry {
        /// Of which registry the checkpoint is.
        registry: RegistryId,
        /// The name of the key.
        key: String,
    },
}

/// Why a text is not a verifier key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a verifier key of the form NAME+HASH+KEY, as `registryctl audit key` prints it"
)]
pub struct InvalidVerifierKey(String);

/// The public key that checkpoints are checked with: `NAME+HASH+KEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    key: Vec<u8>,
}

impl VerifierKey {
    /// The registry that it is known as the key of.
    pub fn registry(&self) -> RegistryId {
        RegistryId::new(self.name.strip_prefix("registry/").unwrap_or(&self.name))
    }

    /// Whether it is known as the key of this registry.
    pub fn is_of(&self, registry: &RegistryId) -> bool {
        self.name == Checkpoint::origin(registry)
    }

    /// Whether a signature over a text is by it.
    pub(crate) fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.key).verify(text, signature).is_ok()
    }

    fn hash(&self) -> [u8; 4] {
        let hash = Sha256::new()
            .chain_update(&self.name)
            .chain_update([b'\n', ED25519_NOTE])
            .chain_update(&self.key)
            .finalize();
        [hash[0], hash[1], hash[2], hash[3]]
    }
}

impl std::fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let typed = [&[ED25519_NOTE], &self.key[..]].concat();
        write!(f, "{}+{:08x}+{}", self.name, u32::from_be_bytes(self.hash()), BASE64.encode(typed))
    }
}

impl FromStr for VerifierKey {
    type Err = InvalidVerifierKey;

    fn from_str(text: &str) -> Result<Self, InvalidVerifierKey> {
        let invalid = || InvalidVerifierKey(text.chars().take(160).collect());
        let mut parts = text.trim().splitn(3, '+');
        let (Some(name), Some(hash), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(invalid());
        };
        let typed = BASE64.decode(key).map_err(|_| invalid())?;
        let key = match typed.split_first() {
            Some((&ED25519_NOTE, key)) if key.len() == 32 => key.to_vec(),
            _ => return Err(invalid()),
        };
        let read = Self { name: name.to_owned(), key };
        if format!("{:08x}", u32::from_be_bytes(read.hash())) == hash {
            Ok(read)
        } else {
            Err(invalid())
        }
    }
}

impl Checkpoint {
    fn origin(registry: &RegistryId) -> String {
        format!("registry/{registry}")
    }

    /// The text that is signed.
    fn text(&self) -> String {
        let Self { registry, revision, root, chain, time } = self;
        let (origin, root) = (Self::origin(registry), BASE64.encode(root));
        format!("{origin}\n{revision}\n{root}\nchain {chain}\ntime {time}\n")
    }

    /// The key under which the checkpoints of a registry are known.
    pub fn verifier_key(registry: &RegistryId, pair: &Ed25519KeyPair) -> VerifierKey {
        VerifierKey { name: Self::origin(registry), key: pair.public_key().as_ref().to_vec() }
    }

    /// The checkpoint as a signed note.
    pub fn sign(&self, pair: &Ed25519KeyPair) -> String {
        let text = self.text();
        let key = Self::verifier_key(&self.registry, pair);
        let signature = [&key.hash()[..], pair.sign(text.as_bytes()).as_ref()].concat();
        format!("{text}\n{DASH}{} {}\n", key.name, BASE64.encode(signature))
    }

    /// Reads a note that this key signed.
    pub fn verify(note: &str, key: &VerifierKey) -> Result<Self, InvalidCheckpoint> {
        let form = InvalidCheckpoint::Form;
        if note.len() > limits::CHECKPOINT_BYTES {
            return Err(form("end"));
        }
        let (text, signatures) = note.split_once("\n\n").ok_or(form("signature"))?;
        let text = format!("{text}\n");
        let lead = format!("{DASH}{} ", key.name);
        let ours = signatures.lines().filter_map(|line| line.strip_prefix(&lead));
        let ours = ours.filter_map(|signature| BASE64.decode(signature).ok());
        let signature = ours.into_iter().find(|signature| signature.starts_with(&key.hash()));
        let signature = signature.ok_or_else(|| InvalidCheckpoint::NotSigned(key.to_string()))?;
        if !key.has_signed(text.as_bytes(), &signature[key.hash().len()..]) {
            return Err(InvalidCheckpoint::Signature);
        }
        let checkpoint = Self::read(&text)?;
        if !key.is_of(&checkpoint.registry) {
            let (registry, key) = (checkpoint.registry, key.name.clone());
            return Err(InvalidCheckpoint::OtherRegistry { registry, key });
        }
        Ok(checkpoint)
    }

    /// Reads the text of a note, without proving anything.
    fn read(text: &str) -> Result<Self, InvalidCheckpoint> {
        let form = InvalidCheckpoint::Form;
        let mut lines = text.lines();
        let mut line = |what| lines.next().ok_or(form(what));
        let registry = line("origin")?.strip_prefix("registry/").ok_or(form("origin"))?;
        let revision = line("revision")?.parse().map_err(|_| form("revision"))?;
        let root = BASE64.decode(line("root")?).map_err(|_| form("root"))?;
        let chain = line("chain hash")?.strip_prefix("chain ").ok_or(form("chain hash"))?;
        let chain = Digest::parse(chain).map_err(|_| form("chain hash"))?;
        let time = line("time")?.strip_prefix("time ").ok_or(form("time"))?;
        Ok(Self {
            registry: RegistryId::new(registry),
            revision: Revision(revision),
            root: root.try_into().map_err(|_| form("root"))?,
            chain: ChainHash::from_bytes(*chain.as_bytes()),
            time: Timestamp::parse(time).map_err(|_| form("time"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    fn checkpoint() -> Checkpoint {
        let registry = RegistryId::new("0198c0de");
        let chain = ChainHash::genesis(&registry);
        Checkpoint {
            registry,
            revision: Revision(42),
            root: [7; 32],
            chain,
            time: Timestamp::from_millis(1_795_300_000_123),
        }
    }

    fn key(seed: u8) -> VerifierKey {
        Checkpoint::verifier_key(&checkpoint().registry, &pair(seed))
    }

    #[test]
    fn what_was_signed_reads_back_and_nothing_else_does() {
        let note = checkpoint().sign(&pair(1));
        assert!(note.starts_with("registry/0198c0de\n42\nBwcHBwcH"), "{note}");
        assert_eq!(Checkpoint::verify(&note, &key(1)), Ok(checkpoint()));
        let other = Checkpoint::verify(&note, &key(2)).unwrap_err();
        assert!(matches!(other, InvalidCheckpoint::NotSigned(_)));
        let forged = note.replace("\n42\n", "\n43\n");
        assert_eq!(Checkpoint::verify(&forged, &key(1)), Err(InvalidCheckpoint::Signature));
        for cut in 0..note.len() - 1 {
            let Some(cut) = note.get(..cut) else { continue };
            assert!(Checkpoint::verify(cut, &key(1)).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_key_that_two_registries_share_speaks_for_one() {
        let registry = RegistryId::new("another");
        let note = Checkpoint { registry: registry.clone(), ..checkpoint() }.sign(&pair(1));
        let theirs = Checkpoint::verifier_key(&registry, &pair(1));
        let line = |key: &VerifierKey| {
            let text = note.split_once("\n\n").unwrap().0.to_owned() + "\n";
            let signature = [&key.hash()[..], pair(1).sign(text.as_bytes()).as_ref()].concat();
            format!("{text}\n{DASH}{} {}\n", key.name, BASE64.encode(signature))
        };
        assert_eq!(line(&theirs), note);
        let found = Checkpoint::verify(&line(&key(1)), &key(1)).unwrap_err();
        assert_eq!(
            found.to_string(),
            "the checkpoint is of registry/another, the key of registry/0198c0de"
        );
    }

    #[test]
    fn a_verifier_key_reads_back_and_notices_a_typing_mistake() {
        let text = key(1).to_string();
        assert_eq!(text.parse::<VerifierKey>().unwrap(), key(1));
        for bad in ["", "a+b", &text.replace("registry", "registri"), &text[..text.len() - 4]] {
            assert!(bad.parse::<VerifierKey>().is_err(), "{bad}");
        }
    }
}
