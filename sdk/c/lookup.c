/* SPDX-License-Identifier: Apache-2.0 */
/* A data plane with a look-up in the switch: it parses a packet, the switch looks up the key, and
 * the program writes the header. It forwards between two interfaces like forward.c, and gives each
 * IPv4 UDP packet a key, its destination port. A rule like
 *
 *	{key: "1b59", action: {back: true, result: "020000000007"}}
 *
 * sends the packet back to this program with a result, the packet's next destination address in
 * Ethernet. Other packets leave. */
#include <stdio.h>

#include "europa.h"

int main(void)
{
	struct europa_packet packet;
	struct europa pool;

	if (europa_open(&pool) < 0 || pool.interfaces != 2) {
		fprintf(stderr, "lookup: started by a node, for a router with two interfaces\n");
		return 1;
	}
	for (;;) {
		for (uint32_t from = 0; from < 2; from++)
			while (europa_receive(&pool, from, &packet)) {
				const uint8_t *frame = packet.data;
				uint32_t to = 1 - from;

				if (packet.result) {
					/* The packet has come back by the interface to which the program sent it. */
					memcpy(packet.data, packet.result, 6);
					to = from;
				} else if (packet.length >= 42 && frame[12] == 0x08 && frame[13] == 0 &&
					   frame[14] == 0x45 && frame[23] == 17) {
					memcpy(europa_key(&pool, &packet), frame + 36, 2);
				}
				if (!europa_send(&pool, to, &packet))
					europa_drop(&pool, &packet);
			}
		europa_wait(&pool);
	}
}
