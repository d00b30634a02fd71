//! TLS, with the certificates that the system trusts (or `SSL_CERT_FILE`, `SSL_CERT_DIR`).

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::failure::ServerFailure;
use super::socket::{Socket, Stream};
use crate::printable::escaped;

impl Stream for StreamOwned<ClientConnection, Socket> {
    fn socket(&mut self) -> &mut Socket {
        &mut self.sock
    }
}

/// Encrypts the connection, and checks that `host` is at the other end.
pub(super) fn handshake(host: &str, mut socket: Socket) -> Result<impl Stream + use<>, ServerFailure> {
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|_| ServerFailure::refused(format!("'{}' is not a host name", escaped(host))))?;
    let mut connection = ClientConnection::new(config()?, name).map_err(ServerFailure::refused)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).map_err(|error| of_handshake(&error))?;
    }
    Ok(StreamOwned::new(connection, socket))
}

/// The configuration, which is read once, as that takes some milliseconds.
fn config() -> Result<Arc<ClientConfig>, ServerFailure> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG.get_or_init(trusting_the_system).clone().map_err(ServerFailure::refused)
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

fn of_handshake(error: &io::Error) -> ServerFailure {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(why)) => {
            ServerFailure::refused(format!("its certificate is not accepted: {why}"))
        }
        _ => match ServerFailure::of_connecting(error) {
            ServerFailure::Away(why) => ServerFailure::Away(format!(
                "{why} during the TLS handshake; if that port has no TLS, write redis://"
            )),
            failure => failure,
        },
    }
}
