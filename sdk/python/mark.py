# SPDX-License-Identifier: Apache-2.0
"""A data plane that marks: frames of each of two interfaces leave by the other one.

IP packets to the address of the command line get the code point EF (46), which asks networks to forward
them first. `europa sdk new python NAME` makes a program like it elsewhere.
"""

import ipaddress
import sys

from europa import Pool
from europa_packet import addresses, set_dscp

EF = 46  # Expedited forwarding (RFC 3246).

address = ipaddress.ip_address(sys.argv[1])
pool = Pool()
for interface in pool.interfaces:
    print(interface.name, "has", interface.mac.hex(":"), flush=True)
while True:
    for number in (0, 1):
        packets = list(pool.receive(number))
        for packet in packets:
            found = addresses(packet)
            if found and found[1] == address:
                set_dscp(packet, EF)
        pool.send_all(1 - number, packets)
    pool.wait()
