//! Certificates: those that the node was given, or its own authority's.
//!
//! The authority's key and certificate are stored beside the documents, in a folder that only root
//! can enter. Each start makes a new certificate of the node, so it always names the present
//! addresses.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use europa_node::{Instance, NodeError};
use nix::ifaddrs::getifaddrs;
use nix::unistd::gethostname;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::settings::Listening;

/// Files of the authority.
const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca.key";

fn refused(what: &str) -> impl Fn(String) -> NodeError + '_ {
    move |why| NodeError::Refused(format!("TLS: {what}: {why}"))
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// The TLS configuration of a listener.
pub(crate) fn config(
    folder: &Path,
    instance: &Instance,
    listening: &Listening,
) -> Result<Arc<ServerConfig>, NodeError> {
    let (chain, key) = match &listening.files {
        Some((certificate, key)) => given(certificate, key)?,
        None => own(folder, instance, listening.at)?,
    };
    let wrong = refused("its certificate");
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| wrong(text(error)))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

type Certificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn given(certificate: &Path, key: &Path) -> Result<Certificate, NodeError> {
    let named = |path: &Path| path.display().to_string();
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused(&named(certificate))(text(error)))?;
    if chain.is_empty() {
        return Err(refused(&named(certificate))("there is no certificate in it".to_owned()));
    }
    let key =
        PrivateKeyDer::from_pem_file(key).map_err(|error| refused(&named(key))(text(error)))?;
    Ok((chain, key))
}

fn own(folder: &Path, instance: &Instance, at: SocketAddr) -> Result<Certificate, NodeError> {
    let wrong = refused("making a certificate");
    let issuer = authority(folder, instance)?;
    let mut params = CertificateParams::new(names(at)).map_err(|error| wrong(text(error)))?;
    params.distinguished_name.push(DnType::CommonName, format!("europa {}", instance.name()));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(|error| wrong(text(error)))?;
    let certificate = params.signed_by(&key, &issuer).map_err(|error| wrong(text(error)))?;
    let secret = PrivateKeyDer::try_from(key.serialize_der());
    let secret = secret.map_err(|error| wrong(text(error)))?;
    Ok((vec![certificate.der().clone()], secret))
}

/// The authority of an instance; makes it if it does not exist.
fn authority(folder: &Path, instance: &Instance) -> Result<Issuer<'static, KeyPair>, NodeError> {
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    let shown = key.display().to_string();
    let wrong = refused(&shown);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("europa {} CA", instance.name()));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    if !certificate.exists() || !key.exists() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| wrong(text(error)))?;
        let made = KeyPair::generate().map_err(|error| wrong(text(error)))?;
        let signed = params.self_signed(&made).map_err(|error| wrong(text(error)))?;
        write(&key, 0o600, &made.serialize_pem()).map_err(|error| wrong(text(error)))?;
        write(&certificate, 0o644, &signed.pem()).map_err(|error| wrong(text(error)))?;
    }
    let pem = fs::read_to_string(&key).map_err(|error| wrong(text(error)))?;
    let key = KeyPair::from_pem(&pem).map_err(|error| wrong(text(error)))?;
    Ok(Issuer::new(params, key))
}

/// Writes a file as a whole, or not.
fn write(path: &Path, mode: u32, text: &str) -> std::io::Result<()> {
    let new = PathBuf::from(format!("{}.new", path.display()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// Names by which callers may reach a listener.
fn names(at: SocketAddr) -> Vec<String> {
    let mut names = BTreeSet::from(["localhost".to_owned()]);
    names.extend(gethostname().ok().and_then(|name| name.into_string().ok()));
    if at.ip().is_unspecified() {
        for interface in getifaddrs().into_iter().flatten() {
            let address = interface.address.as_ref();
            let v4 = address.and_then(|a| a.as_sockaddr_in()).map(|a| a.ip().to_string());
            let v6 = address.and_then(|a| a.as_sockaddr_in6()).map(|a| a.ip().to_string());
            names.extend(v4.or(v6));
        }
    } else {
        names.insert(at.ip().to_string());
    }
    names.retain(|name| !name.is_empty());
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_authority_is_made_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("tls");
        let instance = Instance::new("t").expect("a name");
        let at = "127.0.0.1:0".parse().expect("an address");
        let read = || fs::read_to_string(folder.join(CERTIFICATE)).expect("a certificate");
        let listening = Listening { at, files: None };
        config(&folder, &instance, &listening).expect("certificates");
        let first = read();
        config(&folder, &instance, &listening).expect("certificates");
        assert_eq!(first, read());
        let mode = fs::metadata(folder.join(KEY)).expect("a key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let files = Some((folder.join(CERTIFICATE), folder.join(KEY)));
        assert!(config(&folder, &instance, &Listening { at, files }).is_ok());
        let files = Some((folder.join(KEY), folder.join(CERTIFICATE)));
        assert!(config(&folder, &instance, &Listening { at, files }).is_err());
    }

    #[test]
    fn names_of_a_listener() {
        let names = names("127.0.0.1:1".parse().expect("an address"));
        assert!(names.contains(&"127.0.0.1".to_owned()) && names.contains(&"localhost".to_owned()));
    }
}
