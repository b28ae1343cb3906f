/* Maps and section names of old programs. */
#include <linux/bpf.h>

struct bpf_map_def {
	unsigned int type, key_size, value_size, max_entries, map_flags;
};
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value,
				   unsigned long long flags) = (void *)2;

struct bpf_map_def __attribute__((section("maps"), used)) counts = {
	BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0,
};
struct bpf_map_def __attribute__((section("maps"), used)) lengths = {
	BPF_MAP_TYPE_HASH, 4, 4, 16, 0,
};

__attribute__((section("my own name"), used)) int count(struct xdp_md *ctx)
{
	unsigned int key = 1, length = ctx->data_end - ctx->data;
	unsigned long long *value = bpf_map_lookup_elem(&counts, &key);

	if (value)
		__sync_fetch_and_add(value, 1);
	bpf_map_update_elem(&lengths, &length, &key, 0);
	return XDP_PASS;
}

char _license[] __attribute__((section("license"), used)) = "GPL";
