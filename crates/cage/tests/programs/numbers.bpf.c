/* Loops, functions, callbacks, atomic operations, least-recently-used entries. */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct numbers {
	__u64 added;
	__u64 ored;
	__u64 exchanged;
	__u64 compared;
	__u32 added32;
	__u32 anded32;
	__u32 xored32;
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct numbers);
} numbers SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u8[6]);
	__type(value, __u32);
} addresses SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__type(key, __u64);
	__type(value, __u64);
} lengths SEC(".maps");

struct turn {
	__u64 state;
	__u32 until;
};

static long step(__u32 index, struct turn *turn)
{
	turn->state = turn->state * 6364136223846793005ull + index;
	turn->state ^= turn->state >> 29;
	return index == turn->until;
}

__noinline int mix(__u32 a, __u32 b)
{
	__s32 quotient = (__s32)a;
	for (int i = 0; i < 8; i++) {
		quotient += (a >> (i & 31)) % (b | 1);
		quotient ^= (__s32)(b << i) >> 3;
	}
	return quotient;
}

SEC("xdp")
int calculate(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;

	if (data + 34 > end)
		return XDP_DROP;
	__u64 a = *(__u64 *)data, b = *(__u64 *)(data + 8);
	__u32 c = *(__u32 *)(data + 16), d = *(__u32 *)(data + 20);
	struct numbers *all = bpf_map_lookup_elem(&numbers, &zero);
	if (!all)
		return XDP_ABORTED;
	__u64 before = __sync_fetch_and_add(&all->added, a);
	before ^= __sync_fetch_and_or(&all->ored, b & 0xff);
	before += __sync_lock_test_and_set(&all->exchanged, a ^ b);
	before ^= __sync_val_compare_and_swap(&all->compared, 0, b);
	before ^= __sync_val_compare_and_swap(&all->compared, b, a);
	before += __sync_fetch_and_add(&all->added32, c);
	__sync_fetch_and_and(&all->anded32, d);
	before += __sync_fetch_and_xor(&all->xored32, c ^ d);

	struct turn turn = {.state = a ^ b, .until = c & 31};
	before += bpf_loop(c & 63, step, &turn, 0);
	before ^= turn.state;
	__u64 loops = 0;
	for (__u32 i = 0; i < (d & 127); i++) {
		if (data + 34 + i + 1 > end)
			break;
		loops = loops * 31 + data[34 + i];
	}
	before += loops + mix(c, d) + bpf_ntohl(c) + bpf_ntohs((__u16)d);
	before += a / (b | 1) + a % (c | 1) + ((__s64)a >> (d & 63)) + (b << (c & 63));

	__u32 *count = bpf_map_lookup_elem(&addresses, data);
	__u32 first = 1;
	if (count)
		*count += 1;
	else
		bpf_map_update_elem(&addresses, data, &first, BPF_ANY);
	__u64 length = end - data, one = 1, *of_length = bpf_map_lookup_elem(&lengths, &length);
	if (of_length)
		*of_length += one;
	else if (bpf_map_update_elem(&lengths, &length, &one, BPF_EXIST) != -2)
		return XDP_ABORTED;
	else
		bpf_map_update_elem(&lengths, &length, &one, BPF_ANY);
	if ((a & 15) == 15)
		bpf_map_delete_elem(&lengths, &length);
	*(__u64 *)(data + 24) = before;
	return 1 + (before & 1);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
