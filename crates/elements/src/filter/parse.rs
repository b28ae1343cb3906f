//! The language of patterns: from text to expressions.
//!
//! ```text
//! expr   := or [ ? expr : expr ]
//! or     := and { (or | ||) and }
//! and    := factor { [and | &&] factor }
//! factor := (not | !) factor | ( expr ) | test
//! test   := true | false | QUALIFIERS [ [POS:LEN] ] [& MASK] [RELATION] VALUE
//! ```
//!
//! A test may omit the words of the test before it: `src port 80 or 81`.

mod compare;
mod ip6;

use std::net::Ipv4Addr;

use europa_engine::{Ipv4Prefix, Names, Value};

use super::program::Expr;
use crate::shared::icmp_names;
use crate::shared::values::{Port, Protocol};

/// Which packets patterns are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// IPv4.
    Four,
    /// IPv6.
    Six,
}

/// Deepest nesting of parentheses and negations.
const MAX_DEPTH: usize = 100;

/// Source, destination, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
    Or,
    And,
}

/// A test's condition on the transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Number(u8),
    TcpUdp,
    /// Any.
    All,
}

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    /// Of the transport header.
    transport: Option<Transport>,
    /// In bits.
    offset: usize,
    length: usize,
}

const fn ip_field(offset: usize, length: usize) -> Kind {
    Kind::Field(Field { transport: None, offset, length })
}

const fn segment_field(protocol: u8, offset: usize, length: usize) -> Kind {
    Kind::Field(Field { transport: Some(Transport::Number(protocol)), offset, length })
}

/// The subject of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Net,
    Ether,
    Protocol,
    Port,
    TcpFlags,
    Ect,
    Ce,
    Fragment,
    Unfragmented,
    Field(Field),
}

/// Words that name the subject of a test.
const KINDS: &[(&str, Kind)] = &[
    ("host", Kind::Host),
    ("net", Kind::Net),
    ("port", Kind::Port),
    ("proto", Kind::Protocol),
    ("opt", Kind::TcpFlags),
    ("ect", Kind::Ect),
    ("ce", Kind::Ce),
    ("frag", Kind::Fragment),
    ("unfrag", Kind::Unfragmented),
    ("vers", ip_field(0, 4)),
    ("hl", ip_field(4, 4)),
    ("tos", ip_field(8, 8)),
    ("dscp", ip_field(8, 6)),
    ("len", ip_field(16, 16)),
    ("id", ip_field(32, 16)),
    ("ttl", ip_field(64, 8)),
    ("win", segment_field(6, 112, 16)),
    ("type", segment_field(1, 0, 8)),
];

const TCP_FLAGS: &[(&str, u8)] = &[
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    Integer(u32),
    Host(u32),
    Net(u32, u32),
    Ether([u8; 6]),
    Protocol(Transport),
    Port(u16),
    TcpFlag(u8),
    IcmpType(u8),
}

/// The mask behind `&`.
#[derive(Clone, Copy, Debug)]
enum Mask {
    Integer(u32),
    Host(u32),
    Ether([u8; 6]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    Greater,
    Less,
}

/// The parts that the next test may omit.
#[derive(Clone, Copy, Debug, Default)]
struct Previous {
    kind: Option<Kind>,
    side: Option<Side>,
    transport: Option<Transport>,
}

/// A test while it is read.
#[derive(Clone, Copy, Debug)]
struct Primitive {
    kind: Option<Kind>,
    side: Option<Side>,
    transport: Option<Transport>,
    /// `ip` or `ether`.
    ether: Option<bool>,
    mask: Option<Mask>,
    relation: Relation,
    negated: bool,
    data: Option<Data>,
}

/// Splits a pattern into words and signs.
pub(super) fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let inside = |c: char| c.is_alphanumeric() || "-./@_:".contains(c);
        let length = match rest.get(..2) {
            Some("&&" | "||" | "<=" | ">=" | "!=" | "==") => 2,
            _ if inside(first) => rest.find(|c| !inside(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (word, tail) = rest.split_at(length);
        words.push(word);
        rest = tail.trim_start();
    }
    words
}

/// Reads one pattern.
pub(super) struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    names: &'a Names,
    version: Version,
    previous: Previous,
    depth: usize,
    /// The warning.
    pub(super) warnings: Vec<String>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(words: &'a [&'a str], names: &'a Names, version: Version) -> Parser<'a> {
        let previous = Previous::default();
        Parser { words, at: 0, names, version, previous, depth: 0, warnings: Vec::new() }
    }

    /// The whole pattern.
    pub(super) fn pattern(&mut self) -> Result<Expr, String> {
        let expr = self.expr()?;
        match self.peek() {
            None => Ok(expr),
            Some(word) => Err(format!("garbage after expression at '{word}'")),
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, options: &[&str]) -> bool {
        let found = self.peek().is_some_and(|word| options.contains(&word));
        self.at += usize::from(found);
        found
    }

    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("nested more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn expr(&mut self) -> Result<Expr, String> {
        self.deeper(|parser| {
            let condition = parser.or()?;
            if !parser.take(&["?"]) {
                return Ok(condition);
            }
            let then = parser.expr()?;
            if !parser.take(&[":"]) {
                return Err("missing ':' in ternary expression".to_owned());
            }
            Ok(Expr::If(Box::new([condition, then, parser.expr()?])))
        })
    }

    fn or(&mut self) -> Result<Expr, String> {
        let mut all = vec![self.and()?];
        while self.take(&["or", "||"]) {
            all.push(self.and()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expr::Or(all) })
    }

    fn and(&mut self) -> Result<Expr, String> {
        let mut all = vec![self.factor()?];
        loop {
            if self.take(&["and", "&&"])
                || !matches!(self.peek(), None | Some(")" | "||" | "or" | "?" | ":"))
            {
                all.push(self.factor()?);
            } else {
                return Ok(if all.len() == 1 { all.remove(0) } else { Expr::And(all) });
            }
        }
    }

    fn factor(&mut self) -> Result<Expr, String> {
        self.deeper(|parser| {
            if parser.take(&["not", "!"]) {
                return Ok(Expr::Not(Box::new(parser.factor()?)));
            }
            if parser.take(&["("]) {
                let inner = parser.expr()?;
                return if parser.take(&[")"]) { Ok(inner) } else { Err("missing ')'".to_owned()) };
            }
            parser.test()
        })
    }

    fn test(&mut self) -> Result<Expr, String> {
        match self.peek() {
            None | Some(")" | "||" | "or" | "?" | ":") => {
                return Err("missing expression".to_owned());
            }
            Some("true" | "false") => {
                self.at += 1;
                return Ok(Expr::Const(self.words.get(self.at - 1) == Some(&"true")));
            }
            _ => {}
        }
        if self.version == Version::Six && self.peek() != Some("ether") {
            return self.test6();
        }
        let start = self.at;
        let mut primitive = Primitive {
            kind: None,
            side: None,
            transport: None,
            ether: None,
            mask: None,
            relation: Relation::Equal,
            negated: false,
            data: None,
        };
        let negated = self.qualifiers(&mut primitive)?;
        if self.at > start {
            self.previous = Previous::default();
        }
        if self.at > start && primitive.kind.is_none() && self.take(&["["]) {
            primitive.kind = Some(self.brackets(primitive.transport)?);
        }
        if self.peek() == Some("&") && self.at + 1 < self.words.len() {
            self.mask(&mut primitive)?;
        }
        self.relation(&mut primitive);
        self.data(&mut primitive)?;
        if self.at == start {
            return Err(format!("empty term near '{}'", self.peek().unwrap_or("")));
        }
        let expr = self.finish(primitive)?;
        Ok(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }

    /// Reads words before a value. Returns whether the number of `not` is odd.
    fn qualifiers(&mut self, primitive: &mut Primitive) -> Result<bool, String> {
        fn once<T: PartialEq>(place: &mut Option<T>, value: T, word: &str) -> Result<(), String> {
            match place.replace(value) {
                Some(_) => Err(format!("'{word}': specified twice")),
                None => Ok(()),
            }
        }
        let mut negated = false;
        while let Some(word) = self.peek() {
            let kind = KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
            if let Some(kind) = kind {
                once(&mut primitive.kind, kind, word)?;
            } else if let Some(transport) = transport_name(word) {
                // `tcp` alone is a test; after `proto` it is the value.
                if primitive.kind == Some(Kind::Protocol) {
                    break;
                }
                once(&mut primitive.transport, transport, word)?;
            } else {
                let next =
                    (self.words.get(self.at + 1).copied(), self.words.get(self.at + 2).copied());
                match (word, next) {
                    ("src", (Some("and" | "&&"), Some("dst" | "dest"))) => {
                        self.at += 2;
                        once(&mut primitive.side, Side::And, word)?;
                    }
                    ("src", (Some("or" | "||"), Some("dst" | "dest"))) => {
                        self.at += 2;
                        once(&mut primitive.side, Side::Or, word)?;
                    }
                    ("src", _) => once(&mut primitive.side, Side::Source, word)?,
                    ("dst" | "dest", _) => once(&mut primitive.side, Side::Destination, word)?,
                    ("ip" | "ether", _) if primitive.ether.is_none() => {
                        primitive.ether = Some(word == "ether");
                    }
                    ("not" | "!", _) => negated = !negated,
                    _ => break,
                }
            }
            self.at += 1;
        }
        Ok(negated)
    }

    /// `[POS]`, `[POS:LEN]` or `[FIRST,LAST]`.
    fn brackets(&mut self, transport: Option<Transport>) -> Result<Kind, String> {
        let rest = self.words.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|word| *word == "]").ok_or("missing ']'")?;
        let text = rest.get(..end).unwrap_or_default().concat();
        self.at += end + 1;
        let number = |text: &str| usize::parse(text, self.names).filter(|number| *number < 1 << 16);
        let field = match (text.split_once(':'), text.split_once(',')) {
            (Some((at, length)), _) => number(at).zip(number(length)),
            (_, Some((first, last))) => number(first)
                .zip(number(last))
                .map(|(first, last)| (first, (last + 1).saturating_sub(first))),
            _ => number(&text).map(|at| (at, 1)),
        };
        let (at, length) =
            field.ok_or("syntax error after '[', expected '[POS]' or '[POS:LEN]'")?;
        if !(1..=4).contains(&length) {
            return Err("LEN in '[POS:LEN]' out of range, should be between 1 and 4".to_owned());
        }
        if at / 4 != (at + length - 1) / 4 {
            return Err(format!("field [{at}:{length}] does not fit in a single word"));
        }
        Ok(Kind::Field(Field { transport, offset: at * 8, length: length * 8 }))
    }

    fn mask(&mut self, primitive: &mut Primitive) -> Result<(), String> {
        let word = self.words.get(self.at + 1).copied().unwrap_or_default();
        let mask = if let Some(number) = u32::parse(word, self.names) {
            (number != 0).then_some(Mask::Integer(number))
        } else if let Some(address) =
            Ipv4Addr::parse(word, self.names).filter(|_| primitive.ether != Some(true))
        {
            Some(Mask::Host(address.into()))
        } else {
            <[u8; 6]>::parse(word, self.names)
                .filter(|_| primitive.ether != Some(false))
                .map(Mask::Ether)
        };
        primitive.mask = Some(mask.ok_or_else(|| format!("bad mask '{word}'"))?);
        self.at += 2;
        Ok(())
    }

    fn relation(&mut self, primitive: &mut Primitive) {
        let (relation, negated) = match self.peek() {
            _ if self.at + 1 >= self.words.len() => return,
            Some("=" | "==") => (Relation::Equal, false),
            Some("!=") => (Relation::Equal, true),
            Some(">") => (Relation::Greater, false),
            Some("<") => (Relation::Less, false),
            Some(">=") => (Relation::Less, true),
            Some("<=") => (Relation::Greater, true),
            _ => return,
        };
        (primitive.relation, primitive.negated) = (relation, negated);
        self.at += 1;
    }

    fn data(&mut self, primitive: &mut Primitive) -> Result<(), String> {
        let Some(word) = self.peek() else { return Ok(()) };
        let (kind, ether) = (primitive.kind, primitive.ether);
        let data = if let Some(data) = self.named(word, kind, primitive.transport)? {
            Some(data)
        } else if let Some(number) = u32::parse(word, self.names) {
            Some(Data::Integer(number))
        } else if let Some(address) =
            Ipv4Addr::parse(word, self.names).filter(|_| ether != Some(true))
        {
            let mask = match self.words.get(self.at + 1..self.at + 3) {
                Some(["mask", mask]) => Ipv4Addr::parse(mask, self.names).map(u32::from),
                _ => None,
            };
            // A name may stand for an address and for a net.
            let prefix = Ipv4Prefix::named(word, self.names)
                .or_else(|| Ipv4Prefix::parse(word, self.names))
                .filter(|_| kind == Some(Kind::Net));
            Some(match (mask, prefix) {
                (Some(mask), _) => {
                    self.at += 2;
                    Data::Net(address.into(), mask)
                }
                (None, Some(prefix)) => Data::Net(prefix.address.into(), prefix.mask()),
                (None, None) => Data::Host(address.into()),
            })
        } else if let Some((address, mask)) =
            prefix(word, self.names).filter(|_| ether != Some(true))
        {
            Some(Data::Net(address, mask))
        } else {
            <[u8; 6]>::parse(word, self.names).filter(|_| ether != Some(false)).map(Data::Ether)
        };
        if data.is_some() {
            self.at += 1;
        } else if primitive.relation != Relation::Equal || primitive.negated {
            return Err(format!("dangling operator near '{word}'"));
        }
        primitive.data = data;
        Ok(())
    }

    /// A value by its name, if it has one.
    fn named(
        &self,
        word: &str,
        kind: Option<Kind>,
        transport: Option<Transport>,
    ) -> Result<Option<Data>, String> {
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        let about = |wanted: Kind, protocols: &[Transport]| {
            kind.map_or_else(
                || transport.is_none_or(|t| protocols.contains(&t)),
                |kind| kind == wanted,
            )
        };
        let (tcp, udp) = (Transport::Number(6), Transport::Number(17));
        let icmp_type = segment_field(1, 0, 8);
        let mut found = Vec::new();
        if let Some(transport) = transport_name(word).filter(|_| about(Kind::Protocol, &[])) {
            found.push(Data::Protocol(transport));
        }
        if let Some(Port(port)) = Port::parse(word, self.names)
            .filter(|_| about(Kind::Port, &[tcp, udp, Transport::TcpUdp]))
        {
            found.push(Data::Port(port));
        }
        if let Some((_, flag)) = TCP_FLAGS.iter().find(|(name, _)| *name == word)
            && about(Kind::TcpFlags, &[tcp])
        {
            found.push(Data::TcpFlag(*flag));
        }
        if let Some(number) = icmp_names::parse_type(word)
            && about(icmp_type, &[Transport::Number(1)])
        {
            found.push(Data::IcmpType(number));
        }
        match *found {
            [] => Ok(None),
            [data] => Ok(Some(data)),
            _ => Err(format!("'{word}' is ambiguous; say 'port {word}' or 'icmp type {word}'")),
        }
    }

    /// Adds the omitted words, and makes an expression.
    fn finish(&mut self, mut primitive: Primitive) -> Result<Expr, String> {
        let previous = self.previous;
        let kind = match primitive.kind {
            Some(kind) => kind,
            None => match primitive.data {
                Some(Data::Host(_)) => Kind::Host,
                Some(Data::Net(..)) => Kind::Net,
                Some(Data::Ether(_)) => Kind::Ether,
                Some(Data::Protocol(_)) => Kind::Protocol,
                Some(Data::Port(_)) => Kind::Port,
                Some(Data::TcpFlag(_)) => Kind::TcpFlags,
                Some(Data::IcmpType(_)) => segment_field(1, 0, 8),
                Some(Data::Integer(_)) => match previous.kind {
                    Some(kind @ (Kind::Field(_) | Kind::Protocol | Kind::Port)) => kind,
                    _ => return Err("specify header field or 'port'".to_owned()),
                },
                None if primitive.transport.is_some() => Kind::Protocol,
                None => return Err("partial directive".to_owned()),
            },
        };
        if primitive.kind.is_none() {
            primitive.side = primitive.side.or(previous.side);
            if kind == Kind::Port {
                primitive.transport = primitive.transport.or(previous.transport);
            }
        }
        let kind = match (kind, primitive.data) {
            (Kind::Host, Some(Data::Ether(_))) => Kind::Ether,
            (kind, _) => kind,
        };
        if let Kind::Field(Field { transport: Some(transport), .. }) = kind {
            primitive.transport.get_or_insert(transport);
        }
        let sided = matches!(kind, Kind::Host | Kind::Net | Kind::Ether | Kind::Port);
        if primitive.side.is_some()
            && !sided
            && let Some((name, _)) = KINDS.iter().find(|(_, known)| *known == kind)
        {
            self.warnings.push(format!("'{name}': 'src' or 'dst' ignored"));
        }
        let side = primitive.side.unwrap_or(Side::Or);
        self.previous =
            Previous { kind: Some(kind), side: primitive.side, transport: primitive.transport };
        primitive.expr(kind, side, &mut self.warnings)
    }
}

fn transport_name(word: &str) -> Option<Transport> {
    match word {
        "tcpudp" => Some(Transport::TcpUdp),
        "transp" => Some(Transport::All),
        word if word.starts_with(|c: char| c.is_ascii_digit()) => None,
        word => {
            Protocol::parse(word, &Names::default()).map(|protocol| Transport::Number(protocol.0))
        }
    }
}

/// `10.0.0.0/8`, or `10/8` and the like.
fn prefix(word: &str, names: &Names) -> Option<(u32, u32)> {
    if let Some(prefix) = Ipv4Prefix::parse(word, names) {
        return Some((prefix.address.into(), prefix.mask()));
    }
    let (address, rest) = word.split_once('/')?;
    let missing = 3usize.checked_sub(address.matches('.').count())?;
    let whole = format!("{address}{}/{rest}", ".0".repeat(missing));
    Ipv4Prefix::parse(&whole, names).map(|prefix| (prefix.address.into(), prefix.mask()))
}
