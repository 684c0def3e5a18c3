//! nginx as a plain reverse proxy, the peer of the gateway.
//!
//! It is tuned for small JSON requests. Without `tcp_nodelay` and with buffering, a body of 100 KiB
//! waits 40 ms for a delayed acknowledgment.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::peer::Peer;

/// Starts nginx in front of an upstream.
pub(crate) fn start(upstream: &str) -> Peer {
    let is_installed =
        |program: &&str| Command::new(program).arg("-v").stderr(Stdio::null()).status().is_ok();
    let program = ["nginx", "/usr/sbin/nginx"].into_iter().find(is_installed);
    let program = program.expect("nginx is installed");
    let peer = Peer::start(|dir, port| {
        let path = dir.display();
        let config = format!(
            "daemon off; pid {path}/nginx.pid; error_log stderr; worker_processes 2;
             events {{ worker_connections 4096; multi_accept on; }}
             http {{
               access_log off; client_max_body_size 32m; client_body_buffer_size 1m;
               tcp_nodelay on; proxy_buffering off;
               client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;
               fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; scgi_temp_path {path}/s;
               upstream backend {{ server {upstream}; keepalive 128; }}
               server {{
                 listen 127.0.0.1:{port} reuseport;
                 location / {{
                   proxy_pass http://backend; proxy_http_version 1.1;
                   proxy_set_header Connection \"\"; proxy_set_header Host {upstream};
                 }}
               }}
             }}"
        );
        let file = dir.join("nginx.conf");
        fs::write(&file, config).expect("the configuration is written");
        let mut command = Command::new(program);
        command.arg("-c").arg(file).arg("-p").arg(dir);
        command
    });
    peer.expect("nginx starts")
}
