//! Images are unpacked as Docker does it, and no file of a hostile image lies outside its root
//! directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use europa_image::{Limits, is_image, open, open_within};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A layer in the making.
#[derive(Default)]
struct Layer(Vec<u8>);

impl Layer {
    /// An entry with any name and link, including those that the crate refuses to write.
    fn entry(mut self, kind: EntryType, name: &str, link: &str, content: &[u8], mode: u32) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        let raw = header.as_old_mut();
        raw.name[..name.len()].copy_from_slice(name.as_bytes());
        raw.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_mode(mode);
        header.set_uid(7);
        header.set_gid(8);
        header.set_mtime(1_000_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.extend(header.as_bytes());
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, name, "", content.as_bytes(), 0o644)
    }

    fn folder(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name, "", b"", 0o755)
    }

    fn link(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Symlink, name, to, b"", 0o777)
    }

    fn done(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

const SETTINGS: &str = r#"{"Entrypoint": ["/sbin/tini", "--"], "Cmd": ["run", "it"], "Env": ["PATH=/opt", "A=b=c"],
    "User": "frr", "WorkingDir": "/srv"}"#;

fn config(layers: &[Vec<u8>]) -> Vec<u8> {
    let ids: Vec<String> = layers.iter().map(|one| format!("\"sha256:{}\"", digest(one))).collect();
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    format!(
        r#"{{"architecture": "{arch}", "os": "linux", "config": {SETTINGS}, "rootfs": {{"diff_ids": [{}]}}}}"#,
        ids.join(",")
    )
    .into_bytes()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// The files of an OCI layout.
fn oci(layers: &[Vec<u8>]) -> BTreeMap<String, Vec<u8>> {
    let mut files =
        BTreeMap::from([("oci-layout".to_owned(), br#"{"imageLayoutVersion": "1.0.0"}"#.to_vec())]);
    let mut blob = |bytes: Vec<u8>| {
        let digest = digest(&bytes);
        let told = format!("\"digest\": \"sha256:{digest}\", \"size\": {}", bytes.len());
        files.insert(format!("blobs/sha256/{digest}"), bytes);
        told
    };
    let config = blob(config(layers));
    let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
    let layers: Vec<String> = layers
        .iter()
        .map(|one| format!("{{\"mediaType\": \"{kind}\", {}}}", blob(packed(one))))
        .collect();
    let manifest = format!(
        "{{\"schemaVersion\": 2, \"config\": {{\"mediaType\": \"c\", {config}}}, \"layers\": [{}]}}",
        layers.join(",")
    );
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = blob(manifest.into_bytes());
    let index = format!(
        "{{\"schemaVersion\": 2, \"manifests\": [{{\"mediaType\": \"{kind}\", {manifest}}}]}}"
    );
    files.insert("index.json".into(), index.into_bytes());
    files
}

/// The files of an archive of `docker save` before version 25.
fn docker(layers: &[Vec<u8>]) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = layers
        .iter()
        .enumerate()
        .map(|(at, one)| (format!("{at}/layer.tar"), one.clone()))
        .collect();
    let names: Vec<String> = files.keys().map(|name| format!("\"{name}\"")).collect();
    files.insert("c.json".into(), config(layers));
    let manifest = format!(
        "[{{\"Config\": \"c.json\", \"RepoTags\": null, \"Layers\": [{}]}}]",
        names.join(",")
    );
    files.insert("manifest.json".into(), manifest.into_bytes());
    files
}

fn archive(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A folder for a test: the store lies at `a/store`, files outside at `a/outside`.
struct Case {
    folder: TempDir,
}

impl Case {
    fn new() -> Case {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/kept"), "kept").unwrap();
        Case { folder }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn write(&self, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join("image.tar");
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Unpacks layers in an archive of Docker's.
    fn unpack(&self, layers: &[Vec<u8>]) -> Result<PathBuf, String> {
        let path = self.write(&archive(&docker(layers)));
        open(&path, &self.store()).map(|image| image.root).map_err(|error| error.to_string())
    }

    /// Checks that nothing outside was changed, and that a refused image has left nothing.
    fn check(&self, refused: bool) {
        let outside = self.folder.path().join("outside");
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        if refused {
            assert_eq!(fs::read_dir(self.store()).unwrap().count(), 0, "left in the store");
        }
    }
}

fn layers() -> Vec<Vec<u8>> {
    let below = Layer::default()
        .folder("usr")
        .folder("usr/bin")
        .link("bin", "usr/bin")
        .link("absolute", "/usr/bin")
        .file("etc/frr/frr.conf", "old")
        .file("etc/frr/daemons", "gone")
        .file("var/lib/a/b", "gone")
        .entry(EntryType::Regular, "usr/bin/su", "", b"su", 0o4755)
        .entry(EntryType::Char, "dev/null", "", b"", 0o666)
        .done();
    let above = Layer::default()
        .file("./etc/frr/frr.conf", "new")
        .file("etc/frr/.wh.daemons", "")
        .file("bin/tool", "by a link")
        .file("absolute/other", "by another link")
        .entry(EntryType::Link, "usr/bin/again", "bin/tool", b"", 0o644)
        .file("var/lib/a/own", "own")
        .file("var/lib/a/.wh..wh..opq", "")
        .entry(EntryType::Fifo, "run/pipe", "", b"", 0o600)
        .done();
    vec![below, above]
}

fn look(root: &Path) {
    let text = |path: &str| fs::read_to_string(root.join(path)).ok();
    for (path, wanted) in [
        ("etc/frr/frr.conf", Some("new")),
        ("etc/frr/daemons", None),
        ("usr/bin/tool", Some("by a link")),
        ("usr/bin/other", Some("by another link")),
        ("usr/bin/again", Some("by a link")),
        ("var/lib/a/b", None),
        ("var/lib/a/own", Some("own")),
        ("dev/null", None),
    ] {
        assert_eq!(text(path).as_deref(), wanted, "{path}");
    }
    let su = fs::metadata(root.join("usr/bin/su")).unwrap();
    assert_eq!((su.mode() & 0o7777, su.uid(), su.gid()), (0o4755, 7, 8));
    assert_eq!(su.mtime(), 1_000_000_000);
    assert_eq!(fs::metadata(root.join("usr/bin/again")).unwrap().nlink(), 2);
}

#[test]
fn every_form_is_unpacked_once() {
    let case = Case::new();
    let folder = case.folder.path().join("layout");
    for (name, bytes) in oci(&layers()) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let mut paths = vec![folder];
    for (name, bytes) in [
        ("oci.tar", archive(&oci(&layers()))),
        ("docker.tar", archive(&docker(&layers()))),
        ("docker.tar.gz", packed(&archive(&docker(&layers())))),
    ] {
        paths.push(case.folder.path().join(name));
        fs::write(paths.last().unwrap(), bytes).unwrap();
    }
    let mut seen = Vec::new();
    for path in &paths {
        assert!(is_image(path), "{}", path.display());
        let image = open(path, &case.store()).unwrap();
        look(&image.root);
        assert_eq!(image.config.words(), ["/sbin/tini", "--", "run", "it"]);
        assert_eq!(image.config.environment[1], ("A".to_owned(), "b=c".to_owned()));
        assert_eq!((&*image.config.user, &*image.config.folder), ("frr", "/srv"));
        seen.push((image.digest, fs::metadata(&image.root).unwrap().ino()));
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "unpacked again: {seen:?}");
    assert_eq!(fs::metadata(case.store()).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!is_image(case.folder.path()), "a plain folder is no image");
    case.check(false);
}

#[test]
fn docker_s_own_layers_behind_links_are_found() {
    let case = Case::new();
    let mut builder = Builder::new(Vec::new());
    for (name, bytes) in docker(&layers()) {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        let name = if name == "0/layer.tar" { "same/layer.tar".to_owned() } else { name };
        builder.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "0/layer.tar", "../same/layer.tar").unwrap();
    let path = case.write(&builder.into_inner().unwrap());
    look(&open(&path, &case.store()).unwrap().root);
}

#[test]
fn nothing_of_a_hostile_layer_lies_outside() {
    let outside = |case: &Case| case.folder.path().join("outside").display().to_string();
    type Make = fn(Layer, &str) -> Layer;
    let cases: [(&str, Make, Option<&str>); 12] = [
        ("upward", |layer, _| layer.file("../outside/new", "x"), Some("leads out of the image")),
        ("deep upward", |layer, _| layer.file("a/../../x", "x"), Some("leads out of the image")),
        ("absolute", |layer, out| layer.file(&format!("{out}/new"), "x"), None),
        ("link out", |layer, out| layer.link("l", out).file("l/kept", "x"), None),
        (
            "relative link out",
            |layer, _| layer.link("l", "../../../../outside").file("l/kept", "x"),
            None,
        ),
        (
            "file over a link",
            |layer, out| layer.link("l", &format!("{out}/kept")).file("l", "x"),
            None,
        ),
        (
            "hard link out",
            |layer, out| {
                layer
                    .link("l", out)
                    .entry(EntryType::Link, "h", "l/kept", b"", 0o644)
                    .file("h", "x")
            },
            Some("No such file"),
        ),
        (
            "hard link upward",
            |layer, _| layer.entry(EntryType::Link, "h", "../../outside/kept", b"", 0o644),
            Some("leads out of the image"),
        ),
        ("whiteout of all", |layer, _| layer.file("a/.wh...", ""), Some("takes no file away")),
        ("whiteout of this", |layer, _| layer.file("a/.wh..", ""), Some("takes no file away")),
        ("whiteout by a link", |layer, out| layer.link("l", out).file("l/.wh.kept", ""), None),
        ("opaque by a link", |layer, out| layer.link("l", out).file("l/.wh..wh..opq", ""), None),
    ];
    for (what, make, refused) in cases {
        let case = Case::new();
        let layer = make(Layer::default(), &outside(&case)).done();
        match (case.unpack(&[layer]), refused) {
            (Ok(_), None) => case.check(false),
            (Err(error), Some(wanted)) => {
                assert!(error.contains(wanted), "{what}: {error}");
                case.check(true);
            }
            // A link that leads nowhere inside makes a file behind it impossible.
            (Err(_), None) => case.check(true),
            (Ok(_), Some(_)) => panic!("{what} was unpacked"),
        }
    }
}

#[test]
fn sizes_are_bounded() {
    let layer = Layer::default().file("a", &"x".repeat(2000)).file("b", "").done();
    for (bytes, entries, wanted) in [
        (1000, 10, "more bytes than an image may have"),
        (1 << 20, 1, "more files than an image may have"),
    ] {
        let case = Case::new();
        let path = case.write(&archive(&docker(std::slice::from_ref(&layer))));
        let error = open_within(&path, &case.store(), Limits { bytes, entries }).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        case.check(true);
    }
    // An archive that unpacks to a thousand times its size.
    let case = Case::new();
    let path = case.write(&packed(&vec![0; 1 << 20]));
    let error = open_within(&path, &case.store(), Limits { bytes: 1000, entries: 10 }).unwrap_err();
    assert!(error.to_string().contains("unpacks to more than"), "{error}");
    case.check(true);
}

#[test]
fn a_damaged_image_is_refused() {
    type Harm = fn(&mut BTreeMap<String, Vec<u8>>);
    let harms: [(Harm, &str); 6] = [
        (|files| drop(files.remove("manifest.json")), "neither an OCI layout"),
        (|files| files.get_mut("0/layer.tar").unwrap()[520] ^= 1, "has the content of"),
        (|files| files.get_mut("0/layer.tar").unwrap().truncate(700), "layer 1 of 2"),
        (|files| drop(files.remove("1/layer.tar")), "it has no 1/layer.tar"),
        (|files| drop(files.insert("c.json".into(), b"{".to_vec())), "its configuration"),
        (
            |files| {
                let text = String::from_utf8(files["c.json"].clone()).unwrap();
                let other = text.replace("amd64", "s390x").replace("arm64", "s390x");
                drop(files.insert("c.json".into(), other.into_bytes()));
            },
            "it is for linux on s390x",
        ),
    ];
    for (harm, wanted) in harms {
        let case = Case::new();
        let layer = Layer::default().file("a", "some text").done();
        let mut files = docker(&[layer.clone(), layer]);
        harm(&mut files);
        let error = open(&case.write(&archive(&files)), &case.store()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
        assert!(error.contains("image.tar"), "{error}");
        case.check(true);
    }
    let case = Case::new();
    let error = open(&case.write(b"no archive at all"), &case.store()).unwrap_err().to_string();
    assert!(error.contains("neither an OCI layout nor an archive"), "{error}");
    assert!(open(Path::new("/nonexistent/image"), &case.store()).is_err());
}

#[test]
fn mutated_archives_end_with_an_error_or_inside() {
    let bytes = archive(&docker(&layers()));
    let mut seed: u64 = 1;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    let case = Case::new();
    for _ in 0..2000 {
        let mut other = bytes.clone();
        for _ in 0..1 + random() % 4 {
            let at = random() % other.len();
            other[at] = random() as u8;
        }
        if random() % 8 == 0 {
            other.truncate(random() % other.len());
        }
        let _ = open(&case.write(&other), &case.store());
        case.check(false);
    }
}

#[test]
fn headers_of_any_size_are_not_read() {
    // A name of 64 MiB, which gzip compresses to 64 kB.
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        let layer = Layer::default()
            .entry(kind, "n", "", &vec![b'a'; 64 << 20], 0o644)
            .file("a", "")
            .done();
        let case = Case::new();
        let error = case.unpack(&[layer]).unwrap_err();
        assert!(error.contains("a header with 67108864 bytes"), "{kind:?}: {error}");
        case.check(true);
    }
}

/// An image made by another program: tar is installed everywhere, umoci and skopeo are not.
#[test]
fn archives_of_tar_are_read() {
    let case = Case::new();
    let content = case.folder.path().join("content");
    fs::create_dir_all(content.join("a").join("n".repeat(200))).unwrap();
    fs::write(content.join("a").join("n".repeat(200)).join("f".repeat(120)), "long").unwrap();
    let layer = case.folder.path().join("layer.tar");
    let run = |format: &str| {
        let done = Command::new("tar")
            .args(["--format", format, "-C"])
            .arg(&content)
            .arg("-cf")
            .arg(&layer)
            .arg(".")
            .status()
            .expect("tar");
        assert!(done.success());
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut File::open(&layer).unwrap(), &mut bytes).unwrap();
        bytes
    };
    for format in ["gnu", "pax"] {
        let root = case.unpack(&[run(format)]).unwrap();
        let long = root.join("a").join("n".repeat(200)).join("f".repeat(120));
        assert_eq!(fs::read_to_string(long).unwrap(), "long", "{format}");
    }
}
