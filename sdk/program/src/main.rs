//! A data plane that marks packets: frames of each of two interfaces leave by the other one. IP
//! packets to the address in the command line get the code point EF (46), which asks networks to
//! forward them first.

use std::error::Error;
use std::net::IpAddr;

use europa_dataplane::{Batch, Pool, headers};

/// Expedited forwarding (RFC 3246).
const EF: u8 = 46;

fn main() -> Result<(), Box<dyn Error>> {
    let address: IpAddr = std::env::args().nth(1).ok_or("usage: my-program ADDRESS")?.parse()?;
    let mut pool = Pool::open()?;
    if pool.interfaces().len() != 2 {
        return Err("the router needs two interfaces".into());
    }
    for interface in pool.interfaces() {
        println!("{} has {}", interface.name, interface.mac);
    }
    let mut batch = Batch::new();
    loop {
        for from in 0..2 {
            pool.receive(from, &mut batch);
            for packet in batch.iter_mut() {
                if headers::addresses(packet.data()).is_some_and(|(_, to)| to == address) {
                    headers::set_dscp(packet.data_mut(), EF);
                }
            }
            pool.send(1 - from, &mut batch);
        }
        pool.wait()?;
    }
}
