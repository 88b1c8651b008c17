/* Prints what this processor reaches with some threads: a line with operations a second (fused multiply-adds of f32, two each),
   then a line for each working set with its bytes and the bytes a second at which it is read. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#define LANES (WIDTH / 4)
#define SUMS 8
/* Of a round. */
#define SECONDS 2e-3
#define ROUNDS 30
/* A megabyte. */
#define PIECE ((1 << 20) / WIDTH)

typedef float vec __attribute__((vector_size(WIDTH)));

/* All threads begin a round together, and each works until its end: no thread has the memory to itself. */
typedef struct {
    int threads;
    int arrived;
    int passed;
} gate;

typedef struct {
    vec *data;
    int64_t count;
    int64_t at;
    double rates[ROUNDS];
    gate *gate;
} job;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static __attribute__((noinline)) double multiply_add(const job *own, vec *sums, int64_t times) {
    const vec x = own->data[0], y = own->data[1];
    vec s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3], s4 = sums[4], s5 = sums[5], s6 = sums[6], s7 = sums[7];
    for (int64_t i = 0; i < times; i++) {
        s0 = s0 * x + y, s1 = s1 * x + y, s2 = s2 * x + y, s3 = s3 * x + y;
        s4 = s4 * x + y, s5 = s5 * x + y, s6 = s6 * x + y, s7 = s7 * x + y;
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3, sums[4] = s4, sums[5] = s5, sums[6] = s6, sums[7] = s7;
    return (double)times * SUMS * LANES * 2;
}

/* Reads on from where the last call ended. */
static __attribute__((noinline)) double read_on(job *own, vec *sums) {
    const int64_t left = own->count - own->at, count = left < PIECE ? left : PIECE;
    const vec *data = own->data + own->at;
    vec s[SUMS];
    for (int k = 0; k < SUMS; k++) s[k] = sums[k];
    for (int64_t i = 0; i + SUMS <= count; i += SUMS)
        for (int k = 0; k < SUMS; k++) s[k] += data[i + k];
    for (int k = 0; k < SUMS; k++) sums[k] = s[k];
    own->at = count == left ? 0 : own->at + count;
    return (double)count * WIDTH;
}

static void meet(gate *all) {
    const int round = __atomic_load_n(&all->passed, __ATOMIC_SEQ_CST);
    if (__atomic_add_fetch(&all->arrived, 1, __ATOMIC_SEQ_CST) == all->threads) {
        __atomic_store_n(&all->arrived, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&all->passed, round + 1, __ATOMIC_SEQ_CST);
    }
    while (__atomic_load_n(&all->passed, __ATOMIC_SEQ_CST) == round) sched_yield();
}

static void *measure(void *given) {
    job *own = given;
    vec sums[SUMS];
    for (int k = 0; k < SUMS; k++) sums[k] = own->data[k];
    for (int round = 0; round < ROUNDS; round++) {
        meet(own->gate);
        const double begin = now();
        double work = 0, end;
        do work += own->count == SUMS ? multiply_add(own, sums, 10000) : read_on(own, sums);
        while ((end = now()) - begin < SECONDS);
        own->rates[round] = work / (end - begin);
    }
    volatile float kept = 0;
    for (int k = 0; k < SUMS; k++) kept += sums[k][0];
    return NULL;
}

/* On the system's huge pages where it has them: weights lie on such pages too. */
static vec *elements(int64_t count) {
    const size_t page = (size_t)2 << 20, bytes = (size_t)count * WIDTH;
    vec *data = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (!data) exit(1);
#if defined(MADV_HUGEPAGE)
    madvise(data, (bytes + page - 1) / page * page, MADV_HUGEPAGE);
#endif
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < LANES; k++) data[i][k] = 0.5f;
    return data;
}

/* The best round. */
static double rate(int threads, int64_t count) {
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    job *jobs = calloc((size_t)threads, sizeof *jobs);
    gate all = {threads, 0, 0};
    if (!ids || !jobs) exit(1);
    for (int t = 0; t < threads; t++) jobs[t] = (job){.data = elements(count), .count = count, .gate = &all};
    for (int t = 0; t < threads; t++)
        if (pthread_create(&ids[t], NULL, measure, &jobs[t])) exit(1);
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double sum = 0;
        for (int t = 0; t < threads; t++) sum += jobs[t].rates[round];
        if (sum > best) best = sum;
    }
    for (int t = 0; t < threads; t++) free(jobs[t].data);
    free(ids);
    free(jobs);
    return best;
}

int main(int count, char **words) {
    const int threads = count > 1 ? atoi(words[1]) : 1;
    if (threads < 1) return 1;
    printf("%.0f\n", rate(threads, SUMS));
    for (int at = 2; at < count; at++) {
        const int64_t bytes = atoll(words[at]);
        int64_t each = bytes / threads / WIDTH / SUMS * SUMS;
        if (each < 2 * SUMS) each = 2 * SUMS;
        printf("%lld %.0f\n", (long long)bytes, rate(threads, each));
    }
    return 0;
}
