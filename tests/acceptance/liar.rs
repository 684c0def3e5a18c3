//! An HTTP server that says whatever a test wants: bytes over a socket, no library.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What is answered to the head and the body of a request; `None`: nothing, ever, and it is noted when
/// the other side has had enough of that.
pub(crate) type Script = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

pub(crate) struct Liar {
    pub(crate) url: String,
    seen: Arc<Mutex<String>>,
    accepting: JoinHandle<()>,
}

impl Liar {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let seen = Arc::<Mutex<String>>::default();
        let log = Arc::clone(&seen);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&log)));
            }
        });
        Self { url, seen, accepting }
    }

    /// Everything that it was asked.
    pub(crate) fn seen(&self) -> String {
        self.seen.lock().expect("not poisoned").clone()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One request a connection.
async fn serve(stream: TcpStream, script: Script, log: Arc<Mutex<String>>) -> Option<()> {
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reading.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap_or(0))];
    reading.read_exact(&mut body).await.ok()?;
    let body = String::from_utf8_lossy(&body).into_owned();
    log.lock().expect("not poisoned").extend([head.as_str(), &body, "\n"]);
    // A script may take its time, which must not be everybody's.
    let asked = async |head: String| {
        let (script, body) = (Arc::clone(&script), body.clone());
        tokio::task::spawn_blocking(move || script(&head, &body)).await.ok()
    };
    let mut answer = asked(head).await?;
    while let Some(begun) = answer.as_deref().and_then(|answer| answer.strip_suffix(MORE)) {
        writing.write_all(begun.as_bytes()).await.ok()?;
        answer = asked(MORE.to_owned()).await?;
    }
    let answer = answer.as_deref().map(|answer| (answer, answer.strip_suffix(STAY)));
    match answer {
        Some((RESET, _)) => {
            let stream = reading.into_inner().reunite(writing).ok()?;
            return stream.set_zero_linger().ok();
        }
        Some((answer, None)) => return writing.write_all(answer.as_bytes()).await.ok(),
        Some((_, Some(begun))) => writing.write_all(begun.as_bytes()).await.ok()?,
        None => {}
    }
    while reading.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
    log.lock().expect("not poisoned").push_str(HUNG_UP);
    Some(())
}

/// As an answer: the connection is reset.
pub(crate) const RESET: &str = "(reset)";
/// At the end of an answer: nothing more comes, and the connection stays open.
pub(crate) const STAY: &str = "(stay)";
/// At the end of an answer: the script is called again for the rest, with this as the head.
pub(crate) const MORE: &str = "(more)";
/// In what was seen: the other side closed a connection on which it got no whole answer.
pub(crate) const HUNG_UP: &str = "(hung up)\n";

/// Always the same bytes.
pub(crate) fn text(answer: &'static str) -> Script {
    Arc::new(move |_, _| Some(answer.to_owned()))
}

/// Never a byte.
pub(crate) fn silent() -> Script {
    Arc::new(|_, _| None)
}

/// A response with JSON in it.
pub(crate) fn json_answer(value: &Value) -> String {
    let body = value.to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A response without a body.
pub(crate) fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
}

/// An MCP server of this version whose list of tools has these pages, then the last one for ever.
pub(crate) fn pages(version: &'static str, pages: Vec<Value>) -> Script {
    let next = Mutex::new(0_usize);
    Arc::new(move |head, body| {
        if !head.starts_with("POST") {
            return Some(status("405 Method Not Allowed"));
        }
        let request: Value = serde_json::from_str(body).ok()?;
        let Some(id) = request.get("id") else { return Some(status("202 Accepted")) };
        let result = match request["method"].as_str()? {
            "initialize" => json!({
                "protocolVersion": version, "capabilities": { "tools": {} },
                "serverInfo": { "name": "liar", "version": "1.0.0" },
            }),
            "tools/list" => {
                let mut next = next.lock().ok()?;
                let first = request.pointer("/params/cursor").is_none();
                *next = if first { 0 } else { (*next + 1).min(pages.len() - 1) };
                pages[*next].clone()
            }
            _ => {
                let error = json!({ "code": -32601, "message": "no such method" });
                return Some(json_answer(&json!({ "jsonrpc": "2.0", "id": id, "error": error })));
            }
        };
        Some(json_answer(&json!({ "jsonrpc": "2.0", "id": id, "result": result })))
    })
}

/// A server of the modern era with these tools, and what they give for a call's parameters; `None`:
/// nothing, ever. It takes whatever else it gets.
pub(crate) fn tools(
    names: &'static [&'static str],
    call: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static,
) -> Script {
    Arc::new(move |_, body| {
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let tool = |name: &&str| json!({ "name": name, "inputSchema": { "type": "object" } });
        let tools: Vec<_> = names.iter().map(tool).collect();
        let mut result = match asked["method"].as_str() {
            Some("server/discover") => {
                json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } })
            }
            Some("tools/list") => json!({ "tools": tools }),
            Some("tools/call") => call(&asked["params"])?,
            Some(_) => {
                let error = json!({ "code": -32601, "message": "no such method" });
                let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error });
                return Some(json_answer(&answer));
            }
            None => json!({}),
        };
        result["resultType"] = "complete".into();
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
        Some(json_answer(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })))
    })
}
