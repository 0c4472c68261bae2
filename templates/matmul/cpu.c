/* C[b,m,n] += A[b,m,k] * B[b,k,n] on the cores of a CPU.
 *
 * C is cut into tasks of MC x NC, which the cores take one by one. A task walks k in steps of KC; at each step it
 * packs a block of A into panels of MR rows and a block of B into panels of NR columns, so that the register kernel
 * reads both in order, and multiplies panel by panel. Ragged edges are packed with zeros and clipped on the way out.
 *
 * Packing per task instead of sharing blocks between cores costs (MC + NC) / (MC * NC) loads a multiply-add and
 * saves every barrier. Source of the loop order: Goto and van de Geijn, Anatomy of High-Performance Matrix
 * Multiplication, 2008; of the register kernel's shape: Van Zee and van de Geijn, BLIS, 2015. */
#include "common/carver_cpu.h"

#ifndef MC
#define MC 192
#endif
#ifndef KC
#define KC 256
#endif
#ifndef NC
#define NC 512
#endif
#ifndef MR
#define MR 6
#endif
#ifndef NR
#define NR 16
#endif
#ifndef A_DTYPE
#define A_DTYPE 1
#endif
#ifndef B_DTYPE
#define B_DTYPE 1
#endif
#ifndef C_DTYPE
#define C_DTYPE 1
#endif
#ifndef ACC_DTYPE
#define ACC_DTYPE 1
#endif
#ifndef BIAS_DTYPE
#define BIAS_DTYPE C_DTYPE
#endif
#ifndef TRANS_A
#define TRANS_A 0
#endif
#ifndef TRANS_B
#define TRANS_B 0
#endif
#ifndef EPILOGUE_BIAS
#define EPILOGUE_BIAS 0
#endif
#ifndef EPILOGUE_ACTIVATION
#define EPILOGUE_ACTIVATION 0
#endif

typedef CARVER_TYPE(A_DTYPE) a_t;
typedef CARVER_TYPE(B_DTYPE) b_t;
typedef CARVER_TYPE(C_DTYPE) c_t;
typedef CARVER_TYPE(BIAS_DTYPE) bias_t;
/* Operands are packed in the type of the sum, which is never narrower than float. */
#if ACC_DTYPE == CARVER_F64
#define SUM_DTYPE CARVER_F64
#define SUM_BYTES 8
#elif ACC_DTYPE == CARVER_I32
#define SUM_DTYPE CARVER_I32
#define SUM_BYTES 4
#else
#define SUM_DTYPE CARVER_F32
#define SUM_BYTES 4
#endif
#define ROW_BYTES (NR * SUM_BYTES)
typedef CARVER_TYPE(SUM_DTYPE) acc_t;

/* Bias and activation in float, in double where a sum may have more digits. */
#if SUM_DTYPE == CARVER_F32
typedef float wide_t;
#define ACTIVATE carver_activatef
#else
typedef double wide_t;
#define ACTIVATE carver_activate
#endif

/* The widest vector of the machine that divides a row of the register tile. */
#if CARVER_SIMD_BYTES >= 64 && ROW_BYTES % 64 == 0
#define VECTOR_BYTES 64
#elif CARVER_SIMD_BYTES >= 32 && ROW_BYTES % 32 == 0
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

_Static_assert(ROW_BYTES % VECTOR_BYTES == 0, "a row of the register tile must be whole 16-byte vectors");
_Static_assert(SUM_DTYPE != CARVER_I32 || (CARVER_IS_INTEGER(A_DTYPE) && CARVER_IS_INTEGER(B_DTYPE)),
               "a sum of integers takes no floating-point products");
_Static_assert(MC % MR == 0 && NC % NR == 0, "register tiles must divide the task's tile");

typedef acc_t vec __attribute__((vector_size(VECTOR_BYTES), aligned(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / SUM_BYTES, VECS = ROW_BYTES / VECTOR_BYTES };

/* panel[p][i] = source[i * row + p] for i below `width`; rows beyond `valid` become zeros. Reads along p. */
#define PACK_ROWS(name, type, dtype, width)                                                                     \
    static void name(acc_t *restrict panel, const type *restrict source, int64_t row, int64_t valid, int64_t kc) { \
        for (int64_t i = 0; i < (width); i++) {                                                                 \
            if (i < valid)                                                                                      \
                for (int64_t p = 0; p < kc; p++)                                                                \
                    panel[p * (width) + i] = (acc_t)CARVER_LOAD(dtype, source[i * row + p]);                    \
            else                                                                                                \
                for (int64_t p = 0; p < kc; p++) panel[p * (width) + i] = 0;                                    \
        }                                                                                                       \
    }

/* panel[p][i] = source[p * row + i]: the same panel from the other storage order. */
#define PACK_COLUMNS(name, type, dtype, width)                                                                  \
    static void name(acc_t *restrict panel, const type *restrict source, int64_t row, int64_t valid, int64_t kc) { \
        if (valid >= (width))                                                                                   \
            for (int64_t p = 0; p < kc; p++)                                                                    \
                for (int64_t i = 0; i < (width); i++)                                                           \
                    panel[p * (width) + i] = (acc_t)CARVER_LOAD(dtype, source[p * row + i]);                    \
        else                                                                                                    \
            for (int64_t p = 0; p < kc; p++)                                                                    \
                for (int64_t i = 0; i < (width); i++)                                                           \
                    panel[p * (width) + i] = i < valid ? (acc_t)CARVER_LOAD(dtype, source[p * row + i]) : 0;    \
    }

#if TRANS_A
PACK_COLUMNS(pack_a, a_t, A_DTYPE, MR)
#else
PACK_ROWS(pack_a, a_t, A_DTYPE, MR)
#endif
#if TRANS_B
PACK_ROWS(pack_b, b_t, B_DTYPE, NR)
#else
PACK_COLUMNS(pack_b, b_t, B_DTYPE, NR)
#endif

static inline void store(c_t *restrict c, int64_t ldc, const acc_t *restrict tile, const bias_t *bias, int64_t rows,
                         int64_t columns) {
    (void)bias;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
#if EPILOGUE_BIAS || EPILOGUE_ACTIVATION
            wide_t value = tile[i * NR + j];
#if EPILOGUE_BIAS
            value += (wide_t)CARVER_LOAD(BIAS_DTYPE, bias[j]);
#endif
            c[i * ldc + j] = CARVER_STORE(C_DTYPE, ACTIVATE(EPILOGUE_ACTIVATION, value));
#elif C_DTYPE == SUM_DTYPE
            c[i * ldc + j] = tile[i * NR + j];
#else
            c[i * ldc + j] = CARVER_STORE(C_DTYPE, tile[i * NR + j]);
#endif
        }
}

/* tile (MR x NR) = panel of A * panel of B, added to what `tile` holds when `add` is set. */
static inline void multiply(acc_t *restrict tile, const acc_t *restrict a, const acc_t *restrict b, int64_t kc, int add) {
    vec sum[MR][VECS];
    CARVER_UNROLL for (int i = 0; i < MR; i++)
        CARVER_UNROLL for (int j = 0; j < VECS; j++) sum[i][j] = (vec){0};
    for (int64_t p = 0; p < kc; p++, a += MR, b += NR) {
        vec row[VECS];
        CARVER_UNROLL for (int j = 0; j < VECS; j++) {
            row[j] = *(const vec *)(b + j * LANES);
            CARVER_KEEP(row[j]);
        }
        CARVER_UNROLL for (int i = 0; i < MR; i++)
            CARVER_UNROLL for (int j = 0; j < VECS; j++) sum[i][j] += a[i] * row[j];
    }
    CARVER_UNROLL for (int i = 0; i < MR; i++)
        CARVER_UNROLL for (int j = 0; j < VECS; j++) {
            vec *out = (vec *)(tile + i * NR + j * LANES);
            *out = add ? *out + sum[i][j] : sum[i][j];
        }
}

/* `workspace` holds for each core: a packed block of A, one of B and, when k takes several steps, the tile of C. */
void carver_matmul(const a_t *A, const b_t *B, const bias_t *bias, c_t *C, char *workspace, int64_t workspace_per_core,
                   int64_t m, int64_t n, int64_t k, int64_t b, int64_t lda, int64_t ldb, int64_t ldc, int64_t cores) {
    const int64_t tasks_m = carver_ceil(m, MC), tasks_n = carver_ceil(n, NC), tasks = tasks_m * tasks_n * b;
    const int64_t a_batch = (TRANS_A ? k : m) * lda, b_batch = (TRANS_B ? n : k) * ldb, c_batch = m * ldc;
    const int64_t step_k = carver_min(k, KC);
#ifdef _OPENMP
    const int team = (int)carver_min(carver_min(cores, omp_get_max_threads()), tasks);
#pragma omp parallel num_threads(team)
#endif
    {
#ifdef _OPENMP
        char *own = workspace + omp_get_thread_num() * workspace_per_core;
#else
        char *own = workspace;
#endif
        acc_t *block_a = (acc_t *)own;
        acc_t *block_b = block_a + (MC * step_k + 15) / 16 * 16;
        acc_t *block_c = block_b + (NC * step_k + 15) / 16 * 16;
#ifdef _OPENMP
#pragma omp for schedule(dynamic, 1)
#endif
        for (int64_t task = 0; task < tasks; task++) {
            const int64_t batch = task / (tasks_m * tasks_n), m0 = task % tasks_m * MC;
            const int64_t n0 = task / tasks_m % tasks_n * NC;
            const int64_t rows = carver_min(MC, m - m0), columns = carver_min(NC, n - n0);
            const a_t *a = A + batch * a_batch + (TRANS_A ? m0 : m0 * lda);
            const b_t *bb = B + batch * b_batch + (TRANS_B ? n0 * ldb : n0);
            c_t *c = C + batch * c_batch + m0 * ldc + n0;
            for (int64_t p0 = 0; p0 < k; p0 += KC) {
                const int64_t kc = carver_min(KC, k - p0);
                for (int64_t j = 0; j < columns; j += NR)
                    pack_b(block_b + j * kc, bb + (TRANS_B ? j * ldb + p0 : p0 * ldb + j), ldb, columns - j, kc);
                for (int64_t i = 0; i < rows; i += MR)
                    pack_a(block_a + i * kc, a + (TRANS_A ? p0 * lda + i : i * lda + p0), lda, rows - i, kc);
                for (int64_t j = 0; j < columns; j += NR)
                    for (int64_t i = 0; i < rows; i += MR) {
                        acc_t local[MR * NR] __attribute__((aligned(64)));
                        acc_t *tile = k > KC ? block_c + j * MC + i * NR : local;
                        multiply(tile, block_a + i * kc, block_b + j * kc, kc, p0 > 0);
                        if (p0 + KC < k) continue;
                        const bias_t *own_bias = EPILOGUE_BIAS ? bias + n0 + j : 0;
                        if (rows - i >= MR && columns - j >= NR)
                            store(c + i * ldc + j, ldc, tile, own_bias, MR, NR);
                        else
                            store(c + i * ldc + j, ldc, tile, own_bias, carver_min(MR, rows - i),
                                  carver_min(NR, columns - j));
                    }
            }
        }
    }
}
