//! TLS, with the certificates that the system trusts (or `SSL_CERT_FILE`, `SSL_CERT_DIR`).

use std::sync::{Arc, OnceLock};

use redis::RedisResult;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::failure::refused;
use super::socket::{Socket, Stream};
use crate::printable::escaped;

impl Stream for StreamOwned<ClientConnection, Socket> {
    fn socket(&mut self) -> &mut Socket {
        &mut self.sock
    }
}

/// Encrypts a connection, and checks that `host` is at the other end, with the first question.
pub(super) fn encrypted(host: &str, socket: Socket) -> RedisResult<impl Stream + use<>> {
    /// It is read once, as that takes some milliseconds.
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let config = CONFIG.get_or_init(trusting_the_system).clone().map_err(refused)?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|_| refused(format!("'{}' is not a host name", escaped(host))))?;
    let connection = ClientConnection::new(config, name).map_err(refused)?;
    Ok(StreamOwned::new(connection, socket))
}

fn trusting_the_system() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(format!("no trusted certificates were found{why}"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
