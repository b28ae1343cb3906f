# SPDX-License-Identifier: Apache-2.0
"""A router's end of its packet pool, for data planes in Python: for teaching and trying out.

A program that a router's document names (`fast_path: {program: [...]}`) is started in the
router's sandbox with the pool's descriptors, whose numbers are in its environment.

    pool = Pool()
    while True:
        for interface in range(len(pool.interfaces)):
            for packet in pool.receive(interface):
                packet[0:6], packet[6:12] = packet[6:12], packet[0:6]
                pool.send(interface, packet)
        pool.wait()

`receive` ends after BATCH packets, so that an interface that is flooded does not keep the others
waiting, and tells the switch what was sent meanwhile.

Packets are memory views of the pool: what is assigned to them is in the packet. Every packet that
was received must be sent or dropped, once. The module europa_packet has the headers of frames. Rings are written by plain stores of eight bytes, whose
order x86 keeps; other machines need sdk/c.
"""

import mmap
import os
import select
import struct

ABI = (0x6C507545, 1)
VALID = 1 << 63
PAGE = 4096
HEADER, ROW = 512, 64
ASLEEP = 64
KEY, RESULT = slice(0, 40), slice(40, 56)
LOOKS = 64
BATCH = 64  # Most packets of an interface in a turn.


class Interface:
    """What is known of an interface: name, Ethernet address, largest payload."""

    def __init__(self, name, mac, mtu):
        self.name, self.mac, self.mtu = name, mac, mtu


class Ring:
    """One end of a ring: its words, and how far this side has come."""

    def __init__(self, words, first, count):
        self.words, self.first, self.mask, self.at = words, first, count - 1, 0

    def peek(self):
        return self.words[self.first + (self.at & self.mask)]

    def put(self, word):
        self.words[self.first + (self.at & self.mask)] = word
        self.at += 1


class Packet:
    """A packet in the pool: its bytes are changed where they are."""

    def __init__(self, slot, start, view, metadata, answered):
        self.slot, self.start, self.view = slot, start, view
        self.metadata, self.keyed = metadata, False
        # The result of a slice's rule for a key: 16 bytes, or None.
        self.result = bytes(metadata[RESULT]) if answered else None
        self.queue = 0  # Of the slice, up to 32767; 0 is the interface's own queue.

    def set_key(self, key):
        """Has the slice's rules searched for a key, of up to 40 bytes, when this is sent."""
        self.metadata[KEY] = key.ljust(40, b"\0")
        self.keyed = True

    def __len__(self):
        return len(self.view)

    def __getitem__(self, place):
        part = self.view[place]
        return part if isinstance(part, int) else bytes(part)

    def __setitem__(self, place, value):
        self.view[place] = value


class Pool:
    """The packet pool of this process."""

    def __init__(self):
        number = lambda name: int(os.environ["EUROPA_" + name])
        self.slots, self.slot_bytes = number("SLOTS"), number("SLOT_BYTES")
        count, descriptor = number("INTERFACES"), number("POOL")
        control = self.slots * self.slot_bytes
        with mmap.mmap(descriptor, control + 2 * PAGE, prot=mmap.PROT_READ) as probe:
            head = probe[control : control + HEADER + count * ROW]
        magic, version = struct.unpack_from("=IH", head)
        if (magic, version) != ABI:
            raise OSError("not a packet pool of version %d" % ABI[1])
        rows = [head[HEADER + i * ROW : HEADER + (i + 1) * ROW] for i in range(count)]
        places = [struct.unpack_from("=IIII", row) for row in rows]
        end = max(8 * (first + words) for place in places for first, words in (place[:2], place[2:]))
        self.memory = mmap.mmap(descriptor, control + (end + PAGE - 1) // PAGE * PAGE)
        self.bytes = memoryview(self.memory)
        words = self.bytes[control:].cast("Q")
        self.fill = Ring(words, *struct.unpack_from("=II", head, 16))
        self.rx = [Ring(words, *place[:2]) for place in places]
        self.tx = [Ring(words, *place[2:]) for place in places]
        self.interfaces = []
        for row in rows:
            (mtu,) = struct.unpack_from("=I", row, 16)
            name = row[32:48].split(b"\0")[0].decode()
            self.interfaces.append(Interface(name, row[20:26], mtu))
        self.asleep = self.bytes[control + ASLEEP : control + ASLEEP + 4].cast("I")
        self.status = mmap.mmap(number("STATUS"), PAGE, prot=mmap.PROT_READ)
        self.worker = number("WORKER") * 64
        self.waker, self.wake, self.doorbell = number("WAKER"), number("WAKE"), number("DOORBELL")
        self.read = memoryview(mmap.mmap(self.waker, PAGE)).cast("Q")
        self.written = mmap.mmap(self.waker, PAGE, prot=mmap.PROT_READ, offset=PAGE)
        self.poll = select.poll()
        for descriptor in (self.waker, self.wake):
            self.poll.register(descriptor, select.POLLIN)
        self.sent, self.received, self.idle = False, False, 0

    def receive(self, interface):
        """The packets that wait at an interface, BATCH at most."""
        ring = self.rx[interface]
        for _ in range(BATCH):
            word = ring.peek()
            if not word & VALID:
                break
            ring.put(0)
            self.received, self.idle = True, 0
            slot = (word >> 26) & (self.slots - 1)
            first = slot * self.slot_bytes
            start = first + ((word >> 16) & 1023)
            metadata = self.bytes[first : first + 64]
            view = self.bytes[start : start + (word & 65535)]
            yield Packet(slot, start, view, metadata, word >> 56 & 1)
        self.flush()

    def send(self, interface, packet):
        """Sends a packet; one that the ring has no room for is dropped."""
        ring = self.tx[interface]
        if ring.peek() & VALID:
            return self.drop(packet)
        offset = packet.start - packet.slot * self.slot_bytes
        queue = (packet.queue & 255) << 46 | (packet.queue >> 8 & 127) << 56
        queue |= packet.keyed << 54
        ring.put(VALID | queue | packet.slot << 26 | offset << 16 | len(packet))
        self.sent = True

    def send_all(self, interface, packets):
        """Sends packets in their order; those that the ring has no room for are dropped."""
        for packet in packets:
            self.send(interface, packet)

    def drop(self, packet):
        """Gives a packet's slot back to reception."""
        self.fill.put(VALID | packet.slot << 26)

    def flush(self):
        """Tells the switch what was sent."""
        if self.sent:
            self.sent = False
            if any(self.status[self.worker : self.worker + 8]):
                try:
                    os.write(self.doorbell, b"\0")
                except BlockingIOError:
                    pass  # The doorbell rings already.

    def wait(self):
        """Tells the switch what was sent, and sleeps if there has been nothing for a while.

        To be called when all interfaces have had their turn; returns at once if a packet was
        received since.
        """
        self.flush()
        if self.received:
            self.received = False
            return
        self.idle += 1
        if self.idle <= LOOKS:
            os.sched_yield()
            return
        self.asleep[0] = 1
        if not any(ring.peek() & VALID for ring in self.rx):
            # A store and a later load may change places even on x86, and Python has no barrier: no
            # sleep is longer than this.
            if any(fd == self.wake for fd, _ in self.poll.poll(50)):
                os.read(self.wake, PAGE)
            self.read[0] = struct.unpack_from("=Q", self.written)[0]
        self.asleep[0] = 0
        self.idle = 0
