//! Ethernet and IP addresses and prefixes.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use europa_packet::MacAddr;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{BadArg, FromArg};

/// The leading bytes of a dotted address, one to four of them.
fn dotted(text: &str) -> Option<(Ipv4Addr, u8)> {
    let mut bytes = [0u8; 4];
    let mut count = 0u8;
    for part in text.split('.') {
        let slot = bytes.get_mut(usize::from(count))?;
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        *slot = part.parse().ok().filter(|_| digits)?;
        count += 1;
    }
    Some((Ipv4Addr::from(bytes), count))
}

fn decimal_length(text: &str, most: u8) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|&length| digits && length <= most)
}

/// `0:a0:c9:9c:fd:9c` or with `-`; each byte has one or two digits.
impl FromArg for MacAddr {
    fn wanted() -> Cow<'static, str> {
        "an Ethernet address such as '00:a0:c9:9c:fd:9c'".into()
    }

    fn from_arg(text: &str) -> Result<MacAddr, BadArg> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut bytes = [0u8; 6];
        let mut parts = text.split(separator);
        for byte in &mut bytes {
            let part = parts.next().ok_or(BadArg::Malformed)?;
            let digits = part.bytes().all(|b| b.is_ascii_hexdigit());
            if !digits || !(1..=2).contains(&part.len()) {
                return Err(BadArg::Malformed);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| BadArg::Malformed)?;
        }
        match parts.next() {
            None => Ok(MacAddr(bytes)),
            Some(_) => Err(BadArg::Malformed),
        }
    }
}

impl FromArg for Ipv4Addr {
    fn wanted() -> Cow<'static, str> {
        "an IP address such as '18.26.4.15'".into()
    }

    fn from_arg(text: &str) -> Result<Ipv4Addr, BadArg> {
        match dotted(text) {
            Some((address, 4)) => Ok(address),
            _ => Err(BadArg::Malformed),
        }
    }
}

impl FromArg for Ipv6Addr {
    fn wanted() -> Cow<'static, str> {
        "an IPv6 address such as 'fe80::1'".into()
    }

    fn from_arg(text: &str) -> Result<Ipv6Addr, BadArg> {
        text.parse().map_err(|_| BadArg::Malformed)
    }
}

impl FromArg for IpAddr {
    fn wanted() -> Cow<'static, str> {
        "an IP or IPv6 address".into()
    }

    fn from_arg(text: &str) -> Result<IpAddr, BadArg> {
        let v4 = Ipv4Addr::from_arg(text).map(IpAddr::V4);
        v4.or_else(|_| Ipv6Addr::from_arg(text).map(IpAddr::V6))
    }
}

/// `a.b.c.d/k`, `a.b.c.d/mask`, `a.b/k`; the address keeps its host bits.
impl FromArg for Ipv4Net {
    fn wanted() -> Cow<'static, str> {
        "an IP prefix such as '10.0.0.0/8' or '10.0.0.0/255.0.0.0'".into()
    }

    fn from_arg(text: &str) -> Result<Ipv4Net, BadArg> {
        let (address, length) = text.rsplit_once('/').ok_or(BadArg::Malformed)?;
        let (address, bytes) = dotted(address).ok_or(BadArg::Malformed)?;
        let length = match decimal_length(length, 32) {
            Some(length) => length,
            None => {
                let mask = Ipv4Addr::from_arg(length)?;
                ipnet::ipv4_mask_to_prefix(mask)
                    .map_err(|_| BadArg::Refused("netmask has gaps".to_owned()))?
            }
        };
        // `10.1/24` leaves a byte of the network open.
        if length > bytes * 8 {
            return Err(BadArg::Malformed);
        }
        Ipv4Net::new(address, length).map_err(|_| BadArg::Malformed)
    }
}

impl FromArg for Ipv6Net {
    fn wanted() -> Cow<'static, str> {
        "an IPv6 prefix such as '2001:db8::/32'".into()
    }

    fn from_arg(text: &str) -> Result<Ipv6Net, BadArg> {
        let (address, length) = text.rsplit_once('/').ok_or(BadArg::Malformed)?;
        let address = Ipv6Addr::from_arg(address)?;
        let length = match decimal_length(length, 128) {
            Some(length) => length,
            None => {
                let mask = Ipv6Addr::from_arg(length)?;
                ipnet::ipv6_mask_to_prefix(mask)
                    .map_err(|_| BadArg::Refused("netmask has gaps".to_owned()))?
            }
        };
        Ipv6Net::new(address, length).map_err(|_| BadArg::Malformed)
    }
}

impl FromArg for IpNet {
    fn wanted() -> Cow<'static, str> {
        "an IP or IPv6 prefix".into()
    }

    fn from_arg(text: &str) -> Result<IpNet, BadArg> {
        let v4 = Ipv4Net::from_arg(text).map(IpNet::V4);
        v4.or_else(|error| Ipv6Net::from_arg(text).map(IpNet::V6).map_err(|_| error))
    }
}
