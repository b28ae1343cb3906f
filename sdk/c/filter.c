/* SPDX-License-Identifier: Apache-2.0 */
/* A data plane that filters: it forwards like forward.c, but drops UDP packets to the ports that
 * its command line names. Build it with `cc -O2 -o filter filter.c`; run it with
 * `program: [/opt/filter, "53"]`. */
#include <stdio.h>

#include "europa.h"

static uint16_t be16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

/* The destination port of an IPv4 UDP packet; -1 for other packets and for later fragments. */
static int udp_port(const uint8_t *frame, uint32_t length)
{
	const uint8_t *ip = frame + 14;
	uint32_t header;

	if (length < 14 + 20 || be16(frame + 12) != 0x0800 || ip[0] >> 4 != 4)
		return -1;
	header = (ip[0] & 15u) * 4;
	if (header < 20 || length < 14 + header + 8 || ip[9] != 17 || be16(ip + 6) & 0x1fff)
		return -1;
	return be16(ip + header + 2);
}

int main(int count, char **words)
{
	static uint8_t refused[65536];
	struct europa_packet packet;
	struct europa pool;
	int port;

	for (int i = 1; i < count; i++)
		refused[(uint16_t)atoi(words[i])] = 1;
	if (europa_open(&pool) < 0 || pool.interfaces != 2) {
		fprintf(stderr, "filter: started by a node, for a router with two interfaces\n");
		return 1;
	}
	for (;;) {
		for (uint32_t from = 0; from < 2; from++)
			while (europa_receive(&pool, from, &packet)) {
				port = udp_port(packet.data, packet.length);
				if ((port >= 0 && refused[port]) ||
				    !europa_send(&pool, 1 - from, &packet))
					europa_drop(&pool, &packet);
			}
		europa_wait(&pool);
	}
}
