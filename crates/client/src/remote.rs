//! A node on another machine: its address, the authority of its certificate, and a token.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::ClientError;

/// Time limit for a connection and its handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address of a remote node, and the caller's token.
#[derive(Clone)]
pub struct Remote {
    host: String,
    port: u16,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    authorization: HeaderValue,
}

/// Shows no token.
impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// Host and port of a URL like `https://node.example:7443`.
fn parts(url: &str) -> Option<(&str, u16)> {
    let rest = url.strip_prefix("https://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#', '@']) {
        return None;
    }
    let (host, port) = match rest.strip_prefix('[') {
        Some(v6) => {
            let (host, after) = v6.split_once(']')?;
            let port = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
            (host, port)
        }
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let port = port.map_or(Some(443), |port| port.parse().ok())?;
    (!host.is_empty()).then_some((host, port))
}

impl Remote {
    /// A node at `url`, with the caller's `token`. `authority` contains PEM certificates that may
    /// have signed the node's certificate. Without them, the certificates that this machine trusts
    /// apply.
    ///
    /// # Errors
    /// The mistake in an argument.
    pub fn new(url: &str, token: &str, authority: Option<&str>) -> Result<Remote, ClientError> {
        let wrong = |why: &str| ClientError::Setting(format!("{url:?}: {why}"));
        let (host, port) =
            parts(url).ok_or_else(|| wrong("a node's URL looks like https://NAME:PORT"))?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| wrong("this is no name of a host and no address"))?;
        let roots = match authority {
            Some(pem) => given(pem)?,
            None => trusted()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Setting(error.to_string()))?;
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(|_| {
                ClientError::Setting("a token is one line of letters and digits".into())
            })?;
        authorization.set_sensitive(true);
        Ok(Remote { host: host.to_owned(), port, name, config, authorization })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        match self.host.contains(':') {
            true => format!("https://[{}]:{}", self.host, self.port),
            false => format!("https://{}:{}", self.host, self.port),
        }
    }

    /// The name or address of the node's machine.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The header that proves the caller's identity.
    pub(crate) fn authorization(&self) -> HeaderValue {
        self.authorization.clone()
    }

    pub(crate) async fn connect(&self) -> Result<TlsStream<TcpStream>, ClientError> {
        let failed = |why: String| ClientError::Unreachable { url: self.url(), why };
        let connecting = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            TlsConnector::from(Arc::clone(&self.config)).connect(self.name.clone(), stream).await
        };
        match timeout(PATIENCE, connecting).await {
            Ok(connected) => connected.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }
}

fn given(pem: &str) -> Result<RootCertStore, ClientError> {
    let wrong = |why: String| ClientError::Setting(format!("the authority's certificate: {why}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("there is none in the file, which is to be PEM".to_owned())),
        false => Ok(roots),
    }
}

fn trusted() -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        true => Err(ClientError::Setting("this machine trusts no authority: use --ca".to_owned())),
        false => Ok(roots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (url, wanted) in [
            ("https://node.example:7443", Some(("node.example", 7443))),
            ("https://node.example/", Some(("node.example", 443))),
            ("https://[2001:db8::1]:1", Some(("2001:db8::1", 1))),
            ("https://[::1]", Some(("::1", 443))),
            ("http://node.example", None),
            ("https://", None),
            ("https://a:b", None),
            ("https://a:70000", None),
            ("https://user@a", None),
            ("https://a/v1", None),
            ("https://[::1]x", None),
        ] {
            assert_eq!(parts(url), wanted, "{url}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_before_anything_is_sent() {
        for (url, token, authority, wanted) in [
            ("https://a b", "t", Some(""), "no name of a host"),
            ("https://a", "t", Some("nonsense"), "there is none in the file"),
            ("a", "t", None, "looks like https://NAME:PORT"),
        ] {
            let error = Remote::new(url, token, authority).expect_err(url).to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
