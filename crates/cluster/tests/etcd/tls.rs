//! Connects to etcd by TLS with client certificates.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use europa_cluster::{Access, Etcd, State, TlsFiles, wait};

use super::{Server, is_there};

/// Makes keys and certificates with `openssl` in a folder.
struct Authority<'f> {
    folder: &'f Path,
    name: &'static str,
}

impl Authority<'_> {
    fn run(&self, line: &str) {
        let done = Command::new("openssl").args(line.split(' ')).current_dir(self.folder).output();
        let done = done.expect("openssl");
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}-{name}", self.name))
    }

    fn new<'f>(folder: &'f Path, name: &'static str) -> Authority<'f> {
        let authority = Authority { folder, name };
        authority.run(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
             -keyout {name}-ca.key -out {name}-ca.pem -subj /CN={name}"
        ));
        let extensions = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
        std::fs::write(authority.file("extensions"), extensions).expect("a file");
        for of in ["server", "client"] {
            authority.run(&format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {name}-{of}.key \
                 -out {name}-{of}.csr -subj /CN={of}"
            ));
            authority.run(&format!(
                "x509 -req -in {name}-{of}.csr -CA {name}-ca.pem -CAkey {name}-ca.key -CAcreateserial \
                 -out {name}-{of}.pem -days 2 -extfile {name}-extensions"
            ));
        }
        authority
    }

    fn tls(&self, own: bool) -> TlsFiles {
        let own = own.then(|| (self.file("client.pem"), self.file("client.key")));
        TlsFiles { authority: self.file("ca.pem"), own }
    }
}

#[test]
fn only_clients_with_a_certificate_of_the_authority() {
    if !is_there() {
        return;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join("openssl").is_file()) {
        eprintln!("skipped: only_clients_with_a_certificate: openssl is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let right = Authority::new(folder.path(), "right");
    let wrong = Authority::new(folder.path(), "wrong");
    let options = vec![
        ("--cert-file", right.file("server.pem")),
        ("--key-file", right.file("server.key")),
        ("--trusted-ca-file", right.file("ca.pem")),
    ];
    let server = Server::spawn(options);
    let access = |tls: Option<TlsFiles>| Access {
        endpoints: vec![server.url()],
        cluster: "test".into(),
        tls,
    };
    wait(async {
        let start = Instant::now();
        let etcd = loop {
            match Etcd::connect(&access(Some(right.tls(true)))).await {
                Ok(etcd) => break etcd,
                Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
            }
        };
        assert!(State::read(&etcd, &State::default()).await?.items.is_empty());
        let theirs = TlsFiles { own: wrong.tls(true).own, ..right.tls(true) };
        for (what, tls) in [
            ("no certificate", Some(right.tls(false))),
            ("one of another authority", Some(theirs)),
            ("another authority for the server", Some(wrong.tls(true))),
            ("no authority", None),
        ] {
            let start = Instant::now();
            let refused = Etcd::connect(&access(tls)).await;
            println!("{what}: {}", refused.as_ref().err().map_or("?".into(), ToString::to_string));
            assert!(refused.is_err(), "{what}");
            assert!(start.elapsed() < Duration::from_secs(7), "{what}: {:?}", start.elapsed());
        }
        Ok(())
    })
    .expect("a runtime");
}
