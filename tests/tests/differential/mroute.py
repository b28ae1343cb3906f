#!/usr/bin/env python3
"""Makes one multicast route in a namespace, and keeps it until it is killed, for at most 60 seconds.

mroute.py NAMESPACE SOURCE GROUP IN OUT[:TTL]...   The process id is in /run/europa/NAMESPACE.mroute.
"""

import os
import signal
import socket
import struct
import sys

# linux/mroute.h and mroute6.h.
INIT, ADD_INTERFACE, ADD_ROUTE = 200, 202, 204
BY_INDEX = 8


def main():
    namespace, source, group, receives, *sends = sys.argv[1:]
    devices = sorted(name for _, name in socket.if_nameindex() if name.startswith("eth"))
    ttls = [0] * 32
    for way in sends:
        name, _, ttl = way.partition(":")
        ttls[devices.index(name)] = int(ttl or 1)
    if ":" in group:
        family, protocol, level = socket.AF_INET6, socket.IPPROTO_ICMPV6, socket.IPPROTO_IPV6
    else:
        family, protocol, level = socket.AF_INET, socket.IPPROTO_IGMP, socket.IPPROTO_IP
    router = socket.socket(family, socket.SOCK_RAW, protocol)
    router.setsockopt(level, INIT, 1)
    for number, name in enumerate(devices):
        index = socket.if_nametoindex(name)
        if family == socket.AF_INET6:
            interface = struct.pack("@HBBHxxI", number, 0, 1, index, 0)
        else:
            interface = struct.pack("@HBBIi4x", number, BY_INDEX, 1, 0, index)
        router.setsockopt(level, ADD_INTERFACE, interface)
    source, group = (socket.inet_pton(family, text) for text in (source, group))
    parent = devices.index(receives)
    if family == socket.AF_INET6:
        address = lambda octets: struct.pack("@HHI16sI", family, 0, 0, octets, 0)
        bits = sum(1 << number for number, ttl in enumerate(ttls) if ttl)
        route = address(source) + address(group) + struct.pack("@HxxI28x", parent, bits)
    else:
        route = source + group + struct.pack("@H32Bxx3Ii", parent, *ttls, 0, 0, 0, 0)
    router.setsockopt(level, ADD_ROUTE, route)
    child = os.fork()
    if child:
        with open(f"/run/europa/{namespace}.mroute", "w") as file:
            file.write(str(child))
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    signal.alarm(60)
    signal.pause()


main()
