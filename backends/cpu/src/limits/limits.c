/* Prints what this processor reaches with some threads: a line with operations a second (fused multiply-adds of f32, two each),
   then a line for each working set with its bytes and the bytes a second at which it is read. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
#define SECONDS 0.03

typedef float vec __attribute__((vector_size(WIDTH)));

typedef struct {
    vec *data;
    int64_t count;
    double rate;
    int threads;
    int *arrived;
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

static __attribute__((noinline)) double read_all(const job *own, vec *sums) {
    vec s[SUMS];
    for (int k = 0; k < SUMS; k++) s[k] = sums[k];
    for (int64_t i = 0; i + SUMS <= own->count; i += SUMS)
        for (int k = 0; k < SUMS; k++) s[k] += own->data[i + k];
    for (int k = 0; k < SUMS; k++) sums[k] = s[k];
    return (double)own->count * WIDTH;
}

/* The best of some samples, each as long as the clock can tell, after all threads are there. */
static void *measure(void *given) {
    job *own = given;
    vec sums[SUMS];
    for (int k = 0; k < SUMS; k++) sums[k] = own->data[k];
    __atomic_fetch_add(own->arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(own->arrived, __ATOMIC_SEQ_CST) < own->threads) sched_yield();
    const double start = now();
    do {
        const double begin = now();
        double work = 0;
        do work += own->count == SUMS ? multiply_add(own, sums, 10000) : read_all(own, sums);
        while (now() - begin < 1e-3);
        const double rate = work / (now() - begin);
        if (rate > own->rate) own->rate = rate;
    } while (now() - start < SECONDS);
    volatile float kept = 0;
    for (int k = 0; k < SUMS; k++) kept += sums[k][0];
    return NULL;
}

static double rate(int threads, int64_t count) {
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    job *jobs = calloc((size_t)threads, sizeof *jobs);
    int arrived = 0;
    if (!ids || !jobs) exit(1);
    for (int t = 0; t < threads; t++) {
        vec *data = aligned_alloc(4096, (size_t)((count * WIDTH + 4095) / 4096 * 4096));
        if (!data) exit(1);
        for (int64_t i = 0; i < count; i++)
            for (int k = 0; k < LANES; k++) data[i][k] = 0.5f;
        jobs[t] = (job){data, count, 0, threads, &arrived};
        if (pthread_create(&ids[t], NULL, measure, &jobs[t])) exit(1);
    }
    double sum = 0;
    for (int t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        sum += jobs[t].rate;
        free(jobs[t].data);
    }
    free(ids);
    free(jobs);
    return sum;
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
