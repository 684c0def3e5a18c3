//! `watch`: prints new commits. After a lost connection, it reads the missed commits from the
//! log and resumes.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use registry_core::{SealedCommit, chain::Position};
use registry_proto::v1::{self, sync_response::Message};
use tokio::time::sleep;

use super::{Session, log};
use crate::{
    cli::{Format, WatchArgs},
    client::Client,
    failure::Failure,
    follow::{self, Follower},
    style::{Paint, printable},
    view::CommitView,
};

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

pub(super) async fn run(session: &Session, args: &WatchArgs) -> Result<(), Failure> {
    let mut client = session.connect().await?;
    let printed = match args.since {
        Some(since) => since,
        None => client.head().await?.0,
    };
    let mut watch = Watch { session, position: None, printed };
    let mut wait = FIRST_WAIT;
    loop {
        let before = watch.position.clone();
        let Err(failure) = watch.follow(&client).await else { return Ok(()) };
        if !failure.is_transient() {
            return Err(failure);
        }
        if watch.position != before {
            wait = FIRST_WAIT;
        }
        let notice = format!("{failure}; retrying in {wait:?}");
        let notice = session.screen.errors.paint(Paint::Careful, printable(&notice));
        let _ = writeln!(io::stderr(), "{notice}");
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
        match session.connect().await {
            Ok(connected) => client = connected,
            Err(Failure::Unreachable { .. }) => {}
            Err(other) => return Err(other),
        }
    }
}

struct Watch<'a> {
    session: &'a Session,
    /// The last verified position of the stream.
    position: Option<Position>,
    /// The last printed revision, or the one of `--since`.
    printed: u64,
}

impl Watch<'_> {
    /// Follows one stream until it ends.
    async fn follow(&mut self, client: &Client) -> Result<(), Failure> {
        let mut follower = Follower::open(client, self.position.as_ref()).await?;
        let mut snapshot = None;
        loop {
            let (message, _) = follower.next().await?;
            match message {
                Message::SnapshotBegin(begin) => {
                    snapshot = Some(follow::read_position(begin.position)?);
                }
                Message::SnapshotChunk(_) => {}
                Message::SnapshotEnd(_) => {
                    let Some(position) = snapshot.take() else {
                        return Err(Failure::invalid_response("a snapshot ends without a start"));
                    };
                    self.catch_up(client, position).await?;
                }
                Message::Delta(delta) => self.delta(delta)?,
                Message::Heartbeat(_) => continue,
                Message::ScopeDelta(_) | Message::ServerHello(_) => {
                    return Err(Failure::invalid_response("the stream has a message for gateways"));
                }
            }
            if let Some(position) = &self.position {
                follower.acknowledge(position).await;
            }
        }
    }

    /// Prints the commits between the last printed revision and a snapshot.
    async fn catch_up(&mut self, client: &Client, position: Position) -> Result<(), Failure> {
        let head = position.revision.0;
        if self.printed < head {
            let after_revision = self.printed;
            let wanted = v1::ListCommitsRequest { after_revision, ..Default::default() };
            for commit in log::fetch(client, wanted, usize::MAX).await? {
                if commit.revision <= head {
                    self.print(&commit)?;
                }
            }
            self.printed = head;
        }
        self.position = Some(position);
        Ok(())
    }

    fn delta(&mut self, delta: v1::Delta) -> Result<(), Failure> {
        let Some(position) = &mut self.position else {
            return Err(Failure::invalid_response("a commit precedes the snapshot"));
        };
        let sealed: SealedCommit = follow::advance(position, delta)?;
        let revision = sealed.revision().0;
        if revision <= self.printed {
            return Ok(());
        }
        self.printed = revision;
        self.print(&CommitView::from(v1::RegistryCommit::from(&sealed)))
    }

    fn print(&self, commit: &CommitView) -> Result<(), Failure> {
        let screen = self.session.screen;
        if screen.format == Format::Json {
            return screen.json_line(commit);
        }
        let CommitView { revision, author, committed_at, .. } = commit;
        let time = committed_at.as_deref().unwrap_or_default();
        let (changes, reasons) = (commit.summary(), commit.reasons());
        let text = format!("{revision}  {time}  {author}  {changes}  {reasons}");
        screen.line(printable(text.trim_end()).as_ref())
    }
}
