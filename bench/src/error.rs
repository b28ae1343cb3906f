//! Errors of measurements.

/// Result of every function of this crate that can fail.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of measurements; each names the object concerned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("interrupted; everything has been removed")]
    Interrupted,
    #[error("another europa-bench is running on this machine")]
    NotAlone,
    #[error("`{command}` failed: {message}")]
    Command { command: String, message: String },
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("{what}: {source}")]
    Bpf { what: String, source: libbpf_rs::Error },
    #[error("no device {device} in namespace {namespace}")]
    NoDevice { device: String, namespace: String },
    #[error("{system}: {message}")]
    System { system: &'static str, message: String },
    #[error("{0}")]
    Other(String),
}

/// Adds the attempted operation to an error of another library.
pub(crate) trait Context<T> {
    /// Wraps the error with the attempted operation.
    fn context(self, what: impl Into<String>) -> Result<T>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|source| Error::Io { what: what.into(), source })
    }
}

impl<T> Context<T> for nix::Result<T> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|errno| Error::Io { what: what.into(), source: errno.into() })
    }
}

impl<T> Context<T> for libbpf_rs::Result<T> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|source| Error::Bpf { what: what.into(), source })
    }
}
