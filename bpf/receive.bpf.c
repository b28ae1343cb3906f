/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The receive program as XDP has it: in the driver, or in the stack. */
#define EUROPA_CAGES 1
#include "receive.h"
#include "judge.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp.frags") int europa_receive(struct xdp_md *ctx)
{
	return receive(ctx);
}

/* The part behind the program of a router with `run: kernel`, for any verdict. */
SEC("xdp.frags") int europa_judge(struct xdp_md *ctx)
{
	return judge(ctx);
}
