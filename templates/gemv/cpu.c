/* Y[b,n] += X[b,k] * A[b,n,k] on the cores of a CPU; with TRANS_A=1 A is stored [b,k,n].
 *
 * A task owns BLOCK_N elements of Y. Where k is contiguous it takes ROWS rows of A at a time through UNROLL vectors, so
 * that a vector of X serves several rows; where n is contiguous it adds up multiples of rows of A. */
#include "common/carver_cpu.h"

#ifndef BLOCK_N
#define BLOCK_N 64
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef UNROLL
#define UNROLL 2
#endif
#ifndef A_DTYPE
#define A_DTYPE 1
#endif
#ifndef X_DTYPE
#define X_DTYPE A_DTYPE
#endif
#ifndef Y_DTYPE
#define Y_DTYPE A_DTYPE
#endif
#ifndef ACC_DTYPE
#define ACC_DTYPE 1
#endif
#ifndef EPILOGUE_BIAS
#define EPILOGUE_BIAS 0
#endif
#ifndef TRANS_A
#define TRANS_A 0
#endif

typedef CARVER_TYPE(A_DTYPE) a_t;
typedef CARVER_TYPE(X_DTYPE) x_t;
typedef CARVER_TYPE(Y_DTYPE) y_t;
#if ACC_DTYPE == CARVER_F64 || ACC_DTYPE == CARVER_I32
typedef CARVER_TYPE(ACC_DTYPE) acc_t;
#else
typedef float acc_t;
#endif

/* The bias is added in float, in double where a sum may have more digits. */
#if ACC_DTYPE == CARVER_F64 || ACC_DTYPE == CARVER_I32
typedef double wide_t;
#else
typedef float wide_t;
#endif

_Static_assert(BLOCK_N % ROWS == 0, "a task must be whole groups of rows");
_Static_assert(CARVER_IS_INTEGER(A_DTYPE) == CARVER_IS_INTEGER(X_DTYPE), "A and X must be both floating point or both integer");

typedef acc_t vec __attribute__((vector_size(CARVER_SIMD_BYTES)));
enum { LANES = CARVER_SIMD_BYTES / (int)sizeof(acc_t), WIDE = LANES * UNROLL };

#define LOAD_VECTOR(name, type, dtype)                                                       \
    static inline vec name(const type *p) {                                                  \
        acc_t lane[LANES];                                                                   \
        for (int l = 0; l < LANES; l++) lane[l] = (acc_t)CARVER_LOAD(dtype, p[l]);           \
        vec v;                                                                               \
        memcpy(&v, lane, sizeof v);                                                          \
        return v;                                                                            \
    }
LOAD_VECTOR(load_a, a_t, A_DTYPE)
LOAD_VECTOR(load_x, x_t, X_DTYPE)

/* ROWS dot products of x with rows of A that are `k` apart. */
static inline void dots(acc_t *sums, const x_t *restrict x, const a_t *restrict a, int64_t k) {
    vec sum[ROWS][UNROLL];
    CARVER_UNROLL for (int i = 0; i < ROWS; i++)
        CARVER_UNROLL for (int u = 0; u < UNROLL; u++) sum[i][u] = (vec){0};
    int64_t p = 0;
    for (; p + WIDE <= k; p += WIDE)
        CARVER_UNROLL for (int u = 0; u < UNROLL; u++) {
            const vec xs = load_x(x + p + u * LANES);
            CARVER_UNROLL for (int i = 0; i < ROWS; i++) sum[i][u] += xs * load_a(a + i * k + p + u * LANES);
        }
    for (; p + LANES <= k; p += LANES) {
        const vec xs = load_x(x + p);
        CARVER_UNROLL for (int i = 0; i < ROWS; i++) sum[i][0] += xs * load_a(a + i * k + p);
    }
    CARVER_UNROLL for (int i = 0; i < ROWS; i++) {
        vec all = sum[i][0];
        CARVER_UNROLL for (int u = 1; u < UNROLL; u++) all += sum[i][u];
        acc_t part[LANES];
        memcpy(part, &all, sizeof part);
        CARVER_UNROLL for (int half = LANES / 2; half > 0; half /= 2)
            for (int l = 0; l < half; l++) part[l] += part[l + half];
        acc_t total = part[0];
        for (int64_t q = p; q < k; q++)
            total += (acc_t)CARVER_LOAD(X_DTYPE, x[q]) * (acc_t)CARVER_LOAD(A_DTYPE, a[i * k + q]);
        sums[i] = total;
    }
}

static inline acc_t dot(const x_t *restrict x, const a_t *restrict a, int64_t k) {
    acc_t lane[LANES] = {0}, total = 0;
    int64_t p = 0;
    for (; p + LANES <= k; p += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (acc_t)CARVER_LOAD(X_DTYPE, x[p + l]) * (acc_t)CARVER_LOAD(A_DTYPE, a[p + l]);
    for (int l = 0; l < LANES; l++) total += lane[l];
    for (; p < k; p++) total += (acc_t)CARVER_LOAD(X_DTYPE, x[p]) * (acc_t)CARVER_LOAD(A_DTYPE, a[p]);
    return total;
}

void carver_gemv(const x_t *restrict X, const a_t *restrict A, const y_t *restrict bias, y_t *restrict Y, int64_t n,
                 int64_t k, int64_t b, int64_t cores) {
    const int64_t tasks_n = carver_ceil(n, BLOCK_N), tasks = tasks_n * b;
    (void)cores;
#ifdef _OPENMP
    const int team = (int)carver_min(carver_min(cores, omp_get_max_threads()), tasks);
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
#endif
    for (int64_t task = 0; task < tasks; task++) {
        const int64_t batch = task / tasks_n, n0 = task % tasks_n * BLOCK_N, count = carver_min(BLOCK_N, n - n0);
        const x_t *x = X + batch * k;
        y_t *y = Y + batch * n + n0;
        acc_t sums[BLOCK_N];
#if TRANS_A
        const a_t *a = A + batch * n * k + n0;
        for (int64_t j = 0; j < count; j++) sums[j] = 0;
        for (int64_t p = 0; p < k; p++) {
            const acc_t factor = (acc_t)CARVER_LOAD(X_DTYPE, x[p]);
            for (int64_t j = 0; j < count; j++) sums[j] += factor * (acc_t)CARVER_LOAD(A_DTYPE, a[p * n + j]);
        }
        (void)dots;
        (void)dot;
#else
        const a_t *a = A + (batch * n + n0) * k;
        int64_t i = 0;
        for (; i + ROWS <= count; i += ROWS) dots(sums + i, x, a + i * k, k);
        for (; i < count; i++) sums[i] = dot(x, a + i * k, k);
#endif
        for (int64_t j = 0; j < count; j++)
            y[j] = (y_t)CARVER_STORE(Y_DTYPE, (wide_t)sums[j] + (EPILOGUE_BIAS ? (wide_t)CARVER_LOAD(Y_DTYPE, bias[n0 + j]) : 0));
    }
}
