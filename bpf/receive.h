/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The receive program, on every port: finds the interface of a frame, and copies it into the pool
 * of the owner. Precedence, as docs/matches.md tells users:
 *
 *   1. an interface's own (VLAN, destination MAC address)
 *   2. addressed to the port itself: MPLS label, VXLAN VNI, UDP port, IP prefix
 *   3. a whole VLAN
 *   4. the whole port
 *   5. Linux
 *
 * Every step is a table look-up, however many routers there are.
 */
#ifndef EUROPA_RECEIVE_H
#define EUROPA_RECEIVE_H

#include "classify.h"
#include "enter.h"

static __always_inline int receive(context *ctx)
{
	struct frame frame;
	struct europa_port *port = port_of(ctx->ingress_ifindex);
	if (!port)
		return VERDICT_LINUX;
	if (!parse(ctx, &frame)) {
		port->malformed++;
		return VERDICT_TAKEN;
	}
	int complete = port->flags & EUROPA_PORT_LOCAL_SENDER;

	struct europa_interface *row = 0;
	if (frame.to[0] & 1) {
		if (!has_whole_port(port, &frame, &row))
			return copy_to_group(ctx, port, &frame, 0);
		ENTER_CAGE(ctx, port->all, row, complete);
		return VERDICT_TAKEN;
	}

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
		return VERDICT_LINUX;
	}
	__u32 cpu = bpf_get_smp_processor_id();
	struct europa_receiver *receiver = bpf_map_lookup_elem(&receivers, &cpu);
	if (receiver)
		receiver->frames++;
	if (!row)
		row = bpf_map_lookup_elem(&interfaces, &delivery.interface);
	if (row && row->flags & EUROPA_IF_CAGED) {
		ENTER_CAGE(ctx, delivery.interface, row, complete);
		return VERDICT_TAKEN;
	}
	if (!row || !deliver_usual(ctx, delivery.interface, row, complete))
		deliver_all(ctx, &delivery, complete);
	return VERDICT_TAKEN;
}

#endif
