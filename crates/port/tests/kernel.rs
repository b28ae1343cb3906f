//! Tests ports on this kernel: facts, offloads, sockets, counters, neighbours.
//!
//! The tests need root; otherwise each prints a message and passes. Every test makes namespaces
//! that exist only as long as its descriptors, so none remains even if the test is killed.

// A program for live frames is loaded with a plain system call.
#![allow(unsafe_code)]

use std::error::Error;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use europa_port::{
    Device, DropCounters, Kind, Limitation, Namespace, Peer, PortError, Undo, Wants,
    counter_socket, in_namespace, is_out, next_hop, open_socket, prepare, set_promiscuous,
};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Prints that a test is skipped, even if output is captured.
fn skipped() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    let skip = unsafe { libc::geteuid() } != 0;
    if skip {
        use std::io::Write;
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: needs root");
    }
    skip
}

/// Runs a command line inside a namespace, and returns its output.
fn run(namespace: &Namespace, line: &str) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = in_namespace(namespace, || Command::new(words[0]).args(&words[1..]).output())??;
    if !output.status.success() {
        return Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// A path by which other processes find a namespace of this process.
fn path(namespace: &Namespace) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd())
}

/// Two namespaces joined by eup0 (in the first) and eup1 (in the second).
fn pair() -> Result<(Namespace, Namespace)> {
    let (here, there) = (Namespace::fresh()?, Namespace::fresh()?);
    run(&here, &format!("ip link add eup0 type veth peer name eup1 netns {}", path(&there)))?;
    run(&here, "ip link set eup0 up address 02:00:00:00:00:01")?;
    run(&there, "ip link set eup1 up address 02:00:00:00:00:02")?;
    Ok((here, there))
}

/// Sends a frame by a socket of [`open_socket`], with `offload` before it.
fn send(socket: &OwnedFd, offload: [u8; 10], frame: &[u8]) -> Result {
    let bytes = [&offload[..], frame].concat();
    // SAFETY: the kernel reads as many bytes as there are.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    if sent == isize::try_from(bytes.len())? {
        return Ok(());
    }
    Err(std::io::Error::last_os_error().into())
}

/// Whether a feature is on, as ethtool sees it.
fn on(namespace: &Namespace, device: &str, feature: &str) -> Result<bool> {
    let all = run(namespace, &format!("ethtool -k {device}"))?;
    let line = all.lines().find(|line| line.trim().starts_with(&format!("{feature}:")));
    Ok(line.ok_or(format!("no feature {feature}"))?.contains(": on"))
}

#[test]
fn facts_of_a_veth_and_its_peer_elsewhere() -> Result {
    if skipped() {
        return Ok(());
    }
    let (here, there) = pair()?;
    run(&here, "ip link set eup0 mtu 1400")?;
    let device = Device::open(&here, "eup0")?;
    assert_eq!(device.name, "eup0");
    assert_eq!(device.mac, [2, 0, 0, 0, 0, 1]);
    assert_eq!(device.mtu, 1400);
    assert!(device.up && device.ethernet);
    assert_eq!(device.kind, Kind::Veth);
    assert_eq!((device.receive_queues, device.transmit_queues), (1, 1));
    let other = Device::open(&there, "eup1")?;
    let wanted = Peer::At { namespace: there, index: other.index, name: "eup1".to_owned() };
    assert_eq!(device.peer, wanted);
    let wanted = Peer::At { namespace: here, index: device.index, name: "eup0".to_owned() };
    assert_eq!(other.peer, wanted);
    Ok(())
}

#[test]
fn a_peer_in_the_same_namespace() -> Result {
    if skipped() {
        return Ok(());
    }
    let here = Namespace::fresh()?;
    run(&here, "ip link add eup0 type veth peer name eup1")?;
    let device = Device::open(&here, "eup0")?;
    assert!(!device.up);
    assert!(
        matches!(&device.peer, Peer::At { namespace, name, .. } if *namespace == here && name == "eup1"),
        "{:?}",
        device.peer
    );
    Ok(())
}

#[test]
fn a_missing_device_is_told_with_those_that_are_there() -> Result {
    if skipped() {
        return Ok(());
    }
    let (here, _there) = pair()?;
    for name in ["eup9", "a-name-that-is-too-long-for-a-device"] {
        let error = Device::open(&here, name).err().ok_or("found")?;
        let text = error.to_string();
        assert!(text.starts_with(&format!("no device {name} in net:[")), "{text}");
        assert!(text.contains("there are: lo, eup0"), "{text}");
    }
    Ok(())
}

#[test]
fn devices_that_cannot_be_ports_are_refused() -> Result {
    if skipped() {
        return Ok(());
    }
    let (here, _there) = pair()?;
    run(&here, "ip link add eupb type bridge")?;
    run(&here, "ip link add eupm link eup0 type macvlan mode bridge")?;
    run(&here, "ip tuntap add eupn mode tun")?;
    for (name, kind) in [
        ("lo", Kind::Loopback),
        ("eupb", Kind::Bridge),
        ("eupm", Kind::Macvlan),
        ("eupn", Kind::Tun),
    ] {
        let device = Device::open(&here, name)?;
        assert_eq!(device.kind, kind, "{name}");
        let error = prepare(&device, Wants::default()).err().ok_or(format!("{name} was taken"))?;
        assert!(matches!(error, PortError::NotAPort { .. }), "{name}: {error}");
    }
    run(&here, "ip tuntap add eupt mode tap")?;
    let tap = Device::open(&here, "eupt")?;
    assert_eq!(tap.kind, Kind::Tap);
    assert_eq!(prepare(&tap, Wants { vlan: true, ..Wants::default() })?.limitations, []);
    run(&here, "ip link add eupx type vxlan id 1 dstport 4789")?;
    let vxlan = Device::open(&here, "eupx")?;
    assert_eq!(vxlan.kind, Kind::Other("vxlan".to_owned()));
    let prepared = prepare(&vxlan, Wants::default())?;
    assert!(
        matches!(
            prepared.limitations[..],
            [Limitation::GenericOnly { .. }, Limitation::SocketOnly { .. }]
        ),
        "{:?}",
        prepared.limitations
    );
    Ok(())
}

#[test]
fn preparing_switches_both_ends_and_undo_restores_them() -> Result {
    if skipped() {
        return Ok(());
    }
    for generic in [false, true] {
        let (here, there) = pair()?;
        run(&here, "ethtool -K eup0 gro on")?;
        run(&there, "ethtool -K eup1 tx-tcp6-segmentation off")?;
        let before = (run(&here, "ethtool -k eup0")?, run(&there, "ethtool -k eup1")?);

        let prepared = prepare(
            &Device::open(&here, "eup0")?,
            Wants { vlan: true, generic, ..Wants::default() },
        )?;
        assert_eq!(prepared.limitations, []);
        for (end, device, feature, wanted) in [
            (&here, "eup0", "rx-vlan-offload", false),
            (&here, "eup0", "rx-vlan-stag-hw-parse", false),
            (&here, "eup0", "tx-vlan-offload", true),
            (&here, "eup0", "generic-receive-offload", !generic),
            (&there, "eup1", "generic-receive-offload", true),
            (&there, "eup1", "tx-vlan-offload", false),
            (&there, "eup1", "tx-vlan-stag-hw-insert", false),
            (&there, "eup1", "rx-vlan-offload", true),
            (&there, "eup1", "tcp-segmentation-offload", !generic),
            (&there, "eup1", "generic-segmentation-offload", !generic),
            (&there, "eup1", "tx-udp-segmentation", !generic),
            (&there, "eup1", "tx-checksum-ip-generic", true),
        ] {
            assert_eq!(on(end, device, feature)?, wanted, "{device} {feature}, generic {generic}");
        }
        // Preparing a prepared port changes nothing.
        let again = prepare(
            &Device::open(&here, "eup0")?,
            Wants { vlan: true, generic, ..Wants::default() },
        )?;
        assert_eq!(again.undo, Undo::default());

        // The undo is done as by a later process: from a file, after a device was renamed.
        let undo: Undo = serde_json::from_str(&serde_json::to_string(&prepared.undo)?)?;
        run(&there, "ip link set eup1 down")?;
        run(&there, "ip link set eup1 name eup7")?;
        undo.undo()?;
        undo.undo()?;
        run(&there, "ip link set eup7 name eup1")?;
        run(&there, "ip link set eup1 up")?;
        let after = (run(&here, "ethtool -k eup0")?, run(&there, "ethtool -k eup1")?);
        assert_eq!(after, before);
        // Devices that no longer exist need no undo.
        run(&here, "ip link del eup0")?;
        undo.undo()?;
    }
    Ok(())
}

#[test]
fn an_unreachable_peer_is_told() -> Result {
    if skipped() {
        return Ok(());
    }
    let (here, there) = pair()?;
    // A socket keeps a namespace to which no name, process or descriptor leads.
    let (lonely, hidden) = pair()?;
    let _keep = in_namespace(&hidden, || std::net::UdpSocket::bind("0.0.0.0:0"))??;
    drop(hidden);
    let device = Device::open(&lonely, "eup0")?;
    assert!(matches!(device.peer, Peer::Unreachable { .. }), "{:?}", device.peer);

    let table = [
        (Wants::default(), "S"),
        (Wants { vlan: true, ..Wants::default() }, "VS"),
        (Wants { vlan: true, generic: true, ..Wants::default() }, "VOS"),
    ];
    let mut device = Device::open(&here, "eup0")?;
    let Peer::At { index, .. } = device.peer else { return Err("no peer".into()) };
    device.peer = Peer::Unreachable { index };
    for (wants, wanted) in table {
        let limitations = prepare(&device, wants)?.limitations;
        let found: String = limitations
            .iter()
            .map(|limitation| match limitation {
                Limitation::VlanUntrusted { .. } => 'V',
                Limitation::SocketOnly { .. } => 'S',
                Limitation::GenericOnly { .. } => 'G',
                Limitation::Oversized { .. } => 'O',
            })
            .collect();
        assert_eq!(found, wanted, "{wants:?}: {limitations:?}");
    }
    // The reported remedy helps.
    let told = prepare(&device, Wants::default())?.limitations[0].to_string();
    assert!(told.contains("ethtool -K DEVICE gro on"), "{told}");
    run(&there, "ethtool -K eup1 gro on")?;
    assert_eq!(prepare(&device, Wants::default())?.limitations, []);
    Ok(())
}

#[test]
fn too_few_receive_queues_are_told() -> Result {
    if skipped() {
        return Ok(());
    }
    let here = Namespace::fresh()?;
    run(&here, "ip link add eup1 numtxqueues 2 type veth peer name eup0")?;
    run(&here, "ethtool -L eup1 tx 2")?;
    let limitations = prepare(&Device::open(&here, "eup0")?, Wants::default())?.limitations;
    assert!(
        matches!(limitations.first(), Some(Limitation::GenericOnly { why, .. }) if why.contains("queues")),
        "{limitations:?}"
    );
    Ok(())
}

#[test]
fn ends_that_are_down_are_prepared_too() -> Result {
    if skipped() {
        return Ok(());
    }
    for downs in [&["eup0"][..], &["eup1"], &["eup0", "eup1"]] {
        let here = Namespace::fresh()?;
        run(&here, "ip link add eup0 type veth peer name eup1")?;
        let others = ["eup0", "eup1"].into_iter().filter(|end| !downs.contains(end));
        for end in others {
            run(&here, &format!("ip link set {end} up"))?;
        }
        let prepared = prepare(&Device::open(&here, "eup0")?, Wants::default())?;
        assert_eq!(prepared.limitations, [], "{downs:?} down");
        for end in downs {
            let device = Device::open(&here, end)?;
            assert!(!device.up, "{end} was down and must stay so");
            run(&here, &format!("ip link set {end} up"))?;
        }
        let device = Device::open(&here, "eup0")?;
        let features = device.xdp_features()?.ok_or("no XDP features")?;
        assert!(features.redirect_target, "{downs:?} down");
    }
    Ok(())
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Option<usize> {
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        // SAFETY: the kernel writes at most the buffer's length.
        let length = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if let Ok(length) = usize::try_from(length) {
            return Some(length);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

#[test]
fn a_socket_sends_what_the_peer_sees_and_receives_nothing() -> Result {
    if skipped() {
        return Ok(());
    }
    let (here, there) = pair()?;
    let near = Device::open(&here, "eup0")?;
    let socket = open_socket(&near)?;
    let listener = in_namespace(&there, || {
        // SAFETY: no pointers; the descriptor is new and has no other owner.
        unsafe {
            let all = i32::from(0x88b5_u16.to_be());
            OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, all))
        }
    })?;
    let mut frame = vec![0xff; 6];
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend_from_slice(&[0x5a; 600]);
    send(&socket, [0; 10], &frame)?;
    let mut buffer = [0; 2048];
    let length = receive(&listener, &mut buffer).ok_or("the peer saw nothing")?;
    assert_eq!(&buffer[..length], &frame[..]);

    // Protocol 0 receives nothing: a frame from the peer does not reach the socket.
    let back = open_socket(&Device::open(&there, "eup1")?)?;
    send(&back, [0; 10], &frame)?;
    // SAFETY: the kernel writes at most the buffer's length.
    let got = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), 2048, 0) };
    assert_eq!(got, -1);
    assert_eq!(std::io::Error::last_os_error().kind(), std::io::ErrorKind::WouldBlock);

    // The device is promiscuous as long as a socket requests it.
    let flags = |text: String| text.contains("promiscuity 1");
    for on in [true, false, true] {
        set_promiscuous(&socket, &near, on)?;
        assert_eq!(flags(run(&here, "ip -d link show eup0")?), on);
    }
    drop(socket);
    assert!(!flags(run(&here, "ip -d link show eup0")?));
    Ok(())
}

/// Waits until the queue of live frames has delivered this number of frames to a device, counted at
/// the XDP program's place. Returns the count.
fn joined(there: &Namespace, wanted: u64) -> Result<u64> {
    let count = || -> Result<u64> {
        let text = run(there, "ethtool -S eup1")?;
        let count =
            text.lines().find_map(|line| line.trim().strip_prefix("rx_queue_0_xdp_packets: "));
        Ok(count.ok_or("no such counter")?.parse()?)
    };
    let deadline = Instant::now() + Duration::from_secs(2);
    while count()? < wanted && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    count()
}

#[test]
fn what_a_socket_sends_to_a_veth_that_cuts_nothing_joins_the_queue_of_live_frames() -> Result {
    if skipped() {
        return Ok(());
    }
    let (here, there) = pair()?;
    let device = Device::open(&here, "eup0")?;
    // Otherwise Linux might search for IPv6 routers.
    run(&here, "sysctl -qw net.ipv6.conf.eup0.disable_ipv6=1")?;
    let prepared = prepare(&device, Wants::default())?;
    assert!(!prepared.segments && !on(&here, "eup0", "tcp-segmentation-offload")?);
    let socket = open_socket(&device)?;
    let mut frame = vec![0xff; 6];
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.resize(600, 0x5a);
    let before = joined(&there, 0)?;
    for _ in 0..10 {
        send(&socket, [0; 10], &frame)?;
    }
    assert_eq!(joined(&there, before + 10)?, before + 10);
    in_namespace(&here, || live_frames(device.index, 600, 10).map_err(|e| e.to_string()))??;
    assert_eq!(joined(&there, before + 20)?, before + 20);
    prepared.undo.undo()?;
    assert!(on(&here, "eup0", "tx-tcp-segmentation")?);
    Ok(())
}

#[test]
fn merged_segments_reach_the_peer_as_one_packet() -> Result {
    if skipped() {
        return Ok(());
    }
    let (here, there) = pair()?;
    let device = Device::open(&here, "eup0")?;
    run(&there, "ip address add 10.0.0.2/24 dev eup1")?;
    let wants = Wants { two_queues: true, ..Wants::default() };
    let prepared = prepare(&device, wants)?;
    assert!(prepared.segments && on(&here, "eup0", "tcp-segmentation-offload")?);
    let socket = open_socket(&device)?;
    let received = || -> Result<u64> {
        Ok(run(&there, "cat /proc/net/dev")?
            .lines()
            .find_map(|line| line.trim().strip_prefix("eup1:")?.split_whitespace().next())
            .ok_or("no such device")?
            .parse()?)
    };
    let before = received()?;
    for _ in 0..100 {
        send(&socket, MERGED, &merged())?;
        let deadline = Instant::now() + Duration::from_secs(2);
        while !is_out(&socket) {
            assert!(Instant::now() < deadline, "it is still on its way");
        }
    }
    let bytes = received()? - before;
    assert!((300_000..320_000).contains(&bytes), "{bytes} bytes of 100 packets of 3054");
    // A device that cannot split such packets refuses them, so they are not offered to it.
    run(&here, "ethtool -K eup0 tso off")?;
    assert!(send(&socket, MERGED, &merged()).is_err());
    assert!(!prepare(&device, wants)?.segments);
    Ok(())
}

/// The header before [`merged`]: a checksum to complete, TCP over IPv4, 54 bytes of headers,
/// segments of 1000, where TCP's header begins, where its checksum is.
const MERGED: [u8; 10] = [1, 1, 54, 0, 0xe8, 3, 34, 0, 16, 0];

/// Three segments of TCP as one packet.
fn merged() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 1, 8, 0]);
    // The checksum of a header of 20 bytes: length 3040, TTL 64, from 10.0.0.1 to 10.0.0.2.
    frame.extend_from_slice(&[0x45, 0, 0x0b, 0xe0, 0, 1, 0x40, 0, 64, 6, 0x1b, 0x15]);
    frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend_from_slice(&[0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0]);
    frame.resize(14 + 3040, 0);
    frame
}

/// The bpf system call.
fn bpf(command: i32, attributes: &mut [u64]) -> std::io::Result<i32> {
    // SAFETY: the kernel reads and writes the attributes' own length; the callers own the memory
    // behind the pointers and keep it alive.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            std::mem::size_of_val(attributes),
        )
    };
    i32::try_from(result)
        .ok()
        .filter(|result| *result >= 0)
        .ok_or_else(std::io::Error::last_os_error)
}

/// Redirects `count` live frames of `length` bytes to a device of this namespace.
fn live_frames(device: u32, length: u64, count: u64) -> Result {
    // r1 = device; r2 = 0; call bpf_redirect; exit
    let program: [u64; 4] = [0x01b7 | u64::from(device) << 32, 0x02b7, 23 << 32 | 0x85, 0x95];
    let license = c"GPL";
    // Type XDP, four instructions.
    let mut load = [6 | 4 << 32, program.as_ptr() as u64, license.as_ptr() as u64, 0, 0, 0];
    // SAFETY: a new descriptor without another owner.
    let program = unsafe { OwnedFd::from_raw_fd(bpf(5, &mut load)?) };
    let frame = vec![0xff_u8; 4096];
    let descriptor = u64::try_from(program.as_raw_fd())?;
    // fd; sizes; data in, out; repeat; contexts; flags: live frames; batch
    let mut test = [descriptor, length, frame.as_ptr() as u64, 0, count, 0, 0, 0, 2, 64];
    bpf(10, &mut test)?;
    Ok(())
}

#[test]
fn frames_that_the_peer_refuses_are_counted() -> Result {
    if skipped() {
        return Ok(());
    }
    let (here, there) = pair()?;
    let device = Device::open(&here, "eup0")?;
    assert_eq!(prepare(&device, Wants::default())?.limitations, []);
    let mut counters = DropCounters::new(counter_socket(&device)?, device.index)?;
    let mut other = {
        let device = Device::open(&there, "eup1")?;
        DropCounters::new(counter_socket(&device)?, device.index)?
    };
    in_namespace(&here, || {
        live_frames(device.index, 1000, 128).map_err(|error| error.to_string())
    })??;
    let lost = europa_port::Drops { received: 0, ..counters.read()? };
    assert_eq!(lost, europa_port::Drops::default());

    let before = other.read()?.receive; // Linux there does not accept such frames.
    // Frames longer than the peer's MTU are not accepted.
    run(&there, "ip link set eup1 mtu 500")?;
    in_namespace(&here, || {
        live_frames(device.index, 1000, 128).map_err(|error| error.to_string())
    })??;
    let drops = counters.read()?;
    assert_eq!((drops.live_frames, drops.transmit, drops.receive), (128, 128, 0));
    assert_eq!(other.read()?.receive, before + 128);

    // The holder of the socket needs no privilege: this test runs as the user `nobody`.
    let unprivileged = in_namespace(&here, || {
        // SAFETY: no pointers; the plain call changes this thread alone, which ends here.
        let dropped = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(dropped, 0);
        counters.read()
    })??;
    assert_eq!(unprivileged, drops);

    // The counters follow a device whose name and queues change.
    run(&here, "ip link set eup0 down")?;
    run(&here, "ip link set eup0 name eup5")?;
    run(&here, "ethtool -L eup5 rx 2 tx 2")?;
    assert_eq!(counters.read()?.live_frames, 128);
    run(&here, "ip link del eup5")?;
    assert!(counters.read().is_err());
    Ok(())
}

#[test]
fn next_hops_of_both_families() -> Result {
    if skipped() {
        return Ok(());
    }
    let (here, there) = pair()?;
    for line in [
        "ip addr add 192.0.2.1/24 dev eup0",
        "ip addr add 2001:db8::1/64 dev eup0 nodad",
        "ip route add 198.51.100.0/24 via 192.0.2.2",
        "ip route add 203.0.113.0/24 via inet6 2001:db8::2",
        "ip route add unreachable 198.18.0.0/15",
    ] {
        run(&here, line)?;
    }
    run(&there, "ip addr add 192.0.2.2/24 dev eup1")?;
    run(&there, "ip addr add 2001:db8::2/64 dev eup1 nodad")?;
    // Neighbour discovery uses link-local addresses, once these are known to be unique.
    const PATIENCE: Duration = Duration::from_secs(1);
    let end = Instant::now() + Duration::from_secs(5);
    while run(&here, "ip -6 addr show tentative")?.contains("fe80")
        || !run(&here, "ip -6 addr show dev eup0")?.contains("fe80")
    {
        assert!(Instant::now() < end, "no link-local address");
        std::thread::sleep(Duration::from_millis(20));
    }
    let device = Device::open(&here, "eup0")?;
    for (to, hop, source) in [
        ("192.0.2.2", "192.0.2.2", "192.0.2.1"),
        ("198.51.100.9", "192.0.2.2", "192.0.2.1"),
        ("203.0.113.9", "2001:db8::2", "192.0.2.1"),
        ("2001:db8::2", "2001:db8::2", "2001:db8::1"),
    ] {
        let found = next_hop(&here, to.parse()?, PATIENCE)?;
        assert_eq!(found.mac, [2, 0, 0, 0, 0, 2], "{to}");
        assert_eq!(found.device, device.index, "{to}");
        assert_eq!((found.hop, found.source), (hop.parse()?, source.parse()?), "{to}");
    }
    let error = |to: &str| -> Result<PortError> {
        let to: IpAddr = to.parse()?;
        next_hop(&here, to, PATIENCE).err().ok_or_else(|| format!("{to} was found").into())
    };
    let silent = error("192.0.2.77")?;
    assert!(
        matches!(&silent, PortError::NoNeighbour { device, .. } if device == "eup0"),
        "{silent}"
    );
    assert!(matches!(error("192.0.2.1")?, PortError::NotRemote { .. }));
    assert!(matches!(error("198.18.0.1")?, PortError::NoRoute { .. }));
    assert!(matches!(error("8.8.8.8")?, PortError::NoRoute { .. }));
    Ok(())
}
