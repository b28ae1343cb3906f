/* SPDX-License-Identifier: Apache-2.0 */
/* A data plane that marks: frames of each of two interfaces leave by the other one. IP packets to the
 * address of the command line get the code point EF (46), which asks networks to forward them first.
 * `europa sdk new c NAME` makes a program like it elsewhere. */
#include <arpa/inet.h>
#include <stdio.h>

#include <europa.h>
#include <europa_packet.h>

#define EF 46 /* expedited forwarding (RFC 3246) */

int main(int count, char **words)
{
	struct europa_packet packets[EUROPA_BATCH];
	struct europa pool;
	uint8_t address[16], *ip;
	uint32_t number;
	int is_v4;

	is_v4 = count == 2 && inet_pton(AF_INET, words[1], address) == 1;
	if (!is_v4 && (count != 2 || inet_pton(AF_INET6, words[1], address) != 1)) {
		fprintf(stderr, "usage: mark ADDRESS\n");
		return 2;
	}
	if (europa_open(&pool) < 0 || pool.interfaces != 2) {
		fprintf(stderr, "mark: started by a node, for a router with two interfaces\n");
		return 1;
	}
	for (;;) {
		for (uint32_t from = 0; from < 2; from++) {
			number = europa_receive_batch(&pool, from, packets, EUROPA_BATCH);
			for (uint32_t i = 0; i < number; i++) {
				uint8_t *frame = packets[i].data;
				uint32_t length = packets[i].length;

				ip = is_v4 ? europa_ipv4(frame, length) : europa_ipv6(frame, length);
				if (ip && !memcmp(is_v4 ? europa_ipv4_destination(ip) :
							  europa_ipv6_destination(ip),
						  address, is_v4 ? 4 : 16))
					europa_set_dscp(frame, length, EF);
			}
			europa_send_batch(&pool, 1 - from, packets, number);
		}
		europa_wait(&pool);
	}
}
