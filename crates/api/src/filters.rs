//! `kind: filters`: rules for what the routers of a slice send.

mod opaque;
mod words;

use std::sync::Arc;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

pub use self::opaque::{MOST_KEY_BYTES, MOST_RESULT_BYTES, OwnKey, RuleResult};
pub use self::words::{Dscp, InterfaceOf, Ports, Protocol, TcpFlags};
use crate::decode::{Context, Decode, Fields, word};
use crate::problem::{Problem, Problems};
use crate::source::{At, Source};
use crate::tree::{self, Node, Value};
use crate::values::{Mac, Name};

/// Rules for the IP packets that the routers of a slice send. Of several rules that match a
/// packet, the one with the highest priority counts, whichever document it stands in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Filters {
    /// Its name.
    pub name: At<Name>,
    /// The slice whose packets they are for.
    pub slice: At<Name>,
    /// The rules.
    pub rules: Rules,
}

/// Rules of a document, which may be very many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(pub Arc<Vec<At<Rule>>>);

/// A rule: what it says of a packet must all be so. Of rules with the same priority that match
/// the same packet, any may count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Higher goes first. Default: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u32,
    /// Addresses that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub source: Option<IpNet>,
    /// Addresses that it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub destination: Option<IpNet>,
    /// Protocol in IP: `tcp`, `udp`, `icmp`, or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Ports that it comes from: `53` or `1024-65535`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<Ports>,
    /// Ports that it goes to: `443` or `6000-6063`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<Ports>,
    /// Flags of TCP that are set and that are not: `+syn-ack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_flags: Option<TcpFlags>,
    /// Differentiated services code point: `ef`, `af21`, or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
    /// Whether it is a fragment other than the first, which has no ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_fragment: Option<bool>,
    /// The interface that it leaves by: `ROUTER.INTERFACE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceOf>,
    /// Not a packet's fields, but a key that a router's fast path has written for it: hexadecimal
    /// digits from its first byte on, `?` for any, in quotes; a mask may follow after `%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<OwnKey>,
    /// What becomes of it.
    pub action: Action,
}

/// Of an action without anything in it, as of one with a misspelt field.
const NOTHING: &str = "an action in braces does something";
const COUNT: &str = "a rule that only counts says `action: count`";

/// What becomes of a packet: `count`, `drop`, `slow_path`, or fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Action {
    /// It goes nowhere.
    pub drop: bool,
    /// It goes to the router's own Linux.
    pub slow_path: bool,
    /// Number of the slice's queue that it waits in.
    pub queue: Option<u16>,
    /// It leaves by this interface of the same router.
    pub interface: Option<InterfaceOf>,
    /// The Ethernet address that it goes to there. Default: the one that it goes to.
    pub destination_mac: Option<Mac>,
    /// The code point that it gets.
    pub dscp: Option<Dscp>,
    /// `ce`: congestion experienced, if its ends understand that.
    pub ecn: Option<Ecn>,
    /// A copy leaves by this interface of the same router.
    pub mirror: Option<InterfaceOf>,
    /// It goes back to the router that has sent it, with the `result`; for rules with a `key`.
    pub back: bool,
    /// Up to 16 bytes, as hexadecimal digits, that the next router gets with it: over a link, or
    /// the same one if it goes `back`; for rules with a `key`.
    pub result: Option<RuleResult>,
}

/// Explicit congestion notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ecn {
    /// Congestion experienced.
    Ce,
}

/// Actions that are one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Word {
    /// Nothing but being counted.
    Count,
    /// It goes nowhere.
    Drop,
    /// It goes to the router's own Linux.
    SlowPath,
}

/// An action's fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ActionFields {
    /// It goes nowhere.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    drop: bool,
    /// It goes to the router's own Linux.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    slow_path: bool,
    /// Number of the slice's queue that it waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u16>,
    /// It leaves by this interface of the same router.
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<InterfaceOf>,
    /// The Ethernet address that it goes to there. Default: the one that it goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_mac: Option<Mac>,
    /// The code point that it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    dscp: Option<Dscp>,
    /// `ce`: congestion experienced, if its ends understand that.
    #[serde(skip_serializing_if = "Option::is_none")]
    ecn: Option<Ecn>,
    /// A copy leaves by this interface of the same router.
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<InterfaceOf>,
    /// It goes back to the router that has sent it, with the `result`; for rules with a `key`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    back: bool,
    /// Up to 16 bytes, as hexadecimal digits, that the next router gets with it: over a link, or
    /// the same one if it goes `back`; for rules with a `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RuleResult>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Written {
    /// One word.
    Word(Word),
    /// Several things at once.
    Fields(Box<ActionFields>),
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl TryFrom<Written> for Action {
    type Error = String;

    fn try_from(written: Written) -> Result<Action, String> {
        Ok(match written {
            Written::Word(word) => word.into(),
            Written::Fields(fields) if *fields == ActionFields::default() => {
                return Err(format!("{NOTHING}; {COUNT}"));
            }
            Written::Fields(fields) => {
                let ActionFields {
                    drop,
                    slow_path,
                    queue,
                    interface,
                    destination_mac,
                    dscp,
                    ecn,
                    mirror,
                    back,
                    result,
                } = *fields;
                Action {
                    drop,
                    slow_path,
                    queue,
                    interface,
                    destination_mac,
                    dscp,
                    ecn,
                    mirror,
                    back,
                    result,
                }
            }
        })
    }
}

impl From<Word> for Action {
    fn from(word: Word) -> Action {
        match word {
            Word::Count => Action::default(),
            Word::Drop => Action { drop: true, ..Action::default() },
            Word::SlowPath => Action { slow_path: true, ..Action::default() },
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = [Word::Count, Word::Drop, Word::SlowPath]
            .into_iter()
            .find(|word| Action::from(*word) == *self);
        let Action { drop, slow_path, queue, dscp, ecn, back, .. } = *self;
        match word {
            Some(word) => word.serialize(serializer),
            None => ActionFields {
                drop,
                slow_path,
                queue,
                interface: self.interface.clone(),
                destination_mac: self.destination_mac,
                dscp,
                ecn,
                mirror: self.mirror.clone(),
                back,
                result: self.result.clone(),
            }
            .serialize(serializer),
        }
    }
}

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}

impl JsonSchema for Rules {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rules".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<Rule>::json_schema(generator)
    }
}

impl Decode for Filters {
    fn decode(node: &Node, context: &mut Context) -> Option<Filters> {
        let mut fields = Fields::open(node, "filters", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let slice = fields.required("slice");
        let rules: Option<Vec<At<Rule>>> = fields.required("rules");
        fields.close();
        Some(Filters { name: name?, slice: slice?, rules: Rules(Arc::new(rules?)) })
    }
}

impl Decode for Rule {
    fn decode(node: &Node, context: &mut Context) -> Option<Rule> {
        let before = context.problems.len();
        let mut fields = Fields::open(node, "a rule", context)?;
        let rule = Rule {
            priority: fields.optional("priority").unwrap_or(0),
            source: fields.optional("source"),
            destination: fields.optional("destination"),
            protocol: fields.optional("protocol"),
            source_port: fields.optional("source_port"),
            destination_port: fields.optional("destination_port"),
            tcp_flags: fields.optional("tcp_flags"),
            dscp: fields.optional("dscp"),
            later_fragment: fields.optional("later_fragment"),
            interface: fields.optional("interface"),
            key: fields.optional("key"),
            action: fields.required("action").unwrap_or_default(),
        };
        if fields.context.problems.len() == before
            && let Err(wrong) = rule.check()
        {
            let place = fields.take(wrong.field).map(|(key, _)| fields.context.place(key));
            let place = place.unwrap_or_else(|| fields.place());
            let problem = Problem::new(place, wrong.message).label(wrong.label).help(wrong.help);
            fields.context.report(problem);
        }
        fields.close();
        (context.problems.len() == before).then_some(rule)
    }
}

/// What contradicts itself in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    field: &'static str,
    message: String,
    label: &'static str,
    help: &'static str,
}

impl std::fmt::Display for Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl Rule {
    /// Whether what it says can be so at all.
    ///
    /// # Errors
    /// What cannot.
    pub fn check(&self) -> Result<(), Contradiction> {
        let wrong = |field, message: &str, label, help| {
            Err(Contradiction { field, message: message.to_owned(), label, help })
        };
        for (field, net) in [("source", self.source), ("destination", self.destination)] {
            if let Some(net) = net.filter(|net| net.addr() != net.network()) {
                let message = format!("{net} has bits after its prefix length");
                let help = "write the subnet, or the one address with its whole length";
                return Err(Contradiction { field, message, label: "not a prefix", help });
            }
        }
        let is_v4 = |net: &IpNet| matches!(net, IpNet::V4(_));
        if let (Some(source), Some(destination)) = (&self.source, &self.destination)
            && is_v4(source) != is_v4(destination)
        {
            return wrong(
                "destination",
                "no packet goes from an IPv4 to an IPv6 address",
                "the other version of IP",
                "write a rule for each version",
            );
        }
        let has_ports = self.protocol.is_some_and(Protocol::has_ports);
        for (field, ports) in
            [("source_port", &self.source_port), ("destination_port", &self.destination_port)]
        {
            if ports.is_some() && !has_ports {
                return wrong(
                    field,
                    "a rule with ports needs a protocol that has ports",
                    "which protocol's?",
                    "add `protocol: tcp` or `udp`",
                );
            }
            if ports.is_some() && self.later_fragment == Some(true) {
                return wrong(
                    field,
                    "fragments other than the first have no ports",
                    "matches nothing",
                    "remove it, or `later_fragment`",
                );
            }
        }
        if self.tcp_flags.is_some() && self.protocol != Some(Protocol::TCP) {
            return wrong(
                "tcp_flags",
                "a rule with flags of TCP needs TCP",
                "which protocol's?",
                "add `protocol: tcp`",
            );
        }
        let fields = Rule { priority: 0, key: None, action: Action::default(), ..self.clone() };
        if self.key.is_some() && fields != Rule::default() {
            return wrong(
                "key",
                "a rule for keys of routers' own looks at nothing else",
                "a key and fields of packets",
                "have the router write into the key what matters",
            );
        }
        let Action { drop, slow_path, queue, interface, destination_mac, back, .. } = &self.action;
        if self.key.is_none() && (*back || self.action.result.is_some()) {
            return wrong(
                "action",
                "`back` and `result` are for packets that a router has given a key",
                "no `key`",
                "add `key`, or remove them",
            );
        }
        let ways = [*drop, *slow_path, interface.is_some(), *back];
        if ways.iter().filter(|way| **way).count() > 1 {
            return wrong(
                "action",
                "a packet goes one way: `drop`, `slow_path`, `interface` or `back`",
                "several ways",
                "keep one of them; `mirror` sends a copy",
            );
        }
        if destination_mac.is_some() && interface.is_none() {
            return wrong(
                "action",
                "`destination_mac` is for packets that leave by another interface",
                "no `interface`",
                "add `interface`, or remove it",
            );
        }
        if queue.is_some() && (*drop || *back) {
            return wrong(
                "action",
                "a packet that does not leave waits in no queue",
                "a queue, and `drop` or `back`",
                "remove one of them",
            );
        }
        let leaves = self.interface.as_ref().map(|interface| &interface.router);
        for to in [&self.action.interface, &self.action.mirror].into_iter().flatten() {
            if leaves.is_some_and(|router| *router != to.router) {
                return wrong(
                    "action",
                    "a packet can leave by interfaces of its own router only",
                    "another router's interface",
                    "name one of the router that `interface` names",
                );
            }
        }
        Ok(())
    }

    /// Interfaces that it names.
    pub fn interfaces(&self) -> impl Iterator<Item = &InterfaceOf> {
        [&self.interface, &self.action.interface, &self.action.mirror].into_iter().flatten()
    }

    /// Rules written as YAML, one a line, with or without braces; `file` is the text's name in
    /// messages.
    ///
    /// # Errors
    /// Every mistake in them.
    pub fn parse_lines(file: &str, text: &str) -> Result<Vec<Rule>, Problems> {
        let braced = |line: &str| match line.trim_start().chars().next() {
            None | Some('#' | '{') => line.to_owned(),
            Some(_) => format!("{{{line}}}"),
        };
        let text = text.lines().map(braced).collect::<Vec<_>>().join("\n");
        let mut context = Context { source: 0, problems: Vec::new() };
        let (mut rules, mut start) = (Vec::new(), 0);
        for line in text.split('\n') {
            let range = start..start + line.len();
            start = range.end + 1;
            if matches!(line.trim_start().chars().next(), None | Some('#')) {
                continue;
            }
            match tree::parse(&text, range) {
                Ok(node) => rules.extend(Rule::decode(&node, &mut context)),
                Err(error) => {
                    let node = Node { value: Value::Null, span: error.span };
                    let problem = Problem::new(context.place(&node), error.message);
                    context.report(problem.label("this cannot be read").help(error.help));
                }
            }
        }
        if context.problems.is_empty() {
            return Ok(rules);
        }
        let sources = [Source { path: file.into(), text: text.clone() }];
        Err(Problems::new(context.problems, &sources))
    }
}

impl Decode for Action {
    fn decode(node: &Node, context: &mut Context) -> Option<Action> {
        if !matches!(node.value, Value::Map(_)) {
            let words =
                [("count", Word::Count), ("drop", Word::Drop), ("slow_path", Word::SlowPath)];
            let word = word(node, context, "an action", &words)?;
            return Some(word.into());
        }
        let mut fields = Fields::open(node, "an action", context)?;
        let action = Action {
            drop: fields.optional("drop").unwrap_or(false),
            slow_path: fields.optional("slow_path").unwrap_or(false),
            queue: fields.optional("queue"),
            interface: fields.optional("interface"),
            destination_mac: fields.optional("destination_mac"),
            dscp: fields.optional("dscp"),
            ecn: fields.optional("ecn"),
            mirror: fields.optional("mirror"),
            back: fields.optional("back").unwrap_or(false),
            result: fields.optional("result"),
        };
        let (place, before) = (fields.place(), fields.context.problems.len());
        fields.close();
        if context.problems.len() == before && action == Action::default() {
            let problem = Problem::new(place, NOTHING).label("says nothing");
            context.report(problem.help(COUNT));
            return None;
        }
        Some(action)
    }
}

impl Decode for Ecn {
    fn decode(node: &Node, context: &mut Context) -> Option<Ecn> {
        word(node, context, "a notification of congestion", &[("ce", Ecn::Ce)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Rule, Problems> {
        Rule::parse_lines("rule", text).map(|mut rules| rules.remove(0))
    }

    #[test]
    fn lines_have_their_numbers() {
        let text = "# web\nprotocol: tcp, action: count\n\n{action: drop}\n  action: dorp\n";
        let report = Rule::parse_lines("rules.txt", text).unwrap_err().render(false);
        assert!(report.contains("rules.txt:5:"), "{report}");
        let right = text.replace("dorp", "drop");
        assert_eq!(Rule::parse_lines("rules.txt", &right).unwrap().len(), 3);
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "{\"action\":\"drop\"}",
            "{\"priority\":7,\"source\":\"10.0.0.0/8\",\"protocol\":\"tcp\",\
             \"source_port\":\"1024-65535\",\"destination_port\":\"80\",\"tcp_flags\":\"+syn-ack\",\
             \"dscp\":\"ef\",\"interface\":\"r1.out\",\"action\":\"count\"}",
            "{\"later_fragment\":true,\"action\":{\"queue\":3,\"interface\":\"r1.b\",\
             \"destination_mac\":\"02:00:00:00:00:01\",\"dscp\":\"af21\",\"ecn\":\"ce\",\
             \"mirror\":\"r1.c\"}}",
            "{\"action\":{\"slow_path\":true,\"mirror\":\"r1.c\"}}",
            "{\"priority\":2,\"key\":\"0a00??\",\"action\":{\"back\":true,\"result\":\"0102\"}}",
        ] {
            let rule = parse(text).unwrap();
            assert_eq!(serde_json::to_string(&rule).unwrap(), text);
            assert_eq!(serde_json::from_str::<Rule>(text).unwrap(), rule);
        }
        let number: Rule = serde_json::from_str(
            "{\"protocol\":6,\"destination_port\":80,\"action\":{\"dscp\":46}}",
        )
        .unwrap();
        let text = "protocol: 6, destination_port: 80, action: {dscp: 46}";
        assert_eq!(parse(text).unwrap(), number);
    }

    #[test]
    fn what_contradicts_itself_is_shown() {
        for (text, wanted) in [
            ("action: dorp", "did you mean \"drop\"?"),
            ("acton: drop", "did you mean `action`?"),
            ("protocol: tcp", "a rule needs `action`"),
            ("destination_port: 80, action: drop", "add `protocol: tcp`"),
            ("protocol: icmp, source_port: 80, action: drop", "a protocol that has ports"),
            ("protocol: udp, tcp_flags: +syn, action: drop", "needs TCP"),
            ("source: 10.0.0.0/8, destination: \"fd00::/8\", action: drop", "a rule for each"),
            ("action: {drop: true, interface: r1.b}", "goes one way"),
            ("action: {drop: true, queue: 1}", "waits in no queue"),
            ("action: {destination_mac: 02:00:00:00:00:01}", "another interface"),
            ("interface: r1.a, action: {mirror: r2.a}", "its own router"),
            (
                "later_fragment: true, protocol: udp, source_port: 1, action: drop",
                "other than the first",
            ),
            ("source: 10.0.0.0, action: drop", "the prefix length is missing"),
            ("protocol: tcp, destination_port: 1-70000, action: drop", "at most 65535"),
            ("interface: r1, action: drop", "ROUTER.INTERFACE"),
            ("action: [", "cannot be read"),
            ("key: 0800, action: drop", "in quotes"),
            ("key: \"0g\", action: drop", "no hexadecimal digit"),
            ("key: \"00\", protocol: tcp, action: drop", "looks at nothing else"),
            ("action: {back: true}", "no `key`"),
            ("key: \"00\", action: {back: true, drop: true}", "goes one way"),
            ("key: \"00\", action: {back: true, queue: 1}", "waits in no queue"),
            ("action: {}", "`action: count`"),
            ("action: {drop: false}", "`action: count`"),
            ("source: 10.0.0.1/8, action: drop", "bits after its prefix length"),
        ] {
            let problems = parse(text).unwrap_err().render(false);
            assert!(problems.contains(wanted), "{text}: {problems}");
        }
    }
}
