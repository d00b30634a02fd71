//! Servers reached over TLS.

use predicates::str::contains;

use super::refusals::assert_refused;
use super::server::RedisServer;
use crate::support::{Directory, fed, needs_program, sh, throttle};

/// A server with a self-signed certificate for 127.0.0.1; that of an authority if `is_ca`.
fn server_with_tls(is_ca: bool) -> Option<(RedisServer, Directory)> {
    needs_program("openssl")?;
    let directory = Directory::new();
    let (path, is_ca) = (directory.path().display(), if is_ca { "TRUE" } else { "FALSE" });
    let made = sh(&format!(
        "cd '{path}' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
         -keyout key -out cert -subj /CN=test -addext basicConstraints=critical,CA:{is_ca} \
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
    let Some((server, _directory)) = server_with_tls(false) else { return };
    assert_refused(&encrypted(&server), "certificate");
}

#[test]
fn a_certificate_that_is_trusted() {
    let Some((server, directory)) = server_with_tls(false) else { return };
    let url = encrypted(&server);
    let run = |url: &str| {
        let mut run = throttle(&["-r2/s,margin=200ms", "-s", url]);
        run.env("SSL_CERT_FILE", directory.path().join("cert")).env_remove("SSL_CERT_DIR");
        run.write_stdin("1\n2\n").assert()
    };
    run(&url).success().stdout("1\n2\n");
    // The certificate is for another name.
    run(&url.replace("127.0.0.1", "localhost")).code(78).stderr(contains("certificate"));
}

/// As `openssl req -x509` makes it by default.
#[test]
fn a_certificate_of_an_authority() {
    let Some((server, directory)) = server_with_tls(true) else { return };
    let mut run = throttle(&["-r2/s,margin=200ms", "-s", &encrypted(&server)]);
    run.env("SSL_CERT_FILE", directory.path().join("cert")).env_remove("SSL_CERT_DIR");
    let advice = "make one with basicConstraints=CA:FALSE";
    run.write_stdin("1\n").assert().code(78).stderr(contains(advice));
}

#[test]
fn one_side_without_tls() {
    let Some((with, _directory)) = server_with_tls(false) else { return };
    let Some(without) = RedisServer::start() else { return };
    for (url, advice) in [(with.url("web"), "write rediss://"), (encrypted(&without), "write redis://")] {
        let args = ["-r2/s", "-s", &url, "--store-timeout=500ms"];
        fed(&args, "1\n").code(69).stderr(contains(advice));
    }
}

fn encrypted(server: &RedisServer) -> String {
    server.url("web").replace("redis:", "rediss:")
}
