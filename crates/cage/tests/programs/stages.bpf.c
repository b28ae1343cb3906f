/* Stages called by tail calls, which pass values in metadata. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct note {
	__u32 stages;
	__u32 sum;
};

int first(struct xdp_md *ctx);
int second(struct xdp_md *ctx);
int endless(struct xdp_md *ctx);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__array(values, int(void *));
} stages SEC(".maps") = {
	.values = {
		[1] = (void *)&first,
		[2] = (void *)&second,
		[5] = (void *)&endless,
	},
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} visits SEC(".maps");

static __noinline void visit(__u32 stage)
{
	__u64 *count = bpf_map_lookup_elem(&visits, &stage);
	if (count)
		__sync_fetch_and_add(count, 1);
}

SEC("xdp")
int entry(struct xdp_md *ctx)
{
	visit(0);
	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct note)))
		return XDP_ABORTED;
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct note *note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > (void *)data || data + 14 > end)
		return XDP_ABORTED;
	note->stages = 1;
	note->sum = data[0] + data[6];
	bpf_tail_call(ctx, &stages, data[5] & 15);
	return XDP_DROP;
}

SEC("xdp")
int first(struct xdp_md *ctx)
{
	visit(1);
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct note *note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > (void *)data || data + 20 > end)
		return XDP_ABORTED;
	note->stages++;
	note->sum += data[14];
	bpf_tail_call(ctx, &stages, data[15] & 3);
	return XDP_PASS;
}

SEC("xdp")
int second(struct xdp_md *ctx)
{
	visit(2);
	struct note *note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > (void *)(long)ctx->data)
		return XDP_ABORTED;
	__u32 sum = note->sum;
	/* Metadata that moves with the frame, grows and shrinks. */
	if (sum & 1)
		bpf_xdp_adjust_head(ctx, -12);
	if (sum & 2)
		bpf_xdp_adjust_meta(ctx, -8);
	if (sum & 4)
		bpf_xdp_adjust_meta(ctx, 4);
	if (sum & 8)
		bpf_xdp_adjust_meta(ctx, 3);
	if (sum & 16)
		bpf_xdp_adjust_head(ctx, 4);
	return sum & 32 ? XDP_TX : XDP_PASS;
}

SEC("xdp")
int endless(struct xdp_md *ctx)
{
	visit(5);
	bpf_tail_call(ctx, &stages, 5);
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
