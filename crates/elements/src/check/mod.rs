//! Checks of headers and lengths.

pub(crate) mod check_arp_header;
pub(crate) mod check_crc32;
pub(crate) mod check_icmp_header;
pub(crate) mod check_ip6_header;
pub(crate) mod check_ip_header;
pub(crate) mod check_length;
pub(crate) mod check_paint;
pub(crate) mod check_tcp_header;
pub(crate) mod check_udp_header;
pub(crate) mod drop_broadcasts;
pub(crate) mod drop_martians;
pub(crate) mod host_ether_filter;
pub(crate) mod set_crc32;

use europa_engine::{ArgumentSet, Batch, Context, Packet, arguments};

/// The common part of elements that check headers: it counts bad packets by reason, and logs them.
pub(crate) struct Checks {
    reasons: &'static [&'static str],
    drops: Vec<u64>,
    verbose: bool,
}

impl ArgumentSet for Checks {
    arguments! { set this, given;
        keyword "VERBOSE": bool = false => this.verbose;
        keyword "DETAILS": bool => _;
    }
}

impl Checks {
    fn new(reasons: &'static [&'static str]) -> Checks {
        Checks { reasons, drops: vec![0; reasons.len()], verbose: false }
    }

    /// Sends a packet out of output 1 if `judge` returns the number of a reason.
    fn run(
        &mut self,
        batch: &mut Batch,
        context: &mut Context<'_>,
        judge: impl Fn(&Packet) -> Option<usize>,
        say: impl Fn(&str, &str) -> String,
    ) {
        let found = std::cell::Cell::new(0);
        batch.filter(
            |packet| match judge(packet) {
                None => true,
                Some(reason) => {
                    found.set(reason);
                    false
                }
            },
            |packet| {
                if self.verbose || self.drops() == 0 {
                    let reason = self.reasons.get(found.get()).unwrap_or(&"");
                    context.log_with(|name| say(name, reason));
                }
                if let Some(count) = self.drops.get_mut(found.get()) {
                    *count += 1;
                }
                context.push(1, packet);
            },
        );
    }

    fn drops(&self) -> u64 {
        self.drops.iter().sum()
    }

    fn details(&self) -> String {
        let lines = self.drops.iter().zip(self.reasons);
        lines.map(|(count, reason)| format!("{count}\t{reason}\n")).collect()
    }
}
