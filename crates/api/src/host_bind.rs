//! `binds` of a host: files of the machine in other places.

/// A file or directory of the machine in a place of a host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBind<'a> {
    /// Its path on the machine.
    pub from: &'a str,
    /// Its path in the host.
    pub to: &'a str,
    /// Programs cannot write there.
    pub read_only: bool,
}

impl<'a> HostBind<'a> {
    /// Reads `FROM:TO`, `FROM:TO:ro` or `FROM:TO:rw`, both absolute paths.
    ///
    /// # Errors
    /// The mistake of the text.
    pub fn parse(text: &'a str) -> Result<HostBind<'a>, String> {
        let mut parts = text.split(':');
        let (from, to) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let read_only = match (parts.next(), parts.next()) {
            (None | Some("rw"), None) => false,
            (Some("ro"), None) => true,
            _ => return Err(format!("{text:?} is no bind: FROM:TO or FROM:TO:ro")),
        };
        let upward = to.split('/').any(|one| one == "..");
        if !from.starts_with('/') || !to.starts_with('/') || upward {
            return Err(format!(
                "{text:?} is no bind: both paths are absolute, and the second has no `..`"
            ));
        }
        let taken = ["/", "/dev", "/proc", "/sys"].iter().any(|own| {
            to.trim_end_matches('/') == own.trim_end_matches('/')
                || (*own != "/" && to.starts_with(&format!("{own}/")))
        });
        if taken {
            return Err(format!("a host has its own {to}"));
        }
        Ok(HostBind { from, to, read_only })
    }
}
