//! Counters for Prometheus, in the text format of OpenMetrics.
//!
//! Names, labels and units are listed in `docs/metrics.md`: a change of one here breaks users'
//! dashboards.

mod tunnels;

use std::fmt;

use europa_api::lsp::{LspList, Reservable};
use europa_api::stats::{InterfaceStats, NodeStats, QueueStats, RouterStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The type of the text, for `Content-Type`.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const NANOSECONDS: f64 = 1e9;

/// All of a node's counters as text.
pub(crate) fn text(instance: &str, stats: NodeStats, flows: LspList) -> String {
    let mut registry = Registry::with_prefix("europa");
    registry.register_collector(Box::new(Metrics { instance: instance.to_owned(), stats, flows }));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Metrics {
    instance: String,
    stats: NodeStats,
    flows: LspList,
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// A counter with a value for each set of labels; omitted if there is none.
fn counter<'a, V: EncodeCounterValue>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels<'a>, V)>,
) -> fmt::Result {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    values.try_for_each(|(labels, value)| {
        if labels.is_empty() {
            return metric.encode_counter::<NoLabelSet, _, u64>(&value, None);
        }
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
    })
}

/// A counter with a value for each set of labels and each cause of a drop.
fn drops<'a>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    all: impl Iterator<Item = (Labels<'a>, &'a [(String, u64)])>,
) -> fmt::Result {
    let by_cause = all.flat_map(|(labels, drops)| {
        drops.iter().map(move |(cause, count)| {
            let mut labels = labels.clone();
            labels.push(("cause", cause));
            (labels, *count)
        })
    });
    counter(encoder, name, help, by_cause)
}

/// A gauge, as [`counter`].
fn gauge<'a, V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels<'a>, V)>,
) -> fmt::Result {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    values.try_for_each(|(labels, value)| metric.encode_family(&labels)?.encode_gauge(&value))
}

fn of_router(router: &RouterStats) -> Labels<'_> {
    let (slice, name) = router.name.split_once('/').unwrap_or(("", &router.name));
    vec![("slice", slice), ("router", name)]
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let to = &mut encoder;
        let labels = vec![("instance", self.instance.as_str()), ("version", VERSION)];
        gauge(to, "node", "Always 1; labels name the node.", [(labels, 1)].into_iter())?;
        self.routers(to)?;
        self.interfaces(to)?;
        self.ports(to)?;
        self.queues(to)?;
        self.links(to)?;
        tunnels::all(&self.stats, to)?;
        self.flows(to)?;
        self.switch(to)
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Metrics {
    fn routers(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let all = || self.stats.routers.iter();
        let up = |router: &RouterStats| i64::from(router.state == "running");
        gauge(
            to,
            "router_up",
            "Whether the fast path runs.",
            all().map(|router| (of_router(router), up(router))),
        )?;
        counter(
            to,
            "router_restarts",
            "Times that the fast path was started again.",
            all().map(|router| (of_router(router), router.restarts)),
        )?;
        counter(
            to,
            "router_cpu_seconds",
            "CPU time of the fast path.",
            all().filter_map(|router| {
                Some((of_router(router), router.cpu_ns? as f64 / NANOSECONDS))
            }),
        )?;
        counter(
            to,
            "router_kernel_seconds",
            "CPU time of the kernel to put packets into the router's pool.",
            all().map(|router| (of_router(router), router.kernel_ns as f64 / NANOSECONDS)),
        )?;
        gauge(
            to,
            "router_memory_bytes",
            "Memory of the fast path beside its packet pool.",
            all().filter_map(|router| Some((of_router(router), router.memory_bytes?))),
        )?;
        gauge(
            to,
            "router_pool_bytes",
            "Memory of the packet pool.",
            all().map(|router| (of_router(router), router.pool_bytes)),
        )?;
        counter(
            to,
            "router_wakes",
            "Times that a packet woke the fast path.",
            all().map(|router| (of_router(router), router.wakes)),
        )
    }

    fn interfaces(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let all = || {
            self.stats.routers.iter().flat_map(|router| {
                router.interfaces.iter().map(move |interface| {
                    let mut labels = of_router(router);
                    labels.push(("interface", &interface.name));
                    (labels, interface)
                })
            })
        };
        type Value = fn(&InterfaceStats) -> u64;
        let values: [(&str, &str, Value); 4] = [
            ("interface_receive_packets", "Packets given to the router.", |i| i.rx_packets),
            ("interface_receive_bytes", "Their bytes.", |i| i.rx_bytes),
            ("interface_transmit_packets", "Packets that left.", |i| i.tx_packets),
            ("interface_transmit_bytes", "Their bytes.", |i| i.tx_bytes),
        ];
        for (name, help, value) in values {
            counter(to, name, help, all().map(|(labels, i)| (labels, value(i))))?;
        }
        drops(
            to,
            "interface_drops",
            "Packets lost, by cause.",
            all().map(|(labels, interface)| (labels, interface.drops.as_slice())),
        )
    }

    fn ports(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let all = || {
            let ports = self.stats.ports.iter();
            ports.map(|port| {
                (vec![("port", port.name.as_str()), ("device", port.device.as_str())], port)
            })
        };
        counter(
            to,
            "port_to_linux_packets",
            "Frames passed on to Linux.",
            all().map(|(labels, port)| (labels, port.to_linux)),
        )?;
        counter(
            to,
            "port_copies_refused",
            "Copies of broadcasts that were not made, because of their rate.",
            all().map(|(labels, port)| (labels, port.copies_refused)),
        )?;
        counter(
            to,
            "port_malformed",
            "Frames too short to have a header.",
            all().map(|(labels, port)| (labels, port.malformed)),
        )?;
        gauge(
            to,
            "port_waiting_packets",
            "Packets that wait to be sent.",
            all().map(|(labels, port)| (labels, port.queued as u64)),
        )?;
        counter(
            to,
            "port_device_drops",
            "Packets that the device lost below Europa.",
            all().map(|(labels, port)| (labels, port.device_drops)),
        )
    }

    /// Queues with waiting packets: classes are their sums.
    fn queues(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let numbers: Vec<(String, &QueueStats)> = (self.stats.queues.iter())
            .filter_map(|queue| Some((queue.queue?.to_string(), queue)))
            .collect();
        let all = || {
            numbers.iter().map(|(number, queue)| {
                let part = |part| Option::as_deref(part).unwrap_or_default();
                let labels = vec![
                    ("port", queue.port.as_str()),
                    ("slice", part(&queue.slice)),
                    ("router", part(&queue.router)),
                    ("interface", part(&queue.interface)),
                    ("queue", number.as_str()),
                ];
                (labels, *queue)
            })
        };
        type Value = fn(&QueueStats) -> u64;
        let counters: [(&str, &str, Value); 4] = [
            ("queue_packets", "Packets that left.", |q| q.packets),
            ("queue_bytes", "Their bytes.", |q| q.bytes),
            ("queue_marks", "Packets that left with a mark.", |q| q.marks),
            ("queue_dropped_bytes", "Bytes dropped.", |q| q.dropped_bytes),
        ];
        for (name, help, value) in counters {
            counter(to, name, help, all().map(|(labels, q)| (labels, value(q))))?;
        }
        drops(
            to,
            "queue_drops",
            "Packets dropped, by cause.",
            all().map(|(labels, queue)| (labels, queue.drops.as_slice())),
        )?;
        let gauges: [(&str, &str, Value); 2] = [
            ("queue_waiting_packets", "Packets that wait.", |q| q.waiting),
            ("queue_waiting_bytes", "Their bytes.", |q| q.waiting_bytes),
        ];
        for (name, help, value) in gauges {
            gauge(to, name, help, all().map(|(labels, q)| (labels, value(q))))?;
        }
        gauge(
            to,
            "queue_waited_seconds",
            "What part of the packets that left waited less than, to within a factor of two.",
            all().flat_map(|(labels, queue)| {
                let quantiles = [("0.5", queue.waited_p50_ns), ("0.99", queue.waited_p99_ns)];
                quantiles.map(|(quantile, ns)| {
                    let mut labels = labels.clone();
                    labels.push(("quantile", quantile));
                    (labels, ns as f64 / NANOSECONDS)
                })
            }),
        )
    }

    fn links(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let all = || {
            let links = self.stats.links.iter();
            links.map(|link| {
                (vec![("link", link.name.as_str()), ("from", link.from.as_str())], link)
            })
        };
        counter(
            to,
            "link_packets",
            "Packets that came in.",
            all().map(|(labels, link)| (labels, link.packets)),
        )?;
        gauge(
            to,
            "link_waiting_packets",
            "Packets on the way.",
            all().map(|(labels, link)| (labels, link.waiting)),
        )?;
        drops(
            to,
            "link_drops",
            "Packets lost, by cause.",
            all().map(|(labels, link)| (labels, link.drops.as_slice())),
        )
    }

    fn flows(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let flows = self.flows.flows.iter();
        let ups = flows.map(|flow| {
            let labels = vec![("slice", flow.slice.as_str()), ("flow", flow.name.as_str())];
            (labels, u64::from(flow.state == "up"))
        });
        gauge(to, "flow_up", "1 for a flow with a path, else 0.", ups)?;
        let all = |value: fn(&Reservable) -> u64| {
            self.flows.interfaces.iter().filter_map(move |one| {
                let (slice, rest) = one.name.split_once('/')?;
                let (router, interface) = rest.split_once('.')?;
                let labels = vec![("slice", slice), ("router", router), ("interface", interface)];
                // Rates are bytes a second, as other counters are bytes.
                Some((labels, value(one) / 8))
            })
        };
        gauge(
            to,
            "interface_reservable_bytes_per_second",
            "Bandwidth that flows may reserve.",
            all(|one| one.bandwidth),
        )?;
        gauge(
            to,
            "interface_unreserved_bytes_per_second",
            "The part of it that no flow has reserved.",
            all(|one| one.left),
        )
    }

    fn switch(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let one = |value| [(Labels::new(), value)].into_iter();
        let restarts = self.stats.switch_restarts;
        counter(to, "switch_restarts", "Times that the switch was started again.", one(restarts))?;
        let Some(switch) = &self.stats.switch else { return Ok(()) };
        if let Some(cpu) = switch.cpu_ns {
            let cpu = [(Labels::new(), cpu as f64 / NANOSECONDS)];
            counter(to, "switch_cpu_seconds", "CPU time of the switch.", cpu.into_iter())?;
        }
        for (name, help, value) in [
            ("switch_kicks", "Runs of the transmit program.", switch.kicks),
            ("switch_live_frames", "Frames that left by them.", switch.live_frames),
            ("switch_socket_calls", "System calls to send by a socket.", switch.socket_calls),
            ("switch_socket_frames", "Frames that left by a socket.", switch.socket_frames),
            ("switch_link_frames", "Frames that went over links.", switch.link_frames),
            ("switch_sleeps", "Times that the switch slept.", switch.sleeps),
        ] {
            counter(to, name, help, one(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
