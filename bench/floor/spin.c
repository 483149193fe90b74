/* Spins until absolute times that are one gap apart, and measures the lateness of each.
 * bench/udpmon compares the lateness of paced datagrams with it, because any program is sometimes
 * late on a shared machine.
 *
 *   spin GAP_NS COUNT     prints the mean gap, and the lateness's p50, p99 and maximum, all in ns
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static int compare(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **argv) {
    int64_t gap = argc == 3 ? atoll(argv[1]) : 0, count = argc == 3 ? atoll(argv[2]) : 0;
    int64_t *lateness = calloc(count > 1 ? count : 1, sizeof *lateness);
    if (gap <= 0 || count < 2 || !lateness) {
        fprintf(stderr, "usage: spin GAP_NS COUNT\n");
        return 2;
    }
    int64_t start = now() + gap, first = 0, last = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t due = start + i * gap;
        while ((last = now()) < due)
            ;
        lateness[i] = last - due;
        if (i == 0)
            first = last;
    }
    qsort(lateness, count, sizeof *lateness, compare);
    printf("%.1f %lld %lld %lld\n", (double)(last - first) / (count - 1), (long long)lateness[count / 2],
           (long long)lateness[count * 99 / 100], (long long)lateness[count - 1]);
    return 0;
}
