//! Click's three code strings: port counts, processing and flow.

/// The allowed numbers of ports of an element; with the ports in use, this gives the actual
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortCount {
    inputs: (u32, u32),
    outputs: Outputs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outputs {
    Range(u32, u32),
    /// As many as inputs, plus this number.
    Equal(u32),
}

impl PortCount {
    /// Reads `1/1-2`, `-/=`, `1/=+`, `0`; a code without slash applies to both sides.
    pub(crate) fn parse(code: &str) -> Option<PortCount> {
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        let outputs = match outputs.strip_prefix('=') {
            Some(plus) if plus.bytes().all(|b| b == b'+') => {
                Outputs::Equal(u32::try_from(plus.len()).ok()?)
            }
            Some(_) => return None,
            None => {
                let (low, high) = range(outputs)?;
                Outputs::Range(low, high)
            }
        };
        Some(PortCount { inputs: range(inputs)?, outputs })
    }

    /// The numbers of ports of an element, if this many are in use.
    pub(crate) fn fit(self, inputs: u32, outputs: u32) -> (u32, u32) {
        let inputs = inputs.max(self.inputs.0).min(self.inputs.1);
        let outputs = match self.outputs {
            Outputs::Range(low, high) => outputs.max(low).min(high),
            Outputs::Equal(more) => inputs.saturating_add(more),
        };
        (inputs, outputs)
    }
}

fn range(code: &str) -> Option<(u32, u32)> {
    match code.split_once('-') {
        None if code.is_empty() => Some((0, 0)),
        None => {
            let count = code.parse().ok()?;
            Some((count, count))
        }
        Some((low, high)) => {
            let low = if low.is_empty() { 0 } else { low.parse().ok()? };
            let high = if high.is_empty() { u32::MAX } else { high.parse().ok()? };
            Some((low, high))
        }
    }
}

/// Which element moves a packet over a port: the sender pushes, or the receiver pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processing {
    /// The upstream element.
    Push,
    /// The downstream element.
    Pull,
}

impl Processing {
    /// `push` or `pull`.
    pub fn name(self) -> &'static str {
        match self {
            Processing::Push => "push",
            Processing::Pull => "pull",
        }
    }

    /// The other one.
    pub fn other(self) -> Processing {
        match self {
            Processing::Push => Processing::Pull,
            Processing::Pull => Processing::Push,
        }
    }
}

/// Reads a processing code for this number of ports; `None` in the result is agnostic.
pub(crate) type PortKinds = Vec<Option<Processing>>;

/// Kinds of the inputs and of the outputs.
pub(crate) fn parse_processing(
    code: &str,
    inputs: u32,
    outputs: u32,
) -> Option<(PortKinds, PortKinds)> {
    let (left, right) = code.split_once('/').unwrap_or((code, code));
    Some((side(left, inputs)?, side(right, outputs)?))
}

fn side(code: &str, count: u32) -> Option<PortKinds> {
    let letters: PortKinds = code
        .chars()
        .map(|c| match c.to_ascii_lowercase() {
            'h' => Some(Some(Processing::Push)),
            'l' => Some(Some(Processing::Pull)),
            'a' => Some(None),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let last = letters.last().copied().unwrap_or(None);
    let repeated = letters.iter().copied().chain(std::iter::repeat(last));
    Some(repeated.take(count as usize).collect())
}

/// A flow code: which input's packets may leave by which output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    inputs: Vec<FlowSet>,
    outputs: Vec<FlowSet>,
}

/// The symbols of one port: letters, and `#`, which stands for the port's own number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FlowSet {
    letters: u64,
    own: bool,
    others: bool,
}

impl FlowSet {
    fn add(&mut self, symbol: char) -> Option<()> {
        match symbol {
            'a'..='z' => self.letters |= 1 << (symbol as u32 - 'a' as u32),
            'A'..='Z' => self.letters |= 1 << (26 + symbol as u32 - 'A' as u32),
            '#' => self.own = true,
            _ => return None,
        }
        Some(())
    }

    fn negated(self) -> FlowSet {
        FlowSet { letters: !self.letters, own: !self.own, others: !self.others }
    }
}

impl Flow {
    /// Reads `x/x`, `xy/yx`, `#/[^#]`; `None` if it is malformed.
    pub fn parse(code: &str) -> Option<Flow> {
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        Some(Flow { inputs: flow_sets(inputs)?, outputs: flow_sets(outputs)? })
    }

    /// Whether packets that enter by `input` may leave by `output`.
    pub fn travels(&self, input: u32, output: u32) -> bool {
        let port = |sets: &[FlowSet], port: u32| {
            let index = (port as usize).min(sets.len().saturating_sub(1));
            sets.get(index).copied().unwrap_or_default()
        };
        let (a, b) = (port(&self.inputs, input), port(&self.outputs, output));
        let numbers = if input == output {
            (a.own && b.own) || (a.others && b.others)
        } else {
            (a.own && b.others) || (a.others && (b.own || b.others))
        };
        a.letters & b.letters != 0 || numbers
    }
}

fn flow_sets(code: &str) -> Option<Vec<FlowSet>> {
    let mut sets = Vec::new();
    let mut symbols = code.chars().peekable();
    while let Some(symbol) = symbols.next() {
        let mut set = FlowSet::default();
        if symbol == '[' {
            let negated = symbols.next_if_eq(&'^').is_some();
            loop {
                match symbols.next()? {
                    ']' => break,
                    symbol => set.add(symbol)?,
                }
            }
            if negated {
                set = set.negated();
            }
        } else {
            set.add(symbol)?;
        }
        sets.push(set);
    }
    (!sets.is_empty()).then_some(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_counts() {
        let table = [
            ("1/1", (0, 0), Some((1, 1))),
            ("1/1-2", (1, 5), Some((1, 2))),
            ("1/0-", (0, 7), Some((1, 7))),
            ("-/=", (3, 9), Some((3, 3))),
            ("1-2/=+", (2, 0), Some((2, 3))),
            ("0", (1, 1), Some((0, 0))),
            ("-", (4, 2), Some((4, 2))),
            ("1", (0, 0), Some((1, 1))),
            ("x/1", (0, 0), None),
            ("1/=x", (0, 0), None),
        ];
        for (code, (inputs, outputs), want) in table {
            let got = PortCount::parse(code).map(|count| count.fit(inputs, outputs));
            assert_eq!(got, want, "{code}");
        }
    }

    #[test]
    fn processing_repeats_its_last_letter() {
        use Processing::{Pull, Push};
        let table = [
            ("a/ah", vec![None, None], vec![None, Some(Push), Some(Push)]),
            ("h/l", vec![Some(Push); 2], vec![Some(Pull); 3]),
            ("l", vec![Some(Pull); 2], vec![Some(Pull); 3]),
        ];
        for (code, inputs, outputs) in table {
            assert_eq!(parse_processing(code, 2, 3), Some((inputs, outputs)), "{code}");
        }
        assert_eq!(parse_processing("z", 1, 1), None);
    }

    #[test]
    fn flows() {
        let table = [
            ("x/x", 0, 3, true),
            ("x/y", 0, 0, false),
            ("xy/yx", 0, 0, false),
            ("xy/yx", 0, 1, true),
            ("#/#", 2, 2, true),
            ("#/#", 2, 1, false),
            ("#/[^#]", 2, 1, true),
            ("#/[^#]", 2, 2, false),
            ("x[xy]/x[xy]", 0, 1, true),
            ("xy/x[xy]", 1, 0, false),
        ];
        for (code, input, output, travels) in table {
            let flow = Flow::parse(code).unwrap();
            assert_eq!(flow.travels(input, output), travels, "{code} {input} {output}");
        }
        assert_eq!(Flow::parse("[x/x"), None);
        assert_eq!(Flow::parse("!/x"), None);
    }
}
