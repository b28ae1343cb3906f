//! Links: converts their documents to the switch's form.

use europa_api::{Distribution, Documents, Line, Loss, QueueLength};
use europa_impair::{Limit, Settings};

/// A link's effects on packets from this end: `slice/router`, or a host's name. `None` if it has no
/// effects.
pub(crate) fn impairment(documents: &Documents, link: &str, end: &str) -> Option<Settings> {
    let document = documents.links.iter().find(|document| &**document.name == link)?;
    let line = document.line_from(end);
    let settings = settings(&line, europa_api::hash(&format!("{link}\0{end}")));
    Some(settings).filter(|settings| !settings.is_nothing())
}

/// The seed depends on the names, so that two directions differ and every run is the same.
fn settings(line: &Line, names: u64) -> Settings {
    let nothing = Settings::default();
    let share =
        |share: &Option<europa_api::At<europa_api::Share>>| share.map_or(0.0, |s| s.of_one());
    Settings {
        rate_bits: line.rate.map(|rate| rate.bits_per_second),
        delay_ns: line.delay.map_or(0, |delay| delay.ns),
        jitter_ns: line.jitter.map_or(0, |jitter| jitter.ns),
        distribution: match line.distribution.map(|distribution| distribution.value) {
            None | Some(Distribution::Uniform) => europa_impair::Distribution::Uniform,
            Some(Distribution::Normal) => europa_impair::Distribution::Normal,
            Some(Distribution::Pareto) => europa_impair::Distribution::Pareto,
        },
        loss: match line.loss.map(|loss| loss.value) {
            None => nothing.loss,
            Some(Loss::Each(share)) => europa_impair::Loss::Independent { share: share.of_one() },
            Some(Loss::Bursts(bursts)) => europa_impair::Loss::Bursts {
                begin: bursts.begin.of_one(),
                end: bursts.end.of_one(),
                bad: bursts.bad.map_or(1.0, |bad| bad.of_one()),
                good: share(&bursts.good),
            },
        },
        reorder: share(&line.reorder),
        duplicate: share(&line.duplicate),
        corrupt: share(&line.corrupt),
        limit: match line.limit.map(|limit| limit.value) {
            None => nothing.limit,
            Some(QueueLength::Packets(packets)) => Limit { packets, bytes: u64::MAX },
            Some(QueueLength::Bytes(bytes)) => Limit { packets: u32::MAX, bytes },
        },
        seed: names
            ^ line.seed.map_or(0, |seed| u64::from(seed.value).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    }
}

#[cfg(test)]
mod tests {
    use europa_api::{Source, parse};

    use super::*;

    #[test]
    fn a_direction_has_its_own_and_the_common() {
        let text = "kind: slice\nname: s\n---\n\
             kind: link\nname: l\na: s/x\ndelay: 10ms\nloss: 1%\n\
             a_to_b: {delay: 20ms}\nb_to_a: {rate: 8Mb/s, limit: 20 packets}\n---\n\
             kind: link\nname: plain\n---\n\
             kind: router\nname: x\nslice: s\ninterfaces: {e: {link: l}, p: {link: plain}}\n\
             fast_path: {builtin: ipv4}\n---\n\
             kind: router\nname: y\nslice: s\ninterfaces: {e: {link: l}, p: {link: plain}}\n\
             fast_path: {builtin: ipv4}\n";
        let source = Source { path: "x.yaml".into(), text: text.to_owned() };
        let documents = parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false)));
        let from_x = impairment(&documents, "l", "s/x").expect("a delay");
        let from_y = impairment(&documents, "l", "s/y").expect("a delay");
        let loss = europa_impair::Loss::Independent { share: 0.01 };
        assert_eq!((from_x.delay_ns, from_x.rate_bits, from_x.loss), (20_000_000, None, loss));
        assert_eq!((from_y.delay_ns, from_y.rate_bits), (10_000_000, Some(8_000_000)));
        assert_eq!((from_y.limit.packets, from_y.loss), (20, loss));
        assert_ne!(from_x.seed, from_y.seed);
        assert_eq!(impairment(&documents, "plain", "s/x"), None);
    }
}
