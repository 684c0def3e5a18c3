//! The `tls` section of callers, and that of a target.
//!
//! The files are validated here, and read again at run time.

use std::path::{Path, PathBuf};

use registry_tls::{ClientAuth, ClientFiles, InvalidFile, ServerFiles};

use super::{
    Args,
    read::{Field, Section},
};

/// The members of [`ClientFiles`].
pub(super) const CLIENT_FILES: [&str; 3] = ["caFile", "certFile", "keyFile"];

pub(super) fn read(root: &Section<'_>, args: &Args) -> Option<ServerFiles> {
    let section = root.section("tls");
    let written = identity(&section);
    let flags = args.tls_cert.clone().zip(args.tls_key.clone());
    let identity = flags.or(written);
    let client_ca = args.tls_client_ca.clone().or(file(&section, "clientCaFile"));
    let client_crl = args.tls_client_crl.clone().or(file(&section, "clientCrlFile"));
    if client_ca.is_some() && identity.is_none() {
        section.problem("`clientCaFile` (--tls-client-ca) needs `certFile` and `keyFile`");
    }
    if client_crl.is_some() && client_ca.is_none() {
        section.problem("`clientCrlFile` (--tls-client-crl) needs `clientCaFile`");
    }
    let files = identity.map(|(certificate, key)| ServerFiles {
        certificate,
        key,
        client_ca,
        client_crl,
        client_auth: ClientAuth::Required,
        // Clients with both get HTTP/1.1. Clients of gRPC have HTTP/2 only.
        protocols: &["http/1.1", "h2"],
    });
    if let Some(Err(e)) = files.as_ref().map(ServerFiles::check) {
        match flag(args, &e.path) {
            Some(flag) => section.flag_problem(flag, e.to_string()),
            None => {
                report(&section, &["certFile", "keyFile", "clientCaFile", "clientCrlFile"], &e);
            }
        }
    }
    section.finish();
    files
}

/// The flag that names this file. Flags override the configuration file.
fn flag(args: &Args, file: &Path) -> Option<&'static str> {
    let flags = [
        ("--tls-cert", &args.tls_cert),
        ("--tls-key", &args.tls_key),
        ("--tls-client-ca", &args.tls_client_ca),
        ("--tls-client-crl", &args.tls_client_crl),
    ];
    let flag = flags.into_iter().find(|(_, path)| path.as_deref() == Some(file));
    flag.map(|(flag, _)| flag)
}

/// Reads the section of a target. `url` is the target's.
pub(super) fn read_target(field: &Field<'_>, url: Option<&str>) -> ClientFiles {
    let section = field.section();
    let files = client_files(&section);
    if url.is_some_and(|url| !url.starts_with("https:")) {
        section.problem("has no effect without TLS; use an https:// URL for the target");
    }
    if files == ClientFiles::default() {
        section.problem("is empty; set `caFile`, or `certFile` and `keyFile`");
    } else if let Err(e) = files.check() {
        report(&section, &CLIENT_FILES, &e);
    }
    section.finish();
    files
}

/// Reports an unusable file at the member that names it.
pub(super) fn report(section: &Section<'_>, members: &[&'static str], error: &InvalidFile) {
    let names_it = |&member: &&'static str| file(section, member).as_ref() == Some(&error.path);
    match members.iter().copied().find(names_it) {
        Some(member) => section.problem_of(member, None, error.to_string()),
        None => section.problem(error.to_string()),
    }
}

/// Reads `caFile`, `certFile` and `keyFile`.
pub(super) fn client_files(section: &Section<'_>) -> ClientFiles {
    ClientFiles { ca: file(section, "caFile"), identity: identity(section) }
}

fn identity(section: &Section<'_>) -> Option<(PathBuf, PathBuf)> {
    match (file(section, "certFile"), file(section, "keyFile")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            section.problem("set both `certFile` and `keyFile`, or neither");
            None
        }
    }
}

pub(super) fn file(section: &Section<'_>, name: &'static str) -> Option<PathBuf> {
    section.find(name).and_then(|field| field.text()).map(PathBuf::from)
}
