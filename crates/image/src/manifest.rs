//! The manifest of an image: its layers, and the configuration of its programs.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{at, wrong};
use crate::source::{LAYOUT, Source};
use crate::users::ids;

/// Most bytes of a manifest or a configuration.
const MOST_BYTES: u64 = 4 << 20;
/// Most layers; Docker makes at most 127.
const MOST_LAYERS: usize = 256;
/// Most indexes within each other.
const MOST_INDEXES: u32 = 4;
/// The media types of an index, of OCI and Docker.
const INDEXES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// The settings of an image's programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// First words of its command.
    pub entrypoint: Vec<String>,
    /// Further words.
    pub command: Vec<String>,
    /// Variables.
    pub environment: Vec<(String, String)>,
    /// `user`, `uid`, `user:group` or `uid:gid`; empty for root.
    pub user: String,
    /// The working directory; empty for `/`.
    pub folder: String,
}

impl Config {
    /// The image's command: entry point and further words.
    pub fn words(&self) -> Vec<String> {
        self.entrypoint.iter().chain(&self.command).cloned().collect()
    }

    /// The working directory in which `words` begin, and their user and group. The image's own
    /// settings apply only to the image's own command. It is for a process whose root directory is
    /// the image's.
    ///
    /// # Errors
    /// The image has no such user.
    pub fn beginning(&self, words: &[String]) -> io::Result<(PathBuf, Option<(u32, u32)>)> {
        let root = Path::new("/");
        if self.words() != words {
            return Ok((root.to_owned(), None));
        }
        let ids = (!self.user.is_empty()).then(|| ids(root, &self.user));
        Ok((root.join(&self.folder), ids.transpose()?))
    }
}

/// A layer of an image.
#[derive(Debug)]
pub(crate) struct Layer {
    /// The file with it.
    pub(crate) file: String,
    /// Digest of the file; Docker's archives have none.
    pub(crate) digest: Option<String>,
    /// Digest of its unpacked bytes.
    pub(crate) plain_digest: String,
}

/// The layers and the configuration of an image.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) config: Config,
    /// Digest of the configuration, without `sha256:`.
    pub(crate) digest: String,
    /// The lowest first.
    pub(crate) layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct OciManifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerManifest {
    config: String,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct ImageConfig {
    architecture: Option<String>,
    os: Option<String>,
    config: Option<Settings>,
    rootfs: RootFs,
}

/// Docker's JSON has `null` for an empty list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Settings {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

impl Manifest {
    /// Reads the manifest of an image for this machine's architecture.
    pub(crate) fn read(source: &Source) -> io::Result<Manifest> {
        let manifest = if source.has(LAYOUT) {
            Self::read_oci(source)?
        } else if source.has("manifest.json") {
            Self::read_docker(source)?
        } else {
            let message = "it is neither an OCI layout (oci-layout, index.json) nor an archive of \
                           `docker save` (manifest.json)";
            return Err(wrong(message));
        };
        if manifest.layers.len() > MOST_LAYERS {
            return Err(wrong(format!("it has more than {MOST_LAYERS} layers")));
        }
        Ok(manifest)
    }

    fn read_oci(source: &Source) -> io::Result<Manifest> {
        let mut index: Index = json(&source.read("index.json", MOST_BYTES)?, "index.json")?;
        for _ in 0..MOST_INDEXES {
            let found = choose(&index)?;
            let bytes = blob(source, &found.digest)?;
            if INDEXES.contains(&&*found.media_type) {
                index = json(&bytes, &found.digest)?;
                continue;
            }
            let manifest: OciManifest = json(&bytes, &found.digest)?;
            let config = blob(source, &manifest.config.digest)?;
            let layers = manifest.layers.iter().map(|layer| {
                if layer.media_type.contains("nondistributable") {
                    return Err(wrong("one of its layers is not part of the image"));
                }
                Ok((blob_file(&layer.digest)?, Some(layer.digest.clone())))
            });
            return Self::new(&config, layers.collect::<io::Result<Vec<_>>>()?);
        }
        Err(wrong("its indexes name each other"))
    }

    fn read_docker(source: &Source) -> io::Result<Manifest> {
        let bytes = source.read("manifest.json", MOST_BYTES)?;
        let all: Vec<DockerManifest> = json(&bytes, "manifest.json")?;
        let [one] = &all[..] else {
            return Err(wrong(format!(
                "it holds {} images: save one, as in `docker save IMAGE`",
                all.len()
            )));
        };
        let config = source.read(&one.config, MOST_BYTES)?;
        Self::new(&config, one.layers.iter().map(|file| (file.clone(), None)).collect())
    }

    fn new(config: &[u8], layers: Vec<(String, Option<String>)>) -> io::Result<Manifest> {
        let told: ImageConfig = json(config, "its configuration")?;
        let (os, architecture) = (told.os.as_deref(), told.architecture.as_deref());
        if os.is_some_and(|os| os != "linux")
            || architecture.is_some_and(|one| !one.is_empty() && one != our_architecture())
        {
            return Err(wrong(format!(
                "it is for {} on {}, and this machine is linux on {}",
                os.unwrap_or("linux"),
                architecture.unwrap_or("?"),
                our_architecture()
            )));
        }
        if told.rootfs.diff_ids.len() != layers.len() {
            return Err(wrong(format!(
                "its configuration names {} layers, and its manifest {}",
                told.rootfs.diff_ids.len(),
                layers.len()
            )));
        }
        let layers = layers.into_iter().zip(told.rootfs.diff_ids);
        let layers =
            layers.map(|((file, digest), plain_digest)| Layer { file, digest, plain_digest });
        let settings = told.config.unwrap_or_default();
        let variable = |text: &String| {
            let (name, value) = text.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        let config_of = Config {
            entrypoint: settings.entrypoint.unwrap_or_default(),
            command: settings.cmd.unwrap_or_default(),
            environment: settings.env.unwrap_or_default().iter().filter_map(variable).collect(),
            user: settings.user.unwrap_or_default(),
            folder: settings.working_dir.unwrap_or_default(),
        };
        let all = config_of.entrypoint.iter().chain(&config_of.command);
        let variables = config_of.environment.iter().flat_map(|(name, value)| [name, value]);
        let mut texts = all.chain(variables).chain([&config_of.user, &config_of.folder]);
        let has_zero = texts.any(|text| text.contains('\0'));
        drop(texts);
        if has_zero {
            return Err(wrong("a text of its configuration contains a zero byte"));
        }
        Ok(Manifest {
            config: config_of,
            digest: hex(&Sha256::digest(config)),
            layers: layers.collect(),
        })
    }
}

/// The entry of an index for this machine; if it names no platform, its only entry.
fn choose(index: &Index) -> io::Result<&Descriptor> {
    let fits = |one: &&Descriptor| {
        one.platform
            .as_ref()
            .is_some_and(|on| on.os == "linux" && on.architecture == our_architecture())
    };
    let mut fitting = index.manifests.iter().filter(fits);
    match (fitting.next(), fitting.next(), &index.manifests[..]) {
        (Some(one), None, _) | (None, None, [one]) => Ok(one),
        (Some(_), Some(_), _) => Err(wrong("it holds several images for this machine: save one")),
        (None, _, all) => Err(wrong(format!(
            "none of its {} images is for linux on {}",
            all.len(),
            our_architecture()
        ))),
    }
}

/// The architecture of this machine in Go's names, which images use.
fn our_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The file of a blob.
fn blob_file(digest: &str) -> io::Result<String> {
    let hex = digest.strip_prefix("sha256:").filter(|hex| is_hex(hex));
    let hex = hex.ok_or_else(|| wrong(format!("{digest:?} is no digest of the form sha256:…")))?;
    Ok(format!("blobs/sha256/{hex}"))
}

/// Whether it is a digest in hexadecimal digits.
fn is_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|one| matches!(one, b'0'..=b'9' | b'a'..=b'f'))
}

/// A small blob, whose digest has been checked.
fn blob(source: &Source, digest: &str) -> io::Result<Vec<u8>> {
    let bytes = source.read(&blob_file(digest)?, MOST_BYTES)?;
    let found = format!("sha256:{}", hex(&Sha256::digest(&bytes)));
    if found != digest {
        return Err(wrong(format!("{digest} has the content of {found}")));
    }
    Ok(bytes)
}

fn json<T: for<'de> Deserialize<'de>>(bytes: &[u8], what: &str) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(io::Error::from).map_err(at(what))
}

pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sums up the bytes that pass.
pub(crate) struct Summed<R> {
    inner: R,
    sum: Sha256,
}

impl<R: Read> Summed<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, sum: Sha256::new() }
    }

    /// Reads the rest, and compares the digest of the whole with `wanted`.
    pub(crate) fn check(mut self, wanted: &str, most: u64) -> io::Result<()> {
        let rest = io::copy(&mut (&mut self).take(most), &mut io::sink())?;
        let found = format!("sha256:{}", hex(&self.sum.finalize()));
        if rest == most || found != wanted {
            return Err(wrong(format!("{wanted} has the content of {found}")));
        }
        Ok(())
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.sum.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}
