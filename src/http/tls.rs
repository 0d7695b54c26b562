//! TLS, from files with a certificate and its key.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::Tls;
use crate::error::{Error, ErrorKind, Result};

/// The certificate of a server with TLS. It can be reloaded while the server runs.
pub(super) struct Certificate {
    files: Tls,
    acceptor: RwLock<TlsAcceptor>,
}

impl Certificate {
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for files without a certificate or key.
    pub(super) fn read(files: &Tls) -> Result<Certificate> {
        Ok(Certificate {
            files: files.clone(),
            acceptor: RwLock::new(acceptor(files)?),
        })
    }

    /// Reads the files again, for new connections.
    ///
    /// # Errors
    /// As [`read`](Self::read); the current certificate then stays.
    pub(super) fn reload(&self) -> Result<()> {
        let read = acceptor(&self.files)?;
        let mut acceptor = self
            .acceptor
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *acceptor = read;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let acceptor = self.acceptor.read().unwrap_or_else(PoisonError::into_inner);
        acceptor.clone()
    }
}

fn acceptor(tls: &Tls) -> Result<TlsAcceptor> {
    let Tls { certificates, key } = tls;
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| unusable("certificates", certificates, &e))?;
    if chain.is_empty() {
        return Err(unusable("certificates", certificates, &"the file has none"));
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
