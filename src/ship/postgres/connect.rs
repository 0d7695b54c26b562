//! Connects to PostgreSQL.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failed;
use crate::error::{Error, ErrorKind, Result};

/// Where a database is, and how to reach it.
#[derive(Debug, Clone)]
pub(in crate::ship) struct Config {
    config: tokio_postgres::Config,
}

impl Config {
    /// From a URL. A password can also come from `PGPASSWORD`.
    pub(in crate::ship) fn parse(url: &str) -> Result<Config> {
        let mut config: tokio_postgres::Config = url.parse().map_err(|e| {
            // The URL may have a password.
            Error::invalid(format!("this URL of PostgreSQL is not valid: {e}"))
        })?;
        if config.get_password().is_none()
            && let Some(password) = std::env::var_os("PGPASSWORD")
        {
            config.password(password.as_encoded_bytes());
        }
        if config.get_application_name().is_none() {
            config.application_name("decklog");
        }
        Ok(Config { config })
    }

    /// The URL without its password.
    pub(in crate::ship) fn name(url: &str) -> String {
        match url::Url::parse(url) {
            Ok(mut url) => {
                if url.password().is_some() {
                    let _ = url.set_password(None);
                }
                url.to_string()
            }
            Err(_) => "postgresql:".to_owned(),
        }
    }

    /// Connects, with TLS unless the server is on this machine or the URL has `sslmode=disable`.
    pub(super) async fn connect(&self) -> Result<Client> {
        let is_here = |host: &Host| match host {
            Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&&**name),
            #[cfg(unix)]
            Host::Unix(_) => true,
        };
        let is_local = self.config.get_hosts().iter().all(is_here);
        let mode = self.config.get_ssl_mode();
        if mode == SslMode::Disable || (is_local && mode == SslMode::Prefer) {
            let connected = self.config.connect(NoTls).await;
            let (client, connection) =
                connected.map_err(|e| failed("connect to", "the database", &e))?;
            tokio::spawn(connection);
            return Ok(client);
        }
        let mut config = self.config.clone();
        // By default, a server without TLS would be used in plain text.
        config.ssl_mode(SslMode::Require);
        let connected = config.connect(MakeRustlsConnect::new(tls()?)).await;
        let (client, connection) =
            connected.map_err(|e| failed("connect to", "the database", &e))?;
        tokio::spawn(connection);
        Ok(client)
    }
}

/// Trusts the certificates of the system, and those of the file in `PGSSLROOTCERT`.
fn tls() -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = std::env::var_os("PGSSLROOTCERT") {
        let bad = |e: &dyn std::fmt::Display| {
            let path = path.display();
            Error::invalid(format!("the certificates in PGSSLROOTCERT, {path}: {e}"))
        };
        let certificates = CertificateDer::pem_file_iter(&path).map_err(|e| bad(&e))?;
        for certificate in certificates {
            let added = roots.add(certificate.map_err(|e| bad(&e))?);
            added.map_err(|e| bad(&e))?;
        }
    } else {
        let native = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(native.certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config =
        config.map_err(|e| Error::new(ErrorKind::Remote, format!("cannot set up TLS: {e}")))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
