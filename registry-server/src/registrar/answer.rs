//! Results of writes, including retries with a known request id.

use super::{
    Applied, Error, audit_events,
    group::{Member, Verdict},
    repeat,
    waiting::Waiting,
    writer::Writer,
};
use crate::metrics;

impl Writer {
    /// Returns results to members of a group that is stored, or whose base revision is confirmed.
    pub(super) async fn answer_each(&mut self, members: Vec<Member>) {
        for Member { waiting, verdict, .. } in members {
            let (revision, committed, plan) = match verdict {
                Verdict::Commits(revision, plan) => (revision, true, plan),
                Verdict::Unchanged(revision, plan) => match self.find_repeat(&waiting).await {
                    Ok(None) => (revision, false, plan),
                    other => {
                        settle_repeat(waiting, other);
                        continue;
                    }
                },
                Verdict::Refused(error) => {
                    match self.find_repeat(&waiting).await {
                        Ok(None) => {
                            if let Error::Refused(found) = &error {
                                audit_events::denied(&waiting.submission, found, false);
                            }
                            waiting.fail(error);
                        }
                        other => settle_repeat(waiting, other),
                    }
                    continue;
                }
            };
            waiting.succeed(|batch| Applied { revision, committed, batch, plan });
        }
    }

    /// Returns results to members whose request ids are in the log. The remaining ids have expired, so these
    /// members are decided again.
    pub(super) async fn answer_repeats(&mut self, members: Vec<Member>) -> Vec<Member> {
        let mut expired = Vec::new();
        for member in members {
            match self.find_repeat(&member.waiting).await {
                Ok(None) => expired.push(member),
                found => settle_repeat(member.waiting, found),
            }
        }
        expired
    }

    /// Finds the result of an earlier request with the same id.
    async fn find_repeat(&mut self, waiting: &Waiting) -> Result<Option<Applied>, Error> {
        let Some((author, request_id)) = waiting.request() else { return Ok(None) };
        let (log, now) = (self.log.clone(), self.now());
        let finding = log.store.find_request(&author, &request_id, now);
        let found = log.timed(finding).await.map_err(Error::Database)?;
        let Some(header) = found else { return Ok(None) };
        if header.revision > self.hub.catalog().revision() {
            self.catch_up().await;
            // A result must not refer to a revision that this server does not serve yet.
            let failure = self.database.borrow().write_failure().cloned();
            if let Some(error) = failure {
                return Err(Error::Database(error));
            }
        }
        let revision = header.revision;
        let stored = log.timed(log.store.commit(revision)).await.map_err(Error::Database)?;
        let submission = &waiting.submission;
        let plan = stored.and_then(|stored| repeat::committed_plan(&stored.commit, submission));
        let Some(plan) = plan else {
            return Err(Error::RequestIdReused { request_id, revision });
        };
        metrics::replayed();
        Ok(Some(Applied { revision, committed: true, batch: Vec::new(), plan }))
    }
}

fn settle_repeat(waiting: Waiting, found: Result<Option<Applied>, Error>) {
    match found {
        Ok(Some(applied)) => waiting.succeed(|batch| Applied { batch, ..applied }),
        Ok(None) => {
            waiting.fail(Error::Internal("the request id is both used and unused".to_owned()));
        }
        Err(error) => waiting.fail(error),
    }
}
