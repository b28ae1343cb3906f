/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource manager of a slice, for programs in its slow paths. One header, no other library.
 *
 * The node answers at the abstract Unix socket `@europa` of the router's network namespace, in HTTP
 * and JSON as its REST interface has them. It knows the slice by the namespace.
 *
 * Functions return the status of HTTP (200: done), or a negative errno.
 */
#ifndef EUROPA_SLICE_H
#define EUROPA_SLICE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* Seconds until a request fails. */
#define EUROPA_SLICE_TIMEOUT 30

static inline int europa_slice_connect(void)
{
	static const char name[] = "\0europa";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = EUROPA_SLICE_TIMEOUT };
	socklen_t length = offsetof(struct sockaddr_un, sun_path) + sizeof(name) - 1;
	memcpy(address.sun_path, name, sizeof(name) - 1);
	int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (door < 0)
		return -errno;
	setsockopt(door, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(door, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(door, (struct sockaddr *)&address, length) < 0) {
		int error = -errno;
		close(door);
		return error;
	}
	return door;
}

static inline int europa_slice_send(int door, const char *text, size_t length)
{
	while (length) {
		ssize_t sent = send(door, text, length, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return sent < 0 ? -errno : -EPIPE;
		text += sent;
		length -= (size_t)sent;
	}
	return 0;
}

/*
 * Sends a request. `body` is JSON, or null. The answer's body, with a zero at its end, goes into
 * `answer` of `size` bytes; -EMSGSIZE if it does not fit.
 */
static inline int europa_slice_request(const char *method, const char *path, const char *body,
				       char *answer, size_t size)
{
	char head[1024];
	size_t used = 0, length = body ? strlen(body) : 0;
	int status, error, door;
	/* HTTP 1.0: the body ends with the connection. */
	int bytes = snprintf(head, sizeof(head),
			     "%s %s HTTP/1.0\r\nhost: europa\r\ncontent-type: application/json\r\n"
			     "content-length: %zu\r\n\r\n", method, path, length);
	if (bytes < 0 || (size_t)bytes >= sizeof(head))
		return -ENAMETOOLONG;
	if (!size)
		return -EMSGSIZE;
	door = europa_slice_connect();
	if (door < 0)
		return door;
	error = europa_slice_send(door, head, (size_t)bytes);
	if (!error && length)
		error = europa_slice_send(door, body, length);
	while (!error && used < size - 1) {
		ssize_t got = recv(door, answer + used, size - 1 - used, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			error = -errno;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	close(door);
	if (error)
		return error;
	answer[used] = 0;
	char *end = strstr(answer, "\r\n\r\n");
	if (sscanf(answer, "HTTP/1.%*d %d", &status) != 1 || !end)
		return used == size - 1 ? -EMSGSIZE : -EPROTO;
	if (used == size - 1)
		return -EMSGSIZE;
	memmove(answer, end + 4, used - (size_t)(end + 4 - answer) + 1);
	return status;
}

/* The number after `"field":` in an answer; -1 without one. */
static inline long europa_slice_number(const char *answer, const char *field)
{
	char wanted[64];
	if (snprintf(wanted, sizeof(wanted), "\"%s\":", field) >= (int)sizeof(wanted))
		return -1;
	const char *at = strstr(answer, wanted);
	return at ? strtol(at + strlen(wanted), NULL, 10) : -1;
}

/*
 * Leads a reserved port of the machine to the port `inside` of the router's slow path. `*port` is
 * the wanted port, 0 for any that the slice reserves; then the port that it got.
 */
static inline int europa_slice_reserve_port(const char *slice, const char *router,
					    const char *protocol, uint16_t inside, uint16_t *port)
{
	char path[256], body[512], number[8] = "\"any\"", answer[4096];
	if (*port)
		snprintf(number, sizeof(number), "%u", *port);
	int a = snprintf(path, sizeof(path), "/v1/slices/%s/machine-ports", slice);
	int b = snprintf(body, sizeof(body),
			 "{\"protocol\":\"%s\",\"port\":%s,\"router\":\"%s\",\"inside\":%u}",
			 protocol, number, router, inside);
	if (a >= (int)sizeof(path) || b >= (int)sizeof(body))
		return -ENAMETOOLONG;
	int status = europa_slice_request("POST", path, body, answer, sizeof(answer));
	if (status == 200)
		*port = (uint16_t)europa_slice_number(answer, "port");
	return status;
}

/* Ends what europa_slice_reserve_port has begun. */
static inline int europa_slice_free_port(const char *slice, const char *protocol, uint16_t port)
{
	char path[256], answer[4096];
	int bytes = snprintf(path, sizeof(path), "/v1/slices/%s/machine-ports/%s/%u", slice,
			     protocol, port);
	if (bytes >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return europa_slice_request("DELETE", path, NULL, answer, sizeof(answer));
}

/* Reads a handler of the slice's router into `answer`, as JSON: {"value": "..."}. */
static inline int europa_slice_read(const char *slice, const char *router, const char *handler,
				    char *answer, size_t size)
{
	char path[512];
	int bytes = snprintf(path, sizeof(path), "/v1/routers/%s/%s/handlers/%s", slice, router,
			     handler);
	if (bytes >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return europa_slice_request("GET", path, NULL, answer, size);
}

/* The resources of the slice, used and at most, as JSON. */
static inline int europa_slice_resources(const char *slice, char *answer, size_t size)
{
	char path[256];
	if (snprintf(path, sizeof(path), "/v1/slices/%s/resources", slice) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return europa_slice_request("GET", path, NULL, answer, size);
}

#endif
