/* Minimal loops for netperf's tests: a ring of buffers, counters that another thread may read, a
 * stop flag that a signal may set, and a limit by count. There are no options, no timing and no
 * control connection. bench/netperf-counts compares linerate's instructions with theirs.
 *
 *   floor sink PORT             receives data, one connection at a time
 *   floor echo PORT             answers requests of 1 byte, one connection at a time
 *   floor stream PORT N SIZE    sends N buffers of SIZE bytes
 *   floor rr PORT N             runs N transactions of 1 byte in each direction
 */

#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RING_WIDTH = 8, SINK_SIZE = 131072 };

struct slot {
    struct slot *next;
    char *buffer;
};

/* One thread writes; another may read at any time. Transactions need no counters of bytes and
 * calls, because these follow from the number of transactions. */
static struct {
    _Alignas(64) uint64_t sends;
    uint64_t sent_bytes;
    uint64_t receives;
    uint64_t received_bytes;
    uint64_t partial_receives;
    uint64_t transactions;
} counters;

static volatile sig_atomic_t stopped;

static void stop(int number) {
    (void)number;
    stopped = 1;
}

static inline void add(uint64_t *counter, uint64_t amount) {
    __atomic_store_n(counter, *counter + amount, __ATOMIC_RELAXED);
}

static void die(const char *call) {
    perror(call);
    exit(1);
}

static struct slot *ring(size_t size) {
    struct slot *slots = calloc(RING_WIDTH, sizeof *slots);
    if (!slots)
        die("calloc");
    for (int i = 0; i < RING_WIDTH; i++) {
        slots[i].next = &slots[(i + 1) % RING_WIDTH];
        slots[i].buffer = malloc(size);
        if (!slots[i].buffer)
            die("malloc");
        memset(slots[i].buffer, 'n', size);
    }
    return slots;
}

static void send_stream(int fd, uint64_t remaining, size_t size) {
    struct slot *slot = ring(size);
    while (remaining > 0 && !stopped) {
        ssize_t sent = send(fd, slot->buffer, size, 0);
        if (sent != (ssize_t)size)
            break;
        slot = slot->next;
        add(&counters.sends, 1);
        add(&counters.sent_bytes, (uint64_t)sent);
        remaining--;
    }
}

static void receive_stream(int fd) {
    struct slot *slot = ring(SINK_SIZE);
    while (!stopped) {
        ssize_t received = recv(fd, slot->buffer, SINK_SIZE, 0);
        if (received <= 0)
            break;
        slot = slot->next;
        add(&counters.receives, 1);
        add(&counters.received_bytes, (uint64_t)received);
    }
}

/* Receives the rest of a message, of which `received` bytes have arrived. Returns 0 on failure. */
static int receive_rest(int fd, char *buffer, size_t size, ssize_t received) {
    size_t total = 0;
    while (received > 0 && (total += (size_t)received) < size) {
        add(&counters.partial_receives, 1);
        received = recv(fd, buffer + total, size - total, 0);
    }
    return received > 0;
}

static inline int receive_message(int fd, char *buffer, size_t size) {
    ssize_t received = recv(fd, buffer, size, 0);
    return received == (ssize_t)size || receive_rest(fd, buffer, size, received);
}

static void request(int fd, uint64_t remaining, size_t size) {
    struct slot *out = ring(size), *in = ring(size);
    while (remaining > 0 && !stopped) {
        if (send(fd, out->buffer, size, 0) != (ssize_t)size)
            break;
        out = out->next;
        if (!receive_message(fd, in->buffer, size))
            break;
        in = in->next;
        add(&counters.transactions, 1);
        remaining--;
    }
}

static void respond(int fd, size_t size) {
    struct slot *out = ring(size), *in = ring(size);
    while (!stopped && receive_message(fd, in->buffer, size)) {
        in = in->next;
        if (send(fd, out->buffer, size, 0) != (ssize_t)size)
            break;
        out = out->next;
        add(&counters.transactions, 1);
    }
}

static int open_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0)
        die("socket");
    return fd;
}

static void serve(struct sockaddr_in *address, int echo) {
    int listener = open_socket();
    if (bind(listener, (struct sockaddr *)address, sizeof *address) < 0 || listen(listener, 5) < 0)
        die("listen");
    while (!stopped) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            break;
        if (echo)
            respond(fd, 1);
        else
            receive_stream(fd);
        close(fd);
    }
}

int main(int argc, char **argv) {
    const char *role = argc > 2 ? argv[1] : "";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    /* Without SA_RESTART, a signal interrupts a blocked call, and the loop reads the flag. */
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);

    if (argc > 2)
        address.sin_port = htons((uint16_t)atoi(argv[2]));
    if (argc == 3 && (!strcmp(role, "sink") || !strcmp(role, "echo"))) {
        serve(&address, role[0] == 'e');
        return 0;
    }
    int stream = argc == 5 && !strcmp(role, "stream");
    if (!stream && !(argc == 4 && !strcmp(role, "rr"))) {
        fprintf(stderr, "usage: floor sink|echo PORT; floor stream PORT N SIZE; floor rr PORT N\n");
        return 1;
    }
    int fd = open_socket();
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("connect");
    if (stream)
        send_stream(fd, strtoull(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
    else
        request(fd, strtoull(argv[3], NULL, 10), 1);
    printf("%llu\n", (unsigned long long)(stream ? counters.sends : counters.transactions));
    return 0;
}
