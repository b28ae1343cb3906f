# SPDX-License-Identifier: Apache-2.0
"""Headers of frames for data planes in Python: Ethernet with one VLAN tag or none, IPv4 and IPv6.

Functions take a packet of `europa.Pool`, or a bytearray, and change it in place. Ethernet addresses are
bytes; IP addresses are those of the module `ipaddress`.
"""

import ipaddress

ARP, VLAN, IPV4, IPV6 = 0x0806, 0x8100, 0x0800, 0x86DD


def be16(packet, at):
    """The number of two bytes in network order at a place."""
    return packet[at] << 8 | packet[at + 1]


def put_be16(packet, at, value):
    """Writes a number of two bytes in network order."""
    packet[at : at + 2] = value.to_bytes(2, "big")


def macs(packet):
    """Source and destination address of a frame, six bytes each."""
    return bytes(packet[6:12]), bytes(packet[0:6])


def swap_macs(packet):
    """Exchanges source and destination address of a frame."""
    source, destination = macs(packet)
    packet[0:6], packet[6:12] = source, destination


def payload(packet):
    """The type of the payload, and where it begins: behind a VLAN tag. (0, 0): the frame is too short."""
    if len(packet) < 14:
        return 0, 0
    kind = be16(packet, 12)
    if kind != VLAN:
        return kind, 14
    return (be16(packet, 16), 18) if len(packet) >= 18 else (0, 0)


def ip(packet):
    """The family of an IP packet, 4 or 6, and where its header begins. (0, 0): it is none."""
    kind, at = payload(packet)
    if kind == IPV4 and len(packet) >= at + 20 and packet[at] >> 4 == 4:
        return 4, at
    if kind == IPV6 and len(packet) >= at + 40 and packet[at] >> 4 == 6:
        return 6, at
    return 0, 0


def addresses(packet):
    """Source and destination address of an IP packet, or None."""
    family, at = ip(packet)
    if family == 4:
        source, destination = packet[at + 12 : at + 16], packet[at + 16 : at + 20]
    elif family == 6:
        source, destination = packet[at + 8 : at + 24], packet[at + 24 : at + 40]
    else:
        return None
    return ipaddress.ip_address(bytes(source)), ipaddress.ip_address(bytes(destination))


def checksum(data):
    """The Internet checksum (RFC 1071) of bytes; 0 if they contain a right one."""
    data = bytes(data) + b"\0" * (len(data) % 2)
    total = sum(data[0::2]) * 256 + sum(data[1::2])
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def update_checksum(check, before, after):
    """The checksum after a word of 16 bits has changed (RFC 1624, equation 3)."""
    total = (~check & 0xFFFF) + (~before & 0xFFFF) + after
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def set_dscp(packet, dscp):
    """Sets the code point (RFC 2474) of an IP packet; False if it is none.

    The two bits of ECN stay, and the checksum of IPv4 is updated.
    """
    family, at = ip(packet)
    if not family:
        return False
    before = be16(packet, at)
    if family == 4:
        after = before & 0xFF03 | dscp << 2
        put_be16(packet, at, after)
        put_be16(packet, at + 10, update_checksum(be16(packet, at + 10), before, after))
    else:
        put_be16(packet, at, before & 0xF03F | dscp << 6)
    return True
