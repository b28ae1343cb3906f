//! Makes a device suitable as a port.
//!
//! XDP sees only the bytes of a frame. Metadata of the kernel (a VLAN tag that "hardware" removed,
//! a pending segmentation) would be lost, so offloads that use such metadata are turned off.

use std::io;
use std::os::fd::AsFd;

use crate::device::{Device, Kind, Peer, identity, set_up};
use crate::error::PortError;
use crate::ethtool::Ethtool;
use crate::limitation::Limitation;
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::offloads::End;
use crate::steering::{self, Steering};
use crate::undo::Undo;
use crate::xdp::XdpFeatures;

/// The use of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Interfaces match on VLAN tags.
    pub vlan: bool,
    /// The receive program is attached in generic mode.
    pub generic: bool,
    /// The receive program is attached by tc: it splits TCP and UDP itself, and sees VLAN tags.
    pub tc: bool,
    /// The kernel can report whether a veth's peer has received live frames, so frames of a socket
    /// may bypass their queue.
    pub two_queues: bool,
}

/// A device that is now suitable as a port.
#[derive(Debug)]
pub struct Prepared {
    /// The former state.
    pub undo: Undo,
    /// Limits of the device; because of them the caller refuses the device or warns.
    pub limitations: Vec<Limitation>,
    /// Whether the device splits a packet of merged TCP segments from a socket into the original
    /// ones, or passes it whole to a receiver that accepts that.
    pub segments: bool,
}

const RECEIVE_VLAN: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];
const TRANSMIT_VLAN: [&str; 2] = ["tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"];
const MERGING: [&str; 2] = ["rx-lro", "rx-gro-hw"];

/// Without these features a device does not split merged segments.
const CUTTING: [&str; 2] = ["tx-tcp-segmentation", "tx-tcp6-segmentation"];

/// All features that let a sender postpone segmentation to the driver.
fn postpones_segmentation(feature: &str) -> bool {
    feature.starts_with("tx-") && (feature.ends_with("-segmentation") || feature == "tx-gso-list")
}

/// Segmentation that the receive program of tc does itself.
fn is_cut_by_us(feature: &str) -> bool {
    feature.starts_with("tx-tcp")
        || ["tx-udp-segmentation", "tx-generic-segmentation"].contains(&feature)
}

/// Segmentation of TCP.
fn segments_tcp(feature: &str) -> bool {
    feature.starts_with("tx-tcp") && postpones_segmentation(feature)
}

/// Whether [`prepare`] may switch a feature of a port or of its peer.
fn may_be_switched(feature: &str) -> bool {
    [&RECEIVE_VLAN[..], &TRANSMIT_VLAN, &MERGING, &["rx-gro", "rx-vlan-filter"]]
        .concat()
        .contains(&feature)
        || postpones_segmentation(feature)
}

/// The present state of everything that [`prepare`] may change. Record it for a later process
/// before the change, because this process may be killed during it.
///
/// # Errors
/// The kernel refuses to report about the device.
pub fn before(device: &Device) -> Result<Undo, PortError> {
    let mut undo = Undo { steering: steering_of(device), ..Undo::default() };
    End::open(&device.namespace, device.index)?.note(&mut undo, may_be_switched);
    if let Peer::At { namespace, index, .. } = &device.peer {
        End::open(namespace, *index)?.note(&mut undo, may_be_switched);
    }
    Ok(undo)
}

/// Switches the offloads of a port and of its peer as Europa needs them.
///
/// # Errors
/// The device cannot be a port, or the kernel refuses to report about it; the device is then
/// unchanged.
pub fn prepare(device: &Device, wants: Wants) -> Result<Prepared, PortError> {
    refuse(device)?;
    let mut prepared = Prepared { undo: Undo::default(), limitations: Vec::new(), segments: false };
    match offloads(device, wants, &mut prepared).and_then(|()| xdp(device, wants, &mut prepared)) {
        Ok(()) => Ok(prepared),
        Err(error) => {
            // The first error contains more information than one of the undo.
            let _ = prepared.undo.undo();
            Err(error)
        }
    }
}

/// Makes a veth announce that its peer has GRO on.
///
/// A veth announces that it accepts redirected frames in two cases: when it is set up and its peer
/// has GRO on, or when the peer's GRO is turned on while the *peer* is up. If GRO is turned on
/// while the peer is down, the kernel (6.18) does not announce it, even when the peer is set up
/// later. It then drops frames without counting them. So the peer is set up, and GRO is turned off
/// and on again.
fn remind(namespace: &Namespace, index: u32) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    let peer = identity(&mut netlink, index)?;
    let toggle = |netlink: &Netlink| {
        let ethtool = Ethtool::new(netlink.as_fd(), &peer.name);
        ethtool.set_features(&[("rx-gro", false)])?;
        ethtool.set_features(&[("rx-gro", true)])
    };
    if peer.up {
        return toggle(&netlink);
    }
    set_up(&mut netlink, index, true)?;
    let result = toggle(&netlink);
    set_up(&mut netlink, index, false)?;
    result
}

/// Whether a device has GRO on.
fn has_gro(namespace: &Namespace, index: u32) -> io::Result<bool> {
    let mut netlink = Netlink::route(namespace)?;
    let name = identity(&mut netlink, index)?.name;
    let features = Ethtool::new(netlink.as_fd(), &name).features()?;
    Ok(features.iter().any(|feature| feature.name == "rx-gro" && feature.active))
}

/// Whether a port accepts live frames now. The owner of a veth's other end may have turned its GRO
/// off; such frames are then dropped without being counted.
pub fn takes_frames(device: &Device) -> bool {
    match (device.xdp_features(), &device.peer) {
        (Ok(Some(features)), _) => features.redirect_target,
        // This kernel does not report it.
        (Ok(None), Peer::At { namespace, index, .. }) => has_gro(namespace, *index).unwrap_or(true),
        _ => true,
    }
}

/// Refuses devices that can never be ports.
///
/// # Errors
/// The reason, and an alternative.
pub fn refuse(device: &Device) -> Result<(), PortError> {
    let refused = |reason, remedy| {
        Err(PortError::NotAPort {
            device: device.name.clone(),
            namespace: device.namespace.label(),
            reason,
            remedy,
        })
    };
    match device.kind {
        Kind::Loopback => refused(
            "it is the loopback device, whose frames never leave the namespace",
            "use one end of a veth pair",
        ),
        Kind::Bridge => refused(
            "it is a bridge, which takes no redirected frames",
            "add one end of a veth pair to the bridge and use the other, \
             or use the bridge's own ports",
        ),
        Kind::Macvlan => refused(
            "it is a macvlan, which takes no redirected frames",
            "use the device below it, or one end of a veth pair",
        ),
        _ if !device.ethernet => refused(
            "it carries no Ethernet frames",
            "use an Ethernet device (for tun: open it as tap)",
        ),
        _ => Ok(()),
    }
}

/// How a veth is steered; empty for other devices, and if the kernel cannot steer.
fn steering_of(device: &Device) -> Vec<Steering> {
    if !matches!(device.kind, Kind::Veth) {
        return Vec::new();
    }
    steering::read(&device.namespace, device.index, &device.name).unwrap_or_default()
}

/// Assigns a CPU to each flow that a veth receives by tc, if the kernel can do that.
fn steer(device: &Device, undo: &mut Undo) -> Result<(), PortError> {
    let was = steering_of(device);
    undo.steering.extend(was.iter().cloned());
    steering::spread(&device.namespace, &device.name, &was)
        .map_err(|source| device.refused("steer what it receives", source))
}

/// Switches offloads on both ends; notes changes and failures.
fn offloads(device: &Device, wants: Wants, prepared: &mut Prepared) -> Result<(), PortError> {
    let port = device.name.clone();
    let mut end = End::open(&device.namespace, device.index)?;
    end.want(false, |feature| RECEIVE_VLAN.contains(&feature) || MERGING.contains(&feature));
    // A hardware filter would pass only VLANs for which Linux has devices.
    end.want(false, |feature| wants.vlan && feature == "rx-vlan-filter");
    end.want(false, |feature| wants.generic && feature == "rx-gro");
    // Without an XDP program, a veth accepts its peer's live frames only with this feature.
    end.want(true, |feature| wants.tc && feature == "rx-gro");
    // A socket's frames to a veth join the queue of live frames only if they may be merged there.
    // That requires a sender that does not segment itself.
    let is_veth = matches!(device.kind, Kind::Veth);
    prepared.segments =
        (wants.two_queues || !is_veth) && CUTTING.iter().all(|name| end.is_on(name));
    let joins = is_veth && !prepared.segments;
    end.want(false, |feature| joins && segments_tcp(feature));
    let stuck = end.apply(&mut prepared.undo)?;
    if wants.tc && is_veth {
        steer(device, &mut prepared.undo)?;
    }
    if wants.vlan && stuck.iter().any(|feature| feature.starts_with("rx-vlan")) {
        prepared.limitations.push(Limitation::VlanUntrusted {
            device: port.clone(),
            why: format!("{} cannot be turned off", stuck.join(", ")),
            remedy: "match on MAC or IP addresses instead".to_owned(),
        });
    }
    if stuck.iter().any(|feature| MERGING.contains(&feature.as_str()) || feature == "rx-gro") {
        prepared.limitations.push(Limitation::Oversized {
            device: port.clone(),
            why: format!("{} cannot be turned off", stuck.join(", ")),
            remedy: "turn segmentation off at the senders".to_owned(),
        });
    }

    match &device.peer {
        Peer::None => {
            if wants.generic && !matches!(device.kind, Kind::Physical { .. }) {
                prepared.limitations.push(Limitation::Oversized {
                    device: port,
                    why: "nobody between a sender on this machine and generic mode segments"
                        .to_owned(),
                    remedy: "turn segmentation off at the senders: \
                             `ethtool -K DEVICE tso off gso off`"
                        .to_owned(),
                });
            }
            Ok(())
        }
        Peer::At { namespace, index, .. } => {
            let mut peer = End::open(namespace, *index)?;
            peer.want(true, |feature| feature == "rx-gro");
            peer.want(false, |feature| !wants.tc && TRANSMIT_VLAN.contains(&feature));
            peer.want(false, |feature| wants.generic && postpones_segmentation(feature));
            peer.want(false, |feature| {
                wants.tc && postpones_segmentation(feature) && !is_cut_by_us(feature)
            });
            // On a veth all of these can be switched. If GRO could not be, the XDP features below
            // show that.
            peer.apply(&mut prepared.undo).map(drop)
        }
        Peer::Unreachable { .. } => {
            let why = "its peer is in a namespace that cannot be seen from here";
            if wants.vlan {
                prepared.limitations.push(Limitation::VlanUntrusted {
                    device: port.clone(),
                    why: why.to_owned(),
                    remedy: "run `ethtool -K DEVICE tx-vlan-offload off` there".to_owned(),
                });
            }
            if wants.generic {
                prepared.limitations.push(Limitation::Oversized {
                    device: port,
                    why: why.to_owned(),
                    remedy: "run `ethtool -K DEVICE tso off gso off` there".to_owned(),
                });
            }
            Ok(())
        }
    }
}

/// Checks whether the driver runs programs and accepts redirected frames. This depends on offloads,
/// so it happens after they have been switched.
fn xdp(device: &Device, wants: Wants, prepared: &mut Prepared) -> Result<(), PortError> {
    let told = device.xdp_features()?;
    let mut features = told.unwrap_or_else(|| XdpFeatures::presumed(&device.kind));
    if features.native
        && !features.redirect_target
        && let Peer::At { namespace, index, .. } = &device.peer
    {
        let switched = |source| device.refused("switch GRO of its peer", source);
        if told.is_some() || !has_gro(namespace, *index).map_err(switched)? {
            remind(namespace, *index).map_err(switched)?;
        }
        let presumed = XdpFeatures { redirect_target: true, ..features };
        features = device.xdp_features()?.unwrap_or(presumed);
    }
    let name = device.name.clone();
    if !features.native && !wants.generic {
        let (why, remedy) = match device.kind {
            // A veth withdraws its features if a frame could not find a queue.
            Kind::Veth => (
                format!(
                    "its peer has more transmit queues than its own {} for receive",
                    device.receive_queues
                ),
                format!("run `ethtool -L {name} rx N`, N the peer's `tx` in `ethtool -l`"),
            ),
            _ => (
                format!("the driver of {} has no XDP", device.kind),
                "generic mode is slower; use a device whose driver has it".to_owned(),
            ),
        };
        prepared.limitations.push(Limitation::GenericOnly { device: name.clone(), why, remedy });
    }
    // Drivers of hardware may offer this only once a program is attached.
    let later = features.native && matches!(device.kind, Kind::Physical { .. });
    if !features.redirect_target && !later {
        let (why, remedy) = match &device.peer {
            Peer::Unreachable { .. } => (
                "its peer, in a namespace that cannot be seen from here, has GRO off".to_owned(),
                "run `ethtool -K DEVICE gro on` there".to_owned(),
            ),
            Peer::At { namespace, name, .. } => (
                format!("its peer {name} in {} does not take them", namespace.label()),
                format!("look at `ethtool -k {name}` (GRO) and `ethtool -l {name}` (queues) there"),
            ),
            Peer::None => (
                format!("the driver of {} cannot send them", device.kind),
                "use a device whose driver can (veth, tap, most hardware)".to_owned(),
            ),
        };
        prepared.limitations.push(Limitation::SocketOnly { device: name, why, remedy });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_postpone_segmentation() {
        for (feature, wanted) in [
            ("tx-tcp-segmentation", true),
            ("tx-generic-segmentation", true),
            ("tx-udp-segmentation", true),
            ("tx-gso-list", true),
            ("tx-gso-partial", false),
            ("tx-checksum-ip-generic", false),
            ("rx-gro", false),
        ] {
            assert_eq!(postpones_segmentation(feature), wanted, "{feature}");
        }
    }
}
