/* Changes frames: addresses, TTL, a tunnel's header added and removed, tails. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

static __noinline void swap_addresses(struct ethhdr *ethernet)
{
	__u8 address[ETH_ALEN];
	__builtin_memcpy(address, ethernet->h_dest, ETH_ALEN);
	__builtin_memcpy(ethernet->h_dest, ethernet->h_source, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, address, ETH_ALEN);
}

static __always_inline __u16 fold(__u64 sum)
{
	for (int i = 0; i < 4; i++)
		if (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline int encapsulate(struct xdp_md *ctx)
{
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct iphdr)))
		return XDP_ABORTED;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data, *old = data + sizeof(struct iphdr);
	struct iphdr *ip = data + sizeof(*ethernet);
	if ((void *)(old + 1) > end || (void *)(ip + 1) > end)
		return XDP_ABORTED;
	__builtin_memmove(ethernet, old, sizeof(*ethernet));
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->ttl = 64;
	ip->protocol = IPPROTO_IPIP;
	ip->tot_len = bpf_htons((__u16)(end - data - sizeof(*ethernet)));
	ip->saddr = bpf_htonl(0x0a000001);
	ip->daddr = bpf_htonl(0x0a000002);
	ip->check = fold(bpf_csum_diff(0, 0, (void *)ip, sizeof(*ip), 0));
	return XDP_TX;
}

static __always_inline int decapsulate(struct xdp_md *ctx, struct ethhdr saved)
{
	if (bpf_xdp_adjust_head(ctx, sizeof(struct iphdr)))
		return XDP_ABORTED;
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	if ((void *)(ethernet + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	*ethernet = saved;
	return XDP_TX;
}

SEC("xdp")
int rewrite(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *ip = (void *)(ethernet + 1);

	if ((void *)(ip + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	swap_addresses(ethernet);
	if (ip->ttl > 1) {
		__be32 old = *(__be32 *)&ip->ttl, new = old;
		ip->ttl--;
		new = *(__be32 *)&ip->ttl;
		ip->check = fold(bpf_csum_diff(&old, 4, &new, 4, (__u16)~ip->check));
	}
	switch (ip->tos & 7) {
	case 0:
		return encapsulate(ctx);
	case 1:
		if (ip->protocol == IPPROTO_IPIP && ip->ihl == 5)
			return decapsulate(ctx, *ethernet);
		return XDP_TX;
	case 2:
		return bpf_xdp_adjust_tail(ctx, -(int)(ip->id & 63)) ? XDP_ABORTED : XDP_PASS;
	case 3:
		return bpf_xdp_adjust_tail(ctx, ip->id & 4095) ? XDP_ABORTED : XDP_PASS;
	case 4:
		return bpf_xdp_adjust_head(ctx, -(int)(ip->id & 255)) ? XDP_DROP : XDP_PASS;
	case 5:
		return bpf_xdp_adjust_head(ctx, ip->id & 127) ? XDP_DROP : XDP_PASS;
	case 6: {
		__u8 bytes[24];
		if (bpf_xdp_get_buff_len(ctx) > 700)
			return XDP_TX;
		if (bpf_xdp_load_bytes(ctx, ip->id & 127, bytes, sizeof(bytes)))
			return XDP_DROP;
		for (int i = 0; i < sizeof(bytes); i++)
			bytes[i] ^= 0x55 + i;
		if (bpf_xdp_store_bytes(ctx, 20, bytes, sizeof(bytes)))
			return XDP_ABORTED;
		return XDP_PASS;
	}
	}
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
