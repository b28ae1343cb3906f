/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Ports of the machine: what programs of slow paths bind takes a port that their slice reserves.
 *
 * The programs are attached to the root of the control groups of version 2. A bind concerns them
 * only in the network namespaces of slow paths. A reservation is taken by one compare-and-swap, so
 * of two programs that bind at once one gets it. They refuse no bind: a program without a
 * reservation has its port inside only.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* crates/substrate/src/binds.rs has the same numbers. */
#define SLICES 256
#define ROWS 64 /* reservations of a slice */
#define NAMESPACES 4096
#define ROW_ANY 1   /* the node has chosen its number: it serves any port inside */
#define ROW_FIXED 2 /* its place inside was said by a document or a request */

#define AF_INET_ 2
#define AF_INET6_ 10
#define LOOPBACK_FIRST_BYTE 127

/* A reservation; protocol 0: none. */
struct row {
	/* Holder (router << 16 | port inside) << 32 | number of sockets; 0: free. */
	__u64 word;
	__u16 port; /* outside */
	__u8 protocol;
	__u8 flags;
	__u32 reserved;
};

/* The network namespace of a slow path. */
struct place {
	__u32 slice;
	__u32 router;
	/* The uplink's addresses there, network order. */
	__u32 v4;
	__u32 v6[4];
};

/* A socket that has taken a row. */
struct taken {
	__u32 row;     /* counted from 1; 0: none */
	__u32 holder;  /* router << 16 | port inside */
	__u32 unnamed; /* its program asked for any port */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLICES * ROWS);
	__type(key, __u32);
	__type(value, struct row);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NAMESPACES);
	__type(key, __u64); /* the namespace's cookie */
	__type(value, struct place);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct taken);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} changes SEC(".maps");

/* Tells the node that rows have changed. A full ring tells it as well. */
static __always_inline void tell(__u32 slice)
{
	bpf_ringbuf_output(&changes, &slice, sizeof(slice), 0);
}

/* Notes whether a program asks for any port: such ports are for clients, and take no reservation. */
static __always_inline int asked(struct bpf_sock_addr *ctx)
{
	__u64 cookie = bpf_get_netns_cookie(ctx);
	if (!bpf_map_lookup_elem(&places, &cookie) || !ctx->sk)
		return 1;
	struct taken *taken =
		bpf_sk_storage_get(&sockets, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (taken)
		taken->unnamed = ctx->user_port == 0;
	return 1;
}

SEC("cgroup/bind4") int europa_bind4(struct bpf_sock_addr *ctx)
{
	return asked(ctx);
}

SEC("cgroup/bind6") int europa_bind6(struct bpf_sock_addr *ctx)
{
	return asked(ctx);
}

/* A search for the best row of a slice. */
struct search {
	__u32 first;
	__u32 holder;
	__u32 best; /* ROWS: none */
	__u32 rank;
	__u32 protocol;
};

/* The best row is one that the holder has, then that of its own number, then any. A loop of the
 * verifier's own would cost it a million steps. */
static long compare(__u32 index, struct search *search)
{
	__u32 key = search->first + index;
	struct row *row = bpf_map_lookup_elem(&rows, &key);
	if (!row || row->protocol != search->protocol)
		return 0;
	__u64 word = *(volatile __u64 *)&row->word;
	__u32 rank = 0;
	if (word)
		rank = (word >> 32) == search->holder ? 3 : 0;
	else if (row->port == (search->holder & 0xffff))
		rank = 2;
	else if (row->flags & ROW_ANY)
		rank = 1;
	if (rank > search->rank) {
		search->rank = rank;
		search->best = index;
	}
	return 0;
}

static __always_inline void take(struct bpf_sock *ctx, const struct place *place)
{
	struct taken *taken = bpf_sk_storage_get(&sockets, ctx, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!taken || taken->unnamed || taken->row)
		return;
	__u32 holder = place->router << 16 | (ctx->src_port & 0xffff);
	__u8 protocol = ctx->protocol;
	__u32 first = (place->slice & (SLICES - 1)) * ROWS;
	/* Another CPU may take the row that was chosen. */
	for (int attempt = 0; attempt < 8; attempt++) {
		struct search search = {
			.first = first, .holder = holder, .best = ROWS, .protocol = protocol
		};
		bpf_loop(ROWS, compare, &search, 0);
		if (search.best >= ROWS)
			return;
		__u32 key = first + search.best;
		struct row *row = bpf_map_lookup_elem(&rows, &key);
		if (!row)
			return;
		if (row->flags & ROW_FIXED)
			return;
		__u64 old = *(volatile __u64 *)&row->word;
		if (old && (old >> 32) != holder)
			continue;
		__u64 new = (__u64)holder << 32 | ((__u32)old + 1);
		if (__sync_val_compare_and_swap(&row->word, old, new) != old)
			continue;
		taken->row = key + 1;
		taken->holder = holder;
		if (!old)
			tell(place->slice);
		return;
	}
}

SEC("cgroup/post_bind4") int europa_bound4(struct bpf_sock *ctx)
{
	__u64 cookie = bpf_get_netns_cookie(ctx);
	struct place *place = bpf_map_lookup_elem(&places, &cookie);
	if (!place)
		return 1;
	/* Packets of the machine's port arrive at the uplink's address. */
	__u32 at = ctx->src_ip4;
	if (!at || at == place->v4)
		take(ctx, place);
	return 1;
}

SEC("cgroup/post_bind6") int europa_bound6(struct bpf_sock *ctx)
{
	__u64 cookie = bpf_get_netns_cookie(ctx);
	struct place *place = bpf_map_lookup_elem(&places, &cookie);
	if (!place)
		return 1;
	__u32 a = ctx->src_ip6[0], b = ctx->src_ip6[1], c = ctx->src_ip6[2], d = ctx->src_ip6[3];
	int whole = !a && !b && !d && (!c || c == bpf_htonl(0xffff));
	int own = a == place->v6[0] && b == place->v6[1] && c == place->v6[2] && d == place->v6[3];
	if (whole || own)
		take(ctx, place);
	return 1;
}

/* The last socket of a holder gives its row back. */
SEC("cgroup/sock_release") int europa_released(struct bpf_sock *ctx)
{
	struct taken *taken = bpf_sk_storage_get(&sockets, ctx, 0, 0);
	if (!taken || !taken->row)
		return 1;
	__u32 key = taken->row - 1, holder = taken->holder;
	taken->row = 0;
	struct row *row = bpf_map_lookup_elem(&rows, &key);
	if (!row)
		return 1;
	for (int attempt = 0; attempt < 64; attempt++) {
		__u64 old = *(volatile __u64 *)&row->word;
		/* The node may have given the row away. */
		if ((old >> 32) != holder || !(__u32)old || row->flags & ROW_FIXED)
			return 1;
		__u64 new = (__u32)old == 1 ? 0 : old - 1;
		if (__sync_val_compare_and_swap(&row->word, old, new) != old)
			continue;
		if (!new)
			tell(key / ROWS);
		return 1;
	}
	return 1;
}
