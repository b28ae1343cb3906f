/* Redirections, records, texts. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} hashed SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} cpus SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
} events SEC(".maps");

struct record {
	__u32 length;
	__u8 address[6];
};

SEC("xdp")
int send(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	static const char word[] = "abc";

	if (data + 20 > end)
		return XDP_DROP;
	char start[3] = {data[0], data[1], data[2]};
	if (!bpf_strncmp(start, sizeof(start), word))
		return XDP_ABORTED;
	__u32 key = data[1] & 31;
	switch (data[0] & 15) {
	case 0:
		return bpf_redirect(key, 0);
	case 1:
		return bpf_redirect(key, 1);
	case 2:
		return bpf_redirect_map(&devices, key, XDP_PASS);
	case 3:
		return bpf_redirect_map(&hashed, key, XDP_TX);
	case 4:
		return bpf_redirect_map(&cpus, key, XDP_DROP);
	case 5:
		return bpf_redirect_map(&sockets, key, XDP_PASS);
	case 6:
		return bpf_redirect_map(&devices, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
	case 7: {
		struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
		if (!record)
			return XDP_TX;
		record->length = end - data;
		__builtin_memcpy(record->address, data + 6, 6);
		if (data[2] & 1)
			bpf_ringbuf_discard(record, 0);
		else
			bpf_ringbuf_submit(record, 0);
		return XDP_PASS;
	}
	case 8: {
		__u8 head[14];
		__builtin_memcpy(head, data, sizeof(head));
		return bpf_ringbuf_output(&records, head, sizeof(head), 0) ? XDP_TX : XDP_PASS;
	}
	case 9:
		bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU | (16ull << 32), &key, sizeof(key));
		return XDP_DROP;
	case 10:
		return ctx->ingress_ifindex == 1 && ctx->rx_queue_index == 0 ? XDP_TX : XDP_DROP;
	default:
		return XDP_PASS;
	}
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
