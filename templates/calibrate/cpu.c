/* What one constant of a CPU is: bandwidth of each level of memory, clock, vector multiply-adds, latency, cost of a task. */
#include <omp.h>
#include <stdint.h>

#ifndef SIMD_BYTES
#define SIMD_BYTES 32
#endif

typedef float vector_t __attribute__((vector_size(SIMD_BYTES)));

#define CHAINS 12 /* independent sums: latency 4 to 5 times two or three units */

static double total(vector_t v) {
    double sum = 0;
    for (int i = 0; i < (int)(SIMD_BYTES / sizeof(float)); i++) sum += v[i];
    return sum;
}

/* Every thread reads its own `bytes` of `data` `passes` times. */
void carver_read(const char *data, double *out, int64_t bytes, int64_t passes) {
#pragma omp parallel
    {
        const vector_t *own = (const vector_t *)(data + omp_get_thread_num() * bytes);
        const int64_t vectors = bytes / SIMD_BYTES / 8 * 8;
        vector_t sums[8] = {{0}};
        for (int64_t pass = 0; pass < passes; pass++) {
            for (int64_t i = 0; i < vectors; i += 8)
                for (int j = 0; j < 8; j++) sums[j] += own[i + j];
            __asm__ volatile("" ::: "memory"); /* the next pass reads again */
        }
        for (int j = 1; j < 8; j++) sums[0] += sums[j];
        out[8 * omp_get_thread_num()] = total(sums[0]);
    }
}

/* Every thread writes its own `bytes`, which also touches the pages where it runs. */
void carver_write(char *data, double *out, int64_t bytes, int64_t passes) {
#pragma omp parallel
    {
        vector_t *own = (vector_t *)(data + omp_get_thread_num() * bytes);
        const int64_t vectors = bytes / SIMD_BYTES;
        for (int64_t pass = 0; pass < passes; pass++) {
            vector_t value = {0};
            value += (float)pass;
            for (int64_t i = 0; i < vectors; i++) own[i] = value;
            __asm__ volatile("" ::: "memory");
        }
        out[8 * omp_get_thread_num()] = own[0][0];
    }
}

/* CHAINS multiply-adds a round on every core. */
void carver_fma(double *out, int64_t rounds) {
#pragma omp parallel
    {
        vector_t sums[CHAINS], scale = {0}, more = {0};
        scale += 0.999f;
        more += 0.001f;
        for (int i = 0; i < CHAINS; i++) sums[i] = more * (float)i;
        for (int64_t round = 0; round < rounds; round++)
            for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * scale + more;
        for (int i = 1; i < CHAINS; i++) sums[0] += sums[i];
        out[8 * omp_get_thread_num()] = total(sums[0]);
    }
}

/* 64 additions a round, each of which needs the one before: a clock each. */
void carver_clock(double *out, int64_t rounds) {
    uint64_t x = (uint64_t)rounds;
#define ADD __asm__ volatile("" : "+r"(x)); x += (uint64_t)rounds;
#define ADD_8 ADD ADD ADD ADD ADD ADD ADD ADD
    for (int64_t round = 0; round < rounds; round++) {
        ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8
    }
    *out = (double)x;
}

/* A chain of addresses through `slots` (a power of two) places, `stride` bytes apart; see chase.cu. */
void carver_chain(char *data, double *out, int64_t slots, int64_t stride) {
    for (int64_t i = 0; i < slots; i++)
        *(uint64_t *)(data + i * stride) = (uint64_t)((i * 1664525 + 1013904223) & (slots - 1)) * (uint64_t)stride;
    *out = 0;
}

void carver_chase(const char *data, double *out, int64_t hops) {
    uint64_t at = 0;
    for (int64_t i = 0; i < hops; i++) at = *(const volatile uint64_t *)(data + at);
    *out = (double)at;
}

/* `tasks` that do nothing, handed out one by one as the kernels do it. */
void carver_tasks(double *out, int64_t tasks) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks; i++) {
        __asm__ volatile("" ::: "memory");
        if (i == tasks - 1) *out = (double)i;
    }
}
