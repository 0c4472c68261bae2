/* Reductions of X[r,c] on the cores of a CPU, along its rows (AXIS=1), or of X[b,r,c] along its columns (AXIS=0).
 *
 * REDUCE_OP 0 sum, 1 max, 2 mean: a task reduces a tile of BLOCK_R x BLOCK_C; where several tiles share a result they leave
 * partial ones in the workspace, which are joined in a fixed order, the same bits for any number of cores.
 * REDUCE_OP 3 softmax, 4 layer norm, 5 RMS norm: a task owns whole rows (or columns) and walks them two or three times. */
#include "common/carver_cpu.h"

#ifndef REDUCE_OP
#define REDUCE_OP 0
#endif
#ifndef AXIS
#define AXIS 1
#endif
#ifndef BLOCK_R
#define BLOCK_R 16
#endif
#ifndef BLOCK_C
#define BLOCK_C 1024
#endif
#ifndef UNROLL
#define UNROLL 4
#endif
#ifndef X_DTYPE
#define X_DTYPE 1
#endif
#ifndef Y_DTYPE
#define Y_DTYPE X_DTYPE
#endif
#ifndef ACC_DTYPE
#define ACC_DTYPE 1
#endif
#ifndef EPSILON
#define EPSILON 1e-5
#endif

#define SUM 0
#define MAX 1
#define MEAN 2
#define SOFTMAX 3
#define LAYER_NORM 4
#define RMS_NORM 5

typedef CARVER_TYPE(X_DTYPE) x_t;
typedef CARVER_TYPE(Y_DTYPE) y_t;
/* Joined in float, but doubles in double, and integers without a loss: their maximum in int32, their sum in double. */
#if CARVER_IS_INTEGER(X_DTYPE) && REDUCE_OP == MAX
typedef int32_t acc_t;
#define LOWEST INT32_MIN
#elif CARVER_IS_INTEGER(X_DTYPE) || ACC_DTYPE == CARVER_F64 || X_DTYPE == CARVER_F64
typedef double acc_t;
#define LOWEST (-(double)INFINITY)
#define EXP(x) exp(x)
#else
typedef float acc_t;
#define LOWEST (-INFINITY)
#define EXP(x) carver_expf(x)
#endif

typedef acc_t vec __attribute__((vector_size(CARVER_SIMD_BYTES)));
enum { LANES = CARVER_SIMD_BYTES / (int)sizeof(acc_t), WIDE = LANES * UNROLL };

#define VALUE(p, i) ((acc_t)CARVER_LOAD(X_DTYPE, (p)[i]))
#define PLUS(x, y) ((x) + (y))
#define PLUS_VECTOR(x, y) ((x) + (y))
/* NaN wins, as it does in NumPy and torch. */
#define LARGER(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define LARGER_VECTOR(x, y) larger_vector(x, y)
typedef __typeof__((vec){0} > (vec){0}) mask;
static inline vec larger_vector(vec x, vec y) {
    const mask take = (x > y) | (x != x);
    return (vec)((take & (mask)x) | (~take & (mask)y));
}

/* name(p, n, z): `join` over n contiguous elements of `term`, which may name x (the element) and z. UNROLL vectors of
 * partial results are kept apart, because a compiler must not reorder floating-point additions by itself; they meet at
 * the end by halves. */
#define FOLD_VECTOR(part, at, join, term)                                              \
    do {                                                                             \
        acc_t lane[LANES];                                                           \
        for (int l = 0; l < LANES; l++) {                                            \
            const acc_t x = VALUE(p, (at) + l);                                      \
            lane[l] = term;                                                          \
        }                                                                            \
        vec terms;                                                                   \
        memcpy(&terms, lane, sizeof terms);                                          \
        part = join##_VECTOR(terms, part);                                           \
    } while (0)
#define FOLD(name, initial, join, term)                                              \
    static inline acc_t name(const x_t *restrict p, int64_t n, acc_t z) {            \
        vec part[UNROLL];                                                            \
        (void)z;                                                                     \
        CARVER_UNROLL for (int u = 0; u < UNROLL; u++) part[u] = (vec){0} + (initial); \
        int64_t i = 0;                                                               \
        for (; i + WIDE <= n; i += WIDE)                                             \
            CARVER_UNROLL for (int u = 0; u < UNROLL; u++) FOLD_VECTOR(part[u], i + u * LANES, join, term); \
        CARVER_UNROLL for (int u = 1; u < UNROLL; u++) part[0] = join##_VECTOR(part[u], part[0]); \
        for (; i + LANES <= n; i += LANES) FOLD_VECTOR(part[0], i, join, term);      \
        acc_t all[LANES];                                                            \
        memcpy(all, &part[0], sizeof all);                                           \
        CARVER_UNROLL for (int half = LANES / 2; half > 0; half /= 2)                \
            for (int l = 0; l < half; l++) all[l] = join(all[l + half], all[l]);     \
        for (; i < n; i++) {                                                         \
            const acc_t x = VALUE(p, i);                                             \
            all[0] = join(term, all[0]);                                             \
        }                                                                            \
        return all[0];                                                               \
    }

#if REDUCE_OP == MAX
#define INITIAL LOWEST
#define JOIN LARGER
FOLD(fold, LOWEST, LARGER, x)
#elif REDUCE_OP <= MEAN
#define INITIAL 0
#define JOIN PLUS
FOLD(fold, 0, PLUS, x)
#endif

static inline y_t finish(acc_t value, int64_t count) {
    return (y_t)CARVER_STORE(Y_DTYPE, (REDUCE_OP == MEAN ? value / (acc_t)count : value));
}

#ifdef _OPENMP
#define TEAM(cores, tasks) (int)carver_min(carver_min(cores, omp_get_max_threads()), tasks)
#else
#define TEAM(cores, tasks) 1
#endif

#if REDUCE_OP <= MEAN

enum { JOINED = 256 }; /* neighbouring results whose partial ones are read together, part by part */

/* `workspace` holds ceil(reduced extent / tile) partial results for each element of Y; unused where that is one. */
void carver_reduce(const x_t *restrict X, y_t *restrict Y, acc_t *restrict workspace, int64_t b, int64_t r, int64_t c, int64_t cores) {
    const int64_t tiles_r = carver_ceil(r, BLOCK_R), tiles_c = carver_ceil(c, BLOCK_C), tiles = tiles_r * tiles_c;
    const int64_t parts = AXIS ? tiles_c : tiles_r, results = AXIS ? r : b * c, count = AXIS ? c : r;
    (void)cores;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(TEAM(cores, b *tiles))
#endif
    for (int64_t task = 0; task < b * tiles; task++) {
        const int64_t batch = task / tiles, part = task % tiles / tiles_c;
        const int64_t r0 = part * BLOCK_R, c0 = task % tiles_c * BLOCK_C;
        const int64_t rows = carver_min(BLOCK_R, r - r0), columns = carver_min(BLOCK_C, c - c0);
        const x_t *x = X + (batch * r + r0) * c + c0;
#if AXIS
        for (int64_t i = 0; i < rows; i++) {
            const acc_t value = fold(x + i * c, columns, 0);
            if (parts > 1)
                workspace[task % tiles_c * r + r0 + i] = value;
            else
                Y[r0 + i] = finish(value, count);
        }
#else
        acc_t value[BLOCK_C];
        for (int64_t j = 0; j < columns; j++) value[j] = INITIAL;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                const acc_t element = VALUE(x, i * c + j);
                value[j] = JOIN(element, value[j]);
            }
        for (int64_t j = 0; j < columns; j++)
            if (parts > 1)
                workspace[part * results + batch * c + c0 + j] = value[j];
            else
                Y[batch * c + c0 + j] = finish(value[j], count);
#endif
    }
    if (parts == 1) return;
    const int64_t groups = carver_ceil(results, JOINED);
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(TEAM(cores, carver_min(groups, carver_ceil(results *parts, 16384))))
#endif
    for (int64_t group = 0; group < groups; group++) {
        const acc_t *partial = workspace + group * JOINED;
        y_t *y = Y + group * JOINED;
        const int64_t here = carver_min(JOINED, results - group * JOINED);
        acc_t value[JOINED];
        memcpy(value, partial, (size_t)here * sizeof(acc_t));
        for (int64_t part = 1; part < parts; part++)
            for (int64_t i = 0; i < here; i++) value[i] = JOIN(partial[part * results + i], value[i]);
        for (int64_t i = 0; i < here; i++) y[i] = finish(value[i], count);
    }
}

#else

FOLD(largest, LOWEST, LARGER, x)
FOLD(sum_exp, 0, PLUS, EXP(x - z))
FOLD(total, 0, PLUS, x)
FOLD(squares, 0, PLUS, (x - z) * (x - z))

#define STORE(i, value) y[i] = (y_t)CARVER_STORE(Y_DTYPE, value)

#if AXIS
static inline void normalise(const x_t *restrict x, y_t *restrict y, int64_t c) {
    if (REDUCE_OP == SOFTMAX) {
        const acc_t most = largest(x, c, 0), scale = 1 / sum_exp(x, c, most);
        for (int64_t j = 0; j < c; j++) STORE(j, EXP(VALUE(x, j) - most) * scale);
    } else {
        const acc_t mean = REDUCE_OP == LAYER_NORM ? total(x, c, 0) / (acc_t)c : 0;
        const acc_t scale = (acc_t)(1 / sqrt((double)squares(x, c, mean) / c + EPSILON));
        for (int64_t j = 0; j < c; j++) STORE(j, (VALUE(x, j) - mean) * scale);
    }
}
#else
/* The same over `columns` neighbouring columns, r rows that are c apart. */
static inline void normalise_columns(const x_t *restrict x, y_t *restrict y, int64_t r, int64_t c, int64_t columns) {
    acc_t centre[BLOCK_C], scale[BLOCK_C];
    for (int64_t j = 0; j < columns; j++) centre[j] = REDUCE_OP == SOFTMAX ? LOWEST : 0, scale[j] = 0;
    if (REDUCE_OP != RMS_NORM)
        for (int64_t i = 0; i < r; i++)
            for (int64_t j = 0; j < columns; j++) {
                const acc_t value = VALUE(x, i * c + j);
                centre[j] = REDUCE_OP == SOFTMAX ? LARGER(value, centre[j]) : centre[j] + value;
            }
    if (REDUCE_OP == LAYER_NORM)
        for (int64_t j = 0; j < columns; j++) centre[j] /= (acc_t)r;
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < columns; j++) {
            const acc_t away = VALUE(x, i * c + j) - centre[j];
            scale[j] += REDUCE_OP == SOFTMAX ? EXP(away) : away * away;
        }
    for (int64_t j = 0; j < columns; j++)
        scale[j] = REDUCE_OP == SOFTMAX ? 1 / scale[j] : (acc_t)(1 / sqrt((double)scale[j] / r + EPSILON));
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < columns; j++) {
            const acc_t away = VALUE(x, i * c + j) - centre[j];
            STORE(i * c + j, (REDUCE_OP == SOFTMAX ? EXP(away) : away) * scale[j]);
        }
}
#endif

void carver_reduce(const x_t *restrict X, y_t *restrict Y, acc_t *workspace, int64_t b, int64_t r, int64_t c, int64_t cores) {
    const int64_t tasks = AXIS ? carver_ceil(r, BLOCK_R) : carver_ceil(c, BLOCK_C);
    (void)workspace, (void)b, (void)cores;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(TEAM(cores, tasks))
#endif
    for (int64_t task = 0; task < tasks; task++) {
#if AXIS
        for (int64_t i = task * BLOCK_R; i < carver_min(r, (task + 1) * BLOCK_R); i++) normalise(X + i * c, Y + i * c, c);
#else
        normalise_columns(X + task * BLOCK_C, Y + task * BLOCK_C, r, c, carver_min(BLOCK_C, c - task * BLOCK_C));
#endif
    }
}

#endif
