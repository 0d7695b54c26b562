//! TLS, from files with a certificate and its key.

use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::Tls;
use crate::error::{Error, ErrorKind, Result};

/// What answers TLS handshakes.
pub(super) fn acceptor(tls: &Tls) -> Result<TlsAcceptor> {
    let Tls {
        certificates, key, ..
    } = tls;
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| unusable("certificates", certificates, &e))?;
    if chain.is_empty() {
        return Err(unusable(
            "certificates",
            certificates,
            &"there is none in it",
        ));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| unusable("key", key, &e))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, secret)
        })
        .map_err(|e| unusable("certificates", certificates, &e))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unusable(what: &str, path: &Path, reason: &dyn std::fmt::Display) -> Error {
    let message = format!("cannot use the {what} for TLS, which must be PEM: {reason}");
    Error::new(ErrorKind::InvalidInput, message).with_path(path)
}
