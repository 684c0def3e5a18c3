//! The `tls` section of callers, and that of a target.
//!
//! The files are validated here, and read again at run time.

use std::path::PathBuf;

use registry_tls::{ClientAuth, ClientFiles, ServerFiles};

use super::{
    Args,
    read::{Field, Section},
};

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
        protocols: &["http/1.1"],
    });
    if let Some(Err(e)) = files.as_ref().map(ServerFiles::check) {
        section.problem(e.to_string());
    }
    section.finish();
    files
}

/// Reads the section of a target. `url` is the target's.
pub(super) fn read_target(field: &Field<'_>, url: Option<&str>) -> ClientFiles {
    let section = field.section();
    let files = ClientFiles { ca: file(&section, "caFile"), identity: identity(&section) };
    if url.is_some_and(|url| !url.starts_with("https:")) {
        section.problem("has no effect without TLS; use an https:// URL for the target");
    }
    if files == ClientFiles::default() {
        section.problem("is empty; set `caFile`, or `certFile` and `keyFile`");
    } else if let Err(e) = files.check() {
        section.problem(e.to_string());
    }
    section.finish();
    files
}

pub(super) fn identity(section: &Section<'_>) -> Option<(PathBuf, PathBuf)> {
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
