//! Streams with disconnecting and resuming readers.

use super::*;

const SESSION: &str = "session";

fn replays(requests: usize, bytes: usize) -> Replays {
    Replays { budget: Arc::new(ReplayBudget::new(requests, bytes)), ..Replays::default() }
}

fn begin(replays: &Replays) -> Arc<Replay> {
    replays.begin(&SESSION.into(), &None, Id::parse("7").unwrap()).unwrap()
}

/// A stored message that fills this many quotas.
fn message(text: &str) -> Bytes {
    Bytes::copy_from_slice(format!("\"{text}\"").as_bytes())
}

/// The text of the next event with its id.
async fn next(reader: &mut Reader) -> Option<String> {
    reader.next().await.map(|event| String::from_utf8(event.to_vec()).unwrap())
}

fn id(replay: &Replay, event: u64) -> String {
    format!("{}-{event}", replay.number)
}

#[tokio::test]
async fn stream_resumes_after_last_event() {
    let replays = replays(8, 1 << 20);
    let replay = begin(&replays);
    let mut first = replay.reader(0);
    for text in ["a", "b", "c"] {
        replay.push(message(text), text == "c").await;
    }
    assert!(next(&mut first).await.unwrap().contains("data: \"a\""));
    assert!(next(&mut first).await.unwrap().contains("data: \"b\""));
    drop(first);
    let mut second = replays.resume(SESSION, &id(&replay, 0)).unwrap();
    replay.complete();
    let again = next(&mut second).await.unwrap();
    assert!(again.contains("data: \"b\"") && again.contains(&id(&replay, 1)), "{again}");
    assert!(next(&mut second).await.unwrap().contains("data: \"c\""));
    assert_eq!(next(&mut second).await, None);
    let mut third = replays.resume(SESSION, &id(&replay, 2)).unwrap();
    assert_eq!(next(&mut third).await, None, "the answer comes once");
}

#[tokio::test]
async fn first_event_can_be_id_only() {
    let replays = replays(8, 1 << 20);
    let replay = begin(&replays);
    let mut reader = replay.reader(0);
    replay.push(Bytes::new(), false).await;
    let first = next(&mut reader).await.unwrap();
    assert_eq!(first, format!("id: {}\ndata: \n\n", id(&replay, 0)));
}

#[tokio::test]
async fn stream_is_unknown_to_other_sessions() {
    let replays = replays(8, 1 << 20);
    let replay = begin(&replays);
    let id = id(&replay, 0);
    for (session, event) in
        [("other", id.as_str()), (SESSION, "x-0"), (SESSION, "x"), (SESSION, "")]
    {
        let found = replays.resume(session, event).map(drop);
        assert_eq!(found, Err(Rejection::EventUnknown), "{session} {event}");
    }
    replays.end(&replay);
    assert!(replays.resume(SESSION, &id).is_err());
}

#[tokio::test]
async fn newer_reader_ends_earlier_one() {
    let replays = replays(8, 1 << 20);
    let replay = begin(&replays);
    let mut first = replay.reader(0);
    let mut second = replay.reader(0);
    replay.push(message("a"), false).await;
    assert_eq!(next(&mut first).await, None);
    drop(first);
    assert!(next(&mut second).await.unwrap().contains("data: \"a\""), "it is still attached");
}

#[tokio::test(start_paused = true)]
async fn request_without_connection_ends_after_minute() {
    let replays = replays(8, 1 << 20);
    let replay = begin(&replays);
    let began = Instant::now();
    drop(replay.reader(0));
    tokio::time::sleep(GRACE / 2).await;
    let resumed = replay.reader(0);
    let abandoned = replay.abandoned();
    tokio::pin!(abandoned);
    assert!(tokio::time::timeout(3 * GRACE, &mut abandoned).await.is_err(), "somebody reads");
    drop(resumed);
    abandoned.await;
    assert_eq!(began.elapsed(), GRACE / 2 + 3 * GRACE + GRACE);
}

#[tokio::test(start_paused = true)]
async fn request_without_quota_ends_at_disconnect() {
    let replays = replays(8, 1 << 20);
    let detached: Vec<_> = (0..3).map(|_| begin(&replays)).collect();
    for replay in &detached {
        drop(replay.reader(0));
    }
    let began = Instant::now();
    detached[2].abandoned().await;
    assert_eq!(began.elapsed(), Duration::ZERO, "a quarter of eight are two");
    detached[0].complete();
    let another = begin(&replays);
    drop(another.reader(0));
    another.abandoned().await;
    assert_eq!(began.elapsed(), GRACE, "a request that is done leaves its place");
}

#[tokio::test]
async fn response_without_quota_becomes_error() {
    let replays = replays(8, 4 * (OVERHEAD + 100));
    let replay = begin(&replays);
    drop(replay.reader(0));
    replay.push(message(&"x".repeat(200)), true).await;
    replay.complete();
    let mut reader = replay.reader(0);
    let told = next(&mut reader).await.unwrap();
    assert!(told.contains("\"error\"") && !told.contains("xxx"), "{told}");
    assert_eq!(next(&mut reader).await, None);
}

#[tokio::test]
async fn response_without_quota_reaches_connected_reader() {
    let replays = replays(8, 4 * (OVERHEAD + 100));
    let replay = begin(&replays);
    let mut reader = replay.reader(0);
    replay.push(message("small"), false).await;
    let large = replay.push(message(&"x".repeat(200)), true);
    tokio::pin!(large);
    assert!(futures_util::poll!(&mut large).is_pending(), "it waits for the reader");
    assert!(next(&mut reader).await.unwrap().contains("small"));
    large.await;
    assert!(next(&mut reader).await.unwrap().contains("xxx"));
}

/// A completed and delivered stream of a caller.
async fn delivered(replays: &Replays, principal: &QuotaKey) -> Arc<Replay> {
    let replay = replays.begin(&SESSION.into(), principal, Id::parse("7").unwrap()).unwrap();
    let mut reader = replay.reader(0);
    replay.push(message(&"x".repeat(90)), true).await;
    replay.complete();
    assert!(next(&mut reader).await.is_some());
    assert_eq!(next(&mut reader).await, None);
    replay
}

/// A completed and undelivered stream. Returns the events after resuming.
async fn undelivered(replays: &Replays) -> String {
    let replay = begin(replays);
    drop(replay.reader(0));
    replay.push(message(&"y".repeat(90)), true).await;
    replay.complete();
    next(&mut replay.reader(0)).await.unwrap()
}

#[tokio::test]
async fn delivered_streams_are_evicted_oldest_first() {
    let replays = replays(8, 4 * 2 * (OVERHEAD + 100));
    let [first, second] = [delivered(&replays, &None).await, delivered(&replays, &None).await];
    assert!(undelivered(&replays).await.contains("yyy"));
    assert!(replays.resume(SESSION, &id(&first, 0)).is_err(), "the oldest one was evicted");
    first.abandoned().await;
    assert!(replays.resume(SESSION, &id(&second, 0)).is_ok());
    assert!(undelivered(&replays).await.contains("yyy"));
    let told = undelivered(&replays).await;
    assert!(told.contains("16 MiB"), "{told}");
    replays.end(&second);
    assert!(replays.budget.delivered().pop().is_none());
}

#[tokio::test]
async fn resumed_stream_is_not_evicted() {
    let replays = replays(8, 4 * (OVERHEAD + 100));
    let resumed = begin(&replays);
    drop(resumed.reader(0));
    resumed.push(Bytes::new(), false).await;
    resumed.complete();
    let reader = resumed.resume(0).unwrap();
    assert!(undelivered(&replays).await.contains("16 MiB"));
    drop(reader);
    assert!(undelivered(&replays).await.contains("yyy"));
}

#[tokio::test]
async fn delivered_streams_of_others_are_evicted() {
    let replays = replays(8, 4 * (OVERHEAD + 100));
    let mut streams = Vec::new();
    for name in ["a", "b", "c", "d"] {
        streams.push(delivered(&replays, &Some(name.into())).await);
    }
    assert!(undelivered(&replays).await.contains("yyy"));
    let is_there = |replay: &Arc<Replay>| replays.resume(SESSION, &id(replay, 0)).is_ok();
    assert_eq!(streams.iter().map(is_there).collect::<Vec<_>>(), [false, true, true, true]);
}

#[tokio::test]
async fn response_is_kept_after_evicting_delivered_streams() {
    let replays = replays(8, 4 * (OVERHEAD + 100));
    let (earlier, later) = (begin(&replays), begin(&replays));
    let mut reading = earlier.reader(0);
    earlier.push(message(&"x".repeat(90)), true).await;
    earlier.complete();
    let connected = later.reader(0);
    later.push(message(&"y".repeat(90)), true).await;
    while next(&mut reading).await.is_some() {}
    drop(reading);
    drop(connected);
    assert!(next(&mut later.reader(0)).await.unwrap().contains("yyy"));
}

#[tokio::test]
async fn event_beyond_last_is_unknown() {
    let replays = replays(8, 1 << 20);
    let replay = begin(&replays);
    replay.push(message("a"), false).await;
    for beyond in [1, 2, u64::MAX] {
        let found = replays.resume(SESSION, &id(&replay, beyond)).map(drop);
        assert_eq!(found, Err(Rejection::EventUnknown), "{beyond}");
    }
    let mut reader = replays.resume(SESSION, &id(&replay, 0)).unwrap();
    replay.push(message("b"), false).await;
    assert!(next(&mut reader).await.unwrap().contains("data: \"b\""));
}

#[tokio::test]
async fn cancelled_request_names_limit() {
    let replays = replays(4, 1 << 20);
    let detached = [begin(&replays), begin(&replays)];
    for replay in &detached {
        replay.push(Bytes::new(), false).await;
        drop(replay.reader(0));
    }
    let refused = replays.resume(SESSION, &id(&detached[1], 0)).map(drop).unwrap_err();
    let limits = format!("{} requests of its caller ({REQUESTS} of all callers)", REQUESTS / 4);
    let told = refused.to_string();
    assert!(told.contains(&limits) && told.contains(&format!("{} s", GRACE.as_secs())), "{told}");
}

#[tokio::test]
async fn ended_session_ends_detached_requests() {
    let replays = replays(8, 1 << 20);
    let (detached, connected) = (begin(&replays), begin(&replays));
    let _reader = connected.reader(0);
    drop(detached.reader(0));
    replays.end_session(SESSION);
    detached.abandoned().await;
    assert!(futures_util::poll!(std::pin::pin!(connected.abandoned())).is_pending());
}
