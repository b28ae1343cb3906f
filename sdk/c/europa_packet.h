/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of frames for data planes in C: Ethernet with one VLAN tag or none, IPv4 and IPv6 behind it,
 * their addresses, and the Internet checksum (RFC 1071, RFC 1624).
 *
 * Functions take a frame and its length in bytes, and read no byte behind it. Addresses are in
 * network order. */
#ifndef EUROPA_PACKET_H
#define EUROPA_PACKET_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EUROPA_ETHERNET_BYTES 14
#define EUROPA_TYPE_IPV4 0x0800
#define EUROPA_TYPE_ARP 0x0806
#define EUROPA_TYPE_VLAN 0x8100
#define EUROPA_TYPE_IPV6 0x86dd

/* A number of two or four bytes in network order, at any alignment. */
static inline uint16_t europa_be16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static inline uint32_t europa_be32(const uint8_t *bytes)
{
	return (uint32_t)europa_be16(bytes) << 16 | europa_be16(bytes + 2);
}

static inline void europa_put_be16(uint8_t *bytes, uint16_t value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

/* Ethernet addresses of a frame of at least EUROPA_ETHERNET_BYTES: six bytes each. */
static inline uint8_t *europa_destination_mac(uint8_t *frame)
{
	return frame;
}

static inline uint8_t *europa_source_mac(uint8_t *frame)
{
	return frame + 6;
}

static inline void europa_swap_macs(uint8_t *frame)
{
	uint8_t mac[6];

	memcpy(mac, frame, 6);
	memcpy(frame, frame + 6, 6);
	memcpy(frame + 6, mac, 6);
}

/* Returns the type of the payload, and in `at` its offset, behind a VLAN tag. Returns 0 if the
 * frame is too short. */
static inline uint16_t europa_type(const uint8_t *frame, uint32_t length, uint32_t *at)
{
	uint16_t type;

	if (length < EUROPA_ETHERNET_BYTES)
		return 0;
	type = europa_be16(frame + 12);
	*at = EUROPA_ETHERNET_BYTES;
	if (type != EUROPA_TYPE_VLAN)
		return type;
	if (length < EUROPA_ETHERNET_BYTES + 4)
		return 0;
	*at += 4;
	return europa_be16(frame + 16);
}

/* Returns the IPv4 header, or NULL. The frame contains its options, and the payload behind
 * europa_ipv4_bytes(). */
static inline uint8_t *europa_ipv4(uint8_t *frame, uint32_t length)
{
	uint32_t at;
	uint8_t *ip;

	if (europa_type(frame, length, &at) != EUROPA_TYPE_IPV4 || length - at < 20)
		return NULL;
	ip = frame + at;
	if (ip[0] >> 4 != 4 || (ip[0] & 15) < 5 || length - at < (ip[0] & 15u) * 4)
		return NULL;
	return ip;
}

/* Bytes of an IPv4 header with its options. */
static inline uint32_t europa_ipv4_bytes(const uint8_t *ip)
{
	return (ip[0] & 15u) * 4;
}

/* Addresses of an IPv4 header: four bytes each. */
static inline uint8_t *europa_ipv4_source(uint8_t *ip)
{
	return ip + 12;
}

static inline uint8_t *europa_ipv4_destination(uint8_t *ip)
{
	return ip + 16;
}

/* Returns the IPv6 header, or NULL. */
static inline uint8_t *europa_ipv6(uint8_t *frame, uint32_t length)
{
	uint32_t at;

	if (europa_type(frame, length, &at) != EUROPA_TYPE_IPV6 || length - at < 40 || frame[at] >> 4 != 6)
		return NULL;
	return frame + at;
}

/* Addresses of an IPv6 header: sixteen bytes each. */
static inline uint8_t *europa_ipv6_source(uint8_t *ip)
{
	return ip + 8;
}

static inline uint8_t *europa_ipv6_destination(uint8_t *ip)
{
	return ip + 24;
}

/* Adds the sum of bytes, in words of 16 bits, to another sum. europa_checksum_end() makes a
 * checksum of the sum. Only the last bytes of a packet may be odd in number. */
static inline uint64_t europa_checksum_add(uint64_t sum, const uint8_t *bytes, size_t count)
{
	for (; count > 1; bytes += 2, count -= 2)
		sum += europa_be16(bytes);
	return count ? sum + (uint64_t)(bytes[0] << 8) : sum;
}

static inline uint16_t europa_checksum_end(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Returns the checksum of bytes; 0 if the bytes contain a correct checksum. */
static inline uint16_t europa_checksum(const uint8_t *bytes, size_t count)
{
	return europa_checksum_end(europa_checksum_add(0, bytes, count));
}

/* Returns the checksum after a word of 16 bits has changed (RFC 1624, equation 3). */
static inline uint16_t europa_checksum_update(uint16_t check, uint16_t before, uint16_t after)
{
	return europa_checksum_end((uint64_t)(uint16_t)~check + (uint16_t)~before + after);
}

/* Sets the code point (RFC 2474, six bits) of an IP packet of either family, keeps the two bits of
 * ECN, and updates the checksum of IPv4. Returns 0 if the frame has no IP packet. */
static inline int europa_set_dscp(uint8_t *frame, uint32_t length, uint8_t dscp)
{
	uint8_t *ip = europa_ipv4(frame, length);
	uint16_t before;

	if (ip) {
		before = europa_be16(ip);
		ip[1] = (uint8_t)(dscp << 2 | (ip[1] & 3));
		europa_put_be16(ip + 10,
				europa_checksum_update(europa_be16(ip + 10), before, europa_be16(ip)));
		return 1;
	}
	ip = europa_ipv6(frame, length);
	if (!ip)
		return 0;
	europa_put_be16(ip, (uint16_t)((europa_be16(ip) & 0xf03f) | (dscp & 0x3f) << 6));
	return 1;
}

#endif
