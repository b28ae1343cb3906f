#![no_main]

//! RSVP: the codec reads any bytes as a message or refuses them. A message that was read is
//! written, and read again as the same message. A signaller that gets the bytes does not panic.

use std::net::IpAddr;

use europa_signal::wire::{AbstractNode, Message};
use europa_signal::{
    Adjacency, Admit, Config, Demand, Holder, Input, Interface, InterfaceId, Lack, Offer, Route,
    Signaller, Time,
};

struct Surroundings;

const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 2));
const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));
const VIA: Adjacency = Adjacency { interface: InterfaceId(1), address: FAR };

impl Admit for Surroundings {
    fn exchange(
        &mut self,
        _: InterfaceId,
        _: &Holder,
        _: Option<&Demand>,
        _: Option<&Demand>,
    ) -> Result<(), Lack> {
        Ok(())
    }

    fn offer(&self, _: InterfaceId) -> Offer {
        Offer::default()
    }
}

impl Route for Surroundings {
    fn next_hop(&self, _: IpAddr) -> Option<Adjacency> {
        Some(VIA)
    }

    fn neighbour_in(&self, _: &AbstractNode) -> Option<Adjacency> {
        Some(VIA)
    }

    fn node_of(&self, _: Adjacency) -> Option<IpAddr> {
        None
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(message) = Message::decode(data) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    let mut config = Config::new(OWN, 1);
    let (addresses, key) = (vec![OWN], None);
    let interface = Interface { id: VIA.interface, addresses, mtu: 1500, colours: 0, key };
    config.interfaces.push(interface);
    let mut signaller = Signaller::new(config, Time::default());
    let packet = Input::Packet { interface: VIA.interface, source: FAR, ttl: 255, bytes: data };
    signaller.handle(Time::default(), packet, &mut Surroundings);
    let day = Time::after(std::time::Duration::from_secs(86_400));
    signaller.handle(day, Input::Tick, &mut Surroundings);
});
