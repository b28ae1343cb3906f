/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile data plane, built against the SDK as any tenant could: tests/tests/hostile_program.rs
 * starts it as a router's `program:`, with the name of its attack. It has what the sandbox lets a
 * program of the user's have: a C library, files to read, threads, and the pool.
 *
 * It says "begun" once it has begun, "made N" after that many attempts that came to nothing, and
 * "BREACH" with what succeeded that must not.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "europa.h"

#define THREADS 16
#define DESCRIPTORS 64

static struct europa pool;
static uint64_t words; /* of the whole mapping */

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void breach(const char *what)
{
	printf("BREACH %s\n", what);
}

/* The word behind a ring, counted from the start of the pool. */
static uint64_t behind(const struct europa_ring *ring)
{
	return (uint64_t)(ring->words - (_Atomic uint64_t *)pool.memory) + ring->mask + 1;
}

/* Wakes the switch, whether or not it sleeps. */
static void ring(void)
{
	(void)!write(pool.doorbell, "", 1);
}

/* Anything anywhere in the pool: slots, rings, header, interface rows; and the waker's page. */
static void scribble(uint64_t *seed)
{
	_Atomic uint64_t *memory = (_Atomic uint64_t *)pool.memory;
	uint64_t slots = (uint64_t)pool.slots * pool.slot_bytes / 8;

	for (int i = 0; i < 4096; i++) {
		/* Rings and header are a small part of it: half of the time there. */
		uint64_t at = i & 1 ? slots + next(seed) % (words - slots) : next(seed) % words;

		atomic_store_explicit(&memory[at], next(seed), memory_order_relaxed);
	}
	atomic_store_explicit(pool.waker_read, next(seed), memory_order_relaxed);
	ring();
}

/* Words of random slots, lengths, offsets and queues in all rings, valid or not. */
static void lie(uint64_t *seed)
{
	for (uint32_t i = 0; i < pool.interfaces; i++)
		for (uint32_t at = 0; at <= pool.tx[i].mask; at++)
			atomic_store_explicit(&pool.tx[i].words[at], next(seed) | EUROPA_WORD_VALID,
					      memory_order_relaxed);
	for (uint32_t at = 0; at <= pool.fill.mask; at++)
		atomic_store_explicit(&pool.fill.words[at], next(seed) | EUROPA_WORD_VALID,
				      memory_order_relaxed);
	ring();
}

/* Frames that this router may not send: from foreign Ethernet and IP addresses, and tagged. Every
 * fourth may be sent. */
static void forge(uint64_t *seed)
{
	for (uint32_t i = 0; i < pool.interfaces; i++) {
		uint32_t kind = (uint32_t)next(seed) & 3, slot = (uint32_t)next(seed) % pool.slots;
		uint8_t *frame = pool.memory + (size_t)slot * pool.slot_bytes + 256;
		struct europa_packet packet = { frame, 64, slot, 0 };

		memset(frame, 0, packet.length);
		memcpy(frame, "\2\0\0\0\0\1", 6);
		memcpy(frame + 6, pool.rows[i].mac, 6);
		if (kind == 0)
			frame[10] ^= 0x55;
		if (kind == 1) {
			memcpy(frame + 12, "\x81\0\0\7", 4);
			frame += 4;
		}
		frame[12] = 8;
		frame[14] = 0x45;
		frame[17] = 46;
		frame[22] = 64;
		frame[23] = 17;
		memcpy(frame + 26, kind == 2 ? "\12\1\1\2" : "\12\2\1\2", 4);
		memcpy(frame + 30, "\12\2\2\2", 4);
		europa_send(&pool, i, &packet);
	}
	ring();
}

static void *spin(void *seed)
{
	uint64_t own = (uint64_t)(uintptr_t)seed;

	for (;;)
		scribble(&own);
	return NULL;
}

/* As many threads as there may be, all of them busy. */
static void threads(uint64_t *seed)
{
	pthread_t thread;
	int made = 0;

	while (made < THREADS &&
	       !pthread_create(&thread, NULL, spin, (void *)(uintptr_t)(next(seed) | 1)))
		made++;
	printf("made %d\n", made);
	spin((void *)(uintptr_t)(next(seed) | 1));
}

/* Requests that a program may not make. */
static void refused(void)
{
	static const char *const files[] = { "/etc/shadow", "/etc/passwd", "/dev/mem", "/dev/kmsg",
					     "/proc/1/mem", "/sys/kernel/btf/vmlinux", "/run/europa" };
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	if (child > 0) {
		waitpid(child, NULL, 0);
		breach("a process of its own");
	}
	if (socket(AF_INET, SOCK_DGRAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0)
		breach("a socket");
	if (socket(AF_PACKET, SOCK_RAW, 0) >= 0)
		breach("a packet socket");
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (open(files[i], O_RDONLY) >= 0)
			breach(files[i]);
	if (open("/made", O_RDWR | O_CREAT, 0600) >= 0 || open("/usr/made", O_RDWR | O_CREAT, 0600) >= 0)
		breach("a file to write");
	if (unlink("/usr/bin/env") == 0)
		breach("a file removed");
}

/* Every descriptor used for what it is not meant for, then closed. */
static void descriptors(uint64_t *seed)
{
	uint64_t noise[512];
	char bin[4096];

	for (int round = 0; round < 64; round++)
		for (int fd = 0; fd < DESCRIPTORS; fd++) {
			struct iovec part = { noise, sizeof(noise) };
			struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
			struct pollfd ready = { fd, POLLIN, 0 };
			int off = 0;
			void *page;

			for (size_t i = 0; i < 512; i++)
				noise[i] = next(seed);
			ioctl(fd, FIONBIO, &off);
			fcntl(fd, F_SETFL, (int)(next(seed) & (O_NONBLOCK | O_APPEND)));
			/* A control socket among them would have the node read this. */
			sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (fd > 2)
				ftruncate(fd, 0);
			page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			if (page != MAP_FAILED && fd != (int)(next(seed) & 63))
				munmap(page, 4096);
			if (poll(&ready, 1, 0) > 0 && ready.revents == POLLIN)
				(void)!read(fd, bin, sizeof(bin));
		}
	printf("made %d\n", 64 * DESCRIPTORS);
	fflush(stdout);
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		shutdown(fd, SHUT_RDWR);
		close(fd);
	}
	/* The mappings are still there. */
	for (;;) {
		scribble(seed);
		lie(seed);
	}
}

/* System calls that end the calling process. Returns only if one was answered. */
static void forbidden(const char *which)
{
	long number = strtol(which, NULL, 10);

	printf("calling %ld\n", number);
	fflush(stdout);
	syscall(number, 0, 0, 0, 0, 0, 0);
	breach("a system call was answered");
}

static void hog(void)
{
	for (;;) {
		char *memory = malloc(1 << 20);

		if (memory)
			memset(memory, 1, 1 << 20);
	}
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";
	uint64_t seed = (uint64_t)getpid() << 32 | 12345, made = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int number = 1; number < 32; number++)
		signal(number, SIG_IGN);
	signal(SIGSEGV, SIG_DFL);
	if (europa_open(&pool) < 0)
		return 1;
	words = behind(&pool.fill);
	for (uint32_t i = 0; i < pool.interfaces; i++) {
		words = behind(&pool.rx[i]) > words ? behind(&pool.rx[i]) : words;
		words = behind(&pool.tx[i]) > words ? behind(&pool.tx[i]) : words;
	}
	printf("begun %s\n", what);
	/* One that ends sooner is refused. */
	if (!strcmp(what, "crash") || !strcmp(what, "end"))
		usleep(500000);
	if (!strcmp(what, "crash"))
		*(volatile int *)0 = 1;
	if (!strcmp(what, "end"))
		return 3;
	if (!strcmp(what, "call"))
		forbidden(count > 2 ? arguments[2] : "0");
	if (!strcmp(what, "memory"))
		hog();
	if (!strcmp(what, "threads"))
		threads(&seed);
	if (!strcmp(what, "descriptors"))
		descriptors(&seed);
	if (!strcmp(what, "spin"))
		for (;;)
			;
	for (;;) {
		if (!strcmp(what, "pool"))
			scribble(&seed);
		if (!strcmp(what, "rings"))
			lie(&seed);
		if (!strcmp(what, "frames"))
			forge(&seed);
		if (!strcmp(what, "refused"))
			refused();
		if (!strcmp(what, "log"))
			for (int i = 0; i < 1000; i++)
				printf("%0999d\n", 0);
		/* 1, 2, 4 and so on, so that the log stays short. */
		made++;
		if (!(made & (made - 1)))
			printf("made %llu\n", (unsigned long long)made);
	}
}
