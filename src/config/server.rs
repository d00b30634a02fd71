//! The URL of a server that keeps state: parsed, compared, and printed without its password.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// The schemes of server URLs.
pub(super) const SCHEMES: [&str; 5] = ["redis", "rediss", "redis+sentinel", "rediss+sentinel", "unix"];

/// The numeric parameters that may follow the '?' of any URL.
const NUMBERS: [&str; 2] = ["db", "replicas"];

/// Begins an error, instead of the text as written, which may contain a password.
const FORM: &str = "not a server's address, such as redis://[[USER]:PASSWORD@]HOST[:PORT]/NAME";
const SOCKET_FORM: &str = "not a server's address, such as unix:///SOCKET?name=NAME (or redis://HOST/NAME)";

/// Longer names are a mistake, and make every key longer.
const LONGEST_NAME: usize = 200;

/// A Redis server, and the name of a state that it keeps.
///
/// Written as `redis://[user[:password]@]host[:port]/NAME[?db=N][&replicas=N]`, the same with `rediss://` for TLS, or
/// `unix:///path/to.sock?name=NAME[&db=N][&user=USER][&password=PASSWORD]`. With
/// `redis+sentinel://HOST[:PORT]/MASTER/NAME` (or `rediss+sentinel://`) the host is that of a sentinel, which is asked
/// for the master. Reserved characters are written as `%XX`.
///
/// Neither `Display` nor `Debug` shows the password, nor a user without one, which may really be a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// Where the server listens.
    pub address: Address,
    /// If a sentinel listens there: its name for the master to use.
    pub master: Option<String>,
    /// The user to authenticate as.
    pub user: Option<String>,
    /// The password to authenticate with.
    pub password: Option<String>,
    /// The number of the database.
    pub db: u32,
    /// The number of replicas that must have a booking before it is used.
    pub replicas: u32,
    /// The name of the state, not empty and without slashes.
    pub name: String,
}

/// Where the server listens.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// A host, which may be an IPv6 address in brackets.
    Tcp {
        /// Its name.
        host: String,
        /// Its port.
        port: u16,
        /// True if the connection is encrypted.
        has_tls: bool,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Server {
    /// True if a user or a password was given.
    pub fn has_credentials(&self) -> bool {
        self.user.is_some() || self.password.is_some()
    }

    /// The same server, without user and password.
    pub fn without_credentials(&self) -> Self {
        Server { user: None, password: None, ..self.clone() }
    }

    fn at_host(url: &Url) -> Result<Self> {
        let host = url.host_str().filter(|host| !host.is_empty()).context("the host is missing")?;
        let has_at = |text: &str| text.contains('@');
        ensure!(
            !has_at(url.path()) && !url.query().is_some_and(has_at),
            "in a user or password, write @ / ? # as %40 %2F %3F %23"
        );
        let are_known = url.query_pairs().all(|(key, _)| NUMBERS.contains(&&*key));
        ensure!(are_known, "only db= and replicas= may follow the '?'");
        let path = url.path().trim_start_matches('/');
        let (default_port, master, name) = match url.scheme().ends_with("sentinel") {
            true => {
                let parts = path
                    .split_once('/')
                    .with_context(|| format!("with a sentinel, write {}://HOST/MASTER/NAME", url.scheme()))?;
                (SENTINEL_PORT, Some(decoded(parts.0)?), parts.1)
            }
            false => (PORT, None, path),
        };
        Server {
            address: Address::Tcp {
                host: decoded(host)?,
                port: url.port().unwrap_or(default_port),
                has_tls: url.scheme().starts_with("rediss"),
            },
            master,
            user: Some(decoded(url.username())?).filter(|user| !user.is_empty()),
            password: url.password().map(decoded).transpose()?,
            db: number(url, "db")?,
            replicas: number(url, "replicas")?,
            name: decoded(name)?,
        }
        .checked()
    }

    fn at_socket(url: &Url) -> Result<Self> {
        let mut keys = url.query_pairs().map(|(key, _)| key);
        let are_known =
            keys.all(|key| NUMBERS.contains(&&*key) || ["name", "user", "password"].contains(&&*key));
        ensure!(are_known, "only name=, db=, replicas=, user= and password= may follow the '?'");
        ensure!(url.host_str().is_none_or(str::is_empty), "a path must begin with a slash: unix:///path");
        ensure!(!matches!(url.path(), "" | "/"), "the path of the socket is missing");
        Server {
            address: Address::Unix(PathBuf::from(decoded(url.path())?)),
            master: None,
            user: parameter(url, "user"),
            password: parameter(url, "password"),
            db: number(url, "db")?,
            replicas: number(url, "replicas")?,
            name: parameter(url, "name").unwrap_or_default(),
        }
        .checked()
    }

    fn fmt_numbers(&self, f: &mut fmt::Formatter<'_>, mut separator: char) -> fmt::Result {
        for (name, number) in NUMBERS.into_iter().zip([self.db, self.replicas]) {
            if number > 0 {
                write!(f, "{separator}{name}={number}")?;
                separator = '&';
            }
        }
        Ok(())
    }

    fn checked(self) -> Result<Self> {
        let missing = match self.address {
            Address::Tcp { .. } => "try redis://HOST/NAME",
            Address::Unix(_) => "add ?name=NAME",
        };
        ensure!(!self.name.is_empty(), "the name of the state is missing: {missing}");
        ensure!(self.name.len() <= LONGEST_NAME, "a name may have at most {LONGEST_NAME} bytes");
        let is_bad = |c: char| c == '/' || c.is_control();
        ensure!(!self.name.contains(is_bad), "a name must not contain slashes or control characters");
        let has_tls = matches!(self.address, Address::Tcp { has_tls: true, .. });
        ensure!(
            !has_tls || cfg!(feature = "tls"),
            "this throttle was built without TLS: build it with --features tls"
        );
        Ok(self)
    }
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn number(url: &Url, name: &str) -> Result<u32> {
    let Some(number) = parameter(url, name) else { return Ok(0) };
    number.parse().ok().with_context(|| format!("{name}= must be a number"))
}

fn decoded(text: &str) -> Result<String> {
    Ok(percent_decode_str(text).decode_utf8().context("it is not UTF-8")?.into_owned())
}

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
const PATH: &AsciiSet = &PLAIN.remove(b'/');

fn encoded(text: &str) -> impl fmt::Display {
    utf8_percent_encode(text, PLAIN)
}

impl FromStr for Server {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let url = Url::parse(text).context(FORM)?;
        ensure!(url.fragment().is_none(), "{FORM}: write '#' as %23");
        let keys: Vec<_> = url.query_pairs().map(|(key, _)| key).collect();
        let is_new = |at: usize| !keys[..at].contains(&keys[at]);
        ensure!((0..keys.len()).all(is_new), "{FORM}: each option after the '?' may be given only once");
        match url.scheme() {
            "unix" => Server::at_socket(&url).context(SOCKET_FORM),
            scheme if SCHEMES.contains(&scheme) => Server::at_host(&url).context(FORM),
            _ => bail!("{FORM}: the scheme is unknown"),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_deref().filter(|_| self.password.is_some()).map(encoded);
        match &self.address {
            Address::Tcp { host, port, has_tls } => {
                let scheme = if *has_tls { "rediss" } else { "redis" };
                let user = user.map(|user| format!("{user}@")).unwrap_or_default();
                let (sentinel, default_port, master) = match &self.master {
                    Some(master) => ("+sentinel", SENTINEL_PORT, format!("{}/", encoded(master))),
                    None => ("", PORT, String::new()),
                };
                let port = if *port == default_port { String::new() } else { format!(":{port}") };
                write!(f, "{scheme}{sentinel}://{user}{host}{port}/{master}{}", encoded(&self.name))?;
                self.fmt_numbers(f, '?')
            }
            Address::Unix(path) => {
                let path = path.to_string_lossy();
                write!(f, "unix://{}?name={}", utf8_percent_encode(&path, PATH), encoded(&self.name))?;
                self.fmt_numbers(f, '&')?;
                user.map_or(Ok(()), |user| write!(f, "&user={user}"))
            }
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_but_for_the_password() {
        let table = [
            ("redis://localhost/web", "redis://localhost/web"),
            ("redis://localhost:6379/web?db=0", "redis://localhost/web"),
            ("redis://[::1]:7000/a-b_c.d?db=3", "redis://[::1]:7000/a-b_c.d?db=3"),
            ("redis://:hush@h/n", "redis://h/n"),
            ("redis://joe:hu%40sh@h/n%20m", "redis://joe@h/n%20m"),
            ("redis://hush@h/n", "redis://h/n"),
            ("redis+sentinel://joe:hush@h/my%20m/n", "redis+sentinel://joe@h/my%20m/n"),
            ("rediss+sentinel://h:7/m/n?db=2", "rediss+sentinel://h:7/m/n?db=2"),
            ("redis://h/n?replicas=1", "redis://h/n?replicas=1"),
            ("unix:///r?replicas=2&name=n&db=1", "unix:///r?name=n&db=1&replicas=2"),
            ("unix:///run/redis%20x.sock?name=n", "unix:///run/redis%20x.sock?name=n"),
            ("unix:///r?db=2&name=n&user=j&password=hush", "unix:///r?name=n&db=2&user=j"),
        ];
        let can_parse = |text: &str| cfg!(feature = "tls") || !text.starts_with("rediss");
        for (text, shown) in table.into_iter().filter(|(text, _)| can_parse(text)) {
            let server: Server = text.parse().unwrap();
            assert_eq!(server.to_string(), shown, "{text}");
            assert_eq!(format!("{server:?}"), format!("Server({shown})"));
            assert_eq!(server.has_credentials(), text.contains("hu"));
            let reread: Server = shown.parse().unwrap();
            assert!(reread.without_credentials() == server.without_credentials());
        }
    }

    #[test]
    fn the_parts() {
        let server: Server = "redis://joe:hu%40sh@example.com:7000/web?db=3".parse().unwrap();
        let address = Address::Tcp { host: "example.com".into(), port: 7000, has_tls: false };
        assert!(server.address == address);
        assert_eq!((server.user.as_deref(), server.password.as_deref()), (Some("joe"), Some("hu@sh")));
        assert_eq!((server.db, server.name.as_str()), (3, "web"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_telling_the_password() {
        for text in [
            "",
            "localhost",
            "http://hush@h/n",
            "redis://:hush@h",
            "redis://:hush@h/",
            "redis://:hush@/n",
            "redis://:hush@h/n?db=x",
            "redis://:hush@h/n?replicas=all",
            "redis://:hush@h/n?bd=1",
            "redis://:hush@h/n?db=1&db=2",
            "redis://:hush@h/n#x",
            "redis://:hush@h/a/b",
            "redis://:hush@h/%00",
            "redis+sentinel://:hush@h/n",
            "redis+sentinel://:hush@h/m/",
            "redis://:hush@h:99999/n",
            "unix:///run/redis.sock?password=hush",
            "unix:?name=n&password=hush",
            "unix://run/redis.sock?name=n&password=hush",
            "unix:///r?name=n&password=hush&pass=x",
        ] {
            let error = text.parse::<Server>().expect_err(text);
            assert!(!format!("{error:#} {error:?}").contains("hush"), "{error:?}");
        }
    }
}
