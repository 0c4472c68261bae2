/* Evicts every cache: each thread streams through its own part of a buffer that is larger than all of them. */
#include "common/carver_cpu.h"

void carver_flush(char *buffer, int64_t bytes) {
#ifdef _OPENMP
#pragma omp parallel
#endif
    {
#ifdef _OPENMP
        const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
#else
        const int64_t threads = 1, me = 0;
#endif
        const int64_t part = bytes / threads / 64;
        int64_t *line = (int64_t *)(buffer + me * part * 64);
        for (int64_t i = 0; i < part; i++) line[i * 8] += 1;
    }
}
