/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The receive program, on every port: whose frame is it, and a copy into the pool
 * of whoever it is. Precedence, as docs/matches.md tells users:
 *
 *   1. an interface's own (VLAN, destination MAC address)
 *   2. addressed to the port itself: MPLS label, VXLAN VNI, UDP port, IP prefix
 *   3. a whole VLAN
 *   4. the whole port
 *   5. Linux
 *
 * Every step is a table look-up, however many routers there are.
 */
#include "classify.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp.frags") int europa_receive(struct xdp_md *ctx)
{
	struct frame frame;
	struct europa_port *port = port_of(ctx->ingress_ifindex);
	if (!port)
		return XDP_PASS;
	if (!parse(ctx, &frame)) {
		port->malformed++;
		return XDP_DROP;
	}
	int complete = port->flags & EUROPA_PORT_LOCAL_SENDER;

	if (frame.to[0] & 1)
		return copy_to_group(ctx, port, &frame, 0);

	struct europa_interface *row = 0;
	struct delivery delivery = { .interface = match_mac(port, &frame, &row) };
	if (delivery.interface == EUROPA_NONE) {
		if (same_mac(frame.to, port->mac)) {
			if (frame.is_neighbour)
				return copy_to_group(ctx, port, &frame, EUROPA_IF_SHARES_MAC);
			if (port->flags & EUROPA_PORT_MATCHES)
				match_own(ctx, port, &frame, &delivery);
		}
		if (delivery.interface == EUROPA_NONE)
			match_whole(port, &frame, &delivery);
	}
	if (delivery.interface == EUROPA_NONE) {
		port->to_linux++;
		return XDP_PASS;
	}
	__u32 cpu = bpf_get_smp_processor_id();
	struct europa_receiver *receiver = bpf_map_lookup_elem(&receivers, &cpu);
	if (receiver)
		receiver->frames++;
	if (!row || !deliver_usual(ctx, delivery.interface, row, complete))
		deliver(ctx, &delivery, complete);
	return XDP_DROP;
}
