//! Settings that the kernel does not announce: files of `/proc` that are read again and again.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Buffer size for the contents of such a file.
const MOST_BYTES: usize = 1024;

/// Files that stay open: the namespace is that of the thread that opened them.
#[derive(Debug, Default)]
struct Files {
    open: HashMap<String, File>,
}

impl Files {
    /// The contents of a file; `None` if it is missing.
    fn read(&mut self, path: String) -> Option<String> {
        let mut bytes = [0; MOST_BYTES];
        // The setting of a removed device cannot be read.
        for _ in 0..2 {
            if let Some(file) = self.open.get(&path) {
                if let Ok(length) = file.read_at(&mut bytes, 0) {
                    let text = bytes.get(..length).unwrap_or_default();
                    return Some(String::from_utf8_lossy(text).trim().to_owned());
                }
                self.open.remove(&path);
            }
            let file = File::open(&path).ok()?;
            self.open.insert(path.clone(), file);
        }
        None
    }
}

/// Settings of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfDevice {
    /// Linux sends redirects.
    pub(crate) sends_redirects: bool,
    /// Longest IPv6 packet.
    pub(crate) mtu6: Option<u32>,
    /// Linux has no IPv6 there: it is disabled, or the MTU is too small for it.
    pub(crate) lacks_ipv6: bool,
}

/// The last values read.
#[derive(Debug, Default)]
pub(crate) struct Polled {
    files: Files,
    /// iptables and ip6tables of the kernel before nftables have tables.
    pub(crate) legacy: [bool; 2],
    devices: HashMap<String, OfDevice>,
}

impl Polled {
    /// Reads everything in a thread of the namespace. Returns whether something has changed.
    pub(crate) fn read<'a>(&mut self, devices: impl Iterator<Item = &'a str>) -> bool {
        let legacy = ["ip_tables_names", "ip6_tables_names"].map(|name| {
            let names = self.files.read(format!("/proc/thread-self/net/{name}"));
            names.is_some_and(|names| !names.is_empty())
        });
        let all = self.flag("/proc/sys/net/ipv4/conf/all/send_redirects".into());
        let mut read = HashMap::new();
        for device in devices.filter(|name| !name.contains('/')) {
            let own = self.flag(format!("/proc/sys/net/ipv4/conf/{device}/send_redirects"));
            let mtu6 = self.files.read(format!("/proc/sys/net/ipv6/conf/{device}/mtu"));
            let mtu6 = mtu6.and_then(|text| text.parse().ok());
            let disabled =
                self.files.read(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"));
            let lacks_ipv6 = disabled.is_none_or(|text| text != "0");
            let sends_redirects = all || own;
            read.insert(device.to_owned(), OfDevice { sends_redirects, mtu6, lacks_ipv6 });
        }
        let is_different = legacy != self.legacy || read != self.devices;
        (self.legacy, self.devices) = (legacy, read);
        is_different
    }

    fn flag(&mut self, path: String) -> bool {
        self.files.read(path).is_some_and(|text| text != "0")
    }

    /// The settings of a device.
    pub(crate) fn device(&self, name: &str) -> OfDevice {
        self.devices.get(name).copied().unwrap_or_default()
    }
}
