//! A certificate authority for tests, and the files that it signs.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
    string::Ia5String,
};
use tempfile::TempDir;

/// An authority with a directory for its files.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    dir: TempDir,
    /// The path of its certificate (PEM).
    pub ca: PathBuf,
}

/// Paths of a certificate and its key (PEM).
#[derive(Debug, Clone)]
pub struct Files {
    /// The path of the certificate.
    pub certificate: PathBuf,
    /// The path of the key.
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "a test's authority");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let ca = dir.path().join("ca.pem");
        fs::write(&ca, certificate.pem()).expect("a file");
        Self { issuer: Issuer::new(params, key), dir, ca }
    }

    /// Signs a server certificate for this machine.
    pub fn server(&self) -> Files {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        self.sign("server", CertificateParams::new(names).expect("names"))
    }

    /// Signs a CA certificate for this machine, which clients reject as a server certificate.
    pub fn server_as_ca(&self) -> Files {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.sign("server-ca", params)
    }

    /// Signs a client certificate for a SPIFFE id or a common name.
    pub fn client(&self, name: &str) -> Files {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        if !name.to_lowercase().starts_with("spiffe://") {
            return self.common_name(name);
        }
        let uri = Ia5String::try_from(name).expect("ASCII");
        params.subject_alt_names.push(SanType::URI(uri));
        params.distinguished_name.push(DnType::CommonName, "gw-1");
        self.sign(&file_of(name), params)
    }

    /// Signs a client certificate for a common name of any form.
    pub fn common_name(&self, name: &str) -> Files {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(&file_of(name), params)
    }

    /// Signs a client certificate with this validity.
    #[expect(clippy::disallowed_methods, reason = "TLS compares it with the time of the machine")]
    pub fn short_lived(&self, name: &str, validity: Duration) -> Files {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = (SystemTime::now() + validity).into();
        self.sign(&file_of(name), params)
    }

    /// Writes a revocation list (PEM) of these clients and returns its path.
    pub fn revoke(&self, names: &[&str]) -> PathBuf {
        let revoked = |name: &&str| RevokedCertParams {
            serial_number: serial(&file_of(name)),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: names.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.dir.path().join("crl.pem");
        let list = list.signed_by(&self.issuer).expect("a list").pem().expect("PEM");
        fs::write(&path, list).expect("a file");
        path
    }

    /// An HTTPS client that trusts only this authority and has no certificate.
    pub fn trusting(&self) -> reqwest::Client {
        self.client_builder().build().expect("a client")
    }

    /// An HTTPS client with a certificate.
    pub fn trusting_as(&self, Files { certificate, key }: &Files) -> reqwest::Client {
        let read = |path| fs::read(path).expect("a file");
        let identity = [read(certificate), read(key)].concat();
        let identity = reqwest::Identity::from_pem(&identity).expect("a certificate");
        self.client_builder().identity(identity).build().expect("a client")
    }

    /// The settings of an HTTPS client that trusts only this authority.
    pub fn client_builder(&self) -> reqwest::ClientBuilder {
        let ca = fs::read(&self.ca).expect("a file");
        let ca = reqwest::Certificate::from_pem(&ca).expect("a certificate");
        reqwest::Client::builder().tls_certs_only([ca])
    }

    fn sign(&self, file: &str, mut params: CertificateParams) -> Files {
        params.serial_number = Some(serial(file));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let path = |end: &str| self.dir.path().join(format!("{file}.{end}.pem"));
        let files = Files { certificate: path("cert"), key: path("key") };
        fs::write(&files.certificate, certificate.pem()).expect("a file");
        fs::write(&files.key, key.serialize_pem()).expect("a file");
        files
    }
}

/// Certificates as Kubernetes mounts them: symbolic links through one directory, which is replaced
/// atomically.
pub struct Mounted(TempDir);

impl Mounted {
    /// Mounts the server certificate of this authority.
    pub fn new(authority: &Authority) -> Self {
        let mounted = Self(tempfile::tempdir().expect("a temporary directory"));
        for file in ["tls.crt", "tls.key", "ca.crt"] {
            symlink(Path::new("..data").join(file), mounted.path(file)).expect("a link");
        }
        mounted.exchange(authority);
        mounted
    }

    /// The path of `tls.crt`, `tls.key` or `ca.crt`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// Replaces all files atomically.
    pub fn exchange(&self, authority: &Authority) {
        let new = tempfile::tempdir_in(self.0.path()).expect("a directory").keep();
        let Files { certificate, key } = authority.server();
        for (from, to) in [(&certificate, "tls.crt"), (&key, "tls.key"), (&authority.ca, "ca.crt")]
        {
            fs::copy(from, new.join(to)).expect("a copy");
        }
        symlink(new, self.path("..new")).expect("a link");
        fs::rename(self.path("..new"), self.path("..data")).expect("renamed");
    }
}

fn file_of(name: &str) -> String {
    name.replace(['/', ':'], "-")
}

/// A serial number has at most 20 bytes, so this uses the end of the name.
fn serial(file: &str) -> SerialNumber {
    SerialNumber::from_slice(&file.as_bytes()[file.len().saturating_sub(16)..])
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
