//! System calls and allocations per call, in nginx and in the gateway.

use std::path::PathBuf;

use acceptance::{
    binary,
    mcp::{LEGACY, MODERN},
};

use super::{Hop, drive, echo};
use crate::{
    perf::{Allocator, Counter},
    report::{Report, Row},
};

const PAYLOAD_BYTES: usize = 40;
const CONNECTIONS: usize = 16;

/// System calls and allocations per call.
struct Costs {
    system_calls: f64,
    allocations: f64,
}

/// Measures with the processes of nginx and the gateway. Prints the reason if `perf` does not work.
pub(super) async fn measure(
    report: &mut Report,
    [_, nginx, gateway]: &[Hop<'_>; 3],
    (nginx_processes, gateway_process): (Vec<u32>, u32),
    seconds: u64,
) {
    let nginx_allocator = Allocator {
        file: c_library(nginx_processes[0]),
        functions: &["malloc", "calloc", "realloc", "posix_memalign"],
    };
    let gateway_allocator = Allocator {
        file: binary("gateway-agent"),
        functions: &["mi_malloc_aligned", "mi_zalloc_aligned", "mi_realloc_aligned"],
    };
    for version in [MODERN, LEGACY] {
        let load = (version, seconds);
        let nginx = count(nginx, (&nginx_processes, &nginx_allocator), load).await;
        let gateway = count(gateway, (&[gateway_process], &gateway_allocator), load).await;
        match (nginx, gateway) {
            (Ok(nginx), Ok(gateway)) => add_rows(report, version, (&nginx, &gateway)),
            (Err(reason), _) | (_, Err(reason)) => {
                println!("  system calls and allocations are not counted: {reason}");
            }
        }
    }
}

fn add_rows(report: &mut Report, version: &str, (nginx, gateway): (&Costs, &Costs)) {
    let what = format!(
        "tools/call of {version}, {PAYLOAD_BYTES} B there and back, {CONNECTIONS} connections"
    );
    for (cost, gateway, nginx) in [
        ("system calls", gateway.system_calls, nginx.system_calls),
        ("allocations", gateway.allocations, nginx.allocations),
    ] {
        report.add(Row {
            path: format!("{what}: {cost} per call in the hop"),
            value: format!("gateway {gateway:.1}"),
            baseline: format!("nginx {nginx:.1}"),
            ratio: Some(gateway / nginx),
            budget: "",
        });
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts fit a double")]
async fn count(
    hop: &Hop<'_>,
    (processes, allocator): (&[u32], &Allocator),
    (version, seconds): (&'static str, u64),
) -> Result<Costs, String> {
    let request = ("bench-agent", (version, "tools/call", echo("echo", PAYLOAD_BYTES)));
    let counter = Counter::start(processes, allocator)?;
    let measured = drive(hop, CONNECTIONS, seconds, request).await;
    let counts = counter.stop();
    let calls = measured.load.count as f64;
    Ok(Costs {
        system_calls: counts.system_calls as f64 / calls,
        allocations: counts.allocations as f64 / calls,
    })
}

/// The C library that a process uses.
fn c_library(process: u32) -> PathBuf {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("its memory");
    let files = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    files.map(PathBuf::from).find(|file| file.ends_with("libc.so.6")).expect("a C library")
}
