//! Limits and ownership of sessions, and their end.

use http::HeaderValue;

use super::*;

fn headers(id: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::SESSION_ID, HeaderValue::from_str(id).unwrap())])
}

fn claim(name: &str) -> CallerIdentity {
    CallerIdentity::Asserted { name: name.into(), version: None }
}

fn caller(name: &str) -> Authentication {
    Authentication::without_request(claim(name))
}

fn open(sessions: &Sessions, name: &str) -> String {
    sessions.open(&SessionClaims::new(claim(name), None, Capabilities::default())).unwrap()
}

fn sessions(limit: usize) -> Sessions {
    Sessions::new(limit, Arc::new(Sealer::random()))
}

fn is_open(sessions: &Sessions, id: &str, name: &str) -> bool {
    sessions.find(&headers(id), &caller(name)).is_ok()
}

#[test]
fn session_ids_are_unique_visible_ascii() {
    let sessions = sessions(10);
    let (a, b) = (open(&sessions, "x"), open(&sessions, "x"));
    assert_ne!(a, b);
    assert!(a.len() >= 64 && a.bytes().all(|byte| byte.is_ascii_graphic()));
}

#[test]
fn gateway_with_same_key_knows_session() {
    let with = |key: u8| Sessions::new(10, Arc::new(Sealer::with(&[[key; 32]])));
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    let client = ClientInfo { name: "c".to_owned(), version: "1".to_owned() };
    let capabilities = (&*raw(r#"{"elicitation":{}}"#)).into();
    let claims = SessionClaims::new(claim("a"), Some(Arc::new(client.clone())), capabilities);
    let id = with(1).open(&claims).unwrap();
    let session = with(1).find(&headers(&id), &caller("a")).unwrap();
    assert_eq!(session.client().as_deref(), Some(&client));
    assert_eq!(session.capabilities().as_json(), r#"{"elicitation":{}}"#);
    assert!(session.last_listed().is_some(), "its client may have seen another list");
    assert!(!is_open(&with(1), &id, "b"), "it is still its opener's own");
    assert!(!is_open(&with(2), &id, "a"));
}

#[test]
fn session_belongs_to_its_opener() {
    let sessions = sessions(10);
    let id = open(&sessions, "a");
    assert!(is_open(&sessions, &id, "a"));
    assert!(!is_open(&sessions, &id, "b"));
    assert!(sessions.close(&headers(&id), &caller("b")).is_err());
    assert!(is_open(&sessions, &id, "a"), "nobody else can end it");
    sessions.close(&headers(&id), &caller("a")).unwrap();
    assert!(!is_open(&sessions, &id, "a"));
}

#[test]
fn request_must_name_one_session() {
    let sessions = sessions(10);
    let id = open(&sessions, "a");
    let find = |headers: &HeaderMap| sessions.find(headers, &caller("a")).map(|_| ());
    assert_eq!(find(&HeaderMap::new()), Err(Rejection::SessionRequired));
    assert_eq!(find(&headers("nope")), Err(Rejection::SessionUnknown));
    let mut two = headers(&id);
    two.append(header::SESSION_ID, HeaderValue::from_str(&id).unwrap());
    assert_eq!(find(&two), Err(Rejection::SessionUnknown));
}

#[test]
fn full_table_evicts_least_recently_used() {
    let mut sessions = sessions(12);
    let ids: Vec<_> = (0..3).map(|_| open(&sessions, "a")).collect();
    let level = RawValue::from_string("\"info\"".to_owned()).unwrap();
    for id in &ids {
        sessions.find(&headers(id), &caller("a")).unwrap().set_log_level(&level);
    }
    // Moves previous uses into the past.
    sessions.started = sessions.started.checked_sub(Duration::from_secs(1)).unwrap();
    let find = |id: &str| sessions.find(&headers(id), &caller("a")).unwrap();
    for id in [&ids[0], &ids[2], &open(&sessions, "a")] {
        find(id);
    }
    let table = sessions.table.read().unwrap();
    assert_eq!(table.in_use.len(), 3);
    assert!(!table.in_use.contains_key(ids[1].as_str()));
    drop(table);
    assert!(find(&ids[1]).log_level().is_none(), "it goes on, but from its beginning");
}

#[test]
fn longest_idle_session_is_evicted_first() {
    let mut sessions = sessions(1);
    // The clock starts an hour ago, so a session used at its start is idle.
    sessions.started = Instant::now().checked_sub(Duration::from_hours(1)).unwrap();
    let (idle, other) = (open(&sessions, "a"), open(&sessions, "a"));
    let session = sessions.find(&headers(&idle), &caller("a")).unwrap();
    session.used_ms.store(0, Ordering::Relaxed);
    drop(session);
    assert!(is_open(&sessions, &other, "a"));
    assert!(!sessions.table.read().unwrap().in_use.contains_key(idle.as_str()));
}

#[tokio::test]
async fn answers_match_questions_once() {
    let sessions = sessions(8);
    let id = open(&sessions, "a");
    let session = sessions.find(&headers(&id), &caller("a")).unwrap();
    let raw = || RawValue::from_string("{}".to_owned()).unwrap();
    let (ask, asked) = oneshot::channel();
    let number = session.ask(ask).unwrap().to_string();
    session.answer("999", Ok(raw()));
    session.answer("\"x\"", Ok(raw()));
    session.answer(&number, Ok(raw()));
    session.answer(&number, Ok(raw()));
    assert_eq!(asked.await.unwrap().unwrap().get(), "{}");
    let waiting: Vec<_> = (0..QUESTIONS)
        .map(|_| {
            let (ask, asked) = oneshot::channel();
            (session.ask(ask).unwrap(), asked)
        })
        .collect();
    assert!(session.ask(oneshot::channel().0).is_none());
    drop(waiting);
    assert!(session.ask(oneshot::channel().0).is_some(), "who waits no more takes no room");
}

#[tokio::test]
async fn only_newest_stream_is_served() {
    let sessions = sessions(8);
    let id = open(&sessions, "a");
    let session = sessions.find(&headers(&id), &caller("a")).unwrap();
    let mut first = session.take_stream();
    assert!(!first.has_changed().unwrap());
    let mut second = session.take_stream();
    first.changed().await.unwrap();
    assert!(!second.has_changed().unwrap());
    drop(session);
    sessions.close(&headers(&id), &caller("a")).unwrap();
    assert!(second.changed().await.is_err(), "the session is gone");
}

#[tokio::test]
async fn running_call_can_be_cancelled() {
    let sessions = sessions(8);
    let id = open(&sessions, "a");
    let session = sessions.find(&headers(&id), &caller("a")).unwrap();
    let (one, two) = (session.begin("1").unwrap(), session.begin("\"1\"").unwrap());
    assert!(matches!(session.begin("1"), Err(Rejection::IdInUse)));
    session.cancel("\"1\"");
    session.cancel("7");
    two.cancelled().await;
    assert!(!one.token.is_cancelled());
    drop((one, two));
    assert!(lock(&session.requests).is_empty());
}

#[test]
fn ended_session_is_remembered_without_id() {
    let sessions = sessions(8);
    let text = format!(r#"{{"experimental":{{"x":"{}"}}}}"#, "x".repeat(2_000));
    let raw = RawValue::from_string(text).unwrap();
    let claims = SessionClaims::new(claim("a"), None, (&*raw).into());
    let id = sessions.open(&claims).unwrap();
    let ended = sessions.close(&headers(&id), &caller("a")).unwrap();
    assert!(id.len() > 2_000 && !is_open(&sessions, &id, "a"));
    assert_eq!(Arc::strong_count(&ended), 1, "nothing holds the id");
    let table = sessions.table.read().unwrap();
    let numbers: Vec<usize> = table.ended.iter().map(size_of_val).collect();
    assert_eq!(numbers, [16]);
}
