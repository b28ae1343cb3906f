//! Rates: differences between two readings of a node's counters.

use europa_api::stats::{InterfaceStats, NodeStats, QueueStats, RouterStats};

use crate::table::scaled;

/// The objects of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    #[default]
    Slices,
    Routers,
    Interfaces,
    Ports,
    Queues,
}

impl View {
    pub(crate) const ALL: [Self; 5] =
        [Self::Slices, Self::Routers, Self::Interfaces, Self::Ports, Self::Queues];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Slices => "Slices",
            Self::Routers => "Routers",
            Self::Interfaces => "Interfaces",
            Self::Ports => "Ports",
            Self::Queues => "Queues",
        }
    }

    /// The two columns that have a history: bits in and out; for ports, waiting and lost packets;
    /// for queues, sent bits and waiting packets.
    pub(crate) const REMEMBERED: [usize; 2] = [1, 3];

    /// Heading and unit of each column.
    pub(crate) fn columns(self) -> &'static [(&'static str, Unit)] {
        use Unit::{Bits, Bytes, Count, Packets, Percent, Time};
        const TRAFFIC: [(&str, Unit); 5] =
            [("in", Packets), ("in", Bits), ("out", Packets), ("out", Bits), ("dropped", Packets)];
        match self {
            Self::Slices | Self::Routers => {
                const ALL: [(&str, Unit); 8] = [
                    TRAFFIC[0],
                    TRAFFIC[1],
                    TRAFFIC[2],
                    TRAFFIC[3],
                    TRAFFIC[4],
                    ("CPU", Percent),
                    ("memory", Bytes),
                    ("restarts", Count),
                ];
                &ALL
            }
            Self::Interfaces => &TRAFFIC,
            Self::Ports => &[
                ("to Linux", Packets),
                ("waiting", Count),
                ("at most", Count),
                ("device drops", Packets),
                ("copies refused", Packets),
            ],
            Self::Queues => &[
                ("out", Packets),
                ("out", Bits),
                ("dropped", Packets),
                ("waiting", Count),
                ("marked", Packets),
                ("p50 wait", Time),
                ("p99 wait", Time),
            ],
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A second.
    Packets,
    /// A second.
    Bits,
    /// Per cent of one core.
    Percent,
    Bytes,
    /// A plain number.
    Count,
    /// Nanoseconds.
    Time,
}

impl Unit {
    /// The figure with its unit.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Packets => scaled(value, "p/s"),
            Self::Bits => scaled(value, "b/s"),
            Self::Bytes => scaled(value, "B"),
            Self::Percent => format!("{value:.1} %"),
            Self::Count => format!("{value:.0}"),
            Self::Time if value >= 1e9 => format!("{:.1} s", value / 1e9),
            Self::Time if value >= 1e6 => format!("{:.1} ms", value / 1e6),
            Self::Time if value >= 1e3 => format!("{:.1} us", value / 1e3),
            Self::Time => format!("{value:.0} ns"),
        }
    }
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// True if all its routers run.
    pub(crate) well: bool,
    /// A figure for each column.
    pub(crate) values: Vec<f64>,
}

/// Two readings.
pub(crate) struct Interval<'a> {
    before: &'a NodeStats,
    after: &'a NodeStats,
}

/// A counter's growth. If a counter has started again, it has grown by its value.
fn grown(before: u64, after: u64) -> f64 {
    if after >= before { (after - before) as f64 } else { after as f64 }
}

fn dropped(interface: &InterfaceStats) -> u64 {
    interface.drops.iter().map(|(_, count)| count).sum()
}

impl<'a> Interval<'a> {
    pub(crate) fn new(before: &'a NodeStats, after: &'a NodeStats) -> Self {
        Self { before, after }
    }

    /// Its length.
    pub(crate) fn seconds(&self) -> f64 {
        (self.after.at_ns.saturating_sub(self.before.at_ns)).max(1) as f64 / 1e9
    }

    /// The table of a view.
    pub(crate) fn rows(&self, view: View) -> Vec<Row> {
        match view {
            View::Slices => self.slices(),
            View::Routers => self.after.routers.iter().map(|router| self.router(router)).collect(),
            View::Interfaces => {
                self.after.routers.iter().flat_map(|r| self.interfaces(r)).collect()
            }
            View::Ports => self.ports(),
            View::Queues => self.queues(),
        }
    }

    fn slices(&self) -> Vec<Row> {
        let mut slices: Vec<Row> = Vec::new();
        for router in &self.after.routers {
            let Row { well, values, .. } = self.router(router);
            let name = router.name.split('/').next().unwrap_or_default();
            match slices.iter_mut().find(|slice| slice.name == name) {
                Some(slice) => {
                    slice.well &= well;
                    slice.values.iter_mut().zip(values).for_each(|(sum, more)| *sum += more);
                }
                None => slices.push(Row { name: name.to_owned(), well, values }),
            }
        }
        slices
    }

    fn router(&self, router: &RouterStats) -> Row {
        let mut values = vec![0.0; View::Routers.columns().len()];
        for interface in self.interfaces(router) {
            values.iter_mut().zip(interface.values).for_each(|(sum, more)| *sum += more);
        }
        let before = self.before.routers.iter().find(|before| before.name == router.name);
        // A new router may have used CPU time before this interval.
        let cpu_before = before.and_then(|before| before.cpu_ns).or(router.cpu_ns);
        let cpu = grown(cpu_before.unwrap_or(0), router.cpu_ns.unwrap_or(0));
        values[5] = cpu / 1e7 / self.seconds();
        values[6] = router.memory_bytes.unwrap_or(0) as f64;
        values[7] = router.restarts as f64;
        Row { name: router.name.clone(), well: router.state == "running", values }
    }

    fn interfaces(&self, router: &RouterStats) -> Vec<Row> {
        let before = self.before.routers.iter().find(|before| before.name == router.name);
        let rows = router.interfaces.iter().map(|after| {
            let found = before
                .and_then(|before| before.interfaces.iter().find(|other| other.name == after.name));
            let rate = |value: fn(&InterfaceStats) -> u64| {
                let now = value(after);
                grown(found.map_or(now, value), now) / self.seconds()
            };
            let values = vec![
                rate(|i| i.rx_packets),
                rate(|i| i.rx_bytes) * 8.0,
                rate(|i| i.tx_packets),
                rate(|i| i.tx_bytes) * 8.0,
                rate(dropped),
            ];
            let name = format!("{}.{}", router.name, after.name);
            Row { name, well: router.state == "running", values }
        });
        rows.collect()
    }

    fn queues(&self) -> Vec<Row> {
        let rows = self.after.queues.iter().map(|after| {
            let name = queue_name(after);
            let found = self.before.queues.iter().find(|before| queue_name(before) == name);
            let before = found.unwrap_or(after);
            let rate = |before, now| grown(before, now) / self.seconds();
            let drops = |queue: &QueueStats| queue.drops.iter().map(|(_, count)| count).sum();
            let of_interval: Vec<(u64, f64)> = after
                .waited
                .iter()
                .map(|(ns, now)| {
                    let then = before.waited.iter().find(|(other, _)| other == ns);
                    (*ns, grown(then.map_or(0, |(_, packets)| *packets), *now))
                })
                .collect();
            let values = vec![
                rate(before.packets, after.packets),
                rate(before.bytes, after.bytes) * 8.0,
                rate(drops(before), drops(after)),
                after.waiting as f64,
                rate(before.marks, after.marks),
                waited(&of_interval, 0.5),
                waited(&of_interval, 0.99),
            ];
            Row { name, well: true, values }
        });
        rows.collect()
    }

    fn ports(&self) -> Vec<Row> {
        let rows = self.after.ports.iter().map(|after| {
            let found = self.before.ports.iter().find(|before| before.name == after.name);
            let before = found.unwrap_or(after);
            let rate = |before, now| grown(before, now) / self.seconds();
            let values = vec![
                rate(before.to_linux, after.to_linux),
                after.queued as f64,
                after.queued_peak as f64,
                rate(before.device_drops, after.device_drops),
                rate(before.copies_refused, after.copies_refused),
            ];
            Row { name: format!("{} ({})", after.name, after.device), well: true, values }
        });
        rows.collect()
    }
}

/// The name of a class or queue of a port: `right red/r1.out#1`.
fn queue_name(queue: &QueueStats) -> String {
    let part = |mark: &str, part: &Option<String>| {
        part.as_ref().map_or(String::new(), |part| format!("{mark}{part}"))
    };
    let number = queue.queue.map_or(String::new(), |number| format!("#{number}"));
    let QueueStats { port, slice, router, interface, .. } = queue;
    format!("{port}{}{}{}{number}", part(" ", slice), part("/", router), part(".", interface))
}

/// The waiting time that this part of the packets did not exceed; 0 without packets. `waited`
/// contains upper bounds of waiting times, each with the number of packets between the bound before
/// and this one.
fn waited(waited: &[(u64, f64)], part: f64) -> f64 {
    let wanted = part * waited.iter().map(|(_, packets)| packets).sum::<f64>();
    let mut sum = 0.0;
    for (ns, packets) in waited {
        sum += packets;
        if *packets > 0.0 && sum >= wanted {
            return *ns as f64;
        }
    }
    0.0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use europa_api::stats::PortStats;

    /// Two routers of one slice and one of another, and a port; every counter has the value `n`.
    pub(crate) fn reading(at_ns: u64, n: u64) -> NodeStats {
        let interface = |name: &str| InterfaceStats {
            name: name.into(),
            rx_packets: n,
            rx_bytes: 100 * n,
            tx_packets: n / 2,
            tx_bytes: 50 * n,
            drops: vec![("no free slot".into(), n / 2)],
            ..InterfaceStats::default()
        };
        let router = |name: &str, interfaces: &[&str]| RouterStats {
            name: name.into(),
            state: "running".into(),
            cpu_ns: Some(n * 1000),
            memory_bytes: Some(1 << 20),
            interfaces: interfaces.iter().map(|name| interface(name)).collect(),
            ..RouterStats::default()
        };
        let port = PortStats {
            name: "left".into(),
            device: "eth0".into(),
            to_linux: n,
            queued: 5,
            ..PortStats::default()
        };
        let queue = QueueStats {
            port: "left".into(),
            slice: Some("red".into()),
            router: Some("a".into()),
            interface: Some("out".into()),
            queue: Some(1),
            packets: 100 * n,
            waiting: 7,
            waited: vec![(1024, 98 * n), (1 << 20, 2 * n)],
            ..QueueStats::default()
        };
        NodeStats {
            at_ns,
            routers: vec![
                router("red/a", &["in", "out"]),
                router("red/b", &["in"]),
                router("blue/a", &["in"]),
            ],
            ports: vec![port],
            queues: vec![queue],
            ..NodeStats::default()
        }
    }

    #[test]
    fn rates_are_over_the_time_between_the_readings() {
        let (before, after) = (reading(1_000_000_000, 1000), reading(1_500_000_000, 2000));
        let interval = Interval::new(&before, &after);
        let slices = interval.rows(View::Slices);
        assert_eq!(slices.len(), 2);
        // Three interfaces count 1000 more each in half a second.
        assert_eq!(slices[0].name, "red");
        assert_eq!(slices[0].values[..5], [6000.0, 4_800_000.0, 3000.0, 2_400_000.0, 3000.0]);
        // Two routers used 1 ms each in 500 ms.
        assert!((slices[0].values[5] - 0.4).abs() < 1e-9, "{:?}", slices[0]);
        let interfaces = interval.rows(View::Interfaces);
        assert_eq!((interfaces.len(), interfaces[1].name.as_str()), (4, "red/a.out"));
        assert_eq!(interval.rows(View::Ports)[0].values[..2], [2000.0, 5.0]);
        let queue = &interval.rows(View::Queues)[0];
        assert_eq!(queue.name, "left red/a.out#1");
        assert_eq!(queue.values, [200_000.0, 0.0, 0.0, 7.0, 0.0, 1024.0, 1_048_576.0]);
        for view in View::ALL {
            let columns = view.columns().len();
            assert!(interval.rows(view).iter().all(|row| row.values.len() == columns), "{view:?}");
        }
    }

    #[test]
    fn what_is_new_or_begins_anew_shows_no_wild_rates() {
        let (mut before, after) = (reading(0, 5000), reading(1_000_000_000, 100));
        let restarted = Interval::new(&before, &after).rows(View::Interfaces);
        assert_eq!(restarted[0].values[0], 100.0, "a counter began anew");
        before.routers.remove(0);
        let new = Interval::new(&before, &after).rows(View::Routers);
        assert!(new[0].values[..6].iter().all(|value| *value == 0.0), "{:?}", new[0]);
    }

    #[test]
    fn figures_have_units() {
        assert_eq!(Unit::Bits.show(1.234e9), "1.2 Gb/s");
        assert_eq!(Unit::Packets.show(999.0), "999 p/s");
        assert_eq!(Unit::Percent.show(12.345), "12.3 %");
        assert_eq!(Unit::Count.show(3.0), "3");
        assert_eq!(Unit::Time.show(1_500_000.0), "1.5 ms");
    }
}
