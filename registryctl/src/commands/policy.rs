//! `policy`: commands that decide calls by policies, and commands that register a generated policy.

mod arguments;
mod cases;
pub(super) mod decide;
pub(super) mod explain;
mod rollback;
mod simulate;
mod stop;

use std::sync::Arc;

use registry_core::{
    Document, Key, Kind, Name, PointInTime, Revision, Version, rules::Proposed,
    version::ReleaseChange,
};
use registry_proto::v1;
use serde_json::Value;

use super::{Session, get, list};
use crate::{cli::PolicyCommand, client::Client, failure::Failure, view::RecordView};

pub(super) async fn run(session: &Session, command: PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::Explain(args) => explain::run(session, args).await,
        PolicyCommand::Test(args) => cases::run(session, args).await,
        PolicyCommand::Simulate(args) => simulate::run(session, args).await,
        PolicyCommand::Rollback(args) => rollback::run(session, args).await,
        PolicyCommand::Stop(args) => stop::run(session, args).await,
    }
}

/// The highest release of a policy at a revision, and whether it is retired. It is in force otherwise.
pub(super) async fn highest_release(
    client: &Client,
    name: &Name,
    revision: u64,
) -> Result<Option<(Version, bool)>, Failure> {
    let versions = Versions::fetch(client, name.clone(), revision).await?;
    Ok(versions.release().map(|(version, is_retired)| (version.clone(), is_retired)))
}

/// The versions of a policy at a revision.
struct Versions<'a> {
    client: &'a Client,
    name: Name,
    revision: u64,
    /// Newest first.
    records: Vec<(Version, RecordView)>,
}

impl<'a> Versions<'a> {
    async fn fetch(client: &'a Client, name: Name, revision: u64) -> Result<Self, Failure> {
        let at = Some(PointInTime::Revision(Revision(revision)));
        let records = list::versions(client, Kind::Policy, &name, at).await?.into_iter();
        let parsed = |record: RecordView| match Version::parse(&record.key.version) {
            Ok(version) => Ok((version, record)),
            Err(e) => Err(Failure::invalid_response(e)),
        };
        let records = records.map(parsed).collect::<Result<_, _>>()?;
        Ok(Self { client, name, revision, records })
    }

    /// The owner of the name. `None`: it has no version.
    fn owner(&self) -> Option<&str> {
        self.records.first().map(|(_, record)| record.owner.as_str())
    }

    /// The highest release, and whether it is retired.
    fn release(&self) -> Option<(&Version, bool)> {
        let release = self.records.iter().find(|(version, _)| !version.is_prerelease());
        release.map(|(version, record)| (version, record.lifecycle.state == "retired"))
    }

    /// The version of the next registration.
    fn next(&self) -> Result<Version, Failure> {
        let next = match self.release() {
            Some((version, _)) => version.next(ReleaseChange::Editorial),
            None => Version::parse("1.0.0").ok(),
        };
        next.ok_or_else(|| {
            let message = format!("policy/{} has no next version", self.name);
            Failure::Rejected(message)
        })
    }

    async fn content(&self, version: &Version) -> Result<Value, Failure> {
        let key = Key::new(Kind::Policy, self.name.clone(), version.clone());
        let at = Some(PointInTime::Revision(Revision(self.revision)));
        get::content(&get::fetch(self.client, &key, at).await?)
    }
}

/// The registration of a document.
fn registration(document: &Value) -> Result<v1::EntityChange, Failure> {
    let document = Document::parse(Kind::Policy, document)
        .map_err(|found| Failure::Invalid(found.iter().map(v1::Diagnostic::from).collect()))?;
    Ok((&Proposed::Register(Arc::new(document))).into())
}
