//! # IPFilter
//!
//! ## Synopsis
//! `IPFilter(ACTION PATTERN, ...)`
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Description
//! Applies to each packet the action of the first pattern that fits it, and drops packets that fit
//! none. The network header annotation must be set. Tests of bytes that a packet does not have
//! fail.
//!
//! Tests are `[src|dst|src and dst|src or dst] host ADDRESS`, `net PREFIX`, `ether host ADDRESS`,
//! `[tcp|udp] port PORT`, `proto PROTOCOL`, `tcp opt FLAG`, `icmp type TYPE`, `tcp win N`, `ip
//! vers|hl| tos|dscp|len|id|ttl N`, `ip ect|ce|frag|unfrag`, `ip[POS:LEN] N`, `transp[POS:LEN] N`
//! or `PROTOCOL[POS:LEN] N`, `true` and `false`. A relation (`== != < > <= >=`) and a mask (`&
//! MASK`) may stand before the value. Tests are joined by `and`, `or`, `not` (`&& || !`), `? :` and
//! parentheses. Words that are clear by themselves or from the test before may be left out: `tcp`,
//! `www`, `syn`, `10.0.0.0/8`, `src port 80 or 81`. The pattern `-`, `any` or `all` fits every
//! packet.
//!
//! ## Arguments
//! - ACTION: `allow` (output 0), `deny` or `drop`, or the number of an output.
//! - PATTERN: as above.
//!
//! ## Handlers
//! - `program` (read): the compiled patterns, a step a line: four bytes at an offset are compared
//!   under a mask. Offsets count from the Ethernet header; from 256 on, from the IP header; from
//!   512 on, from the transport header.
//!
//! ## See also
//! `IPClassifier`, `Classifier`

use europa_engine::Names;

use super::parse::{Parser, Version, words};
use super::program::{Expr, Next, Program};
use crate::prelude::*;

/// Sorts packets by expressions.
#[derive(Default)]
pub(crate) struct IPFilter {
    program: Program,
}

impl Class for IPFilter {
    const INFO: ClassInfo =
        ClassInfo::new("IPFilter", "1/-").processing("h/h").flow("x/x").inline().keeps_long();
}

/// The target of a pattern, and its text.
fn rule(
    text: &str,
    outputs: usize,
    names: &Names,
    version: Version,
    warnings: &mut Vec<String>,
) -> Result<(Expr, Next), String> {
    let all = words(text);
    let Some((action, rest)) = all.split_first() else { return Err("empty pattern".to_owned()) };
    let next = match *action {
        "allow" if outputs == 0 => {
            return Err("'allow' is meaningless, element has zero outputs".to_owned());
        }
        "allow" => Next::Output(0),
        "deny" | "drop" => Next::Drop,
        number => match number.parse::<u16>() {
            Ok(output) if usize::from(output) < outputs => Next::Output(output),
            Ok(output) => return Err(format!("slot '{output}' out of range")),
            Err(_) => return Err(format!("unknown slot ID '{number}'")),
        },
    };
    let expr = match rest {
        [] | ["-" | "any" | "all"] => Expr::Const(true),
        rest => {
            let mut parser = Parser::new(rest, names, version);
            let expr = parser.pattern();
            warnings.append(&mut parser.warnings);
            expr?
        }
    };
    Ok((expr, next))
}

impl IPFilter {
    /// Compiles rules, each with its number; notes all mistakes.
    pub(super) fn compile(
        &mut self,
        arguments: &mut Arguments<'_>,
        rules: &[(usize, String)],
        version: Version,
    ) {
        let (outputs, names) = (arguments.outputs(), arguments.names().clone());
        let mut patterns = Vec::new();
        for (index, text) in rules {
            let mut warnings = Vec::new();
            let rule = rule(text, outputs, &names, version, &mut warnings);
            for warning in warnings {
                arguments.warn(format!("pattern {index}: {warning}"));
            }
            match rule {
                Ok(pattern) => patterns.push(pattern),
                Err(message) => {
                    let message = format!("pattern {index}: {message}");
                    arguments.error(ConfigError::at(*index, message));
                }
            }
        }
        self.program = Program::compile(&patterns);
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }
}

impl IPFilter {
    /// Reads the rules of a filter, with their numbers.
    pub(super) fn read_rules(
        &mut self,
        rules: Vec<(usize, &str)>,
        given: &mut Arguments<'_>,
        version: Version,
    ) {
        let rules: Vec<_> = rules.into_iter().map(|(at, rule)| (at, unquoted(rule))).collect();
        self.compile(given, &rules, version);
    }
}

/// A rule or pattern without quotes, or as it is.
pub(super) fn unquoted(text: &str) -> String {
    let unquoted = europa_engine::unquote(text).and_then(|bytes| String::from_utf8(bytes).ok());
    unquoted.unwrap_or_else(|| text.to_owned())
}

impl Element for IPFilter {
    arguments! { this, given;
        let rules = rest "RULE": "'ACTION EXPRESSION'";
        then {
            this.read_rules(rules, given, Version::Four);
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        context.push_each(batch, |packet| self.program.run(packet));
    }

    handlers! { this, context, value; read "program" [CALM RAW] => this.program; }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    /// Whether a UDP packet from 10.0.0.1 port 1000 to 10.0.0.2 port 53 fits.
    fn fits(pattern: &str) -> bool {
        let mut bench = Bench::with_outputs("IPFilter", &[&format!("allow {pattern}")], 1);
        let segment = b"\x03\xe8\x00\x35\x00\x08\x00\x00";
        let frame = [
            b"\x02\x02\x02\x02\x02\x02\x04\x04\x04\x04\x04\x04\x08\x00",
            &ip_packet(0x0a00_0001, 0x0a00_0002, 64, segment)[..],
        ]
        .concat();
        let mut packet = bench.arena.packet(&frame).unwrap();
        packet.set_mac_header(0);
        packet.set_network_header(14, 20);
        !bench.push_packets(0, vec![packet]).is_empty()
    }

    #[test]
    fn patterns_fit_what_they_say() {
        for (pattern, expected) in [
            ("-", true),
            ("udp", true),
            ("tcp", false),
            ("not tcp", true),
            ("src 10.0.0.1", true),
            ("dst 10.0.0.1", false),
            ("host 10.0.0.1", true),
            ("src and dst net 10.0.0.0/24", true),
            ("net 10.1.0.0/16", false),
            ("10.0.0.0/8", true),
            ("net 10.0.0.0 mask 255.0.0.0", true),
            ("src host != 10.0.0.1", false),
            ("src or dst host != 10.0.0.1", false),
            ("dst port 53", true),
            ("dst port domain && udp", true),
            ("domain", true),
            ("src port 80 or 1000", true),
            ("src port > 1000", false),
            ("src port >= 1000", true),
            ("src port < 1001", true),
            ("tcp dst port 53", false),
            ("tcp or udp", true),
            ("ip ttl 64", true),
            ("ip ttl > 64", false),
            ("ttl & 0xf0 == 0x40", true),
            ("ip hl 5 and vers 4", true),
            ("ip proto 17", true),
            ("ip proto > 17", false),
            ("ip frag", false),
            ("unfrag", true),
            ("ip[8] 64", true),
            ("ip[8:2] == 0x4011", true),
            ("udp[2:2] 53", true),
            ("transp[7] != 1", true),
            ("transp[8] == 0", false),
            ("not (transp[8] == 0)", true),
            ("transp[8] != 0", false),
            ("ether src 4:4:4:4:4:4", true),
            ("ether dst 4:4:4:4:4:4", false),
            ("ether host 2:2:2:2:2:2", true),
            ("tcp ? dst port 53 : src port 1000", true),
            ("(tcp or udp) and (false or dst port 53)", true),
            ("icmp type echo", false),
            ("syn", false),
            ("ip dscp 0 and not ip ect", true),
        ] {
            assert_eq!(fits(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn programs_are_as_click_shows_them() {
        for (rules, program) in [
            (&["allow false"][..], "all->[X]\nsafe length 0\nalignment offset 0\n"),
            (
                &["allow tcp && dst 10.0.0.0/32", "allow tcp", "allow all"],
                "all->[0]\nsafe length 0\nalignment offset 0\n",
            ),
            (
                &["allow false", "allow src 10.0.0.1"],
                " 0 268/0a000001%ffffffff  yes->[0]  no->[X]\nsafe length 272\nalignment offset 0\n",
            ),
            (
                &[
                    "allow src 0:1:2:3:4:5",
                    "allow src 10.0.0.0 & 8.0.0.0 = 8.0.0.0",
                    "allow host 9:A:B:C:D:E",
                    "deny all",
                ],
                " 0   8/00010203%ffffffff  yes->step 1  no->step 2
 1  12/04050000%ffff0000  yes->[0]  no->step 2
 2 268/0a000000%ffffffff  yes->[0]  no->step 3
 3   8/090a0b0c%ffffffff  yes->step 4  no->step 5
 4  12/0d0e0000%ffff0000  yes->[0]  no->step 5
 5   0/0000090a%0000ffff  yes->step 6  no->[X]
 6   4/0b0c0d0e%ffffffff  yes->[0]  no->[X]
safe length 272
alignment offset 0
",
            ),
        ] {
            let mut bench = Bench::with_outputs("IPFilter", rules, 1);
            assert_eq!(bench.router.read("e.program", ""), Ok(program.into()), "{rules:?}");
        }
    }

    #[test]
    fn what_is_always_so_is_told() {
        for (rule, warning, fits) in [
            ("allow ip ttl > 255", "relation '> 255' is always false (range 0-255)", 0),
            ("allow ip ttl <= 300", "relation '<= 300' is always true (range 0-255)", 1),
            ("allow ip ttl < 0", "relation '< 0' is always false (range 0-255)", 0),
            ("allow udp port >= 0", "relation '>= 0' is always true (range 0-65535)", 1),
            ("allow src udp", "'proto': 'src' or 'dst' ignored", 1),
        ] {
            let mut bench = Bench::new("IPFilter", &[rule]);
            let told: Vec<_> = bench.router.warnings().iter().map(ToString::to_string).collect();
            assert_eq!(told, [format!("e :: IPFilter: warning: pattern 0: {warning}")]);
            let packet = ip_packet(1, 2, 64, b"12345678");
            let mut packet = bench.arena.packet(&packet).unwrap();
            packet.set_network_header(0, 20);
            assert_eq!(bench.push_packets(0, vec![packet]).len(), fits, "{rule}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (rule, error) in [
            ("", "pattern 0: empty pattern"),
            ("perhaps tcp", "pattern 0: unknown slot ID 'perhaps'"),
            ("7 tcp", "pattern 0: slot '7' out of range"),
            ("allow (tcp", "pattern 0: missing ')'"),
            ("allow tcp and", "pattern 0: missing expression"),
            ("allow echo", "pattern 0: 'echo' is ambiguous; say 'port echo' or 'icmp type echo'"),
            ("allow 5", "pattern 0: specify header field or 'port'"),
            ("allow ip[3:4] 5", "pattern 0: field [3:4] does not fit in a single word"),
            ("allow ip ttl 256", "pattern 0: 'header field': out of range, bound 255"),
            ("allow src host", "pattern 0: 'ip host': address missing"),
            ("allow tcp )", "pattern 0: garbage after expression at ')'"),
        ] {
            assert_eq!(Bench::error("IPFilter", &[rule]), error, "{rule}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_pattern(words in proptest::collection::vec("(and|or|not|\\(|\\)|\\?|:|&|==|!=|<|>|src|dst|port|host|net|tcp|udp|icmp|type|ip|ether|proto|opt|\\[|\\]|10\\.0\\.0\\.1|1:2:3:4:5:6|[0-9]{1,3}|echo|syn|frag|true|mask)", 0..14)) {
            let names = europa_engine::Names::default();
            if let Ok(rule) = super::rule(&format!("0 {}", words.join(" ")), 1, &names, super::Version::Four, &mut Vec::new()) {
                let program = super::Program::compile(&[rule]);
                let bench = Bench::new("IPFilter", &[]);
                let packet = bench.arena.packet(&ip_packet(1, 2, 3, b"12345678")).unwrap();
                program.run(&packet);
                program.to_string();
            }
        }
    }
}
