/* What so many threads can do at least: each has a connection of its own and asks one byte over it, in a
 * loop of two calls and a counter. No options, no profile, no control connection. bench/uperf compares a
 * profile of as many threads with it.
 *
 *   threads echo PORT              answers requests of 1 byte, a thread each
 *   threads ask PORT N SECONDS     N threads; prints transactions a second
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

enum { STACK = 96 * 1024, MOST = 10000 };

struct asker {
    _Alignas(128) uint64_t transactions;
    int socket;
};

static struct asker askers[MOST];
static volatile sig_atomic_t stopped;
static pthread_barrier_t start;

static void die(const char *what) {
    perror(what);
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

static pthread_t spawn(void *(*body)(void *), void *with) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    if (pthread_create(&thread, &attributes, body, with))
        die("pthread_create");
    return thread;
}

static void *answer(void *with) {
    int socket = (int)(intptr_t)with;
    char byte;
    while (recv(socket, &byte, 1, 0) == 1 && send(socket, &byte, 1, MSG_NOSIGNAL) == 1) {
    }
    close(socket);
    return NULL;
}

static void *ask(void *with) {
    struct asker *self = with;
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

static int tcp(void) {
    int socket_ = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (socket_ < 0)
        die("socket");
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket_;
}

static void echo(int port) {
    struct sockaddr_in address = loopback(port);
    int listener = tcp(), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, MOST))
        die("listen");
    for (;;) {
        int socket = accept(listener, NULL, NULL);
        if (socket < 0)
            die("accept");
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        pthread_detach(spawn(answer, (void *)(intptr_t)socket));
    }
}

static void run(int port, int number, double seconds) {
    struct sockaddr_in address = loopback(port);
    pthread_t threads[MOST];
    pthread_barrier_init(&start, NULL, (unsigned)number + 1);
    for (int i = 0; i < number; i++) {
        askers[i].socket = tcp();
        if (connect(askers[i].socket, (struct sockaddr *)&address, sizeof address))
            die("connect");
        threads[i] = spawn(ask, &askers[i]);
    }
    pthread_barrier_wait(&start);
    double begun = now();
    struct timespec rest = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&rest, NULL);
    uint64_t sum = 0;
    for (int i = 0; i < number; i++)
        sum += __atomic_load_n(&askers[i].transactions, __ATOMIC_RELAXED);
    double elapsed = now() - begun;
    stopped = 1;
    for (int i = 0; i < number; i++)
        shutdown(askers[i].socket, SHUT_RDWR);
    for (int i = 0; i < number; i++)
        pthread_join(threads[i], NULL);
    printf("%.1f\n", sum / elapsed);
}

int main(int count, char **words) {
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, stop);
    if (count == 3 && !strcmp(words[1], "echo"))
        echo(atoi(words[2]));
    else if (count == 5 && !strcmp(words[1], "ask") && atoi(words[3]) > 0 && atoi(words[3]) <= MOST)
        run(atoi(words[2]), atoi(words[3]), atof(words[4]));
    else
        return fprintf(stderr, "threads echo PORT | threads ask PORT N SECONDS\n"), 1;
    return 0;
}
