//! Turns a test into comparisons of bytes.

use super::{Data, Kind, Mask, Primitive, Relation, Side, Transport};
use crate::filter::program::{Base, Expr, Test};

/// Joins comparisons of source and destination. If they are negated, one of them must fail.
pub(super) fn sides(side: Side, source: Vec<Test>, destination: Vec<Test>, negated: bool) -> Expr {
    // By De Morgan's law. A comparison of missing bytes fails, negated or not.
    let all = |tests: Vec<Test>| {
        let tests = tests.into_iter().map(|test| Expr::Test(Test { negated, ..test })).collect();
        if negated { Expr::Or(tests) } else { Expr::And(tests) }
    };
    match (side, negated) {
        (Side::Source, _) => all(source),
        (Side::Destination, _) => all(destination),
        (Side::Or, false) | (Side::And, true) => Expr::Or(vec![all(source), all(destination)]),
        (Side::And, false) | (Side::Or, true) => Expr::And(vec![all(source), all(destination)]),
    }
}

fn protocol(transport: Transport) -> Option<Expr> {
    let is = |number: u8| {
        Expr::Test(Test::equal(Base::Network, 8, 0x00ff_0000, u32::from(number) << 16))
    };
    match transport {
        Transport::Number(number) => Some(is(number)),
        Transport::TcpUdp => Some(Expr::Or(vec![is(6), is(17)])),
        Transport::All => None,
    }
}

/// The fragment offset is 0.
fn first_fragment() -> Expr {
    Expr::Test(Test::equal(Base::Network, 4, 0x1fff, 0))
}

impl Primitive {
    pub(super) fn no_relation(&self, what: &str) -> Result<(), String> {
        match self.relation {
            Relation::Equal => Ok(()),
            _ => Err(format!("'{what}': operator not supported")),
        }
    }

    fn integer_mask(&self, what: &str, full: u32) -> Result<u32, String> {
        match self.mask {
            None => Ok(full),
            Some(Mask::Integer(mask)) if mask <= full => Ok(mask),
            Some(_) => Err(format!("'{what}': bad mask")),
        }
    }

    /// A comparison of a number of `bits` bits, `shift` bits above the word's end. `Err` contains a
    /// constant result.
    pub(super) fn compare(
        &self,
        what: &str,
        place: (Base, usize),
        bits: usize,
        shift: usize,
        number: u32,
        warnings: &mut Vec<String>,
    ) -> Result<Result<(Test, bool), bool>, String> {
        let full = u32::MAX >> (32 - bits);
        let mask = self.integer_mask(what, full)?;
        let (relation, never) = match self.relation {
            Relation::Equal if number > full => {
                return Err(format!("'{what}': out of range, bound {full}"));
            }
            Relation::Equal => ("", false),
            Relation::Greater => (if self.negated { "<=" } else { ">" }, number >= mask),
            Relation::Less => (if self.negated { ">=" } else { "<" }, number == 0),
        };
        let ever = self.relation == Relation::Less && number > mask;
        if never || ever {
            let always = ever != self.negated;
            let warning =
                format!("relation '{relation} {number}' is always {always} (range 0-{mask})");
            if warnings.last() != Some(&warning) {
                warnings.push(warning);
            }
            return Ok(Err(always));
        }
        let (greater, value, negated) = match self.relation {
            Relation::Equal => (false, number & mask, self.negated),
            Relation::Greater => (true, number, self.negated),
            // Less is not greater than one less.
            Relation::Less => (true, number - 1, !self.negated),
        };
        let (base, at) = place;
        let test =
            Test { base, at, mask: mask << shift, value: value << shift, greater, negated: false };
        Ok(Ok((test, negated)))
    }

    /// The field's name in comparisons of bytes.
    pub(super) fn expr(
        &self,
        kind: Kind,
        side: Side,
        warnings: &mut Vec<String>,
    ) -> Result<Expr, String> {
        let mut all = Vec::new();
        let mut transport = self.transport;
        let body = match kind {
            Kind::Host | Kind::Net => {
                self.no_relation("ip host")?;
                let (address, mask) = match self.data {
                    Some(Data::Host(address)) if kind == Kind::Host => (address, u32::MAX),
                    Some(Data::Net(address, mask)) if kind == Kind::Net => (address, mask),
                    Some(Data::Host(address)) => (address, u32::MAX),
                    _ => {
                        return Err(format!(
                            "'ip {}': address missing",
                            if kind == Kind::Host { "host" } else { "net" }
                        ));
                    }
                };
                let mask = match self.mask {
                    None => mask,
                    Some(Mask::Integer(mask) | Mask::Host(mask)) => mask,
                    Some(Mask::Ether(_)) => return Err("'ip host': bad mask".to_owned()),
                };
                let test = |at| vec![Test::equal(Base::Network, at, mask, address & mask)];
                sides(side, test(12), test(16), self.negated)
            }
            Kind::Ether => {
                self.no_relation("ether host")?;
                let Some(Data::Ether(address)) = self.data else {
                    return Err("'ether host': address missing".to_owned());
                };
                let mask = match self.mask {
                    None => [0xff; 6],
                    Some(Mask::Ether(mask)) => mask,
                    Some(_) => return Err("'ether host': bad mask".to_owned()),
                };
                // The address lies in two words; one of them also holds two other bytes.
                let test = |first: usize| {
                    let words = |bytes: [u8; 6]| {
                        let wide = bytes.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
                        // The destination address is at the end of its words, the source address at
                        // the start.
                        let wide = if first == 0 { wide } else { wide << 16 };
                        [(wide >> 32) as u32, wide as u32]
                    };
                    let ([m0, m1], [v0, v1]) = (words(mask), words(address));
                    [(first, m0, v0), (first + 4, m1, v1)]
                        .map(|(at, mask, value)| Test::equal(Base::Mac, at, mask, value & mask))
                        .to_vec()
                };
                sides(side, test(8), test(0), self.negated)
            }
            Kind::Protocol => {
                let value = match (self.data, transport) {
                    (Some(Data::Integer(number)), None) => Transport::Number(
                        u8::try_from(number).map_err(|_| "'proto': out of range, bound 255")?,
                    ),
                    (Some(Data::Protocol(transport)), None) | (None, Some(transport)) => transport,
                    (None, None) => return Err("'proto': value missing".to_owned()),
                    _ => return Err("'proto': specified twice".to_owned()),
                };
                transport = None;
                match value {
                    Transport::Number(number) => {
                        let place = (Base::Network, 8);
                        match self.compare("proto", place, 8, 16, number.into(), warnings)? {
                            Ok((test, negated)) => Expr::Test(Test { negated, ..test }),
                            Err(always) => Expr::Const(always),
                        }
                    }
                    _ if self.mask.is_some()
                        || self.negated
                        || self.relation != Relation::Equal =>
                    {
                        return Err("'tcpudp': operator or mask not supported".to_owned());
                    }
                    value => protocol(value).unwrap_or(Expr::Const(true)),
                }
            }
            Kind::Port => {
                let number = match self.data {
                    Some(Data::Port(port)) => port.into(),
                    Some(Data::Integer(number)) => number,
                    _ => return Err("'port': value missing".to_owned()),
                };
                match transport {
                    None => transport = Some(Transport::TcpUdp),
                    Some(Transport::TcpUdp | Transport::Number(6 | 17 | 33)) => {}
                    Some(_) => return Err("'port': bad protocol".to_owned()),
                }
                all.push(first_fragment());
                let source =
                    self.compare("port", (Base::Transport, 0), 16, 16, number, warnings)?;
                let destination =
                    self.compare("port", (Base::Transport, 0), 16, 0, number, warnings)?;
                match (source, destination) {
                    (Ok((source, negated)), Ok((destination, _))) => {
                        sides(side, vec![source], vec![destination], negated)
                    }
                    (Err(always), _) | (_, Err(always)) => Expr::Const(always),
                }
            }
            Kind::TcpFlags => {
                let flags = match self.data {
                    Some(Data::TcpFlag(flag)) => u32::from(flag),
                    Some(Data::Integer(flags)) if flags < 256 => flags,
                    Some(Data::Integer(flags)) => {
                        return Err(format!("'tcp opt': value {flags} out of range"));
                    }
                    _ => return Err("'tcp opt': value missing".to_owned()),
                };
                if self.mask.is_some() || self.negated || self.relation != Relation::Equal {
                    return Err("'tcp opt': operator or mask not supported".to_owned());
                }
                match *transport.get_or_insert(Transport::Number(6)) {
                    Transport::Number(6) => {}
                    _ => return Err("'tcp opt': bad protocol".to_owned()),
                }
                all.push(first_fragment());
                Expr::Test(Test::equal(Base::Transport, 12, flags << 16, flags << 16))
            }
            Kind::Ect => match self.data {
                // Any but 0.
                None => {
                    Expr::Test(Test { negated: true, ..Test::equal(Base::Network, 0, 3 << 16, 0) })
                }
                Some(Data::Integer(number)) => {
                    match self.compare("ip ect", (Base::Network, 0), 2, 16, number, warnings)? {
                        Ok((test, negated)) => Expr::Test(Test { negated, ..test }),
                        Err(always) => Expr::Const(always),
                    }
                }
                Some(_) => return Err("'ip ect': value missing".to_owned()),
            },
            Kind::Ce | Kind::Fragment | Kind::Unfragmented => {
                if self.data.is_some() || self.mask.is_some() {
                    return Err("value not supported".to_owned());
                }
                match kind {
                    Kind::Ce => Expr::Test(Test::equal(Base::Network, 0, 3 << 16, 3 << 16)),
                    _ => {
                        let negated = kind == Kind::Fragment;
                        Expr::Test(Test { negated, ..Test::equal(Base::Network, 4, 0x3fff, 0) })
                    }
                }
            }
            Kind::Field(field) => {
                let number = match self.data {
                    Some(Data::Integer(number)) => number,
                    Some(Data::IcmpType(number)) => number.into(),
                    _ => return Err("header field: value missing".to_owned()),
                };
                let base = if field.transport.is_some() { Base::Transport } else { Base::Network };
                if field.transport.is_some() {
                    all.push(first_fragment());
                }
                let (at, bit) = (field.offset / 32 * 4, field.offset % 32);
                let shift = 32 - bit - field.length;
                match self.compare(
                    "header field",
                    (base, at),
                    field.length,
                    shift,
                    number,
                    warnings,
                )? {
                    Ok((test, negated)) => Expr::Test(Test { negated, ..test }),
                    Err(always) => Expr::Const(always),
                }
            }
        };
        if let Some(expr) = transport.and_then(protocol) {
            all.insert(0, expr);
        }
        all.push(body);
        Ok(if all.len() == 1 { all.remove(0) } else { Expr::And(all) })
    }
}
