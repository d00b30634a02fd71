//! Servers that are asked over TLS.

use super::refusals::assert_refused;
use super::server::RedisServer;
use crate::support::{Directory, needs_program, sh};

/// A server with a certificate for 127.0.0.1 that nobody signed but itself.
fn server_with_tls() -> Option<(RedisServer, Directory)> {
    needs_program("openssl")?;
    let directory = Directory::new();
    let path = directory.path().display();
    let made = sh(&format!(
        "cd '{path}' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
         -keyout key -out cert -subj /CN=test -addext basicConstraints=critical,CA:FALSE \
         -addext subjectAltName=IP:127.0.0.1"
    ));
    assert!({ made }.output().unwrap().status.success());
    let (key, cert) = (format!("{path}/key"), format!("{path}/cert"));
    let options =
        ["--tls-key-file", &key, "--tls-cert-file", &cert, "--tls-auth-clients", "no", "--tls-port"];
    Some((RedisServer::start_with(&options)?, directory))
}

#[test]
fn a_certificate_that_nobody_trusts() {
    let Some((server, _directory)) = server_with_tls() else { return };
    assert_refused(&server.url("web").replace("redis:", "rediss:"), "certificate");
}
