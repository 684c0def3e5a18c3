//! nginx as a plain reverse proxy, the peer of the gateway.
//!
//! It is tuned for small JSON requests. Without `tcp_nodelay` and with buffering, a body of 100 KiB
//! waits 40 ms for a delayed acknowledgment.

use std::{
    fs,
    net::TcpListener,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use acceptance::process::cpu_seconds;
use tempfile::TempDir;

/// An nginx process, stopped when dropped.
#[derive(Debug)]
pub(crate) struct Nginx {
    master: Child,
    dir: TempDir,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Nginx {
    /// Starts nginx in front of an upstream, if it is installed.
    pub(crate) fn start(upstream: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let address = format!("127.0.0.1:{port}");
        let path = dir.path().display();
        let config = format!(
            "daemon off; pid {path}/nginx.pid; error_log {path}/error.log; worker_processes 2;
             events {{ worker_connections 4096; multi_accept on; }}
             http {{
               access_log off; client_max_body_size 32m; client_body_buffer_size 1m;
               tcp_nodelay on; proxy_buffering off;
               client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;
               fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; scgi_temp_path {path}/s;
               upstream backend {{ server {upstream}; keepalive 128; }}
               server {{
                 listen {address} reuseport;
                 location / {{
                   proxy_pass http://backend; proxy_http_version 1.1;
                   proxy_set_header Connection \"\"; proxy_set_header Host {upstream};
                 }}
               }}
             }}"
        );
        let file = dir.path().join("nginx.conf");
        fs::write(&file, config).expect("the configuration is written");
        let program = ["nginx", "/usr/sbin/nginx"].into_iter().find(|program| {
            Command::new(program).arg("-v").stderr(Stdio::null()).status().is_ok()
        })?;
        let master = Command::new(program)
            .arg("-c")
            .arg(&file)
            .arg("-p")
            .arg(dir.path())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let nginx = Self { master, dir, address };
        nginx.wait_until_ready();
        Some(nginx)
    }

    fn wait_until_ready(&self) {
        for _ in 0..100 {
            if std::net::TcpStream::connect(&self.address).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(self.dir.path().join("error.log")).unwrap_or_default();
        panic!("nginx does not answer: {log}");
    }

    /// CPU time of its workers in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let master = self.master.id();
        let path = format!("/proc/{master}/task/{master}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        children.split_whitespace().filter_map(|id| id.parse().ok()).map(cpu_seconds).sum()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        acceptance::process::signal_process(self.master.id(), "TERM");
        let _ = self.master.wait();
    }
}
