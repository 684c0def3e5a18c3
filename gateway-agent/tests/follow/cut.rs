//! Connections that break at any point: the follower reaches the state of its source, and every
//! served state is valid.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use gateway_agent::cache::Cache;
use proptest::prelude::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
};

use crate::{
    history::{History, delta, snapshot},
    script::{Aborted, Answers, Following, Server, hurried, revision_of},
};

/// A proxy that closes each connection after a number of bytes from the server. After the last
/// number it forwards everything.
struct Cutter {
    address: SocketAddr,
    cut: Arc<AtomicUsize>,
    _task: Aborted,
}

impl Cutter {
    async fn start(server: SocketAddr, cuts: Vec<usize>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let cut = Arc::new(AtomicUsize::new(0));
        let count = cut.clone();
        let task = tokio::spawn(async move {
            let mut cuts = cuts.into_iter();
            while let Ok((client, _)) = listener.accept().await {
                let budget = cuts.next();
                let upstream = TcpStream::connect(server).await.expect("the server is there");
                let count = count.clone();
                tokio::spawn(async move {
                    forward(client, upstream, budget).await;
                    count.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, cut, _task: Aborted(task) }
    }
}

async fn forward(client: TcpStream, server: TcpStream, budget: Option<usize>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    });
    let mut left = budget.unwrap_or(usize::MAX);
    let mut buffer = vec![0; 4096];
    while left > 0 {
        let wanted = left.min(buffer.len());
        match from_server.read(&mut buffer[..wanted]).await {
            Ok(read @ 1..) if to_client.write_all(&buffer[..read]).await.is_ok() => left -= read,
            _ => break,
        }
    }
    up.abort();
}

/// A valid server whose history still grows.
fn honest(
    history: watch::Receiver<History>,
) -> impl Fn(usize, registry_proto::v1::ClientHello) -> Answers {
    move |_, hello| {
        let (mut growing, known) = (history.clone(), revision_of(&hello));
        let now = growing.borrow_and_update().clone();
        let first = match known {
            Some(_) => Vec::new(),
            None => snapshot(now.head(), 3),
        };
        let after = known.map_or(now.head().revision().0, |revision| revision.0);
        let commits = stream::unfold((growing, after), |(mut growing, after)| async move {
            let grown = growing.wait_for(|history| history.head().revision().0 > after).await;
            let next = after + 1;
            let commit = grown.map(|history| history.commit(index(next)).clone());
            let Ok(commit) = commit else { return None };
            Some((Ok(delta((&commit).into())), (growing, next)))
        });
        Box::pin(stream::iter(first.into_iter().map(Ok)).chain(commits))
    }
}

fn index(revision: u64) -> usize {
    usize::try_from(revision).expect("small")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

async fn follow_through(cuts: Vec<usize>, begin: usize, bursts: Vec<usize>) {
    let (grow, history) = watch::channel(History::new("r", begin));
    let server = Server::start(honest(history)).await;
    let wanted_cuts = cuts.len();
    let cutter = Cutter::start(server.address, cuts).await;
    let following = Following::start(cutter.address, Cache::in_memory(None), hurried());
    for burst in bursts {
        grow.send_modify(|history| (0..burst).for_each(|_| history.grow(30)));
        sleep(Duration::from_millis(5)).await;
    }
    // Every cut needs traffic.
    while cutter.cut.load(Ordering::SeqCst) < wanted_cuts {
        grow.send_modify(|history| history.grow(200));
        sleep(Duration::from_millis(2)).await;
    }
    let last = grow.borrow().clone();
    following.reaches(last.head()).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The follower reaches its source's digest, wherever connections break.
    #[test]
    fn follower_reaches_source_after_any_cuts(
        cuts in prop::collection::vec(0_usize..6_000, 0..6),
        begin in 0_usize..30,
        bursts in prop::collection::vec(0_usize..12, 0..6),
    ) {
        runtime().block_on(follow_through(cuts, begin, bursts));
    }
}

/// Cuts everywhere in the first messages: headers, settings, entities.
#[test]
fn follower_survives_cuts_at_start() {
    runtime().block_on(async {
        for at in (0..1_200).step_by(7) {
            follow_through(vec![at], 4, Vec::new()).await;
        }
    });
}
