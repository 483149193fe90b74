/* Minimal request/response threads. Each has its own connection, and runs transactions of one byte
 * in a loop of two calls and a counter. There are no options, no profile and no control connection.
 * bench/uperf compares a profile with the same number of threads.
 *
 *   threads echo PORT              answers requests of 1 byte, with one thread per connection
 *   threads ask PORT N SECONDS     runs N threads; prints transactions per second
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STACK = 96 * 1024, MAX_THREADS = 10000 };

struct requester {
    _Alignas(128) uint64_t transactions;
    int socket;
};

static struct requester requesters[MAX_THREADS];
static volatile sig_atomic_t stopped;
static pthread_barrier_t start;

static void die(const char *call) {
    perror(call);
    exit(1);
}

static void stop(int number) {
    (void)number;
    stopped = 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static pthread_t spawn(void *(*body)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    if (pthread_create(&thread, &attributes, body, argument))
        die("pthread_create");
    return thread;
}

static void *answer(void *argument) {
    int socket = (int)(intptr_t)argument;
    char byte;
    while (recv(socket, &byte, 1, 0) == 1 && send(socket, &byte, 1, MSG_NOSIGNAL) == 1) {
    }
    close(socket);
    return NULL;
}

static void *send_requests(void *argument) {
    struct requester *self = argument;
    char byte = 0;
    pthread_barrier_wait(&start);
    while (!stopped) {
        if (send(self->socket, &byte, 1, MSG_NOSIGNAL) != 1 || recv(self->socket, &byte, 1, 0) != 1)
            break;
        __atomic_store_n(&self->transactions, self->transactions + 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int open_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0)
        die("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void echo(int port) {
    struct sockaddr_in address = loopback(port);
    int listener = open_socket(), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, MAX_THREADS))
        die("listen");
    for (;;) {
        int socket = accept(listener, NULL, NULL);
        if (socket < 0)
            die("accept");
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        pthread_detach(spawn(answer, (void *)(intptr_t)socket));
    }
}

static void run(int port, int count, double seconds) {
    struct sockaddr_in address = loopback(port);
    pthread_t threads[MAX_THREADS];
    pthread_barrier_init(&start, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        requesters[i].socket = open_socket();
        if (connect(requesters[i].socket, (struct sockaddr *)&address, sizeof address))
            die("connect");
        threads[i] = spawn(send_requests, &requesters[i]);
    }
    pthread_barrier_wait(&start);
    double start_time = now();
    struct timespec duration = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&duration, NULL);
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += __atomic_load_n(&requesters[i].transactions, __ATOMIC_RELAXED);
    double elapsed = now() - start_time;
    stopped = 1;
    for (int i = 0; i < count; i++)
        shutdown(requesters[i].socket, SHUT_RDWR);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%.1f\n", sum / elapsed);
}

int main(int argc, char **argv) {
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, stop);
    if (argc == 3 && !strcmp(argv[1], "echo"))
        echo(atoi(argv[2]));
    else if (argc == 5 && !strcmp(argv[1], "ask") && atoi(argv[3]) > 0 && atoi(argv[3]) <= MAX_THREADS)
        run(atoi(argv[2]), atoi(argv[3]), atof(argv[4]));
    else
        return fprintf(stderr, "usage: threads echo PORT; threads ask PORT N SECONDS\n"), 1;
    return 0;
}
