//! # ToDevice
//!
//! ## Synopsis
//! `ToDevice(DEVNAME [, BURST, METHOD, DEBUG])`
//!
//! ## Ports
//! One input, push or pull.
//!
//! ## Description
//! Sends packets by one of the router's interfaces. On a pull input it asks for as many packets as
//! the interface takes, and keeps the refused ones for the next turn. On a push input, it drops
//! packets that the interface does not take at once; a `Queue` in front keeps them. It drops and
//! counts a frame that the interface refuses for good, such as a frame that is too long, and
//! reports the first of them.
//!
//! ## Arguments
//! - DEVNAME: name of the interface.
//! - BURST (keyword): most packets in a turn, default 256.
//! - METHOD, DEBUG, QUIET, NO_PAD, ALLOW_NONEXISTENT, UP_CALL, DOWN_CALL (keywords): accepted as
//!   in Click, without effect.
//!
//! ## Handlers
//! - `count` (read): packets sent.
//! - `drops` (read): packets the interface did not take, or refused for good.
//! - `reset_counts` (write): sets both to zero.
//!
//! ## See also
//! `FromDevice`, `Queue`

use europa_engine::{
    BATCH, Batch, Class, ClassInfo, ConfigError, Context, Element, InitContext, arguments,
    handlers, keep,
};

/// Sends by an interface.
pub(crate) struct ToDevice {
    name: String,
    interface: usize,
    burst: usize,
    /// Pulled packets that the interface has not taken yet.
    waiting: Batch,
    count: u64,
    drops: u64,
    /// Whether it has reported that the interface refuses frames.
    told: bool,
}

impl Default for ToDevice {
    fn default() -> ToDevice {
        ToDevice {
            name: String::new(),
            interface: 0,
            burst: BATCH,
            waiting: Batch::new(),
            count: 0,
            drops: 0,
            told: false,
        }
    }
}

impl Class for ToDevice {
    const INFO: ClassInfo = ClassInfo::new("ToDevice", "1/0").inline().keeps_long();
}

impl ToDevice {
    /// An element for this interface.
    pub(crate) fn of(name: String, burst: Option<usize>) -> ToDevice {
        let burst = burst.unwrap_or(BATCH).clamp(1, BATCH);
        ToDevice { name, burst, ..ToDevice::default() }
    }

    /// Sends packets. Packets for which the interface has no room stay in the batch.
    pub(crate) fn send(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let before = batch.len();
        context.devices().tx(self.interface, batch);
        self.count(before - batch.len(), context);
    }

    /// Counts frames that the interface has taken or refused.
    fn count(&mut self, frames: usize, context: &mut Context<'_>) {
        let refused = context.devices().take_refused(self.interface);
        let drops = refused.frames.min(frames as u64);
        self.count += frames as u64 - drops;
        self.drops += drops;
        if drops > 0 && !std::mem::replace(&mut self.told, true) {
            self.tell(refused.errno, context);
        }
    }

    /// Reports once why frames are refused.
    #[cold]
    fn tell(&self, errno: i32, context: &mut Context<'_>) {
        let reason = nix::errno::Errno::from_raw(errno);
        let mtu = context.devices().interface(self.interface).map_or(0, |interface| interface.mtu);
        let why = match reason {
            nix::errno::Errno::EMSGSIZE => {
                format!("frame longer than the MTU of {mtu} bytes allows")
            }
            other => other.desc().to_owned(),
        };
        let line = format!(
            "{} :: ToDevice({}): {why}; such frames are dropped, see 'drops'",
            context.name(),
            self.name
        );
        context.log(&line);
    }
}

impl Element for ToDevice {
    arguments! { this, given;
        mandatory "DEVNAME": String => this.name;
        keyword "BURST": usize = BATCH => this.burst;
        keyword "DEBUG": bool => _;
        keyword "QUIET": bool => _;
        keyword "NO_PAD": bool => _;
        keyword "ALLOW_NONEXISTENT": bool => _;
        keyword "METHOD": String => _;
        keyword "UP_CALL": String => _;
        keyword "DOWN_CALL": String => _;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let Some((index, _)) = context.interface(&self.name) else {
            let message = format!("DEVNAME: this router has no interface '{}'", self.name);
            return Err(ConfigError::other(message));
        };
        self.interface = index;
        if context.is_pull(0) {
            context.add_task(1024);
        }
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.send(batch, context);
        self.drops += batch.len() as u64;
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let room = self.burst.saturating_sub(self.waiting.len());
        context.pull(0, room, &mut self.waiting);
        let before = self.waiting.len();
        if before == 0 {
            return false;
        }
        context.devices().tx(self.interface, &mut self.waiting);
        let sent = before - self.waiting.len();
        self.count(sent, context);
        sent > 0
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "drops" => this.drops;
        button "reset_counts" => (this.count, this.drops) = (0, 0);
    }

    keep! { this, old;
        waiting;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::device_router;

    #[test]
    fn a_full_interface_delays_pulled_packets_and_drops_pushed_ones() {
        for (class, arguments, sent, drops) in
            [("Queue", &[][..], &["a", "b", "c"][..], "0"), ("Null", &[], &["a"], "2")]
        {
            let (mut router, mut devices) = device_router(&[
                ("from", "FromDevice", &["eth0"]),
                ("between", class, arguments),
                ("to", "ToDevice", &["eth1"]),
            ]);
            devices.tx_limit = 1;
            devices.received[0] = [b"a", b"b", b"c"].map(|data| data.to_vec()).into();
            while router.run_once(0, &mut devices) {}
            let expected: Vec<Vec<u8>> = sent.iter().map(|s| s.as_bytes().to_vec()).collect();
            assert_eq!(devices.sent[1], expected);
            assert_eq!(router.read("to.drops", ""), Ok(drops.into()));
        }
    }
}
