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
    int nin;
    Register *at[4]; /* those that are read, then the one that is written */
} Step;

typedef struct {
    PyObject_HEAD
    PyObject *held; /* the arrays behind all pointers */
    Py_ssize_t n_registers, n_sizes, n_columns, n_leaves, n_once, n_steps, block;
    Register *registers, **filled; /* those into which rows of the table are taken, then the leaves */
    Register table;                /* the columns of a row lie side by side, so that a row is few cache lines */
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

#define CHOOSE(name, type)                                                                                            \
    static void name(char **args, npy_intp const *n, npy_intp const *s, void *data) {                                 \
        for (npy_intp i = 0; i < n[0]; i++)                                                                           \
            *(type *)(args[3] + i * s[3]) =                                                                           \
                *(npy_bool *)(args[0] + i * s[0]) ? *(type *)(args[1] + i * s[1]) : *(type *)(args[2] + i * s[2]);    \
    }
CHOOSE(choose_wide, npy_int64) /* of floats too: their bits are copied */
CHOOSE(choose_truth, npy_bool)

static const struct { const char *name, *types; PyUFuncGenericFunction loop; } OWN[] = {
    {"cast", "ld", float_of_whole}, {"cast", "?d", float_of_truth}, {"cast", "?l", whole_of_truth},
    {"cast", "dl", whole_of_float}, {"where", "?ddd", choose_wide}, {"where", "?lll", choose_wide},
    {"where", "????", choose_truth},
};

static char letter(int number) {
    return number == NPY_DOUBLE ? 'd' : number == NPY_INT64 ? 'l' : number == NPY_BOOL ? '?' : number == NPY_UINT16 ? 'h' : ' ';
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

/* From (a ufunc or the name of a loop above, the registers that it reads, the one that it writes). */
static int read_step(Program *self, PyObject *said, Step *step) {
    PyObject *what = PyTuple_GET_ITEM(said, 0);
    char types[5] = {0};
    step->nin = (int)PyTuple_GET_SIZE(said) - 2;
    if (step->nin < 1 || step->nin > 3) return PyErr_SetString(PyExc_ValueError, "1 to 3 arguments"), -1;
    for (int i = 0; i <= step->nin; i++) {
        if (!(step->at[i] = numbered(self, PyTuple_GET_ITEM(said, i + 1)))) return -1;
        types[i] = step->at[i]->type;
    }
    for (size_t i = 0; PyUnicode_Check(what) && i < sizeof OWN / sizeof OWN[0]; i++)
        if (!PyUnicode_CompareWithASCIIString(what, OWN[i].name) && !strcmp(OWN[i].types, types))
            return step->loop = OWN[i].loop, 0;
    if (PyObject_TypeCheck(what, &PyUFunc_Type)) {
        PyUFuncObject *ufunc = (PyUFuncObject *)what;
        for (int at = 0; at < ufunc->ntypes && ufunc->nargs == step->nin + 1; at++) {
            int same = ufunc->functions[at] != NULL;
            for (int i = 0; i <= step->nin; i++) same &= letter(ufunc->types[at * ufunc->nargs + i]) == types[i];
            if (!same) continue;
            step->loop = ufunc->functions[at];
            step->data = ufunc->data ? (void *)ufunc->data[at] : NULL;
            return 0;
        }
    }
    return PyErr_Format(PyExc_ValueError, "%S has no loop for %s", what, types), -1;
}

/* Program(registers, sizes, filled, table, once, steps, leaves, block): arrays, of which the first so many are sizes;
   registers, and the table of whose rows each run fills them, a cell of 8 bytes for each; the steps of each run, and those
   of each block of so many rows; the registers that a run returns. A register of rows has as many entries as a block. */
static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *registers, *filled, *table, *once, *steps, *leaves;
    Py_ssize_t sizes, block;
    if (!PyArg_ParseTuple(args, "O!nO!OO!O!O!n", &PyTuple_Type, &registers, &sizes, &PyTuple_Type, &filled,
                          &table, &PyTuple_Type, &once, &PyTuple_Type, &steps, &PyTuple_Type, &leaves,
                          &block))
        return NULL;
    Program *self = (Program *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->held = Py_NewRef(args);
    self->n_sizes = sizes, self->block = block;
    self->n_registers = PyTuple_GET_SIZE(registers), self->n_columns = PyTuple_GET_SIZE(filled);
    self->n_leaves = PyTuple_GET_SIZE(leaves);
    self->n_once = PyTuple_GET_SIZE(once), self->n_steps = self->n_once + PyTuple_GET_SIZE(steps);
    self->registers = PyMem_Calloc(self->n_registers + 1, sizeof(Register));
    self->filled = PyMem_Calloc(self->n_columns + self->n_leaves + 1, sizeof(Register *));
    self->steps = PyMem_Calloc(self->n_steps + 1, sizeof(Step));
    int wrong = !self->registers || !self->filled || !self->steps || sizes > self->n_registers ||
                read_array(table, &self->table) < 0 || self->table.type != 'l' ||
                (self->n_columns && self->table.length % self->n_columns);
    for (Py_ssize_t i = 0; !wrong && i < self->n_registers; i++)
        wrong = read_array(PyTuple_GET_ITEM(registers, i), self->registers + i);
    for (Py_ssize_t i = 0; !wrong && i < self->n_columns + self->n_leaves; i++) {
        PyObject *said = i < self->n_columns ? PyTuple_GET_ITEM(filled, i) : PyTuple_GET_ITEM(leaves, i - self->n_columns);
        wrong = !(self->filled[i] = numbered(self, said));
    }
    for (Py_ssize_t i = 0; !wrong && i < self->n_columns; i++) wrong = self->filled[i]->length != block;
    for (Py_ssize_t i = 0; !wrong && i < self->n_steps; i++)
        wrong = read_step(self, i < self->n_once ? PyTuple_GET_ITEM(once, i) : PyTuple_GET_ITEM(steps, i - self->n_once),
                          self->steps + i);
    if (!wrong) return (PyObject *)self;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "this is no program");
    Py_DECREF(self);
    return NULL;
}

static void program_free(Program *self) {
    PyMem_Free(self->registers), PyMem_Free(self->filled), PyMem_Free(self->steps);
    Py_XDECREF(self->held);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static void run_step(const Step *step, npy_intp n) {
    char *args[4];
    npy_intp strides[4];
    for (int i = 0; i <= step->nin; i++) args[i] = step->at[i]->at, strides[i] = step->at[i]->stride;
    step->loop(args, &n, strides, step->data);
}

static void take(const Program *self, const npy_int64 *rows, npy_intp n) {
    for (npy_intp end, start = 0; start < n; start = end) { /* so many rows stay in the first cache */
        end = start + 64 < n ? start + 64 : n;
        for (Py_ssize_t c = 0; c < self->n_columns; c++) {
            const npy_int64 *cells = (npy_int64 *)self->table.at + c;
            char *to = self->filled[c]->at;
            if (self->filled[c]->size == 1)
                for (npy_intp i = start; i < end; i++) to[i] = (char)cells[rows[i] * self->n_columns];
            else
                for (npy_intp i = start; i < end; i++) ((npy_int64 *)to)[i] = cells[rows[i] * self->n_columns];
        }
    }
}

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

/* run(sizes, rows): the leaves for these rows of the columns; without rows, of the steps of each run. None where the
   Python code is to run instead: NumPy would warn of a division, or a size is of another kind than the code's. */
static PyObject *program_run(Program *self, PyObject *args) {
    PyObject *sizes, *given, *out;
    Register rows = {0};
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &sizes, &given)) return NULL;
    if (given != Py_None && read_array(given, &rows) < 0) return NULL;
    if (PyTuple_GET_SIZE(sizes) != self->n_sizes || (given != Py_None && rows.type != 'l'))
        return PyErr_SetString(PyExc_ValueError, "a number for each size, and whole numbers of rows"), NULL;
    for (npy_intp i = 0; self->n_columns && i < rows.length; i++)
        if (((npy_uint64 *)rows.at)[i] >= (npy_uint64)(self->table.length / self->n_columns))
            return PyErr_SetString(PyExc_IndexError, "no such row"), NULL;
    for (Py_ssize_t i = 0; i < self->n_sizes; i++)
        if (!set_size(self->registers + i, PyTuple_GET_ITEM(sizes, i))) {
            if (PyErr_Occurred()) return NULL;
            Py_RETURN_NONE;
        }
    if (!(out = PyList_New(self->n_leaves))) return NULL;
    for (Py_ssize_t i = 0; i < self->n_leaves; i++) {
        Register *leaf = self->filled[self->n_columns + i];
        npy_intp length = given != Py_None ? rows.length : leaf->length;
        PyObject *array = PyArray_SimpleNew(1, &length, leaf->type == 'd' ? NPY_DOUBLE : leaf->type == 'l' ? NPY_INT64 : NPY_BOOL);
        if (!array) return Py_DECREF(out), NULL;
        PyList_SET_ITEM(out, i, array);
    }
    feclearexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    for (Step *step = self->steps; step < self->steps + self->n_once; step++) run_step(step, step->at[step->nin]->length);
    for (npy_intp start = 0; start < rows.length || (given == Py_None && !start); start += self->block) {
        npy_intp count = rows.length - start < self->block ? rows.length - start : self->block;
        take(self, (npy_int64 *)rows.at + start, given == Py_None ? 0 : count);
        for (Step *step = self->steps + self->n_once; step < self->steps + self->n_steps; step++) run_step(step, count);
        for (Py_ssize_t i = 0; i < self->n_leaves; i++) {
            Register *leaf = self->filled[self->n_columns + i];
            char *to = PyArray_BYTES((PyArrayObject *)PyList_GET_ITEM(out, i)) + start * leaf->size;
            give(leaf, to, given != Py_None ? count : leaf->length);
        }
    }
    if (!fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW)) return out;
    Py_DECREF(out);
    Py_RETURN_NONE;
}

/* allowed(held, kernels): the rows that all rules allow, one kernel's after the other's, and how many each rule removes.
   `held` has for each rule's combinations whether it holds, or one truth for all. Of a kernel the number of its rows, and
   its rules: a sentence, the place in `held`, and the combination of each row. */
static PyObject *allowed(PyObject *module, PyObject *args) {
    PyObject *held, *kernels, *lost = PyList_New(0), *out = NULL;
    npy_int64 *rows = NULL;
    npy_intp all = 0, kept = 0, start = 0, n;
    if (!lost || !PyArg_ParseTuple(args, "O!O!", &PyList_Type, &held, &PyList_Type, &kernels)) goto done;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(kernels); k++) {
        PyObject *rules;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(kernels, k), "nO!", &n, &PyList_Type, &rules)) goto done;
        all += n;
    }
    if (!(rows = PyMem_Malloc((all + 1) * sizeof(npy_int64)))) goto done;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(kernels); k++, start += n) {
        PyObject *rules;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(kernels, k), "nO!", &n, &PyList_Type, &rules)) goto done;
        npy_int64 *own = rows + kept;
        npy_intp left = n;
        int first = 1; /* while no rule has removed a row, they are all */
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rules); i++) {
            Register holds, which;
            PyObject *why, *combination, *count;
            Py_ssize_t at;
            if (!PyArg_ParseTuple(PyList_GET_ITEM(rules, i), "OnO", &why, &at, &combination)) goto done;
            if (at < 0 || at >= PyList_GET_SIZE(held) || read_array(PyList_GET_ITEM(held, at), &holds) < 0 ||
                read_array(combination, &which) < 0 || holds.type != '?' || which.type != 'h' || which.length != n) {
                if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a rule is truths, and a number for each row");
                goto done;
            }
            npy_intp stay = left;
            if (memchr(holds.at, 0, holds.length)) {
                const npy_uint16 *of = (npy_uint16 *)which.at;
                stay = 0;
                for (npy_intp j = 0; j < left; j++) { /* no branch: which rows stay is hard to foretell */
                    npy_int64 row = first ? j : own[j];
                    own[stay] = row;
                    stay += holds.at[of[row] * holds.stride] != 0;
                }
                first = 0;
            }
            count = PyLong_FromSsize_t(left - stay);
            if (!count || PyList_Append(lost, count) < 0) goto done;
            Py_DECREF(count);
            left = stay;
        }
        for (npy_intp j = 0; j < left; j++) own[j] = (first ? j : own[j]) + start;
        kept += left;
    }
    out = PyArray_SimpleNew(1, &kept, NPY_INT64);
    if (out) memcpy(PyArray_DATA((PyArrayObject *)out), rows, kept * sizeof(npy_int64));
done:
    PyMem_Free(rows);
    if (!out) return Py_XDECREF(lost), NULL;
    return Py_BuildValue("NN", out, lost);
}

static PyMethodDef PROGRAM[] = {{"run", (PyCFunction)program_run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyTypeObject ProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "carver.kernels._loops.Program", .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = program_new, .tp_dealloc = (destructor)program_free,
    .tp_methods = PROGRAM,
};
static PyMethodDef METHODS[] = {{"allowed", allowed, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, .m_name = "_loops", .m_size = -1, .m_methods = METHODS};

PyMODINIT_FUNC PyInit__loops(void) {
    import_array();
    import_umath();
    PyObject *module = PyModule_Create(&MODULE);
    if (!module || PyModule_AddType(module, &ProgramType) < 0) return Py_XDECREF(module), NULL;
    return module;
}
