//! Checkpoints: the registry's signed statement of its log position.
//!
//! A checkpoint is a C2SP note (signed-note, tlog-checkpoint) with the origin `registry/<id>`,
//! the revision as the tree size, the Merkle root, the chain hash and the time, signed with
//! Ed25519. A stored checkpoint reveals a rewritten history.

use std::str::FromStr;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use sha2::{Digest as _, Sha256};

use crate::{
    chain::{ChainHash, RegistryId, Revision},
    document::Digest,
    ed25519::{self, Ed25519KeyPair},
    limits,
    merkle::Node,
    timestamp::Timestamp,
};

/// The signature algorithm byte of Ed25519 in a note's keys.
const ED25519_NOTE: u8 = 1;
/// The em dash that starts a signature line.
const DASH: &str = "\u{2014} ";

/// The position and Merkle root of a log at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The registry's id.
    pub registry: RegistryId,
    /// The revision of the last commit, which is the size of the Merkle tree.
    pub revision: Revision,
    /// The root of the Merkle tree over the commits up to that revision.
    pub root: Node,
    /// The chain hash after that revision.
    pub chain: ChainHash,
    /// The time of signing.
    pub time: Timestamp,
}

/// A text is not a valid checkpoint signed by the expected key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCheckpoint {
    /// A line is missing or malformed.
    #[error("the checkpoint has no {0} in the expected line")]
    Form(&'static str),
    /// No signature line names the expected key.
    #[error("the checkpoint has no signature by the key {key}; it is signed by {signer}")]
    NotSigned {
        /// The expected key.
        key: String,
        /// The name and hash of the first key that signed, unverified: `NAME+HASH`.
        signer: String,
    },
    /// The signature does not match the text.
    #[error("invalid checkpoint signature: the text was changed or another key signed it")]
    Signature,
    /// The checkpoint belongs to another registry that uses the same key.
    #[error("the checkpoint belongs to registry/{registry}, but the key to {key}")]
    OtherRegistry {
        /// The registry of the checkpoint.
        registry: RegistryId,
        /// The name of the key.
        key: String,
    },
}

/// The text is not a verifier key. The message omits the text, which can be a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVerifierKey {
    /// The text is a private key.
    #[error(
        "the content is a private key; give the verifier key NAME+HASH+KEY, as `registryctl audit key` prints it"
    )]
    PrivateKey,
    /// The hash is of another name or key.
    #[error(
        "HASH of the verifier key NAME+HASH+KEY does not match NAME and KEY: a character is wrong; copy the key again, \
         as `registryctl audit key` prints it"
    )]
    Mismatch,
    /// The text has another form.
    #[error(
        "the content is not a verifier key of the form NAME+HASH+KEY, as `registryctl audit key` prints it"
    )]
    Form,
}

/// A public key that verifies checkpoints: `NAME+HASH+KEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    key: Vec<u8>,
}

impl VerifierKey {
    /// The registry named by the key.
    pub fn registry(&self) -> RegistryId {
        RegistryId::new(self.name.strip_prefix("registry/").unwrap_or(&self.name))
    }

    /// Whether the key's name is that of this registry.
    pub fn is_of(&self, registry: &RegistryId) -> bool {
        self.name == Checkpoint::origin(registry)
    }

    /// Whether the signature over this text is by this key.
    pub(crate) fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        ed25519::is_valid(&self.key, text, signature)
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
        let invalid = || {
            if text.contains("PRIVATE KEY") {
                InvalidVerifierKey::PrivateKey
            } else {
                InvalidVerifierKey::Form
            }
        };
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
            Err(InvalidVerifierKey::Mismatch)
        }
    }
}

impl Checkpoint {
    fn origin(registry: &RegistryId) -> String {
        format!("registry/{registry}")
    }

    /// The signed text of the note.
    fn text(&self) -> String {
        let Self { registry, revision, root, chain, time } = self;
        let (origin, root) = (Self::origin(registry), BASE64.encode(root));
        format!("{origin}\n{revision}\n{root}\nchain {chain}\ntime {time}\n")
    }

    /// The verifier key for the checkpoints of a registry.
    pub fn verifier_key(registry: &RegistryId, pair: &Ed25519KeyPair) -> VerifierKey {
        VerifierKey { name: Self::origin(registry), key: ed25519::public_key(pair).to_vec() }
    }

    /// The checkpoint as a signed note.
    pub fn sign(&self, pair: &Ed25519KeyPair) -> String {
        let text = self.text();
        let key = Self::verifier_key(&self.registry, pair);
        let signature = [&key.hash()[..], &ed25519::sign(pair, text.as_bytes())].concat();
        format!("{text}\n{DASH}{} {}\n", key.name, BASE64.encode(signature))
    }

    /// Verifies a note with this key and parses it.
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
        let Some(signature) = signature else {
            let signer = signer(signatures).ok_or(form("signature"))?;
            return Err(InvalidCheckpoint::NotSigned { key: key.to_string(), signer });
        };
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

    /// Parses the text of a note without verifying a signature.
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

/// The first key of a note's signature lines, as `NAME+HASH`.
fn signer(signatures: &str) -> Option<String> {
    let line = signatures.lines().find_map(|line| line.strip_prefix(DASH))?;
    let (name, signature) = line.split_once(' ')?;
    let signature = BASE64.decode(signature).ok()?;
    let hash = u32::from_be_bytes(*signature.first_chunk()?);
    Some(format!("{name}+{hash:08x}"))
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
    fn checkpoint_verifies_only_unmodified_note() {
        let note = checkpoint().sign(&pair(1));
        assert!(note.starts_with("registry/0198c0de\n42\nBwcHBwcH"), "{note}");
        assert_eq!(Checkpoint::verify(&note, &key(1)), Ok(checkpoint()));
        let other = Checkpoint::verify(&note, &key(2)).unwrap_err();
        let InvalidCheckpoint::NotSigned { signer, .. } = &other else { panic!("{other}") };
        assert!(key(1).to_string().starts_with(&format!("{signer}+")), "{signer}");
        let forged = note.replace("\n42\n", "\n43\n");
        assert_eq!(Checkpoint::verify(&forged, &key(1)), Err(InvalidCheckpoint::Signature));
        for cut in 0..note.len() - 1 {
            let Some(cut) = note.get(..cut) else { continue };
            assert!(Checkpoint::verify(cut, &key(1)).is_err(), "{cut}");
        }
    }

    #[test]
    fn shared_key_verifies_only_own_registry() {
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
        insta::assert_snapshot!(
            found,
            @"the checkpoint belongs to registry/another, but the key to registry/0198c0de"
        );
    }

    #[test]
    fn verifier_key_round_trips_and_detects_typos() {
        let text = key(1).to_string();
        assert_eq!(text.parse::<VerifierKey>().unwrap(), key(1));
        let renamed = text.replace("registry", "registri");
        for (bad, expected) in [
            ("", InvalidVerifierKey::Form),
            ("a+b", InvalidVerifierKey::Form),
            (&text[..text.len() - 4], InvalidVerifierKey::Form),
            (renamed.as_str(), InvalidVerifierKey::Mismatch),
        ] {
            assert_eq!(bad.parse::<VerifierKey>(), Err(expected), "{bad}");
        }
    }

    #[test]
    fn rejected_verifier_key_is_not_shown() {
        let pem = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----";
        for (text, expected) in
            [(pem, InvalidVerifierKey::PrivateKey), ("registry/c2VjcmV0", InvalidVerifierKey::Form)]
        {
            let error = text.parse::<VerifierKey>().unwrap_err();
            assert_eq!(error, expected);
            assert!(!error.to_string().contains("c2VjcmV0"), "{error}");
        }
    }
}
