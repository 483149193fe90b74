/* The empty spin: waits for absolute times, one gap apart, and notes by how much it sees each of them late. bench/udpmon
 * compares the lateness of paced datagrams with it: on a shared machine any program is late now and then.
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

static int by_size(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int main(int count, char **words) {
    int64_t gap = count == 3 ? atoll(words[1]) : 0, times = count == 3 ? atoll(words[2]) : 0;
    int64_t *late = calloc(times > 1 ? times : 1, sizeof *late);
    if (gap <= 0 || times < 2 || !late) {
        fprintf(stderr, "usage: spin GAP_NS COUNT\n");
        return 2;
    }
    int64_t begin = now() + gap, first = 0, last = 0;
    for (int64_t i = 0; i < times; i++) {
        int64_t due = begin + i * gap;
        while ((last = now()) < due)
            ;
        late[i] = last - due;
        if (i == 0)
            first = last;
    }
    qsort(late, times, sizeof *late, by_size);
    printf("%.1f %lld %lld %lld\n", (double)(last - first) / (times - 1), (long long)late[times / 2],
           (long long)late[times * 99 / 100], (long long)late[times - 1]);
    return 0;
}
