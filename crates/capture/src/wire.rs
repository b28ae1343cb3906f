//! A capture as lines of JSON, which a node sends to a reader on another machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use europa_substrate::tap::{Direction, Way, cause_name};
use serde::{Deserialize, Serialize};

use crate::session::Packet;
use crate::target::Named;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The first line: the captured interfaces.
    Interfaces(Vec<Named>),
    /// A packet.
    Packet(Sent),
}

/// A packet in the form that is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    time_ns: u64,
    interface: usize,
    length: u32,
    direction: String,
    way: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drop: Option<String>,
    #[serde(default)]
    frame: u64,
    data: String,
}

const DIRECTIONS: [(Direction, &str); 2] = [(Direction::In, "in"), (Direction::Out, "out")];
const WAYS: [(Way, &str); 6] = [
    (Way::Pool, "pool"),
    (Way::Live, "live"),
    (Way::Socket, "socket"),
    (Way::Link, "link"),
    (Way::Cage, "cage"),
    (Way::Verdict, "verdict"),
];

fn word<T: PartialEq>(of: &[(T, &str)], value: &T) -> String {
    of.iter().find(|(one, _)| one == value).map_or("", |(_, word)| word).to_owned()
}

fn value<T: Copy>(of: &[(T, &str)], word: &str) -> Option<T> {
    of.iter().find(|(_, one)| *one == word).map(|(value, _)| *value)
}

impl Line {
    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// The line with the captured interfaces.
    pub fn interfaces(interfaces: &[Named]) -> String {
        Line::Interfaces(interfaces.to_vec()).text()
    }

    /// The line of a packet.
    pub fn packet(packet: &Packet) -> String {
        let sent = Sent {
            time_ns: packet.time_ns,
            interface: packet.interface,
            length: packet.length,
            direction: word(&DIRECTIONS, &packet.direction),
            way: word(&WAYS, &packet.way),
            drop: packet.drop.map(str::to_owned),
            frame: packet.frame,
            data: BASE64.encode(&packet.data),
        };
        Line::Packet(sent).text()
    }

    /// Reads a line; `None` for an empty line, or a line of an unknown kind from a newer node.
    pub fn read(line: &[u8]) -> Option<Line> {
        serde_json::from_slice(line).ok()
    }
}

impl Sent {
    /// The packet; `None` if a newer node has sent an unknown form of it.
    pub fn packet(&self) -> Option<Packet> {
        let cause = |name: &String| {
            let known = (0..=u8::MAX).map(cause_name).find(|known| known == name);
            known.unwrap_or("for a cause that this version does not know")
        };
        Some(Packet {
            time_ns: self.time_ns,
            interface: self.interface,
            length: self.length,
            direction: value(&DIRECTIONS, &self.direction)?,
            way: value(&WAYS, &self.way)?,
            drop: self.drop.as_ref().map(cause),
            frame: self.frame,
            data: BASE64.decode(&self.data).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_back_as_it_was() {
        let packet = Packet {
            time_ns: 1 << 60,
            interface: 3,
            length: 1500,
            direction: Direction::Out,
            way: Way::Link,
            drop: Some(cause_name(1)),
            frame: 9,
            data: vec![0, 255, 7],
        };
        let Some(Line::Packet(sent)) = Line::read(Line::packet(&packet).as_bytes()) else {
            panic!("no packet")
        };
        assert_eq!(sent.packet(), Some(packet));
        assert_eq!(Line::read(b"\n"), None);
    }
}
