/* Runs a traced formula by NumPy's own inner loops, so that results are NumPy's to the last bit.

What is left out is the price of calling each loop from Python, which for a few hundred rows is most of the time. Rows
are computed in blocks, so that intermediate values stay in a core's cache. `trace.Code` writes the programs. */

#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <fenv.h>
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

typedef struct {
    char *at;
    npy_intp stride, length, size; /* stride 0: one value for all rows */
    char type;
} Register;

typedef struct {
    PyUFuncGenericFunction loop;
    void *data;
    char *at[4]; /* registers: those that are read, then the one that is written */
    npy_intp strides[4], length;
} Step;

typedef struct {
    npy_int64 *values; /* the distinct ones, in 8 bytes as they are */
    npy_intp codes; /* where in those of a row stands which of them it has */
    int wide;       /* bytes of this code: 1, 2 or 4 */
    char type;
} Column;

typedef struct {
    PyObject_HEAD
    PyObject *held; /* the arrays behind all pointers */
    Py_ssize_t n_registers, n_sizes, n_columns, n_leaves, n_once, n_steps, block;
    Register *registers, **leaves;
    Column *columns;
    char *codes, **at; /* of each row side by side: a row is few cache lines; and those of a block's rows */
    npy_intp n_rows, row_bytes;
    Step *steps;
} Program;

#define LOOP(name, from, to)                                                                                          \
    static void name(char **args, npy_intp const *n, npy_intp const *strides, void *data) {                           \
        for (npy_intp i = 0; i < n[0]; i++)                                                                           \
            *(to *)(args[1] + i * strides[1]) = (to) * (from *)(args[0] + i * strides[0]);                            \
    }
LOOP(float_of_whole, npy_int64, double)
LOOP(float_of_truth, npy_bool, double)
LOOP(whole_of_truth, npy_bool, npy_int64)
LOOP(whole_of_float, double, npy_int64)

/* As NumPy's, but neighbours that are alike are divided once: in combinations of columns most are. */
static void floor_divide(char **args, npy_intp const *n, npy_intp const *strides, void *data) {
    npy_int64 a = 0, b = 1, floor = 0;
    for (npy_intp i = 0; i < n[0]; i++) {
        npy_int64 x = *(npy_int64 *)(args[0] + i * strides[0]), y = *(npy_int64 *)(args[1] + i * strides[1]);
        if (x != a || y != b) {
            a = x, b = y;
            if (!y || (y == -1 && x == NPY_MIN_INT64)) feraiseexcept(FE_DIVBYZERO); /* left to Python */
            else floor = x / y - (x % y && (x < 0) != (y < 0));
        }
        *(npy_int64 *)(args[2] + i * strides[2]) = floor;
    }
}

/* Plain arithmetic as NumPy's, without what its loops look at first: for a few hundred rows that is half of their time. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define WIDER __attribute__((target_clones("avx2", "default"), optimize("O3")))
#define ALIKE _Pragma("GCC ivdep") /* where arguments and result are one array, each row reads its own */
#else
#define WIDER
#define ALIKE
#endif
#define ARITHMETIC(name, value)                                                                                       \
    WIDER static void name(char **args, npy_intp const *n, npy_intp const *strides, void *data) {                     \
        const double *a = (double *)args[0], *b = (double *)args[1];                                                  \
        double *out = (double *)args[2];                                                                              \
        if (strides[0] && strides[1]) {                                                                               \
            ALIKE for (npy_intp i = 0; i < n[0]; i++) { double x = a[i], y = b[i]; out[i] = value; }                  \
        } else if (strides[0]) {                                                                                      \
            const double y = *b;                                                                                      \
            ALIKE for (npy_intp i = 0; i < n[0]; i++) { double x = a[i]; out[i] = value; }                            \
        } else if (!strides[1]) {                                                                                     \
            const double x = *a, y = *b;                                                                              \
            for (npy_intp i = 0; i < n[0]; i++) out[i] = value;                                                       \
        } else {                                                                                                      \
            const double x = *a;                                                                                      \
            ALIKE for (npy_intp i = 0; i < n[0]; i++) { double y = b[i]; out[i] = value; }                            \
        }                                                                                                             \
    }
ARITHMETIC(add, x + y)
ARITHMETIC(subtract, x - y)
ARITHMETIC(multiply, x * y)
ARITHMETIC(divide, x / y)
ARITHMETIC(maximum, x > y ? x : y)
ARITHMETIC(minimum, x < y ? x : y)

#define EACH(yes, no) ALIKE for (npy_intp i = 0; i < n[0]; i++) out[i] = which[i] ? yes : no;
#define CHOOSE(name, type)                                                                                            \
    WIDER static void name(char **args, npy_intp const *n, npy_intp const *strides, void *data) {                     \
        const npy_bool *which = (npy_bool *)args[0];                                                                  \
        const type *a = (type *)args[1], *b = (type *)args[2], x = *a, y = *b;                                        \
        type *out = (type *)args[3];                                                                                  \
        if (!strides[0]) for (npy_intp i = 0; i < n[0]; i++) out[i] = *which ? a[i * !!strides[1]] : b[i * !!strides[2]]; \
        else if (strides[1] && strides[2]) EACH(a[i], b[i])                                                           \
        else if (strides[1]) EACH(a[i], y)                                                                            \
        else if (strides[2]) EACH(x, b[i])                                                                            \
        else EACH(x, y)                                                                                               \
    }
CHOOSE(choose_wide, npy_int64) /* of floats too: their bits are copied */
CHOOSE(choose_truth, npy_bool)

static const struct { const char *name, *types; PyUFuncGenericFunction loop; } OWN[] = {
    {"add", "ddd", add}, {"subtract", "ddd", subtract}, {"multiply", "ddd", multiply}, {"divide", "ddd", divide},
    {"maximum", "ddd", maximum}, {"minimum", "ddd", minimum},
    {"cast", "ld", float_of_whole}, {"cast", "?d", float_of_truth}, {"cast", "?l", whole_of_truth},
    {"cast", "dl", whole_of_float}, {"where", "?ddd", choose_wide}, {"where", "?lll", choose_wide},
    {"where", "????", choose_truth}, {"floor_divide", "lll", floor_divide},
};

/* A column's values for a block of rows. */
#define TAKE(name, code, type)                                                                                         \
    static void name(char **args, npy_intp const *n, npy_intp const *strides, void *data) {                           \
        const npy_int64 *values = ((Column *)data)->values;                                                           \
        const npy_intp codes = ((Column *)data)->codes;                                                               \
        char *const *at = (char **)args[0];                                                                           \
        type *out = (type *)args[1];                                                                                  \
        for (npy_intp i = 0, count = n[0]; i < count; i++) out[i] = (type)values[*(code *)(at[i] + codes)];            \
    }
TAKE(take_1, npy_uint8, npy_int64)
TAKE(take_2, npy_uint16, npy_int64)
TAKE(take_4, npy_int32, npy_int64)
TAKE(take_truth_1, npy_uint8, npy_bool)
TAKE(take_truth_2, npy_uint16, npy_bool)
TAKE(take_truth_4, npy_int32, npy_bool)

static char letter(int number) {
    return number == NPY_DOUBLE ? 'd' : number == NPY_INT64 ? 'l' : number == NPY_BOOL ? '?' : number == NPY_INT32 ? 'i' : ' ';
}

static int read_array(PyObject *said, Register *into) {
    if (!said || !PyArray_Check(said) || !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)said) ||
        letter(PyArray_TYPE((PyArrayObject *)said)) == ' ')
        return PyErr_SetString(PyExc_TypeError, "not a contiguous array of floats, whole numbers or truths"), -1;
    into->at = PyArray_BYTES((PyArrayObject *)said);
    into->length = PyArray_SIZE((PyArrayObject *)said);
    into->size = PyArray_ITEMSIZE((PyArrayObject *)said);
    into->stride = into->length == 1 ? 0 : into->size;
    into->type = letter(PyArray_TYPE((PyArrayObject *)said));
    return 0;
}

static Register *numbered(Program *self, PyObject *said) {
    Py_ssize_t number = PyLong_AsSsize_t(said);
    if (number >= 0 && number < self->n_registers) return self->registers + number;
    return PyErr_SetString(PyExc_ValueError, "no such register"), NULL;
}

/* From ("take", a column, the register that it fills). */
static int read_take(Program *self, PyObject *said, Step *step) {
    static const PyUFuncGenericFunction TAKES[] = {take_1, take_2, take_4, take_truth_1, take_truth_2, take_truth_4};
    Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(said, 1));
    Register *into = numbered(self, PyTuple_GET_ITEM(said, 2));
    if (!into || number < 0 || number >= self->n_columns || into->length != self->block ||
        into->type != self->columns[number].type)
        return PyErr_SetString(PyExc_ValueError, "a column and a register of its type, as long as a block"), -1;
    step->loop = TAKES[self->columns[number].wide / 2 + (into->type == '?' ? 3 : 0)];
    step->data = self->columns + number;
    step->at[0] = (char *)self->at, step->at[1] = into->at;
    return 0;
}

/* From (a ufunc or the name of a loop above, the registers that it reads, the one that it writes). */
static int read_step(Program *self, PyObject *said, Step *step) {
    PyObject *what = PyTuple_GET_ITEM(said, 0);
    char types[5] = {0};
    int nin = (int)PyTuple_GET_SIZE(said) - 2;
    if (nin == 1 && PyUnicode_Check(what) && !PyUnicode_CompareWithASCIIString(what, "take")) return read_take(self, said, step);
    if (nin < 1 || nin > 3) return PyErr_SetString(PyExc_ValueError, "1 to 3 arguments"), -1;
    for (int i = 0; i <= nin; i++) {
        Register *each = numbered(self, PyTuple_GET_ITEM(said, i + 1));
        if (!each) return -1;
        step->at[i] = each->at, step->strides[i] = each->stride, step->length = each->length;
        types[i] = each->type;
    }
    int is_ufunc = PyObject_TypeCheck(what, &PyUFunc_Type);
    const char *name = is_ufunc ? ((PyUFuncObject *)what)->name : PyUnicode_Check(what) ? PyUnicode_AsUTF8(what) : "";
    for (size_t i = 0; name && i < sizeof OWN / sizeof OWN[0]; i++)
        if (!strcmp(OWN[i].name, name) && !strcmp(OWN[i].types, types)) return step->loop = OWN[i].loop, 0;
    if (is_ufunc) {
        PyUFuncObject *ufunc = (PyUFuncObject *)what;
        for (int at = 0; at < ufunc->ntypes && ufunc->nargs == nin + 1; at++) {
            int same = ufunc->functions[at] != NULL;
            for (int i = 0; i <= nin; i++) same &= letter(ufunc->types[at * ufunc->nargs + i]) == types[i];
            if (!same) continue;
            step->loop = ufunc->functions[at];
            step->data = ufunc->data ? (void *)ufunc->data[at] : NULL;
            return 0;
        }
    }
    return PyErr_Format(PyExc_ValueError, "%S has no loop for %s", what, types), -1;
}

static npy_int64 bits(const Register *column, npy_intp row) {
    return column->size == 1 ? column->at[row] : ((npy_int64 *)column->at)[row];
}

/* The table of whose rows each run fills registers, as codes: columns of a table of candidates have few values, and many
   of them change at the same rows, so that one code tells the values of all of these. */
static int encode(Program *self, PyObject *columns) {
    npy_intp slots = 1, n = 0, n_codes = 0, *place = PyMem_Malloc((self->n_columns + 1) * sizeof(npy_intp));
    int shift = 64, wrong = 0, *of = PyMem_Calloc(self->n_columns + 1, sizeof(int));
    npy_int32 *slot = NULL, *every = NULL;
    self->columns = PyMem_Calloc(self->n_columns + 1, sizeof(Column));
    wrong = !of || !place || !self->columns;
    for (Py_ssize_t c = 0; !wrong && c < self->n_columns; c++) {
        Register column;
        npy_int32 known = 0, code = 0;
        if ((wrong = read_array(PyTuple_GET_ITEM(columns, c), &column) < 0)) break;
        if (!c) {
            n = self->n_rows = column.length;
            while (slots < 2 * n) slots *= 2, shift--;
            every = PyMem_Malloc((n * self->n_columns + 1) * sizeof(npy_int32));
            slot = PyMem_Malloc(slots * sizeof(npy_int32));
        }
        npy_int64 *values = self->columns[c].values = PyMem_Malloc((n + 1) * sizeof(npy_int64));
        self->columns[c].type = column.type;
        if ((wrong = !every || !slot || !values || column.length != n)) break;
        memset(slot, -1, slots * sizeof(npy_int32));
        npy_int32 *codes = every + n_codes * n;
        for (npy_intp row = 0; row < n; row++) {
            npy_int64 value = bits(&column, row);
            if (!row || value != values[code]) {
                npy_intp at = shift < 64 ? (npy_uint64)value * 0x9E3779B97F4A7C15u >> shift : 0;
                while (slot[at] >= 0 && values[slot[at]] != value) at = (at + 1) & (slots - 1);
                if (slot[at] < 0) slot[at] = known, values[known++] = value;
                code = slot[at];
            }
            codes[row] = code;
        }
        if (!(values = PyMem_Realloc(values, (known + 1) * sizeof(npy_int64)))) wrong = 1;
        else self->columns[c].values = values;
        self->columns[c].wide = known <= 1 << 8 ? 1 : known <= 1 << 16 ? 2 : 4;
        while (memcmp(every + of[c] * n, codes, n * sizeof(npy_int32))) of[c]++;
        if (of[c] == n_codes) place[n_codes++] = -1;
    }
    for (int wide = 4; !wrong && wide; wide /= 2) /* the widest first: each code stands at a multiple of its width */
        for (Py_ssize_t c = 0; c < self->n_columns; c++) {
            if (self->columns[c].wide != wide) continue;
            if (place[of[c]] < 0) place[of[c]] = self->row_bytes, self->row_bytes += wide;
            self->columns[c].codes = place[of[c]];
        }
    self->row_bytes = (self->row_bytes + 3) / 4 * 4;
    wrong = wrong || !(self->codes = PyMem_Calloc(n + 1, self->row_bytes));
    for (Py_ssize_t c = 0; !wrong && c < self->n_columns; c++) {
        char *to = self->codes + self->columns[c].codes;
        for (npy_intp row = 0; row < n; row++, to += self->row_bytes) {
            npy_int32 value = every[of[c] * n + row];
            if (self->columns[c].wide == 1) *(npy_uint8 *)to = (npy_uint8)value;
            else if (self->columns[c].wide == 2) *(npy_uint16 *)to = (npy_uint16)value;
            else *(npy_int32 *)to = value;
        }
    }
    PyMem_Free(place);
    PyMem_Free(of), PyMem_Free(slot), PyMem_Free(every);
    return wrong ? -1 : 0;
}

/* Program(registers, sizes, columns, once, steps, leaves, block): arrays, of which the first so many are sizes; the table;
   the steps of each run, and those of each block of so many rows; the registers that a run returns. A register of rows has
   as many entries as a block. */
static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *registers, *columns, *once, *steps, *leaves;
    Py_ssize_t sizes, block;
    if (!PyArg_ParseTuple(args, "O!nO!O!O!O!n", &PyTuple_Type, &registers, &sizes, &PyTuple_Type, &columns,
                          &PyTuple_Type, &once, &PyTuple_Type, &steps, &PyTuple_Type, &leaves, &block))
        return NULL;
    Program *self = (Program *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->held = Py_NewRef(args);
    self->n_sizes = sizes, self->block = block;
    self->n_registers = PyTuple_GET_SIZE(registers), self->n_columns = PyTuple_GET_SIZE(columns);
    self->n_leaves = PyTuple_GET_SIZE(leaves);
    self->n_once = PyTuple_GET_SIZE(once), self->n_steps = self->n_once + PyTuple_GET_SIZE(steps);
    self->registers = PyMem_Calloc(self->n_registers + 1, sizeof(Register));
    self->leaves = PyMem_Calloc(self->n_leaves + 1, sizeof(Register *));
    self->steps = PyMem_Calloc(self->n_steps + 1, sizeof(Step));
    self->at = PyMem_Calloc(block + 1, sizeof(char *));
    int wrong = !self->registers || !self->leaves || !self->steps || !self->at || sizes > self->n_registers;
    for (Py_ssize_t i = 0; !wrong && i < self->n_registers; i++)
        wrong = read_array(PyTuple_GET_ITEM(registers, i), self->registers + i);
    for (Py_ssize_t i = 0; !wrong && i < self->n_leaves; i++)
        wrong = !(self->leaves[i] = numbered(self, PyTuple_GET_ITEM(leaves, i)));
    wrong = wrong || encode(self, columns) < 0;
    for (Py_ssize_t i = 0; !wrong && i < self->n_steps; i++)
        wrong = read_step(self, i < self->n_once ? PyTuple_GET_ITEM(once, i) : PyTuple_GET_ITEM(steps, i - self->n_once),
                          self->steps + i);
    if (!wrong) return (PyObject *)self;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "this is no program");
    Py_DECREF(self);
    return NULL;
}

static void program_free(Program *self) {
    for (Py_ssize_t c = 0; self->columns && c < self->n_columns; c++) PyMem_Free(self->columns[c].values);
    PyMem_Free(self->registers), PyMem_Free(self->leaves), PyMem_Free(self->steps);
    PyMem_Free(self->columns), PyMem_Free(self->codes), PyMem_Free(self->at);
    Py_XDECREF(self->held);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static void run_step(const Step *step, npy_intp n) {
    char *args[4]; /* of each call its own: a loop may move them */
    memcpy(args, step->at, sizeof args);
    step->loop(args, &n, step->strides, step->data);
}

#ifdef __GNUC__
#define SOON(address) __builtin_prefetch(address) /* rows lie apart: their lines are fetched side by side */
#else
#define SOON(address) (void)(address)
#endif

static void give(const Register *from, char *to, npy_intp n) {
    if (from->stride) memcpy(to, from->at, n * from->size);
    else
        for (npy_intp i = 0; i < n; i++) memcpy(to + i * from->size, from->at, from->size);
}

/* Whether a size is of the kind that the code was written for. */
static int set_size(Register *each, PyObject *value) {
    if (PyArray_Check(value)) return 0;
    if (each->type == 'd') return *(double *)each->at = PyFloat_AsDouble(value), !PyErr_Occurred();
    double real = PyFloat_Check(value) ? PyFloat_AS_DOUBLE(value) : 0.0;
    if (!PyFloat_Check(value)) *(npy_int64 *)each->at = PyLong_AsLongLong(value);
    else *(npy_int64 *)each->at = (npy_int64)real;
    return !PyErr_Occurred() && (!PyFloat_Check(value) || (double)*(npy_int64 *)each->at == real);
}

/* Whether all sizes are of the kinds that the code was written for; -1 on errors. */
static int set_sizes(Program *self, PyObject *sizes) {
    if (!PyTuple_Check(sizes) || PyTuple_GET_SIZE(sizes) != self->n_sizes)
        return PyErr_SetString(PyExc_ValueError, "a number for each size"), -1;
    for (Py_ssize_t i = 0; i < self->n_sizes; i++)
        if (!set_size(self->registers + i, PyTuple_GET_ITEM(sizes, i))) return PyErr_Occurred() ? -1 : 0;
    return 1;
}

/* Sets the sizes and runs the steps of each run; as `set_sizes`. */
static int begin(Program *self, PyObject *sizes) {
    int fits = set_sizes(self, sizes);
    if (fits < 1) return fits;
    feclearexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    for (Step *step = self->steps; step < self->steps + self->n_once; step++) run_step(step, step->length);
    return !fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
}

/* Writes the leaves of some rows. False where NumPy would warn of a division. */
static int compute(Program *self, const npy_int64 *rows, npy_intp n, char **out) {
    feclearexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    for (npy_intp count, start = 0; start < n; start += count) {
        count = n - start < self->block ? n - start : self->block;
        for (npy_intp i = 0; i < count; i++) {
            self->at[i] = self->codes + rows[start + i] * self->row_bytes;
            SOON(self->at[i]), SOON(self->at[i] + self->row_bytes - 1);
        }
        for (Step *step = self->steps + self->n_once; step < self->steps + self->n_steps; step++) run_step(step, count);
        for (Py_ssize_t i = 0; i < self->n_leaves; i++) {
            Register *leaf = self->leaves[i];
            give(leaf, out[i] + start * leaf->size, count);
        }
    }
    return !fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
}

/* run(sizes, rows): the leaves for these rows of the columns; without rows, of the steps of each run. None where the
   Python code is to run instead: NumPy would warn of a division, or a size is of another kind than the code's. */
static PyObject *program_run(Program *self, PyObject *args) {
    PyObject *sizes, *given, *out = NULL;
    Register rows = {0};
    if (!PyArg_ParseTuple(args, "OO", &sizes, &given)) return NULL;
    if (given != Py_None && (read_array(given, &rows) < 0 || rows.type != 'l'))
        return PyErr_Occurred() ? NULL : (PyErr_SetString(PyExc_ValueError, "rows are whole numbers"), NULL);
    for (npy_intp i = 0; self->n_columns && i < rows.length; i++)
        if (((npy_uint64 *)rows.at)[i] >= (npy_uint64)self->n_rows)
            return PyErr_SetString(PyExc_IndexError, "no such row"), NULL;
    int fits = begin(self, sizes);
    char **to = fits < 1 ? NULL : PyMem_Malloc((self->n_leaves + 1) * sizeof(char *));
    if (!to || !(out = PyList_New(self->n_leaves))) goto done;
    for (Py_ssize_t i = 0; i < self->n_leaves; i++) {
        Register *leaf = self->leaves[i];
        npy_intp length = given != Py_None ? rows.length : leaf->length;
        int type = leaf->type == 'd' ? NPY_DOUBLE : leaf->type == 'l' ? NPY_INT64 : NPY_BOOL;
        PyObject *array = PyArray_SimpleNew(1, &length, type);
        if (!array) {
            Py_CLEAR(out);
            goto done;
        }
        PyList_SET_ITEM(out, i, array);
        to[i] = PyArray_BYTES((PyArrayObject *)array);
        if (given == Py_None) give(leaf, to[i], leaf->length);
    }
    fits = given == Py_None || compute(self, (npy_int64 *)rows.at, rows.length, to);
done:
    PyMem_Free(to);
    if (fits > 0 && (out || PyErr_Occurred())) return out;
    Py_XDECREF(out);
    if (fits < 0) return NULL;
    if (fits) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* The rows that all rules allow: `enumeration.Rules.rows`, whose groups these are. NULL on errors. */
static npy_int64 *allow(Program *self, PyObject *groups, npy_intp *n_kept) {
    PyObject *said[4];
    Register arrays[4];
    npy_intp kept = 0, n_truths = 2;
    if (!PyArg_ParseTuple(groups, "OOOO", said, said + 1, said + 2, said + 3)) return NULL;
    for (int i = 0; i < 4; i++)
        if (read_array(said[i], arrays + i) < 0) return NULL;
    npy_int32 *begins = (npy_int32 *)arrays[0].at, *which = (npy_int32 *)arrays[1].at, *after = (npy_int32 *)arrays[2].at;
    npy_int32 *with_it = (npy_int32 *)arrays[3].at;
    npy_intp n = arrays[0].length - 1, rules = n > 0 ? arrays[1].length / n : 0, all = n < 0 ? 0 : begins[n];
    for (Py_ssize_t i = 0; i < self->n_leaves; i++) n_truths += self->leaves[i]->length;
    int wrong = n < 0 || arrays[1].length != rules * n || arrays[2].length != rules * n || all < 0;
    wrong = wrong || arrays[3].length != n_truths;
    for (int i = 0; i < 4; i++) wrong = wrong || arrays[i].type != 'i';
    npy_int64 *rows = wrong ? NULL : PyMem_Malloc((all + 1) * sizeof(npy_int64));
    char *truths = PyMem_Malloc(n_truths), *to = truths + 2;
    if (!rows || !truths) goto failed;
    truths[0] = 1, truths[1] = 0;
    for (Py_ssize_t i = 0; i < self->n_leaves; i++) {
        const Register *leaf = self->leaves[i];
        if (leaf->type != '?') goto failed;
        memcpy(to, leaf->at, leaf->length);
        to += leaf->length;
    }
    for (npy_intp truth = 0; truth < n_truths; truth++) {
        if (with_it[truth] < 0 || with_it[truth] > truth) goto failed;
        truths[truth] &= truths[with_it[truth]];
    }
    for (npy_intp group = 0, next; group < n; group = next) {
        next = group + 1;
        npy_intp rule = 0;
        for (; rule < rules; rule++) {
            npy_int32 truth = which[rule * n + group];
            if (truth < 0 || truth >= n_truths) goto failed;
            if (!truths[truth]) break;
        }
        if (rule < rules) { /* up to there it is the same */
            if (after[rule * n + group] > group) next = after[rule * n + group];
            continue;
        }
        npy_intp begin = begins[group], end = begins[group + 1];
        if (begin < 0 || end > all || end - begin > all - kept) goto failed;
        for (npy_intp row = begin; row < end; row++) rows[kept++] = row;
    }
    PyMem_Free(truths);
    return *n_kept = kept, rows;
failed:
    PyMem_Free(rows), PyMem_Free(truths);
    return PyErr_SetString(PyExc_ValueError, "these are no groups of the rules"), NULL;
}

static PyObject *array_of(const void *from, npy_intp n, int type) {
    PyObject *out = PyArray_SimpleNew(1, &n, type);
    if (out) memcpy(PyArray_DATA((PyArrayObject *)out), from, n * 8);
    return out;
}

/* The number that so many are less than or equal to. Reorders them. */
static double smallest(double *values, npy_intp n, npy_intp count) {
    npy_intp low = 0, high = n - 1, at = count - 1;
    while (low < high) {
        double pivot = values[(low + high) / 2];
        npy_intp i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot) i++;
            while (values[j] > pivot) j--;
            if (i > j) break;
            double swapped = values[i];
            values[i++] = values[j], values[j--] = swapped;
        }
        if (at <= j) high = j;
        else if (at >= i) low = i;
        else break;
    }
    return values[at];
}

/* Prices the rows whose bound is above `low` and at most `high`; as `compute`. */
static int price(Program *times, const npy_int64 *rows, const double *bound, npy_intp n, double low, double high,
                 npy_int64 *some, npy_int64 *places, double *found, double *seconds) {
    npy_intp m = 0;
    char *to = (char *)found;
    for (npy_intp i = 0; i < n; i++) {
        some[m] = rows[i], places[m] = i;
        m += (bound[i] > low) & (bound[i] <= high);
    }
    if (!compute(times, some, m, &to)) return 0;
    for (npy_intp i = 0; i < m; i++) seconds[places[i]] = found[i];
    return 1;
}

static double least_of(const double *bound, const double *seconds, npy_intp n, double high, npy_intp wanted, double *found) {
    npy_intp m = 0;
    for (npy_intp i = 0; i < n; i++) {
        found[m] = seconds[i];
        m += bound[i] <= high;
    }
    return smallest(found, m, wanted);
}

static PyTypeObject ProgramType;

/* search(rules, groups, bounds, times, topk, few, reach): what `Catalogue._search` of cost/model.py does: the fastest
   rows and their times, and how many rows are allowed; None as of `run`. `rules` and `times` are a program and its sizes
   each; `bounds` is None or returns such a pair, and is called where it is needed. The rows of all are the same. */
static PyObject *search(PyObject *module, PyObject *args) {
    Program *rules, *bounds = NULL, *times;
    PyObject *groups, *bounding, *rule_sizes, *bound_sizes = NULL, *time_sizes, *pair = NULL, *out = NULL;
    npy_intp topk, few, n = 0, m = 0;
    npy_int64 *rows = NULL, *some = NULL, *places;
    double reach, *bound = NULL, *seconds, *found;
    if (!PyArg_ParseTuple(args, "(O!O)OO(O!O)nnd", &ProgramType, &rules, &rule_sizes, &groups, &bounding, &ProgramType,
                          &times, &time_sizes, &topk, &few, &reach))
        return NULL;
    int fits = begin(rules, rule_sizes);
    if (fits < 1 || !(rows = allow(rules, groups, &n))) goto done;
    if (bounding != Py_None && n > few && n > topk) {
        if (!(pair = PyObject_CallNoArgs(bounding))) goto done;
        if (pair == Py_None) fits = 0;
        if (!fits || !PyArg_ParseTuple(pair, "O!O", &ProgramType, &bounds, &bound_sizes)) goto done;
    }
    if (times->n_leaves != 1 || times->leaves[0]->type != 'd' || rules->n_columns ||
        (bounds && (bounds->n_leaves != 1 || bounds->leaves[0]->type != 'd'))) {
        PyErr_SetString(PyExc_ValueError, "bounds and times are one column of floats each");
        goto done;
    }
    npy_intp wanted = topk < n ? topk : n;
    for (npy_intp i = 0; i < n; i++)
        if ((times->n_columns && rows[i] >= times->n_rows) || (bounds && bounds->n_columns && rows[i] >= bounds->n_rows)) {
            PyErr_SetString(PyExc_IndexError, "no such row");
            goto done;
        }
    some = PyMem_Malloc(2 * (n + 1) * sizeof(npy_int64));
    bound = PyMem_Calloc(3 * n + 2, sizeof(double));
    if (!some || !bound) {
        PyErr_NoMemory();
        goto done;
    }
    seconds = bound + n, found = seconds + n, places = some + n + 1;
    double high = 0.0; /* a row without a bound is always priced */
    if (bounds) {
        char *to = (char *)bound;
        fits = begin(bounds, bound_sizes);
        if (fits < 1 || !(fits = compute(bounds, rows, n, &to))) goto done;
        double least = NPY_INFINITY;
        for (npy_intp i = 0; i < n; i++)
            least = bound[i] > 0 && bound[i] < least ? bound[i] : least;
        high = least;
        do {
            high *= reach, m = 0;
            for (npy_intp i = 0; i < n; i++) m += bound[i] <= high;
        } while (m < wanted && high < NPY_INFINITY);
        wanted = m < wanted ? m : wanted;
    }
    fits = begin(times, time_sizes); /* no code in Python runs from here on, which could set other sizes */
    if (fits < 1 || !(fits = price(times, rows, bound, n, -1.0, high, some, places, found, seconds))) goto done;
    double limit = wanted ? least_of(bound, seconds, n, high, wanted, found) : 0.0;
    if (bounds && limit > high) {
        if (!(fits = price(times, rows, bound, n, high, limit, some, places, found, seconds))) goto done;
        high = limit, limit = least_of(bound, seconds, n, high, wanted, found);
    }
    m = 0;
    for (npy_intp i = 0; i < n; i++)
        if (wanted && bound[i] <= high && seconds[i] <= limit) some[m] = rows[i], found[m++] = seconds[i];
    PyObject *which = array_of(some, m, NPY_INT64), *taken = array_of(found, m, NPY_DOUBLE);
    if (which && taken) out = Py_BuildValue("NNn", which, taken, (Py_ssize_t)n);
    else Py_XDECREF(which), Py_XDECREF(taken);
done:
    PyMem_Free(rows), PyMem_Free(some), PyMem_Free(bound);
    Py_XDECREF(pair);
    if (fits || out || PyErr_Occurred()) return out;
    Py_RETURN_NONE;
}

static PyMethodDef PROGRAM[] = {
    {"run", (PyCFunction)program_run, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyTypeObject ProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "carver.kernels._loops.Program", .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = program_new, .tp_dealloc = (destructor)program_free,
    .tp_methods = PROGRAM,
};
static PyMethodDef METHODS[] = {{"search", search, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, .m_name = "_loops", .m_size = -1, .m_methods = METHODS};

PyMODINIT_FUNC PyInit__loops(void) {
    import_array();
    import_umath();
    PyObject *module = PyModule_Create(&MODULE);
    PyObject *source = PyLong_FromUnsignedLong(SOURCE); /* the CRC-32 of this file, which setup.py defines */
    int failed = !module || PyModule_AddType(module, &ProgramType) < 0 || PyModule_AddObjectRef(module, "source", source) < 0;
    Py_XDECREF(source);
    if (failed) return Py_XDECREF(module), NULL;
    return module;
}
