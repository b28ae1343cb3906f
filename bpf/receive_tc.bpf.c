/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The receive program for tc, for devices whose senders hand over unsegmented packets. */
#define EUROPA_TC 1
#include "receive.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc") int europa_receive_tc(struct __sk_buff *ctx)
{
	return receive(ctx);
}
