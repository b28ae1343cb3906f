//! Requests to a device's driver: `ioctl(SIOCETHTOOL)`.
//!
//! Command numbers and structures are those of `linux/ethtool.h`. Every command is built in
//! [`Guarded`] memory, whose documentation explains the reason.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::guarded::Guarded;
use crate::netlink::{number, text};

const DRIVER_INFO: u32 = 0x03; // ETHTOOL_GDRVINFO
const STRINGS: u32 = 0x1b; // ETHTOOL_GSTRINGS
const STATISTICS: u32 = 0x1d; // ETHTOOL_GSTATS
const SET_INFO: u32 = 0x37; // ETHTOOL_GSSET_INFO
const GET_FEATURES: u32 = 0x3a; // ETHTOOL_GFEATURES
const SET_FEATURES: u32 = 0x3b; // ETHTOOL_SFEATURES
const CHANNELS: u32 = 0x3c; // ETHTOOL_GCHANNELS

const STRING_BYTES: usize = 32; // ETH_GSTRING_LEN

/// Sets of strings that a driver lists.
#[derive(Clone, Copy)]
pub(crate) enum Strings {
    Statistics = 1,
    Features = 4,
}

/// One offload of a device.
#[derive(Debug)]
pub(crate) struct Feature {
    pub(crate) name: String,
    /// The feature can be switched.
    pub(crate) changeable: bool,
    /// The requested value, which an undo must restore.
    pub(crate) requested: bool,
    /// Whether the feature is in effect: another setting may prevent a requested feature.
    pub(crate) active: bool,
}

/// The driver of one device, reached through any socket of its namespace.
pub(crate) struct Ethtool<'a> {
    socket: BorrowedFd<'a>,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl<'a> Ethtool<'a> {
    pub(crate) fn new(socket: BorrowedFd<'a>, device: &str) -> Self {
        let mut name = [0; libc::IFNAMSIZ];
        for (place, byte) in name.iter_mut().take(libc::IFNAMSIZ - 1).zip(device.bytes()) {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        Self { socket, name }
    }

    /// Executes the command in `memory`, which the answer replaces.
    fn command(&self, memory: &mut Guarded) -> io::Result<()> {
        let mut request = libc::ifreq {
            ifr_name: self.name,
            ifr_ifru: libc::__c_anonymous_ifr_ifru {
                ifru_data: memory.bytes_mut().as_mut_ptr().cast(),
            },
        };
        // SAFETY: `request` is a whole ifreq. Its data pointer is the start of guarded memory that
        // is borrowed exclusively. The kernel's data either fits or stops at the guard page, so no
        // other memory changes.
        let result =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The driver's name.
    pub(crate) fn driver(&self) -> io::Result<String> {
        let mut memory = Guarded::new(256)?;
        memory.put(&[DRIVER_INFO]);
        self.command(&mut memory)?;
        Ok(text(memory.bytes().get(4..36).unwrap_or_default()))
    }

    /// Receive and transmit queues in use.
    pub(crate) fn queues(&self) -> io::Result<(u32, u32)> {
        let mut memory = Guarded::new(64)?;
        memory.put(&[CHANNELS]);
        self.command(&mut memory)?;
        // cmd, four maxima, then rx, tx, other, combined.
        let at = |word: usize| number(memory.bytes(), word * 4).unwrap_or(0);
        Ok((at(5) + at(8), at(6) + at(8)))
    }

    /// The strings of a set, in the order of its values.
    pub(crate) fn strings(&self, set: Strings) -> io::Result<Vec<String>> {
        let count = self.count(set)?;
        let mut memory = Guarded::new(12 + count * STRING_BYTES)?;
        memory.put(&[STRINGS, set as u32, u32::try_from(count).unwrap_or(0)]);
        self.command(&mut memory)?;
        let all = memory.bytes().get(12..).unwrap_or_default();
        Ok(all.chunks_exact(STRING_BYTES).take(count).map(text).collect())
    }

    fn count(&self, set: Strings) -> io::Result<usize> {
        let mut memory = Guarded::new(24)?;
        // A mask of 64 bits; the answer clears the bits of sets that do not exist.
        memory.put(&[SET_INFO, 0, 1 << set as u32, 0]);
        self.command(&mut memory)?;
        let exists = number(memory.bytes(), 8) != Some(0);
        Ok(if exists { number(memory.bytes(), 16).unwrap_or(0) as usize } else { 0 })
    }

    /// Memory in which to read `count` statistics.
    pub(crate) fn statistics_memory(count: usize) -> io::Result<Guarded> {
        Guarded::new(8 + count * 8)
    }

    /// Reads the statistics into `memory`, from byte 8 on, 64 bits each. False if the driver no
    /// longer has `count` of them.
    pub(crate) fn statistics(&self, memory: &mut Guarded, count: usize) -> io::Result<bool> {
        let count = u32::try_from(count).unwrap_or(0);
        memory.put(&[STATISTICS, count]);
        match self.command(memory) {
            Ok(()) => Ok(number(memory.bytes(), 4) == Some(count)),
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// All offloads.
    pub(crate) fn features(&self) -> io::Result<Vec<Feature>> {
        let names = self.strings(Strings::Features)?;
        let blocks = names.len().div_ceil(32);
        let mut memory = Guarded::new(8 + blocks * 16)?;
        memory.put(&[GET_FEATURES, u32::try_from(blocks).unwrap_or(0)]);
        self.command(&mut memory)?;
        // Blocks of 32 features: available, requested, active, never changed.
        let bit = |feature: usize, word: usize| {
            number(memory.bytes(), 8 + (feature / 32) * 16 + word * 4)
                .is_some_and(|bits| bits >> (feature % 32) & 1 == 1)
        };
        let describe = |(at, name)| Feature {
            name,
            changeable: bit(at, 0) && !bit(at, 3),
            requested: bit(at, 1),
            active: bit(at, 2),
        };
        Ok(names.into_iter().enumerate().map(describe).collect())
    }

    /// Requests that offloads are on or off. Only [`Self::features`] shows the result.
    pub(crate) fn set_features(&self, orders: &[(&str, bool)]) -> io::Result<()> {
        let names = self.strings(Strings::Features)?;
        let blocks = names.len().div_ceil(32);
        // Blocks of 32 features: which to set, and their values.
        let mut words = vec![0; 2 + blocks * 2];
        words[0] = SET_FEATURES;
        words[1] = u32::try_from(blocks).unwrap_or(0);
        for (at, name) in names.iter().enumerate() {
            if let Some((_, on)) = orders.iter().find(|(order, _)| order == name) {
                words[2 + at / 32 * 2] |= 1 << (at % 32);
                words[3 + at / 32 * 2] |= u32::from(*on) << (at % 32);
            }
        }
        let mut memory = Guarded::new(words.len() * 4)?;
        memory.put(&words);
        self.command(&mut memory)
    }
}
