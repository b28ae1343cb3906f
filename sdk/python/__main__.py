# SPDX-License-Identifier: Apache-2.0
"""A data plane that forwards between two interfaces and says what it sees.

Run it with `program: [/usr/bin/python3, /opt/plane]`, this folder being /opt/plane; its lines are
in the router's log.
"""

from europa import Pool

pool = Pool()
kinds = {}
while True:
    for interface in (0, 1):
        for packet in pool.receive(interface):
            kind = packet[12:14].hex()
            if kind not in kinds:
                print("first packet of type 0x" + kind, flush=True)
            kinds[kind] = kinds.get(kind, 0) + 1
            pool.send(1 - interface, packet)
    pool.wait()
