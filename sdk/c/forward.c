/* SPDX-License-Identifier: Apache-2.0 */
/* A data plane that forwards: packets of each of two interfaces leave by the other, unchanged.
 * Build it with `cc -O2 -o forward forward.c`. */
#include <stdio.h>

#include "europa.h"

int main(void)
{
	struct europa_packet packet;
	struct europa pool;

	if (europa_open(&pool) < 0 || pool.interfaces != 2) {
		fprintf(stderr, "forward: started by a node, for a router with two interfaces\n");
		return 1;
	}
	for (;;) {
		for (uint32_t from = 0; from < 2; from++)
			while (europa_receive(&pool, from, &packet))
				if (!europa_send(&pool, 1 - from, &packet))
					europa_drop(&pool, &packet);
		europa_wait(&pool);
	}
}
