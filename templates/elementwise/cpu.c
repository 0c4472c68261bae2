/* Y[r,c] = EXPRESSION of x0, x1, ... on the cores of a CPU; without an expression, their sum.
 *
 * The output is one range of r * c elements; a task is BLOCK of them in a row. An input that lacks an axis (X1_R=0
 * where X1 has one value a column, X1_C=0 where it has one a row) is repeated along it. The expression may use relu(x),
 * gelu(x), silu(x) and the functions of tgmath.h. */
#include "common/carver_cpu.h"
#include <tgmath.h>

#ifndef BLOCK
#define BLOCK 16384
#endif
#ifndef UNROLL
#define UNROLL 4
#endif
#ifndef INPUTS
#define INPUTS 1
#endif
#ifndef X0_DTYPE
#define X0_DTYPE 1
#endif
#ifndef Y_DTYPE
#define Y_DTYPE X0_DTYPE
#endif
#ifndef ACC_DTYPE
#define ACC_DTYPE 1
#endif
#ifndef X0_R
#define X0_R 1
#define X0_C 1
#endif
#if INPUTS < 1 || INPUTS > 8
#error "an elementwise kernel takes 1 to 8 inputs"
#endif

/* Computed in ACC_DTYPE, and in double where an element would not fit it. */
#if ACC_DTYPE == CARVER_I32
typedef int32_t acc_t;
#elif ACC_DTYPE == CARVER_F64 || X0_DTYPE == CARVER_F64 || Y_DTYPE == CARVER_F64 || Y_DTYPE == CARVER_I32
typedef double acc_t;
#else
typedef float acc_t;
#endif
typedef CARVER_TYPE(Y_DTYPE) y_t;

#define ACTIVATE(code, x) (sizeof(acc_t) == sizeof(float) ? carver_activatef(code, (float)(x)) : carver_activate(code, x))
static inline acc_t relu(acc_t x) { return (acc_t)ACTIVATE(1, x); }
static inline acc_t gelu(acc_t x) { return (acc_t)ACTIVATE(2, x); }
static inline acc_t silu(acc_t x) { return (acc_t)ACTIVATE(3, x); }

/* EACH(f) is f(0) f(1) ... over the inputs. */
#define EACH_1(f) f(0)
#define EACH_2(f) EACH_1(f) f(1)
#define EACH_3(f) EACH_2(f) f(2)
#define EACH_4(f) EACH_3(f) f(3)
#define EACH_5(f) EACH_4(f) f(4)
#define EACH_6(f) EACH_5(f) f(5)
#define EACH_7(f) EACH_6(f) f(6)
#define EACH_8(f) EACH_7(f) f(7)
#define EACH(f) CARVER_CAT(EACH_, INPUTS)(f)

#ifndef EXPRESSION
#define PLUS(i) +x##i
#define EXPRESSION (0 EACH(PLUS))
#endif

#define PARAMETER(i) const CARVER_TYPE(X##i##_DTYPE) *restrict X##i,
#define AT_ROW(i) const CARVER_TYPE(X##i##_DTYPE) *restrict p##i = X##i + (X##i##_R ? row * (X##i##_C ? c : 1) : 0) + (X##i##_C ? column : 0);
#define VALUE(i) const acc_t x##i = (acc_t)CARVER_LOAD(X##i##_DTYPE, p##i[X##i##_C ? j : 0]);

#define PRAGMA_(text) _Pragma(#text)
#define PRAGMA(text) PRAGMA_(text)
#ifdef __clang__
#define UNROLLED PRAGMA(clang loop interleave_count(UNROLL))
#else
#define UNROLLED PRAGMA(GCC unroll UNROLL)
#endif

void carver_elementwise(EACH(PARAMETER) y_t *restrict Y, int64_t r, int64_t c, int64_t cores) {
#define WHOLE(i) &&X##i##_R &&X##i##_C
    if (1 EACH(WHOLE)) { /* nothing is repeated: one long row */
        c *= r;
        r = 1;
    }
    const int64_t total = r * c, tasks = carver_ceil(total, BLOCK);
    (void)cores;
#ifdef _OPENMP
    const int team = (int)carver_min(carver_min(cores, omp_get_max_threads()), tasks);
#pragma omp parallel for schedule(static) num_threads(team)
#endif
    for (int64_t task = 0; task < tasks; task++) {
        const int64_t end = carver_min(total, (task + 1) * BLOCK);
        for (int64_t start = task * BLOCK; start < end;) {
            const int64_t row = start / c, column = start - row * c, count = carver_min(c - column, end - start);
            EACH(AT_ROW)
            y_t *restrict y = Y + start;
            UNROLLED
            for (int64_t j = 0; j < count; j++) {
                EACH(VALUE)
                y[j] = (y_t)CARVER_STORE(Y_DTYPE, EXPRESSION);
            }
            start += count;
        }
    }
}
