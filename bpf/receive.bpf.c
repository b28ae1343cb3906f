/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The receive program for XDP: in the driver, or in the network stack. */
#define EUROPA_CAGES 1
#include "receive.h"
#include "judge.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp.frags") int europa_receive(struct xdp_md *ctx)
{
	return receive(ctx);
}

/* This program runs after the program of a router with `run: kernel`, for any verdict. */
SEC("xdp.frags") int europa_judge(struct xdp_md *ctx)
{
	return judge(ctx);
}
