"""What the evaluator of machine code says of CUDA kernels, against counts by hand. Needs nvcc and nvdisasm, no GPU."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import carver
from carver.arch.devices import load
from carver.base.errors import CompileError, DeviceError
from carver.compiled.binary import Binary
from carver.compiled.execution.facts import Execution, facts_of_binary
from carver.compiled.execution.lanes import Column, distinct, number
from carver.compiled.execution.launch import Launch
from carver.compiled.execution.leaps import _walk
from carver.compiled.execution.maps import shared_out
from carver.compiled.execution.overlaps import overlaps, uncovered
from carver.compiled.execution.program import ACCESSES, Program, passing_by
from carver.compiled.execution.roles import check_shared, waited, waits_met
from carver.compiled.execution.run import Drawn
from carver.compiled.execution.sass import decode, decoded
from carver.compiled.execution.tiles import Tile, Walks, spread, times
from carver.compiled.isa import sass
from carver.compiled.isa.banks import FURTHER, mean_passes
from carver.compiled.isa.code import Code, Instruction
from carver.compiled.isa.rates import demand, table, width_bytes
from carver.compiled.trace import sampled
from carver.cost.models.compiled import REWRITTEN, _rewritten, shape_of
from carver.integrations.source import binary as source_binary

SOURCE = """
extern "C" __global__ void grid_sum(const float* x, float* out, int n) {
    float total = 0;
#pragma unroll 1
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) total += x[i];
    if (total != 0) atomicAdd(out, total);
}
extern "C" __global__ void one_table(const float* x, float* y, int n) {
    float total = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += 128) total += x[i];
    y[blockIdx.x * 128 + threadIdx.x] = total;
}
#define LOOKED_UP(name, at) extern "C" __global__ void name(const unsigned* x, const unsigned* table, unsigned* y) { \\
    __shared__ unsigned held[256]; \\
    held[threadIdx.x] = table[threadIdx.x]; \\
    __syncthreads(); \\
    unsigned mine = x[threadIdx.x], ours = x[blockIdx.x]; \\
    y[threadIdx.x] = held[at] + mine + ours; \\
}
LOOKED_UP(anywhere_in_a_table, mine & 255)
LOOKED_UP(where_a_table_says, held[mine & 255] & 255)
LOOKED_UP(in_a_row_of_banks, mine & 31)
LOOKED_UP(in_a_bank_of_each_lane, (mine & 7) * 32 + threadIdx.x % 32)
LOOKED_UP(at_one_place, ours & 255)
extern "C" __global__ void in_a_table_in_l1(const unsigned* x, const unsigned* table, unsigned* y) {
    y[threadIdx.x] = table[x[threadIdx.x] & 255];
}
extern "C" __global__ void divided(const float* x, float* y, int height, int width) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int row = at / width, column = at % width;
    if (row >= height) return;
    float total = 0;
    for (int i = -1; i <= 1; ++i)
        if (row + i >= 0 && row + i < height && column + i >= 0 && column + i < width)
            total += x[(row + i) * width + column + i];
    y[at] = total;
}
extern "C" __global__ void turned(const float* x, float* y, int rows, int columns) {
    __shared__ float tile[32][32];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32;
    for (int i = threadIdx.y; i < 32; i += 8)
        if (r + i < rows && c < columns) tile[i][threadIdx.x] = x[(r + i) * columns + c];
    __syncthreads();
    int out = blockIdx.y * 32 + threadIdx.x, first = blockIdx.x * 32;
    for (int i = threadIdx.y; i < 32; i += 8)
        if (first + i < columns && out < rows) y[(first + i) * rows + out] = tile[threadIdx.x][i];
}
extern "C" __global__ void nested(const float* x, float* y, int outer, int inner) {
    float total = 0;
#pragma unroll 1
    for (int i = 0; i < outer; ++i)
#pragma unroll 1
        for (int j = 0; j < inner; ++j) total += x[(i * inner + j) * 128 + threadIdx.x];
    y[threadIdx.x] = total;
}
extern "C" __global__ void every_eighth(const float* x, float* y, int n) {
    float total = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) { total += x[i]; if (i % 8 == 3) y[i] = total; }
}
extern "C" __global__ void gathered(const float* x, const int* at, float* y, int n) {
    int i = threadIdx.x;
    y[i] = x[at[i]];
#pragma unroll 1
    for (int j = 0; j < at[n]; ++j) y[j * 32 + i] = j;
}
extern "C" __global__ void in_turn_by_a_list(const float* x, const int* at, float* y, int n) {
    float total = 0;
#pragma unroll 1
    for (int j = 0; j < n; ++j) total += x[at[j] + threadIdx.x];
    y[threadIdx.x] = total;
}
extern "C" __global__ void row_of_three(const float* x, const int* at, float* y) {
    int i = blockIdx.x * 256 + threadIdx.x, row = at[i];
    y[i] = x[3 * row] + x[3 * row + 1] + x[3 * row + 2];
}
extern "C" __global__ void row_of_four_lanes(const float* x, const int* at, float* y) {
    int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = x[at[i / 4]];
}
#define IN_A_ROW(name, words) extern "C" __global__ void name(float* y) { \\
    float* mine = y + (blockIdx.x * 256 + threadIdx.x) * words; \\
    _Pragma("unroll") for (int i = 0; i < words; ++i) mine[i] = threadIdx.x + i; \\
}
IN_A_ROW(four_in_a_row, 4)
IN_A_ROW(eight_in_a_row, 8)
extern "C" __global__ void sparse(float* y, const float* values, const int* columns, const float* x, int rows,
                                  int width) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float total = 0;
#pragma unroll 4
    for (int k = 0; k < width; ++k)
        if (columns[k * rows + row] >= 0) total += values[k * rows + row] * x[columns[k * rows + row]];
    y[row] = total;
}
extern "C" __global__ void picked(const float* x, const int* at, float* y) {
    int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = x[at[i]];
}
extern "C" __global__ void looked_up(const float* x, const short* at, float* y, int mask) {
    int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = x[at[i] & mask];
}
extern "C" __global__ void around_0(const float* x, const signed char* at, float* y) {
    int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = x[at[i] + 128];
}
extern "C" __global__ void one_by_one(const float* x, float* y, volatile int* flag, volatile float* sum, int sooner) {
    float before = 0.0f, own = x[blockIdx.x * 256 + threadIdx.x];
    if (threadIdx.x == 0) {
        if (sooner) flag[blockIdx.x] = 1;
        if (blockIdx.x % 64 > 0) {
            while (flag[blockIdx.x - 1] == 0) {}
            before = sum[blockIdx.x - 1];
        }
        sum[blockIdx.x] = before + own;
        __threadfence();
        flag[blockIdx.x] = 1;
    }
    y[blockIdx.x * 256 + threadIdx.x] = own + before;
}
extern "C" __global__ void to_and_fro(float* x, float* y, int n, int passes) {
    for (int pass = 0; pass < passes; pass++) {
        for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
            y[i] = 0.5f * x[i] + 1.0f;
        __syncthreads();
        float* read = x; x = y; y = read;
    }
}
extern "C" __global__ void of_own_row(const float* x, const short* at, float* y) {
    int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = x[i * 32 + (at[i] & 31)];
}
extern "C" __global__ void added_at(const int* at, float* y) {
    atomicAdd(y + at[blockIdx.x * 256 + threadIdx.x], 1.0f);
}
extern "C" __global__ void looks_up(const int* x, float* y, int rows) {
    __shared__ float held[1024];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    for (int e = t; e < 1024; e += 256) held[e] = e * 0.5f;
    __syncthreads();
    float total = 0;
    if (rows == 1) for (int k = 0; k < 16; ++k) total += held[x[i + 256 * k] & 1023];
    else for (int k = 0; k < 16; ++k) total += held[(x[k] & 31) * 32 + t % 32];
    y[i] = total;
}
__constant__ float few[256], many[1024];
#define WALKS(held, count) float total = threadIdx.x; for (int k = 0; k < count; ++k) total = total * 0.5f + held[k]; \
    y[blockIdx.x * 256 + threadIdx.x] = total
extern "C" __global__ void walks_few(float* y) { WALKS(few, 256); }
extern "C" __global__ void walks_many(float* y) { WALKS(many, 1024); }
extern "C" __global__ void walks_lines(float* y) {
    float total = threadIdx.x;
#pragma unroll 32
    for (int k = 0; k < 1024; ++k) total = total * 0.5f + many[k];
    y[blockIdx.x * 256 + threadIdx.x] = total;
}
extern "C" __global__ void swept(const float* x, float* y) {  // rows of 1 KB, eight lines of each in turn
    float total = 0;
#pragma unroll
    for (int k = 0; k < 64; ++k) total += x[(blockIdx.x * 256 + threadIdx.x) * 256 + k % 8 * 32 + k / 8];
    y[blockIdx.x * 256 + threadIdx.x] = total;
}
extern "C" __global__ void word_by_word(const float4* x, float* y, int n) {
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += 256) {
        float4 v = x[blockIdx.x * n + i];
        float* to = y + (blockIdx.x * n + i) * 4;
        to[3] = v.x, to[1] = v.z, to[0] = v.w, to[2] = v.y;
    }
}
extern "C" __global__ void rows_of_words(const float* x, float* y) {  // sixteen numbers a thread, one at a time
    float* to = y + (blockIdx.x * 256 + threadIdx.x) * 16;
#pragma unroll
    for (int i = 0; i < 16; i++) *(volatile float*)(to + i) = x[i];
}
extern "C" __global__ void coloured(const float* x, float* y) {  // cells of one colour of a chessboard
    int i = blockIdx.x * 256 + threadIdx.x;
    if ((threadIdx.x + blockIdx.x / 2) % 2 == 0) y[i] = x[i];
}
__constant__ int table[64];
extern "C" __global__ void of_constants(int* y, int mask) { y[threadIdx.x] = table[threadIdx.x & mask]; }
extern "C" __global__ void of_loaded_constants(const int* x, int* y) { y[threadIdx.x] = table[x[threadIdx.x] & 63]; }
extern "C" __global__ void pairs_in_turn(const float* x, float* y) {  // stores hold back the loads behind them
    float v = 0;
    for (int r = blockIdx.x * 8; r < blockIdx.x * 8 + 8; ++r) y[r * 32 + threadIdx.x] = v += x[r * 8] * x[r * 8 + 1];
}
extern "C" __global__ void tabled(float* y, int n) {
    float total = 0;
#pragma unroll 1
    for (int j = 0; j < table[n]; ++j) total += j;
    y[table[n + 1] + threadIdx.x] = total;
}
extern "C" __global__ void smoothed(const float* x, float* y) {
    int i = blockIdx.x * 256 + threadIdx.x + 1;
    y[i] = x[i - 1] + x[i] + x[i + 1];
}
extern "C" __global__ void crossed(const float* x, float* y, int wide) {
    int c = blockIdx.x * blockDim.x + threadIdx.x + 1, r = blockIdx.y * blockDim.y + threadIdx.y + 1, i = r * wide + c;
    y[i] = x[i - wide] + x[i - 1] + x[i] + x[i + 1] + x[i + wide];
}
extern "C" __global__ void seven_points(const float* x, float* y, int nx, int ny, int nz) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z * blockDim.z + threadIdx.z, p = (k * ny + j) * nx + i, plane = nx * ny;
    if (i > 0 && i < nx - 1 && j > 0 && j < ny - 1 && k > 0 && k < nz - 1)
        y[p] = x[p - 1] + x[p + 1] + x[p - nx] + x[p + nx] + x[p - plane] + x[p + plane] - 6 * x[p];
}
extern "C" __global__ void ringed(const float* x, float* y, int n) {
    __shared__ float held[96];
    float sum = 0;
#pragma unroll 1
    for (int i = 0, at = 0; i < n; ++i, at = at == 2 ? 0 : at + 1) {
        held[at * 32 + threadIdx.x] = x[i * 32 + threadIdx.x];
        __syncthreads();
        sum += held[at * 32 + (threadIdx.x ^ 1)];
    }
    y[threadIdx.x] = sum;
}
extern "C" __global__ void last_adds(const float* x, float* y, unsigned* count) {
    __shared__ bool last;
    y[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x == 0) last = atomicAdd(count, 1) == gridDim.x - 1;
    __syncthreads();
    if (last)
#pragma unroll 1
        for (int i = 0; i < 10; ++i) y[i * 32 + threadIdx.x] += 1;
}
extern "C" __global__ void looks_back(volatile int* flags, float* y) {
    int found = 0;
#pragma unroll 1
    for (int at = 100; at >= 0; --at) {
        found = flags[at];
        if (found) break;
    }
    y[threadIdx.x] = found;
}
extern "C" __global__ void flagged(volatile int* flag, float* y) {
    while (flag[blockIdx.x] == 0) {}
    y[threadIdx.x] = 1;
}
extern "C" __global__ void triangle(const float* x, float* y) {
    float total = 0;
#pragma unroll 1
    for (int j = 0; j < (int)blockIdx.x; ++j) total += x[j * 32 + threadIdx.x];
    y[(blockIdx.y * gridDim.x + blockIdx.x) * 32 + threadIdx.x] = total;
}
extern "C" __global__ void delayed(const float* x, float* y, int n) {
    float total = 0;
#pragma unroll 1
    for (int j = 0; j < n; ++j) total += x[j * 4096 + table[j & 63] + threadIdx.x];
    y[threadIdx.x] = total;
}
extern "C" __global__ void switched(const float* x, float* y, int mode) {
    float v = x[threadIdx.x];
    switch (mode) {
        case 0: v = v + 1; break;
        case 1: v = v * v; y[64] = v; break;
        case 2: v = 2 * v; break;
        case 3: v = v + 3; y[128] = v; y[192] = v; break;
        case 4: v = v * 4; break;
        case 5: v = 1 / v; y[256] = v; break;
        case 6: v = v - 6; break;
        case 7: v = v - 7; break;
    }
    y[threadIdx.x] = v;
}
extern "C" __global__ void from_a_counter(const float* x, float* y, int* counter, int tiles) {
    __shared__ int tile;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) tile = atomicAdd(counter, 1);
        __syncthreads();
        if (tile >= tiles) return;
        y[tile * 128 + threadIdx.x] = 2 * x[tile * 128 + threadIdx.x];
    }
}
extern "C" __global__ void grouped(const int* sizes, const float* x, float* y, int groups) {
    __shared__ int first[65];
    if (threadIdx.x == 0) {
        first[0] = 0;
        for (int g = 0; g < groups; ++g) first[g + 1] = first[g] + sizes[g];
    }
    __syncthreads();
    float total = 0;
    for (int i = first[blockIdx.x] + threadIdx.x; i < first[blockIdx.x + 1]; i += 128) total += x[i];
    y[blockIdx.x * 128 + threadIdx.x] = total;
}
extern "C" __global__ void of_one_length(const int* sizes, const float* x, float* y) {
    __shared__ int n;
    if (threadIdx.x == 0) n = sizes[blockIdx.x];
    __syncthreads();
    float total = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) total += x[i * 128 + threadIdx.x];
    y[blockIdx.x * 128 + threadIdx.x] = total;
}
extern "C" __global__ void root(const float* x, float* y) {
    float v = x[threadIdx.x], r = v;
    while (fabsf(r * r - v) > 1e-6f) r = 0.5f * (r + v / r);
    y[threadIdx.x] = r;
}
extern "C" __global__ void mandelbrot(int* y, int width, int height, int most) {
    int px = blockIdx.x * 32 + threadIdx.x, py = blockIdx.y, i = 0;
    float cx = px * 3.0f / width - 2, cy = py * 2.0f / height - 1, a = 0, b = 0;
    while (i < most && a * a + b * b < 4) {
        float t = a * a - b * b + cx;
        b = 2 * a * b + cy;
        a = t;
        ++i;
    }
    y[py * width + px] = i;
}
extern "C" __global__ void waved(const float* x, float* y) { y[threadIdx.x] = sinf(x[threadIdx.x]); }
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursive(int* y, int n) { y[threadIdx.x] = fibonacci(n); }
extern "C" __global__ void from_the_stack(float* y, int n) {
    int held[64];
    for (int j = 0; j < n; ++j) held[j % 64] = 3 * j;
    for (int j = 0; j < n; ++j) y[32 * held[7 * j % 64] + threadIdx.x] = j;
}
extern "C" __global__ void split(const float* x, float* y, double share, long long n) {
    long long last = (long long)ceil(n / share);
    float total = 0;
#pragma unroll 1
    for (long long i = 0; i < last; ++i) total += x[32 * i + threadIdx.x];
    y[threadIdx.x] = total;
}
extern "C" __global__ void planes(const float* x, float* y, int nx, int ny, int nz) {
    __shared__ float held[10][34];
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1, at = j * nx + i, plane = nx * ny;
    float below, here = x[at], above = x[plane + at];
    for (int k = 1; k < nz - 1; ++k) {
        below = here, here = above, above = x[(k + 1) * plane + at];
        __syncthreads();
        held[ty][tx] = here;
        if (threadIdx.x == 0 && i > 0) held[ty][0] = x[k * plane + at - 1];
        if (threadIdx.x == 31 && i < nx - 1) held[ty][33] = x[k * plane + at + 1];
        if (threadIdx.y == 0 && j > 0) held[0][tx] = x[k * plane + at - nx];
        if (threadIdx.y == 7 && j < ny - 1) held[9][tx] = x[k * plane + at + nx];
        __syncthreads();
        if (i > 0 && i < nx - 1 && j > 0 && j < ny - 1)
            y[k * plane + at] =
                held[ty][tx - 1] + held[ty][tx + 1] + held[ty - 1][tx] + held[ty + 1][tx] + below + above;
    }
}
extern "C" __global__ void cube(const float* x, float* y, int n) {
    int i = threadIdx.x, j = blockIdx.x, k = blockIdx.y, at = (k * n + j) * n + i;
    if (i > 0 && i < n - 1 && j > 0 && j < n - 1 && k > 0 && k < n - 1)
        y[at] = x[at - 1] + x[at + 1] + x[at - n] + x[at + n] + x[at - n * n] + x[at + n * n];
}
extern "C" __global__ void rows_of(const float4* table, const int* at, float4* y) {
    y[blockIdx.x * 64 + threadIdx.x] = table[(at[blockIdx.x] - 1) * 64 + threadIdx.x];
}
extern "C" __global__ void pointers(const float* table, const int* at, float* y) {
    __shared__ const float* held[32];
    held[threadIdx.x] = table + at[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = *held[31 - threadIdx.x];
}
extern "C" __global__ void hashed(const float* x, float* y, unsigned mask) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    y[i] = x[(i * 2654435761u ^ i * 40503u >> 3) & mask];
}
extern "C" __global__ void checked(const int* at, float* y) {
    if (at[blockIdx.x] < 0) __trap();
    y[threadIdx.x] = 1;
}
extern "C" __global__ void elected(int* counts, int n) {
    if (threadIdx.x % 32 == n) atomicAdd(counts + blockIdx.x % 16, 1);
}
extern "C" __global__ void counted(int* counts) { atomicAdd(counts + (blockIdx.x * 7 + threadIdx.x * 5) % 16, 1); }
extern "C" __global__ void pulled(const float* x, float* y, int n) {
    float total = y[blockIdx.x * 64 + threadIdx.x];
#pragma unroll 1
    for (int i = 0; i < n; i += 2)
#pragma unroll
        for (int j = 0; j < 8; ++j) total += x[4 * i + j];
    y[blockIdx.x * 64 + threadIdx.x] = total;
}
extern "C" __global__ void narrow(const unsigned char* x, float* y, int rows) {
    float total = 0;
#pragma unroll 1
    for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int j = 0; j < 8; ++j) total += x[r * 4096 + blockIdx.x * 128 + 16 * j + threadIdx.x];
    y[blockIdx.x * 16 + threadIdx.x] = total;
}
extern "C" __global__ void weighted(const float* x, const float* w, float* y) {
    int at = blockIdx.x * 64 + threadIdx.x;
    float v = x[at];
#pragma unroll
    for (int j = 0; j < 8; ++j) y[at + 4096 * j] = ((v * w[0] + w[1]) * v + w[2]) * v + w[3];
}
extern "C" __global__ void every_fourth(const float* x, float* y) { y[threadIdx.x] = x[4 * threadIdx.x]; }
extern "C" __global__ void from_the_second(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }
extern "C" __global__ void with_halo(const float* x, float* y, int n) {
    __shared__ float tile[132];
#pragma unroll 1
    for (int k = threadIdx.x; k < 132; k += 128) {
        int at = blockIdx.x * 128 + k - 2;
        tile[k] = at >= 0 && at < n ? x[at] : 0;
    }
    __syncthreads();
    y[blockIdx.x * 128 + threadIdx.x] = tile[threadIdx.x] + tile[threadIdx.x + 4];
}
extern "C" __global__ void quotients(float* y, int first, float by) { y[threadIdx.x] = (threadIdx.x + first) / by; }
extern "C" __global__ void chosen(float* y, const int* kind) {
    float v = y[threadIdx.x];
    switch (kind[threadIdx.x]) {
        case 0: v = sinf(v); break;
        case 1: v = expf(v); break;
        case 2: v = v * v; break;
        case 3: v = sqrtf(v); break;
        case 4: v = 1 / v; break;
        default: v = -v;
    }
    y[threadIdx.x] = v;
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void padded(const float4* x, float* y) {
    __shared__ float4 held[32 * 3];
    unsigned to = __cvta_generic_to_shared(held + threadIdx.x / 2 * 3 + threadIdx.x % 2);
    const float4* from = x + blockIdx.x * 64 + threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.wait_all;" ::"r"(to), "l"(from));
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = held[threadIdx.x].x;
}
#endif
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) of_pairs(float* y) {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (rank == 1) y[blockIdx.x * 32 + threadIdx.x] = 1;
}
extern "C" __global__ void in_bulk(const float* x, float* y, int count) {
    __shared__ __align__(128) float held[256];
    __shared__ unsigned long long full;
    unsigned bar = __cvta_generic_to_shared(&full), to = __cvta_generic_to_shared(held);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(bar));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
                         ::"r"(to), "l"(x + (blockIdx.x * count + i) * 256), "r"(bar) : "memory");
        }
        asm volatile("{.reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again;}"
                     ::"r"(bar), "r"(i & 1) : "memory");
        y[(blockIdx.x * count + i) * 128 + threadIdx.x] = held[threadIdx.x] + held[threadIdx.x + 128];
        __syncthreads();
    }
}
extern "C" __global__ void in_turns(const float* x, float* y) {
    __shared__ __align__(128) float held[128];
    __shared__ unsigned long long full;
    unsigned bar = __cvta_generic_to_shared(&full), to = __cvta_generic_to_shared(held + 4 * threadIdx.x);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(bar));
    }
    __syncthreads();
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
                 ::"r"(to), "l"(x + blockIdx.x * 128 + 4 * threadIdx.x), "r"(bar) : "memory");
    asm volatile("{.reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again;}"
                 ::"r"(bar) : "memory");
    y[blockIdx.x * 32 + threadIdx.x] = held[threadIdx.x];
}
#endif
template <int APART> __device__ void four(const float *x, float *y) {
    float a = x[0], b = x[1], c = x[2], d = x[3];
    float *to = y + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    to[0] = a, to[APART] = b, to[2 * APART] = c, to[3 * APART] = d;
}
extern "C" __global__ void in_fours(const float *x, float *y) { four<1>(x, y); }
extern "C" __global__ void in_four_rows(const float *x, float *y) { four<1024>(x, y); }
extern "C" __global__ void one_half(const float *x, float *y) {
    y[blockIdx.x * 8192 + threadIdx.x / 4 * 128 + threadIdx.x % 4] = x[0];
}
extern "C" __global__ void both_halves(const float *x, float *y) {
    y += blockIdx.x * 8192 + threadIdx.x / 4 * 128 + threadIdx.x % 4;
    y[0] = x[0], y[4] = x[1];
}
extern "C" __global__ void bordered(const float *x, float *y, int rows, int columns, int pitch) {
    float sum = 0;
    x += blockIdx.x * 32 + blockIdx.y * 16 * pitch;
#pragma unroll 1
    for (int j = threadIdx.y; j < rows; j += 8)
#pragma unroll 1
        for (int i = threadIdx.x; i < columns; i += 32) sum += x[j * pitch + i];
    y[(blockIdx.y * gridDim.x + blockIdx.x) * 256 + threadIdx.y * 32 + threadIdx.x] = sum;
}
extern "C" __global__ void three_planes(const float *x, float *y, int n, int deep) {
    int at = blockIdx.x * blockDim.x + threadIdx.x + n * blockIdx.y * deep;
    for (int z = 0; z < deep; z++, at += n) y[at] = x[at] + x[at + n] + x[at + 2 * n];
}
extern "C" __global__ void near_ones(const float *x, float *y) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0, r = x[at];
    if (r < 40.0f) {
        float inverse = 1.0f / (r + 2.0f), third = inverse * inverse * inverse;
        sum = inverse * third * (1.5f * third - 2.0f);
    }
    y[at] = sum;
}
#ifndef __HIP__  // AMD's exponential of doubles is in a library of ROCm
extern "C" __global__ void decayed(const double *x, double *y) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    y[at] = exp(-x[at]);
}
#endif
extern "C" __global__ void words_of_rows(const float *x, float *y, int words) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < words; i++) sum += x[row * words + i];
    y[row] = sum;
}
extern "C" __global__ void each_with_each(const float *x, float *y, int deep, int pitch) {
    int row = (int)((sqrtf(8.0f * blockIdx.x + 1.0f) - 1.0f) * 0.5f), column = blockIdx.x - row * (row + 1) / 2;
    float sum = 0;
    x += (blockIdx.y * deep + threadIdx.y) * pitch;
#pragma unroll 1
    for (int i = 0; i < deep; i += 4)
        sum += x[i * pitch + row * 32 + threadIdx.x] * x[i * pitch + column * 32 + threadIdx.x];
    y[((blockIdx.y * gridDim.x + blockIdx.x) * 4 + threadIdx.y) * 32 + threadIdx.x] = sum;
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void turning(const float *x, float *y, int n) {  // a ring of eight buffers
    __shared__ long long bars[8];
    float sum = 0;
    int s = 0, parity = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        asm volatile("{.reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again;}"
                     ::"r"((unsigned)__cvta_generic_to_shared(&bars[s])), "r"(parity) : "memory");
        sum += x[i * 32 + threadIdx.x];
        if (++s == 8) s = 0, parity ^= 1;
    }
    y[threadIdx.x] = sum;
}
#endif
"""
ARCH = {"sm_75": "t4", "sm_80": "a100", "sm_90": "h100", "sm_100": "b200", "sm_120": "rtx5090"}
NVCC = shutil.which("nvcc")
f32 = lambda *shape: carver.Tensor("float32", shape)  # noqa: E731
i32, i32_ = np.int32, lambda *shape: carver.Tensor("int32", shape)


def _disassembler() -> bool:
    try:
        return sass.tool().is_file()
    except DeviceError:
        return False


pytestmark = [
    pytest.mark.nvcc, pytest.mark.slow,
    pytest.mark.skipif(not NVCC or not _disassembler(), reason="no nvcc or no nvdisasm"),
]


@pytest.fixture(scope="module", params=[
    isa if isa in ("sm_75", "sm_120") else pytest.param(isa, marks=pytest.mark.exhaustive) for isa in ARCH
])  # fmt: skip
def cubin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    folder = tmp_path_factory.mktemp("execution")
    (folder / "k.cu").write_text(SOURCE)
    made = folder / "k.cubin"
    command = [str(NVCC), "-cubin", f"-arch={request.param}", "-o", str(made), str(folder / "k.cu")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode and "architecture" in ran.stderr:
        pytest.skip(f"this nvcc does not compile for {request.param}")
    assert not ran.returncode, ran.stderr
    return request.param, made.read_bytes()


@cache
def codes(data: bytes) -> dict[str, Code]:
    """All kernels of a cubin, by one call of the disassembler."""
    names = list(sass.kernels(data))
    return dict(zip(names, sass.read_many([data] * len(names), names), strict=True))


def executed(
    cubin: tuple[str, bytes], entry: str, grid: object, block: object, *args: object, **more: object
) -> Execution:
    isa, data = cubin
    values = more.pop("values", {})
    binary = Binary(data, entry, args, grid, block, **more)  # type: ignore[arg-type]
    code = codes(data)[entry]
    launch = Launch(binary, sass.kernels(data)[entry], values)  # type: ignore[arg-type]
    return Execution(code, Program(decoded(code)), launch, load(ARCH[isa]), 0)


def moved(of: Execution) -> dict[tuple[str, str], float]:
    """Bytes that lanes of the detailed blocks ask for, by kind and argument."""
    out: Counter[tuple[str, str]] = Counter()
    for event in of.detail.log:
        if event.kind == "global":
            op = of.program.ops[of.program.index[event.where]]
            lanes, address = spread(event)
            if len(lanes):
                place = of.launch.place_of(int(address[0]))
                assert place is not None
                out[op.access, place.name] += len(lanes) * op.width_bytes * times(event)
    return dict(out)


def most_passes(of: Execution) -> float:
    """Of the heads of loops, in the mean warp."""
    passes = of.detail.passes.mean(axis=(1, 2))
    return float(max(passes[n] for n in of.program.heads))


def test_a_loop_over_the_grid(cubin: tuple[str, bytes]) -> None:
    n, blocks = 1_000_000, 5
    of = executed(cubin, "grid_sum", blocks, 256, f32(n), f32(1), i32(n))
    assert moved(of)["load", "arg0"] == 4 * n
    # of warp w of block b: every blocks x 256 numbers from 256 b + 32 w on
    wanted = [math.ceil((n - 256 * b - 32 * w) / (blocks * 256)) for b in range(blocks) for w in range(8)]
    assert most_passes(of) == pytest.approx(np.mean(wanted))
    assert not of.detail.unknown


@pytest.mark.parametrize(("entry", "passes"), [("every_fourth", 4.0), ("from_the_second", 1.25)])
def test_loads_pass_over_the_banks_of_l1(cubin: tuple[str, bytes], entry: str, passes: float) -> None:
    """Words 16 bytes apart meet four to a bank. A row that begins inside a sector has five; L1 gives four a clock."""
    of = executed(cubin, entry, 1, 64, f32(512), f32(64))
    assert list(of.code.conflicts.values()) == [passes]


@pytest.mark.parametrize(("entry", "accesses"), [
    ("anywhere_in_a_table", 1), ("where_a_table_says", 2), ("in_a_table_in_l1", 1), ("in_a_row_of_banks", 0),
    ("in_a_bank_of_each_lane", 0), ("at_one_place", 0),
])  # fmt: skip
def test_lanes_that_loaded_numbers_send_anywhere_meet_in_banks(
    cubin: tuple[str, bytes], entry: str, accesses: int
) -> None:
    """As balls do in bins, of which the fullest counts; not where the code gives each lane, or word, its own bank."""
    words = [np.unique(row) % 32 for row in np.random.default_rng(0).integers(0, 256, (1000, 32))]
    fullest = np.mean([np.bincount(row).max() for row in words])
    of = executed(cubin, entry, 4, 256, i32_(256), i32_(256), i32_(256))
    assert list(of.code.conflicts.values()) == pytest.approx([fullest] * accesses, rel=0.15)


@pytest.mark.parametrize("words", [1, 4, 32])
def test_words_of_constant_memory_are_read_one_by_one(cubin: tuple[str, bytes], words: int) -> None:
    of = executed(cubin, "of_constants", 1, 64, f32(64), i32(words - 1))
    [read] = [i for i, each in enumerate(of.code.instructions) if each.opcode == "LDC" and "c[0x3]" in each.operands]
    assert of.code.conflicts.get(read, 1.0) == words
    if of.code.isa == "sm_90":
        as_one = replace(of.code, conflicts={})
        clk, one = (demand(code, [read], table("sm_90")).pipe_clk["adu"] for code in (of.code, as_one))
        assert clk == words * one


def test_constants_at_loaded_places_are_read_one_by_one(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "of_loaded_constants", 1, 64, i32_(64), f32(64))
    assert [passes > 16 for i, passes in of.code.conflicts.items() if of.code.instructions[i].opcode == "LDC"] == [True]


def test_a_warp_of_few_lanes_takes_few_passes() -> None:
    wide = Instruction(0, "", "LDG.E.128", "R4, desc[UR4][R2.64]")
    lanes, warp = np.arange(32), np.zeros(32, np.int64)
    assert mean_passes(wide, warp, lanes, 16 * lanes) == 1.0
    assert mean_passes(wide, warp[:8], lanes[:8], 16 * lanes[:8]) == 0.25  # one pass of four
    assert mean_passes(wide, warp[:0], lanes[:0], lanes[:0]) == 0.25
    load = Instruction(0, "", "LDG.E", "R4, desc[UR4][R2.64]")
    assert mean_passes(load, warp, lanes, 12 * lanes) == 1.5  # three lines, of which one more takes a quarter
    assert mean_passes(load, warp, lanes, 132 * lanes) == 8.0  # a line a lane, four of which L1 looks up in a clock
    load, taps = Instruction(0, "", "LDG.E", ""), 160 * lanes - 128  # from a row before the tensor's first one on
    assert mean_passes(load, warp, lanes, taps) == mean_passes(load, warp, lanes, taps + 4096) == 8.0
    both, apart = np.repeat([0, 1], 32), np.concatenate([16 * lanes, 128 * lanes])
    assert mean_passes(wide, both, np.tile(lanes, 2), apart, 2) == (4 + 32) / 4 / 2


def test_division_by_an_argument_and_ragged_edges(cubin: tuple[str, bytes]) -> None:
    height, width = 13, 37  # 481 threads in 4 blocks
    of = executed(cubin, "divided", 4, 128, f32(height * width), f32(height * width), i32(height), i32(width))
    taps = height * width + 2 * (height - 1) * (width - 1)
    assert moved(of) == {("load", "arg0"): 4 * taps, ("store", "arg1"): 4 * height * width}


@pytest.mark.parametrize("grid", [(4, 50, 19), (4, 950), (5, 760), (3, 1267)])
def test_blocks_of_which_all_threads_run_lie_evenly_across_the_grid(
    cubin: tuple[str, bytes], grid: tuple[int, ...]
) -> None:
    """Else all of them may lie at its ragged edge."""
    columns = 32 * grid[0] - 28
    of = executed(cubin, "turned", grid, (32, 8), f32(4096, columns), f32(columns, 4096), i32(4096), i32(columns))
    assert {*of.detail.block_ids % grid[0]} == {*range(grid[0])}


@pytest.mark.parametrize(("width", "height"), [(2048, 8), (512, 16), (128, 256)])
def test_runs_of_neighbours_have_different_columns(width: int, height: int) -> None:
    blocks, ranges = sampled(width * height, True, 264, (width, height, 1))
    first = np.array([blocks[start] for start, _ in ranges])
    assert len({*first % width}) == len(first)
    assert ({*first * len(first) // (width * height)}) == {*range(len(first))}  # one in each part


@pytest.mark.parametrize("grid", [(64, 64, 2), (64, 64, 3), (8, 7, 5), (8, 7, 64), (3, 1267, 7), (900, 1, 4)])
def test_runs_of_neighbours_are_blocks_of_the_grid_each_once(grid: tuple[int, int, int]) -> None:
    for least in (264, 1000):
        blocks, _ = sampled(math.prod(grid), True, least, grid)
        assert len({*blocks}) == len(blocks) == min(math.prod(grid), least) and {*blocks} <= {*range(math.prod(grid))}


def test_a_tensor_may_have_maps_of_several_boxes() -> None:
    load, store, wide, flat = "UTMALDG", "UTMASTG", (64, 64), (64,)

    def shared(copies: list[tuple[int, str] | None], *shapes: tuple[int, ...]) -> list[int]:
        return shared_out(copies, shapes, [(0, 0)] * len(copies))

    assert shared([(2, load), (1, load), (2, store)], wide, flat, wide) == [0, 1, 2]
    assert shared([(2, load), (2, load), (1, load), (2, store)], wide, flat, wide) == [0, 0, 1, 2]
    assert shared([(2, load), (2, load), (2, store), None], wide, wide) == [0, 0, 1, 1]
    assert shared([(2, load), (1, load)], wide, wide) == []


def test_boxes_begin_within_their_tensors() -> None:
    """The one row of weights is copied before what the second argument holds."""
    load, wide, row = (2, "UTMALDG"), (64, 64), (64, 1)
    copies, reach = [load, load, load, (2, "UTMASTG")], [(32, 62), (32, 0), (32, 62), (32, 62)]
    assert shared_out(copies, [wide, wide, row, wide], reach) == [0, 2, 1, 3]
    assert shared_out(copies, [wide, row, wide, wide], reach) == [0, 1, 2, 3]
    assert shared_out(copies, [row, row, wide, wide], reach) == [0, 1, 2, 3]  # beyond any: in their order


def test_conflicts_of_banks(cubin: tuple[str, bytes]) -> None:
    rows, columns = 64, 96
    of = executed(cubin, "turned", (3, 2), (32, 8), f32(rows, columns), f32(columns, rows), i32(rows), i32(columns))
    assert moved(of) == {("load", "arg0"): 4 * rows * columns, ("store", "arg1"): 4 * rows * columns}
    assert set(of.code.conflicts.values()) == {32.0}  # a column of a tile of 32 x 32 words is in one bank


def test_loops_in_loops_leap(cubin: tuple[str, bytes]) -> None:
    outer, inner = 300, 40
    of = executed(cubin, "nested", 1, 128, f32(outer * inner * 128), f32(128), i32(outer), i32(inner))
    assert most_passes(of) == outer * inner
    assert moved(of)["load", "arg0"] == 4 * outer * inner * 128
    assert len(of.detail.log) < 1000  # of 12,000 passes
    facts = of.facts()
    assert facts.read_bytes == pytest.approx(4 * outer * inner * 128)
    assert [round(loop.trips) for loop in facts.loops][-1] == outer * inner


def test_two_turns_of_a_ring_are_enough(cubin: tuple[str, bytes]) -> None:
    if cubin[0] in ("sm_75", "sm_80"):
        pytest.skip("no waits in hardware")
    turns = 100
    passes = 1 + 8 * turns
    of = executed(cubin, "turning", 1, 32, f32(32 * passes), f32(32), i32(passes))
    assert most_passes(of) == passes
    assert moved(of)["load", "arg0"] == 4 * 32 * passes
    run = [event for event in of.detail.log if event.kind == "global" and not event.walks]
    assert len(run) <= 1 + 8 * 3 + 1  # two turns, the last one, and the store


def test_shared_memory_is_looked_at_until_passes_are_left_out(cubin: tuple[str, bytes]) -> None:
    """Behind them places in a ring lie as if it did not go round: 33 products that ran on an H100 were refused."""
    run = executed(cubin, "ringed", 1, 32, f32(32 * 500), f32(32), i32(500)).detail
    check_shared(run, 384)
    with pytest.raises(CompileError, match="reaches byte 384 of shared memory, of which a block has 380"):
        check_shared(run, 380)
    [far, *_] = (event for event in run.log if event.kind == "shared")
    far = far._replace(values=(Column(far.values[0].bits + 4096),))
    left_out = next(i for i, event in enumerate(run.log) if event.walks)
    log = run.log
    run.log = [*log[: left_out + 1], far, *log[left_out + 1 :]]
    check_shared(run, 384)
    run.log = [far, *log]
    with pytest.raises(CompileError, match="of which a block has 384"):
        check_shared(run, 384)


def test_what_is_needed_of_the_code_is_found_once(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "nested", 1, 128, f32(40 * 128), f32(128), i32(10), i32(4))
    assert of.wide.blocks is of.program.sliced(ACCESSES)


def test_a_condition_on_the_low_bits_of_a_counter_is_not_leapt_over(cubin: tuple[str, bytes]) -> None:
    n = 1003
    of = executed(cubin, "every_eighth", 1, 32, f32(n), f32(n), i32(n))
    asked = moved(of)
    assert asked["store", "arg1"] == 4 * 32 * len(range(3, n, 8))
    assert asked["load", "arg0"] == 4 * 32 * n


def test_loaded_numbers_are_unknown_until_they_are_given(cubin: tuple[str, bytes]) -> None:
    at = carver.Tensor("int32", (33,))
    args = (f32(1000), at, f32(4096), i32(32))
    of = executed(cubin, "gathered", 1, 32, *args, names=("x", "at", "y", "n"))
    assert of.detail.assumed
    [lost] = [tile for tile in of.tiles if tile.anywhere]  # of x; at and y are known
    assert (lost.kind, lost.tile_bytes, lost.executions, lost.run_bytes) == ("load", 128.0, 1.0, 4.0)
    [access] = [access for access in of.facts().accesses if access.anywhere]
    assert (access.argument, access.program_bytes, access.fetched) == ("x", 128.0, 8.0)  # a sector for each number
    held = np.arange(33)[::-1].copy()
    held[32] = 7
    of = executed(cubin, "gathered", 1, 32, *args, names=("x", "at", "y", "n"), values={"at": held})
    assert not of.detail.assumed
    assert moved(of) == {("load", "x"): 128, ("load", "at"): 128 + 128 * 8, ("store", "y"): 128 + 128 * 7}


def test_a_predicate_in_later_passes_stays_or_has_no_walk() -> None:
    yes, no = Column(np.array([True, True])), Column(np.array([True, False]))
    assert _walk([yes, yes, yes]) == 0
    assert _walk([yes, no, yes]) is None


def test_addresses_are_known_behind_conditions_that_are_not(cubin: tuple[str, bytes]) -> None:
    """Half of the blocks end at once; the others load all that lies behind a test of a loaded number."""
    rows, width = 128 * 40, 8
    ints = carver.Tensor("int32", (width, rows))
    args = (f32(rows), f32(width, rows), ints, f32(1000), i32(rows), i32(width))
    facts = executed(cubin, "sparse", 80, 128, *args, names=("y", "values", "columns", "x", "", "")).facts()
    asked = Counter[str]()
    for access in facts.accesses:
        asked[access.argument] += access.program_bytes * facts.programs  # type: ignore[assignment]
        assert access.anywhere == (access.argument == "x")
    entries = 4 * rows * width
    assert asked == pytest.approx({"values": entries, "columns": entries, "x": entries, "y": 4 * rows})


def test_constants_by_symbol(cubin: tuple[str, bytes]) -> None:
    held = np.zeros(64, np.int32)
    held[5], held[6] = 123, 1000
    of = executed(cubin, "tabled", 1, 32, f32(2000), i32(5), constants={"table": held})
    assert most_passes(of) == 123
    [tile] = of.tiles
    assert tile.start % (1 << 40) == 4000


def test_what_neighbours_load_again_is_asked_for_once(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "smoothed", 1000, 256, f32(256 * 1000 + 2), f32(256 * 1000 + 2))
    assert moved(of)["load", "arg0"] == 3 * 4 * 256 * len(of.detail.block_ids)
    facts = of.facts()
    assert facts.bytes_of("load") == pytest.approx(33 * 32, rel=0.01)  # sectors; L1 answers the others
    assert facts.read_bytes == pytest.approx(4 * 256 * 1000, rel=0.01)


@pytest.mark.parametrize("block", [(32, 2), (32, 4), (32, 8), (32, 16), (64, 4)])
def test_bytes_of_a_stencil_in_two_dimensions_depend_on_no_block(cubin: tuple[str, bytes], block: object) -> None:
    """Of what blocks above and below have in common, and of sectors that the next block fills, L2 is rid of nothing
    before they come: three rows of blocks, of 2,048 numbers each, hold far less than it."""
    wide, (bx, by) = 2050, block  # type: ignore[misc]
    tensor = carver.Tensor("float32", (wide, wide))
    facts = executed(cubin, "crossed", (2048 // bx, 2048 // by), block, tensor, tensor, np.int32(wide)).facts()
    arch = load(ARCH[cubin[0]])
    assert facts.read_bytes == pytest.approx(4 * 2048**2, rel=0.01)
    assert sum(again for again, meanwhile in facts.reuse if meanwhile > 2**20) == 0
    assert _rewritten(facts, arch, 2.0**20) == 1.0


@pytest.mark.parametrize("block", [(64, 4, 1), (32, 4, 2)])
def test_planes_of_a_stencil_come_back_after_a_few_planes(cubin: tuple[str, bytes], block: tuple[int, ...]) -> None:
    """Loads of the planes above and below are those of other blocks, one plane of blocks away."""
    n = 512
    tensor, grid = carver.Tensor("float32", (n, n, n)), tuple(n // side for side in block)
    facts = executed(cubin, "seven_points", grid, block, tensor, tensor, *[np.int32(n)] * 3).facts()
    assert facts.read_bytes == pytest.approx(4 * n**3, rel=0.01)
    planes = 4.0 * n * n * 5 * block[2]  # three or four are read while one is written
    assert sum(again for again, meanwhile in facts.reuse if meanwhile > 2 * planes) < 0.15 * facts.read_bytes
    [store] = [access for access in facts.accesses if access.kind == "store"]
    assert store.run_bytes == 4 * block[0]  # looked at in the middle of planes, not at their edges


def test_tiles_that_lie_alike_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten loads as far from each other in all blocks, as those of a stencil, cover the same places, moved."""
    asked: list[int] = []

    def counted(bits: np.ndarray) -> np.ndarray:
        asked.append(bits.size)
        return distinct(bits)

    monkeypatch.setattr("carver.compiled.execution.overlaps.distinct", counted)
    block = np.arange(8)
    zero, one = np.zeros(8, np.int64), np.ones(8, np.int64)
    found = [
        (Tile(n, "load", "pointer", None, 128.0, units=np.arange(32)),
         Walks(4096 * block + at, zero, one, one, block, zero, one))
        for n, at in enumerate((0, 4, 8, 12, 16, 20, 48, 76, 160, 168))
    ]  # fmt: skip
    behind = {1: 4, 2: 8, 3: 12, 4: 16, 5: 20, 6: 48, 7: 76, 9: 8}
    assert overlaps(found, np.arange(8), (8, 1, 1)) == {n: (at, 128.0) for n, at in behind.items()}
    assert asked == [8, 8 * 32]


@pytest.mark.parametrize("apart", [1, 7, 1 << 20])
def test_marks_tell_what_a_sort_tells(apart: int) -> None:
    some = apart * np.random.default_rng(0).integers(-900, 900, (64, 32))
    assert np.array_equal(distinct(some), np.unique(some))


def test_what_depends_on_loads_is_found_in_one_walk(cubin: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a slice for each rare branch, attention in CUDA C++ took a fifth of a second for them alone."""
    sliced: list[int] = []
    monkeypatch.setattr(Program, "_needed", lambda self, roots, whole="": sliced.append(len(roots)))
    ops = decoded(sass.read(cubin[1], "waved"))
    rare = {i for i, op in enumerate(ops) if op.rare}
    assert rare and rare == Program(ops).loaded(sorted(rare)) and not sliced
    passing_by(ops)
    assert not sliced


def test_fewer_blocks_tell_of_very_many_walks(cubin: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    given = cubin, "one_table", 600, 128, f32(4096), f32(600 * 512), i32(4096)
    every = executed(*given)
    monkeypatch.setattr("carver.compiled.execution.facts.MOST_WALKS", 1)
    some = executed(*given)
    assert (len(every.wide.block_ids), len(some.wide.block_ids)) == (600, 132)
    assert some.facts().read_bytes == pytest.approx(every.facts().read_bytes, rel=0.01)


def test_planes_of_a_stencil_count_once() -> None:
    """Of four planes, those above and below share three with them, those beyond two planes that are new; and none of
    those that lie at other distances in other blocks."""
    block, plane = np.arange(8), 1 << 20
    zero, one = np.zeros(8, np.int64), np.ones(8, np.int64)
    units = (np.arange(4)[:, None] * plane // 4 + np.arange(64)).ravel()
    starts = [16 * plane + 256 * block + at * plane for at in (0, -1, 1, 2)] + [16 * plane + 512 * block]
    found = [(Tile(n, "load", "pointer", None, 1024.0, units=units), Walks(start, zero, one, one, block, zero, one))
             for n, start in enumerate(starts)]  # fmt: skip
    assert uncovered(found) == {0: 1.0, 1: 0.25, 2: 0.25, 3: 0.25}


def test_an_sm_has_no_more_blocks_than_the_grid_gives_it(cubin: tuple[str, bytes]) -> None:
    """By an H200's counters, of 128 blocks that all read one table nothing is found in L1, though twelve fit an SM
    (`matched_16kx8192` in tests/data/h200): an SM has one."""
    sms = load(ARCH[cubin[0]]).sm_count
    for each, shared in ((1, 1.0), (4, 0.25)):
        found = executed(cubin, "one_table", each * sms, 128, f32(4096), f32(sms * 512), i32(4096)).facts()
        asked = 4 * 4096 * each * sms
        assert found.resident >= 4 and found.sm_reuse[-1][1] / asked == pytest.approx(shared, rel=0.06)


def test_places_that_are_told_fetch_the_sectors_that_they_are_in(cubin: tuple[str, bytes]) -> None:
    """256 numbers in a row, or of every second, third or fourth, after those of the block before; or in any order, when
    they lie anywhere."""
    step = 1 + np.arange(100) % 4
    at = ((np.cumsum(256 * step) - 256 * step)[:, None] + step[:, None] * np.arange(256)).ravel()
    for places, lost in ((at, False), (np.random.default_rng(1).permutation(at), True)):
        args = f32(64000), i32_(25600), f32(25600)
        named = {"names": ("x", "at", "y"), "values": {"at": places}}
        facts = executed(cubin, "picked", 100, 256, *args, **named).facts()
        [load] = [a for a in facts.accesses if (a.kind, a.argument) == ("load", "x")]
        assert load.anywhere is lost
        if not lost:
            assert load.program_bytes * load.fetched == pytest.approx(4 * 256 * 2.5, rel=0.25)  # by six blocks
            assert facts.read_bytes - 4 * 25600 == pytest.approx(4 * 64000, rel=0.25)


def test_a_small_table_at_unknown_places_is_in_l1(cubin: tuple[str, bytes]) -> None:
    """All blocks of an SM read 128 numbers, which its L1 gets once."""
    count = 256 * 16 * load(ARCH[cubin[0]]).sm_count
    facts = executed(cubin, "looked_up", count // 256, 256, f32(128), carver.Tensor("int16", (count,)), f32(count),
                     i32(127)).facts()  # fmt: skip
    asked = facts.fetched_bytes("load") * facts.programs
    assert asked > 28 * count and facts.sm_reuse[1][1] < 5 * count  # a sector a lane, but for those that meet by chance


def test_short_numbers_that_are_told_have_their_sign(cubin: tuple[str, bytes]) -> None:
    """From -128 on, 4 in a row: of a tensor of 256 no more is read than it has."""
    named = {"names": ("x", "at", "y"), "values": {"at": np.arange(1024) % 256 - 128}}
    args = f32(256), carver.Tensor("int8", (1024,)), f32(1024)
    facts = executed(cubin, "around_0", 4, 256, *args, **named).facts()
    [load] = [a for a in facts.accesses if (a.kind, a.argument) == ("load", "x")]
    assert (load.anywhere, load.run_bytes, facts.beyond) == (False, 1024.0, ())
    assert facts.read_bytes == 4 * 256 + 1024


@pytest.mark.parametrize(("sooner", "most"), [(0, 63), (1, 0)])
def test_blocks_that_wait_for_the_one_before_go_on_one_by_one(cubin: tuple[str, bytes], sooner: int, most: int) -> None:
    """In rows of 64, which go side by side; not where a block says that it is there before it waits itself."""
    args = f32(128 * 256), f32(128 * 256), i32_(128), f32(128), i32(sooner)
    assert executed(cubin, "one_by_one", 128, 256, *args).facts().handed_on == most


@pytest.mark.parametrize("length", [4096, 2048])
def test_tensors_that_change_places_are_told_apart(cubin: tuple[str, bytes], length: int) -> None:
    """Both are read and written by the same two instructions; of one that is too short its own bytes are told."""
    facts = executed(cubin, "to_and_fro", 4, 256, f32(length), f32(length), i32(4096), i32(4)).facts()
    assert all(last <= 4.0 * 4096 for _, last, _ in facts.beyond) and bool(facts.beyond) is (length < 4096)


def test_rows_that_are_known_tell_what_blocks_choose_among(cubin: tuple[str, bytes]) -> None:
    """One number of 32 in each row of its own, whichever it is: blocks that run together choose among their rows."""
    blocks = 64 * load(ARCH[cubin[0]]).sm_count
    args = f32(blocks * 256 * 32), carver.Tensor("int16", (blocks * 256,)), f32(blocks * 256)
    facts = executed(cubin, "of_own_row", blocks, 256, *args).facts()
    [(_, size, near)] = facts.anywhere
    assert near / size == pytest.approx(facts.resident / 64, rel=0.3)


def test_lanes_of_known_atomics_meet_as_they_do(cubin: tuple[str, bytes]) -> None:
    """Half of the lanes of each warp add to one number, the others each to one of its own: 16 turns at that sector and
    the three beside it, and one at the others."""
    lane = np.arange(25600)
    at = np.where(lane % 2, 8 * (lane // 2), 0)
    args = i32_(25600), f32(8 * 12800)
    facts = executed(cubin, "added_at", 100, 256, *args, names=("at", "y"), values={"at": at}).facts()
    alone = executed(cubin, "added_at", 100, 256, *args, names=("at", "y"), values={"at": 8 * (lane // 2)}).facts()
    assert facts.atomic_turns > 0.9 and facts.atomic_crowd > 0.4
    assert alone.atomic_crowd == 0.0 and alone.atomic_bytes > 2.0**15  # though neighbours are in one run of L2


def test_blocks_of_unequal_work_in_a_large_grid(cubin: tuple[str, bytes]) -> None:
    across, down = 64, 300  # of which 4,224 blocks are run, and only a few of those in all threads
    of = executed(cubin, "triangle", (across, down), 32, f32(64, 32), f32(across * down, 32))
    facts = of.facts()
    assert np.isin(of.detail.block_ids, of.wide.block_ids).all()
    assert len(of.wide.block_ids) < across * down
    assert max(loop.trips for loop in facts.loops) == pytest.approx((across - 1) / 2, rel=0.02)
    assert facts.bytes_of("load") == pytest.approx(128 * (across - 1) / 2, rel=0.02)


@pytest.mark.parametrize(("mode", "written"), [(0, 64), (1, 65), (3, 66), (5, 65), (9, 64)])
def test_a_branch_through_a_table_of_addresses(cubin: tuple[str, bytes], mode: int, written: int) -> None:
    facts = executed(cubin, "switched", 1, 64, f32(64), f32(512), i32(mode)).facts()
    assert (facts.written_bytes, facts.assumed) == (4 * written, False)


def test_a_loop_over_tiles_from_a_counter_ends(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "from_a_counter", 8, 128, f32(12800), f32(12800), carver.Tensor("int32", (1,)), i32(100))
    facts = of.facts()
    assert facts.assumed  # that blocks take them in their order
    assert max(loop.trips for loop in facts.loops) == pytest.approx(13.5)
    assert facts.bytes_of("load") == 100 * 128 * 4 / 8


def test_what_threads_stored_to_shared_memory_is_known(cubin: tuple[str, bytes]) -> None:
    sizes, lengths = np.arange(64) * 16, carver.Tensor("int32", (64,))
    named = {"names": ("sizes", "x", "y", "groups"), "values": {"sizes": sizes}}
    of = executed(cubin, "grouped", 64, 128, lengths, f32(int(sizes.sum())), f32(8192), i32(64), **named)
    facts = of.facts()
    assert not facts.assumed
    assert facts.bytes_of("load") == pytest.approx(4 * sizes.mean() + 4 * 64, rel=0.15)  # and its 64 sizes
    named = {"names": ("sizes", "x", "y"), "values": {"sizes": np.full(64, 500)}}
    facts = executed(cubin, "of_one_length", 64, 128, lengths, f32(64000), f32(8192), **named).facts()
    assert (facts.assumed, facts.read_bytes) == (False, 4 * (64000 + 64))
    assert max(loop.trips for loop in facts.loops) == 500
    named["values"] = {}
    facts = executed(cubin, "of_one_length", 64, 128, lengths, f32(64000), f32(8192), **named).facts()
    assert facts.assumed


def test_a_loop_that_waits_for_another_block_ends(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "flagged", 1, 32, carver.Tensor("int32", (1,)), f32(32))
    assert of.detail.assumed
    assert moved(of)["store", "arg1"] == 128


def test_what_other_blocks_write_is_there(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "looks_back", 1, 32, i32_(101), f32(32))
    assert [loop.trips for loop in of.facts().loops] == [1.0]
    assert of.detail.assumed


def test_the_last_block_adds_up(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "last_adds", 5, 32, f32(32), f32(160), i32_(1))
    assert of.detail.passes.max(axis=(0, 2)).tolist() == [1, 1, 1, 1, 10]
    assert of.facts().assumed  # which block is the last


def test_a_loop_that_ends_by_what_is_loaded_runs_once(cubin: tuple[str, bytes]) -> None:
    facts = executed(cubin, "root", 1, 32, f32(32), f32(32)).facts()  # and is not taken for a rare path of its division
    assert ([loop.trips for loop in facts.loops], facts.assumed) == ([1.0], True)


def test_the_path_of_a_sine_for_large_arguments_is_not_run(cubin: tuple[str, bytes]) -> None:
    facts = executed(cubin, "waved", 1, 32, f32(32), f32(32)).facts()
    assert (facts.loops, facts.bytes_of("load")) == ((), 128)


def ran(of: Execution, opcode: str) -> list[Instruction]:
    """Instructions that some warp ran."""
    runs, block_of = of.detail.passes.any(axis=(1, 2)), of.program.block_of
    return [each for i, each in enumerate(of.code.instructions) if each.mnemonic == opcode and runs[block_of[i]]]


def test_a_quotient_under_a_condition_is_run_but_for_its_slow_path(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "near_ones", 4, 256, f32(1024), f32(1024))
    assert ran(of, "MUFU") and not ran(of, "CALL")


def test_an_exponential_is_scaled_once(cubin: tuple[str, bytes]) -> None:
    doubles = carver.Tensor("float64", (1024,))
    of = executed(cubin, "decayed", 4, 256, doubles, doubles)
    assert not [each for each in ran(of, "FSETP") if "4.2275390625" in each.operands]


def test_rows_that_lanes_read_word_after_word_are_fetched_once(cubin: tuple[str, bytes]) -> None:
    words, rows = 64, 64 * 256
    facts = executed(cubin, "words_of_rows", 64, 256, f32(rows, words), f32(rows), i32(words)).facts()
    fetched = sum(a.program_bytes * a.fetched for a in facts.accesses if a.kind == "load")
    assert fetched == pytest.approx(256 * words * 4, rel=0.05)


def test_tiles_of_rows_and_columns_meet_as_they_are(cubin: tuple[str, bytes]) -> None:
    deep, side, many = 256, 4, 600
    args = f32(many, deep, side * 32), f32(many * side * (side + 1) * 64), i32(deep), i32(side * 32)
    facts = executed(cubin, "each_with_each", (side * (side + 1) // 2, many), (32, 4), *args).facts()
    assert sum(bytes_ for bytes_, _ in facts.reuse) < 0.1 * facts.read_bytes


def test_a_loop_that_ends_by_floats_which_are_known(cubin: tuple[str, bytes]) -> None:
    width, height, most = 128, 6, 64
    of = executed(cubin, "mandelbrot", (4, height), 32, i32_(height, width), i32(width), i32(height), i32(most))
    place = lambda n, of, size: np.float32(n) * np.float32(of) / np.float32(size)  # noqa: E731
    c = (place(np.arange(width), 3, width) - 2) + 1j * (place(np.arange(height), 2, height) - 1)[:, None]
    z, passes = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(most):
        inside = abs(z) < 2
        passes, z = passes + inside, np.where(inside, z * z + c, z)
    wanted = passes.reshape(height, 4, 32).max(axis=2).mean()  # a warp runs until its last lane is done
    assert max(loop.trips for loop in of.facts().loops) == pytest.approx(wanted, rel=0.05)
    assert not of.facts().assumed


def test_calls_within_calls(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "recursive", 1, 32, i32_(32), i32(6))
    assert not of.detail.unknown
    passes = set(of.detail.passes.mean(axis=(1, 2)))
    assert 25 in passes or {12, 13} <= passes  # calls: 2 fibonacci(n + 1) - 1; compilers make loops of some
    assert moved(of) == {("store", "arg0"): 128}


def test_numbers_from_an_array_on_the_stack(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "from_the_stack", 1, 32, f32(6400), i32(64))
    assert moved(of) == {("store", "arg0"): 128 * 64}
    assert of.facts().written_bytes == 128 * 64


def test_a_count_by_division_of_doubles(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "split", 1, 32, f32(900, 32), f32(32), np.float64(3), np.int64(900))
    assert (most_passes(of), of.detail.assumed) == (300, set())


def test_a_number_that_a_predicate_makes_matter_is_not_followed_elsewhere() -> None:
    lines = [("", "FFMA", "R14, R5, R6, R14"), ("!P0", "IADD3", "R14, R2, 0x20, RZ"),
             ("", "ISETP.LE.AND", "P0, PT, R14, R3, !P0"), ("P0", "BRA", "0x0"), ("", "EXIT", "")]  # fmt: skip
    code = [Instruction(16 * i, *line, target=0 if line[1] == "BRA" else None) for i, line in enumerate(lines)]
    first = Program([decode(each) for each in code]).sliced(())[0]
    assert [op.address for op in first.ops] == [0x10, 0x20]
    assert first.live == {"P0", "R2", "R3"}


def test_what_passes_by_a_call_is_not_taken_for_what_comes_out_of_it() -> None:
    lines = [("CALL.REL", "0x70"), ("IADD3", "R9, R9, R5, RZ"), ("FFMA", "R7, R5, R6, R7"), ("CALL.REL", "0x70"),
             ("ISETP.LT.AND", "P0, PT, R9, R3, PT"), ("BRA", "0x0"), ("EXIT", ""),
             ("IADD3", "R5, R4, 0x1, RZ"), ("RET.REL", "R20")]  # fmt: skip
    code = [
        Instruction(16 * i, "P0" if op == "BRA" else "", op, rest, target={"CALL.REL": 0x70, "BRA": 0}.get(op))
        for i, (op, rest) in enumerate(lines)
    ]
    program = Program([decode(each) for each in code])
    followed = {op.address for block in program.sliced(()) for op in block.ops}
    assert followed == {0x10, 0x40, 0x70}  # not the sum of products, which passes by both calls
    assert "R7" not in program.sliced(())[0].live


def test_code_under_a_guard_does_not_hold_up_a_loop(cubin: tuple[str, bytes]) -> None:
    nx, ny, nz = 96, 24, 200
    of = executed(cubin, "planes", (3, 3), (32, 8), f32(nz, ny, nx), f32(nz, ny, nx), i32(nx), i32(ny), i32(nz))
    assert not of.program.keeps  # no address depends on what is in shared memory
    assert len(of.detail.log) < 4000  # of 198 passes with 50 events each
    assert of.facts().written_bytes == pytest.approx(4 * (nx - 2) * (ny - 2) * (nz - 2), rel=0.01)


def test_edges_of_what_a_large_grid_covers_have_their_share(cubin: tuple[str, bytes]) -> None:
    n = 128
    of = executed(cubin, "cube", (n, n), n, f32(n, n, n), f32(n, n, n), i32(n))  # 16,384 blocks
    assert of.facts().bytes_of("store") * n * n == pytest.approx(4 * (n - 2) ** 3, rel=0.02)


def test_loads_beside_each_other_share_sectors(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "narrow", 32, 16, carver.Tensor("uint8", (100, 4096)), f32(512), i32(100))
    loads = [access for access in of.facts().accesses if access.kind == "load"]
    assert [access.run_bytes for access in loads] == [16.0] * 8
    first = [load.program_bytes for load in loads if load.program_bytes]
    assert first == [16.0 * 100] * 4  # of two that share a sector one fetches it


@pytest.mark.parametrize(("entry", "written"), [("in_fours", 1.0), ("in_four_rows", 4.0)])
def test_stores_that_fill_a_sector_one_behind_another_leave_l1_once(
    cubin: tuple[str, bytes], entry: str, written: float
) -> None:
    of = executed(cubin, entry, 32, 256, f32(4), f32(1 << 17))
    moved = sum(a.program_bytes * a.fetched for a in of.facts().accesses if a.kind == "store")
    assert moved == pytest.approx(4096.0 * written)


def test_sectors_that_stores_fill_together_are_written_once(cubin: tuple[str, bytes]) -> None:
    both, one = (_rewritten(executed(cubin, entry, 32, 256, f32(4), f32(1 << 18)).facts(), load("h200"), 0.0)
                 for entry in ("both_halves", "one_half"))  # fmt: skip
    assert both < 2.0 < one == 1.0 + REWRITTEN


def test_each_pass_of_a_tile_and_its_border_has_its_own_threads(cubin: tuple[str, bytes]) -> None:
    across, down, pitch = 16, 32, 16 * 32 + 32
    args = f32(down * 16 + 2, pitch), f32(across * down * 256), i32(18), i32(34), i32(pitch)
    of = executed(cubin, "bordered", (across, down), (32, 8), *args)
    assert of.facts().read_bytes == pytest.approx(4 * (down * 16 + 2) * (across * 32 + 2), rel=0.2)
    assert of.facts().bytes_of("load") == pytest.approx(4 * 18 * 34, rel=0.15)


def test_loads_that_fetch_in_the_same_passes_wait_together() -> None:
    fresh = [1 / 3] * 3 + [0.0] * 9
    assert waited([(100.0, 2.0, fresh, 1 / 3)]) == pytest.approx(1 / 6)
    assert waited([(100.0, 2.0, fresh, 1.0)]) == pytest.approx(1 / 2)


def test_loads_that_fetch_one_behind_another_wait_together() -> None:
    assert waits_met(1.0, [1.0, 1.0, 0.0]) == waits_met(2.0, [1.0, 0.0, 0.0]) == 1.0 and waits_met(2.0, []) == 0.0
    assert waits_met(2.0, [1.0, 0.0, 0.0, 1.0]) == 2.0 and waits_met(2.0, [0.5, 0.25, 0.0, 0.0]) == 0.5


def test_words_in_turn_wait_for_l1_as_often_as_one_of_them_fetches(cubin: tuple[str, bytes]) -> None:
    """Eight pairs of words in a sector each, all of which wait: half of the words hit L1, and none of the waits is for
    these alone."""
    loads = [a for a in executed(cubin, "pairs_in_turn", 64, 32, f32(64 * 8, 8), f32(64 * 8, 32)).facts().accesses
             if a.kind == "load"]  # fmt: skip
    assert max(a.stride_bytes for a in loads) == pytest.approx(32.0, rel=0.05)


def test_the_first_pass_of_a_short_loop_finds_nothing_in_l1(cubin: tuple[str, bytes]) -> None:
    """Of three planes that a pass adds up the next one finds two."""
    n = 1 << 14
    facts = executed(cubin, "three_planes", (n // 256, 8), 256, f32(n * 18), f32(n * 16), i32(n), i32(2)).facts()
    assert facts.bytes_of("load") == pytest.approx(256 * 4 * (3 + 1), rel=0.02)


def test_words_beside_each_other_at_a_loaded_place_share_sectors(cubin: tuple[str, bytes]) -> None:
    n = 1 << 16
    facts = executed(cubin, "row_of_three", n // 256, 256, f32(3 * n), i32_(n), f32(n)).facts()
    asked = [access.program_bytes * access.fetched for access in facts.accesses if access.argument == "arg0"]
    assert sum(asked) == pytest.approx(256 * 32 * (1 + 2 / 8), rel=0.02)  # where in a sector a row begins is chance


def test_lanes_that_loaded_one_word_look_at_one_place(cubin: tuple[str, bytes]) -> None:
    n = 1 << 16
    facts = executed(cubin, "row_of_four_lanes", n // 256, 256, f32(n), i32_(n // 4), f32(n)).facts()
    assert [access.program_bytes for access in facts.accesses if access.argument == "arg0"] == [256 * 4 / 4]


def test_loaded_words_are_drawn_until_what_depends_on_them_is_met(cubin: tuple[str, bytes]) -> None:
    """A loop over 1,000 words that tell where to load is not gone through to its end."""
    of = executed(cubin, "in_turn_by_a_list", 1, 32, f32(1 << 16), i32_(1000), f32(32), i32(1000))
    [lost] = (tile for tile in of.tiles if tile.anywhere)
    address = of.program.ops[lost.index].address
    first, whole = (Drawn(of.detail, ("global",), {address: times}) for times in (1, 10_000))
    kinds = [[event.kind for event in run.log if event.where == address].count("global") for run in (first, whole)]
    assert kinds[0] == 1 < kinds[1] and first.done < whole.done


@pytest.mark.parametrize(("entry", "words", "sectors"), [("four_in_a_row", 4, 1), ("eight_in_a_row", 8, 8)])
def test_stores_in_turn_fill_sectors_where_a_warp_is_in_few(
    cubin: tuple[str, bytes], entry: str, words: int, sectors: int
) -> None:
    """`sectors`: written for each that is filled."""
    n = 256 * 64 * words
    stores = executed(cubin, entry, 64, 256, f32(n)).facts().accesses
    asked = [access.program_bytes * access.fetched for access in stores]
    assert sum(asked) == pytest.approx(256 * words * 4 * sectors)


def test_tiles_of_other_forms_lie_anywhere(cubin: tuple[str, bytes]) -> None:
    count = 1 << 20
    of = executed(cubin, "hashed", count // 256, 256, f32(count), f32(count), np.uint32(count - 1))
    [load] = [access for access in of.facts().accesses if access.kind == "load"]
    assert (load.anywhere, load.run_bytes, load.program_bytes) == (True, 4.0, 1024.0)
    assert load.fetched == pytest.approx(8.0, rel=1e-2)  # two lanes of the blocks that are looked at may share a sector


def test_a_check_that_stops_the_kernel_holds(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "checked", 1, 32, i32_(1), f32(32))
    assert (of.detail.assumed, moved(of)["store", "arg1"]) == (set(), 128)


def test_columns_of_tensor_memory_are_taken() -> None:
    class Registers(dict[str, Column]):
        notes, taken = True, 0

        def set(self, name: str, value: Column | None) -> None:
            self[name] = value  # type: ignore[assignment]

        def takes_columns(self, runs: Column) -> None:
            self.taken = 32 * int(runs.bits[0])

    held = Registers({"UR5": number(2)})
    operation = decode(Instruction(0, "", "UTCATOMSWS.FIND_AND_SET.ALIGN", "UP0, UR6, UR5"))
    assert operation.run is not None
    operation.run(held)
    assert (held.taken, bool(held["UP0"].bits[0])) == (64, True)


def test_adds_that_meet_are_asked_for_each(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "counted", 64, 256, i32_(256))
    [add] = [access for access in of.facts().accesses if access.kind == "atomic"]
    assert (add.program_bytes, add.run_bytes) == (1024.0, 4.0)  # 256 threads, on 16 counters
    facts = executed(cubin, "elected", 64, 256, i32_(16), i32(5)).facts()
    assert shape_of(facts, load("h100")).atomic_sectors == pytest.approx(8.0)  # a lane of each warp


def test_a_load_waits_for_what_l1_does_not_hold(cubin: tuple[str, bytes]) -> None:
    of = executed(cubin, "pulled", 4, 64, f32(4096, 4), f32(256), i32(4096))
    loads = [access for access in of.facts().accesses if access.loop >= 0]
    # of eight loads that are issued together one fetches their sector, and all wait for it
    assert sum(load.program_bytes for load in loads) == pytest.approx(4 * 4096 / 2, rel=0.02)
    assert {load.stride_bytes / max(load.span_bytes, 32.0) for load in loads} == {1.0}
    assert waited([(10.0, 8.0, [1.0] + [0.0] * 7, 1.0)]) == 1 / 8  # where each waits for the one before it


def test_numbers_that_a_store_may_have_changed_are_read_again_from_l1(cubin: tuple[str, bytes]) -> None:
    facts = executed(cubin, "weighted", 64, 64, f32(4096), f32(4), f32(8, 4096)).facts()
    loads = [access for access in facts.accesses if access.kind == "load"]
    assert len(loads) == 33 and {load.loop for load in loads} == {-1}
    # each store of y may have changed w, so the code waits for w eight times; only the first time L1 does not hold it,
    # or for two, where the fifth load fetches: four each are taken to wait together
    [fresh] = {load.stride_bytes / max(load.span_bytes, 32.0) for load in loads}
    assert 1 / 10 <= fresh <= 1 / 7 or fresh == pytest.approx(1 / 4, rel=0.03)


def test_rows_at_loaded_places_are_of_a_tensor(cubin: tuple[str, bytes]) -> None:
    rows, picked = 100_000, 2048
    args = (f32(rows, 256), carver.Tensor("int32", (picked,)), f32(picked, 256))
    facts = executed(cubin, "rows_of", picked, 64, *args, names=("table", "at", "y")).facts()
    [access] = [access for access in facts.accesses if access.anywhere]
    assert (access.argument, access.program_bytes, access.fetched) == ("table", 1024.0, 1.0)
    assert facts.read_bytes == pytest.approx(1024 * picked, rel=0.03)  # few of the rows are picked twice


def test_a_pointer_through_shared_memory_is_of_a_tensor(cubin: tuple[str, bytes]) -> None:
    args = (f32(4096), carver.Tensor("int32", (32,)), f32(32))
    of = executed(cubin, "pointers", 1, 32, *args, names=("table", "at", "y"))
    [access] = [access for access in of.facts().accesses if access.anywhere]
    assert (access.argument, access.program_bytes) == ("table", 128.0)


@pytest.mark.parametrize(("rows", "passes"), [(1, 3.5), (32, 1.0)])
def test_words_of_a_table_that_lanes_have_loaded_meet_in_banks(
    cubin: tuple[str, bytes], rows: int, passes: float
) -> None:
    """32 words at random places take 3.5 passes: an H200 takes 3.4 clocks for such look-ups in a cipher's tables. Where
    all lanes have loaded the same row, each reads its own bank."""
    code = executed(cubin, "looks_up", 64, 256, i32_(64 * 256 * 16), f32(64 * 256), i32(rows)).code
    loads = [i for i, each in enumerate(code.instructions) if each.mnemonic == "LDS"]
    met = [code.conflicts[i] for i in loads if i in code.conflicts]
    assert bool(met) == (passes > 1.0) and (not met or np.mean(met) == pytest.approx(passes, abs=0.2))
    code = executed(cubin, "looked_up", 64, 256, f32(256), carver.Tensor("int16", (64 * 256,)), f32(64 * 256),
                    i32(255)).code  # fmt: skip
    assert max(code.conflicts.values()) == pytest.approx(3.3, abs=0.4)  # of L1, which has the same banks


def test_blocks_read_no_less_than_nothing(cubin: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sum of delays, what was looked at said more for each block than all read: its time was no number."""
    monkeypatch.setattr("carver.compiled.footprint.Footprint.touched_by", lambda self, group: 1e15)
    facts = executed(cubin, "one_table", 264, 128, f32(4096), f32(264 * 512), i32(4096)).facts()
    assert facts.near_bytes >= 0.0 and all(read >= 0.0 for _, read in facts.sm_reuse)


def test_what_is_read_again_beyond_what_l1_holds_is_fetched_each_time(cubin: tuple[str, bytes]) -> None:
    """Seven other lines of all threads' rows come before the next word of one, 224 KB a block: lists of 24 neighbours
    beside each other (`warp_springs` in `languages_tenth.jsonl.gz`, tests/data/h200) had 0.2 of the counted bytes of
    L2 where only what was fetched came between."""
    sms = load(ARCH[cubin[0]]).sm_count

    def asked(blocks: int) -> float:
        facts = executed(cubin, "swept", blocks, 256, f32(blocks * 65_536), f32(blocks * 256)).facts()
        return sum(a.program_bytes for a in facts.accesses if a.kind == "load")

    assert asked(16 * sms) == pytest.approx(64 * 1024, rel=0.05)


def test_stores_of_a_pass_that_fill_a_sector_together_leave_no_gaps(cubin: tuple[str, bytes]) -> None:
    """Recurrences of 4 and 8 numbers a lane were said to write 16 and 64 times what they store, and take as long
    (`cuda_recurred` in `languages_eleventh.jsonl.gz`, tests/data/h200)."""
    facts = executed(cubin, "word_by_word", 1024, 256, f32(1 << 20, 4), f32(1 << 22), i32(1024)).facts()
    stores = [a for a in facts.accesses if a.kind == "store"]
    assert stores and all(a.density * a.filled == pytest.approx(1.0, abs=0.01) for a in stores)


def test_stores_of_words_that_lie_apart_fill_lines_in_part(cubin: tuple[str, bytes]) -> None:
    """Sixteen in a row, so that each store has two sectors of 16 lines; cells of 19 numbers were said to take 0.66 of
    their time (`cuda_lattice19` in `languages_tenth.jsonl.gz`, tests/data/h200). Four in a row are joined by L1."""
    facts = executed(cubin, "rows_of_words", 1024, 256, f32(16), f32(1 << 22)).facts()
    assert shape_of(facts, load(ARCH[cubin[0]])).partial_lines == pytest.approx(8 * 16 * (16 + 16 * FURTHER))
    joined = executed(cubin, "word_by_word", 1024, 256, f32(1 << 20, 4), f32(1 << 22), i32(1024)).facts()
    assert not shape_of(joined, load(ARCH[cubin[0]])).partial_lines


def test_blocks_whose_threads_take_turns_are_all_seen(cubin: tuple[str, bytes]) -> None:
    """Half of the blocks of a relaxation by colours had no tile: `cuda_redblack` in `languages_eleventh.jsonl.gz`."""
    facts = executed(cubin, "coloured", 1024, 256, f32(1 << 18), f32(1 << 18)).facts()
    assert [a.program_bytes for a in facts.accesses] == [pytest.approx(512.0)] * 2


def test_constants_beyond_their_cache_are_fetched_by_each_warp(cubin: tuple[str, bytes]) -> None:
    """An H200 takes 5.65 ms for points in a polygon of 4,800 bytes (`languages_sixth.jsonl.gz`), 1.6 without that; and
    for 216 taps that a pass reads side by side, of 16 lines, 22 to 33 clocks a line (`_eleventh`)."""
    def held(name: str, blocks: int) -> float:
        facts = executed(cubin, name, blocks, 256, f32(256 * blocks)).facts()
        return sum(loop.trips * loop.span.pipe_clk.get("constants", 0.0) for loop in facts.loops) * facts.warps

    code = codes(cubin[1])["walks_many"].instructions
    reads = [each for each in code if re.search(r"c\[0x3\]\[UR\d+", each.operands)]
    sms = load(ARCH[cubin[0]]).sm_count
    assert held("walks_few", 8 * sms) == 0.0
    if reads:  # else by registers of lanes
        every = 8 * 25.0 * 1024 * 4 / width_bytes(reads[0].opcode)
        assert 0.7 * every < held("walks_many", 8 * sms) < every
        assert held("walks_many", sms) < 0.25 * every  # a lone block's warps find what others of it just read
        lines = 8 * 25.0 * 1024 * 4 / 64
        assert 0.7 * lines < held("walks_lines", 8 * sms) < lines


def test_addresses_from_a_table_do_not_hold_up_a_loop(cubin: tuple[str, bytes]) -> None:
    n, held = 5000, np.random.default_rng(3).integers(0, 2048, 64).astype(np.int32)
    of = executed(cubin, "delayed", 1, 64, f32(n + 1, 4096), f32(64), i32(n), constants={"table": held})
    assert most_passes(of) == n
    assert moved(of)["load", "arg0"] == 4 * 64 * n
    assert len(of.detail.log) < 2000  # of 5,000 passes


@pytest.mark.parametrize(
    ("opcode", "operands", "given", "wanted"),
    [
        ("IMAD.HI.U32", "R8, P1, R7, R6, R8", {"R7": -1, "R6": -1, "R8": 0, "R9": 2}, {"R8": 0, "P1": True}),
        ("IMAD.HI.U32", "R8, R7, R6, R8", {"R7": 1 << 31, "R6": 6, "R8": 0, "R9": 10}, {"R8": 13}),
        ("IMAD.WIDE", "R8, R7, 0x10, R4", {"R7": 0xFFFFFFFF, "R4": 0x30, "R5": 1}, {"R8": 0x20, "R9": 1}),
        ("LEA.HI", "R24, P4, R32, R17, RZ, 0x3", {"R32": 7 << 29, "R17": 0xFFFFFFFC}, {"R24": 3, "P4": True}),
        ("LEA.HI.SX32", "R3, R4, R5, 0x1b", {"R4": 0xFFFFFFE0, "R5": 10}, {"R3": 9}),
        ("IADD3", "R3, P0, R4, -R5, RZ", {"R4": 5, "R5": 3}, {"R3": 2, "P0": True}),
        ("IADD3", "R3, P0, R4, -R5, RZ", {"R4": 3, "R5": 5}, {"R3": 0xFFFFFFFE, "P0": False}),
        ("SHF.R.S64", "R3, R4, 0x4, R5", {"R4": 0x20, "R5": 0xFFFFFFFF}, {"R3": 0xF0000002}),
        ("SHF.L.U64.HI", "R3, R4, 0x4, R5", {"R4": 0xF0000000, "R5": 1}, {"R3": 0x1F}),
        ("LOP3.LUT", "P0, RZ, R4, 0x7, RZ, 0xc0, !PT", {"R4": 8}, {"P0": False}),
        ("PRMT", "R3, R4, 0x5410, R5", {"R4": 0x11112222, "R5": 0x33334444}, {"R3": 0x44442222}),
        ("SGXT", "R3, R4, 0x8", {"R4": 0x80}, {"R3": 0xFFFFFF80}),
        ("FLO.U32", "R3, R4", {"R4": 0x1000}, {"R3": 12}),
        ("I2F.U64.RP", "R3, R4", {"R4": 1, "R5": 1}, {"R3": 0x4F800001}),
        ("F2I.U64.TRUNC", "R4, R3", {"R3": 0x4F800001}, {"R4": 512, "R5": 1}),
        ("HFMA2", "R5, -RZ, RZ, 0, 2.384185791015625e-07", {}, {"R5": 4}),
        ("R2P", "PR, R5, 0x5", {"R5": 0x4}, {"P0": False, "P2": True}),
        ("ISETP.LT.AND", "P0, PT, R4, R5, PT", {"R4": 0xFFFFFFFF, "R5": 0}, {"P0": True}),
        ("ISETP.LT.U32.AND", "P0, PT, R4, R5, PT", {"R4": 0xFFFFFFFF, "R5": 0}, {"P0": False}),
        ("IMNMX", "R3, R4, R5, PT", {"R4": 0xFFFFFFFF, "R5": 7}, {"R3": 0xFFFFFFFF}),
        ("VIMNMX.U32", "R0, PT, PT, R4, 0x2, PT", {"R4": 7}, {"R0": 2}),
        ("VIADDMNMX", "R3, R4, 0x5, R6, !PT", {"R4": 4, "R6": 7}, {"R3": 9}),
        ("VIADDMNMX.U32", "R3, R4, -0x5, R6, PT", {"R4": 4, "R6": 7}, {"R3": 7}),
        ("IADD.64", "R2, R4, -0x1", {"R4": 0, "R5": 1}, {"R2": 0xFFFFFFFF, "R3": 0}),
        ("VABSDIFF", "R7, R6, R5, RZ", {"R6": 2, "R5": 0xFFFFFFFF}, {"R7": 3}),
        ("VABSDIFF.U32", "R7, R6, R7, 0x5", {"R6": 2, "R7": 0xFFFFFFFF}, {"R7": 2}),
        ("MOV.64", "R2, 0x10000000000000", {}, {"R2": 0, "R3": 0x100000}),
        ("IADD.64", "R2, R4, -0x200000001", {"R4": 3, "R5": 7}, {"R2": 2, "R3": 5}),
        ("ISETP.GT.U64.AND", "P0, PT, R2, 0x100000000, PT", {"R2": 5, "R3": 0}, {"P0": False}),
        ("IADD.64", "R2, R4, -R6", {"R4": 0, "R5": 1, "R6": 1, "R7": 0}, {"R2": 0xFFFFFFFF, "R3": 0}),
        ("IMNMX.S64", "PT, PT, R4, R2, R6, !PT, !PT", {"R2": 5, "R3": 0, "R6": 9, "R7": -1}, {"R4": 5, "R5": 0}),
        ("IMNMX.U64", "PT, PT, R4, R2, R6, PT, !PT", {"R2": 5, "R3": 0, "R6": 9, "R7": -1}, {"R4": 5, "R5": 0}),
        ("ISETP.GT.U64.AND", "P0, PT, R2, R6, PT", {"R2": 5, "R3": 0, "R6": 9, "R7": -1}, {"P0": False}),
        ("FSETP.GEU.AND", "P0, PT, |R4|, 2, PT", {"R4": 0xC0000000}, {"P0": True}),
        ("FSETP.LT.AND", "P0, PT, R4, 2, PT", {"R4": 0x7FC00000}, {"P0": False}),  # not a number
        ("FMNMX", "R3, -R4, R5, !PT", {"R4": 0x40000000, "R5": 0x3F800000}, {"R3": 0x3F800000}),
        ("FFMA", "R3, R4, 4, -1", {"R4": 0x3F800000}, {"R3": 0x40400000}),
        ("DFMA", "R2, R4, 3, R6", {"R4": 0, "R5": 0x3FF00000, "R6": 0, "R7": 0x3FF00000}, {"R2": 0, "R3": 0x40100000}),
        ("DSETP.GT.AND", "P0, PT, R4, 0.5, PT", {"R4": 0, "R5": 0x3FF00000}, {"P0": True}),
        ("I2F.F64.U32", "R4, R2", {"R2": 3}, {"R4": 0, "R5": 0x40080000}),
        ("F2I.S64.F64.CEIL", "R2, R4", {"R4": 0, "R5": 0xC0040000}, {"R2": 0xFFFFFFFE, "R3": 0xFFFFFFFF}),
        ("F2F.F32.F64", "R3, R4", {"R4": 0, "R5": 0x40080000}, {"R3": 0x40400000}),
        ("FRND.FLOOR", "R3, R4", {"R4": 0x40600000}, {"R3": 0x40400000}),
        ("IDP.4A.S8.S8", "R3, R4, R5, R6", {"R4": 0x0102FF04, "R5": 0x01010101, "R6": 10}, {"R3": 16}),
    ],
)
def test_integer_instructions(opcode: str, operands: str, given: dict[str, int], wanted: dict[str, int | bool]) -> None:
    class Registers(dict[str, Column]):
        notes = True

        def set(self, name: str, value: Column | None) -> None:
            self[name] = value  # type: ignore[assignment]

        def note(self, address: int, how: str, *values: Column) -> None:
            assert values

    held = Registers({name: number(value) for name, value in given.items()})
    op = decode(Instruction(0, "", opcode, operands))
    assert op.run is not None
    op.run(held)
    assert wanted.keys() == op.writes
    found = {name: held[name].bits.item() for name in wanted}
    assert found == wanted
    held = Registers()  # nothing is known
    if op.reads:
        op.run(held)
        columns = [held[name] for name in wanted]
        assert all(each is None or (each.known is not None and not each.known.any()) for each in columns)


def test_an_instruction_without_a_rule_is_named_and_poisons_its_result(cubin: tuple[str, bytes]) -> None:
    isa, data = cubin
    code = codes(data)["tabled"]
    named = [
        each._replace(opcode="FROB") if each.mnemonic in ("S2R", "S2UR", "LDC", "ULDC", "LDCU") else each
        for each in code.instructions
    ]
    binary = Binary(data, "tabled", (f32(2000), i32(5)), 1, 32)
    launch = Launch(binary, sass.kernels(data)["tabled"], {})
    of = Execution(code, Program(decoded(replace(code, instructions=tuple(named)))), launch, load(ARCH[isa]), 0)
    assert of.detail.unknown["FROB"] >= 1
    assert [tile.place for tile in of.tiles] == [None]
    assert any("FROB" in line for line in of.facts().notes)


def test_arguments_that_are_not_the_kernels(cubin: tuple[str, bytes]) -> None:
    with pytest.raises(CompileError, match="3 parameters"):
        facts_of_binary(Binary(cubin[1], "grid_sum", (f32(8),), 1, 32), load(ARCH[cubin[0]]))


def test_the_edge_of_a_tile_is_read_once(cubin: tuple[str, bytes]) -> None:
    facts = executed(cubin, "with_halo", 8192, 128, f32(1 << 20), f32(1 << 20), i32(1 << 20)).facts()
    assert facts.read_bytes == pytest.approx(4 << 20, rel=0.05)
    assert facts.bytes_of("load") == pytest.approx(4 * 132, rel=0.1)


def test_quotients_of_0_take_their_slow_path(cubin: tuple[str, bytes]) -> None:
    done = [executed(cubin, "quotients", 1, 32, f32(32), i32(first), np.float32(3.0)).detail.done for first in (0, 1)]
    assert done[0] > done[1]


def test_of_a_switch_on_what_is_loaded_one_case_runs(cubin: tuple[str, bytes]) -> None:
    facts = executed(cubin, "chosen", 1, 32, f32(32), carver.Tensor("int32", (32,))).facts()
    assert (facts.written_bytes, facts.assumed) == (128, True)


def test_blocks_of_a_cluster_know_their_rank(cubin: tuple[str, bytes]) -> None:
    if "of_pairs" not in sass.kernels(cubin[1]):
        pytest.skip(f"{cubin[0]} has no clusters")
    facts = executed(cubin, "of_pairs", 64, 32, f32(2048)).facts()
    assert (facts.ctas, facts.written_bytes) == (2, 32 * 128)


def test_copies_of_runs_of_bytes(cubin: tuple[str, bytes]) -> None:
    if "in_bulk" not in sass.kernels(cubin[1]):
        pytest.skip(f"{cubin[0]} has no copies of this kind")
    facts = executed(cubin, "in_bulk", 16, 128, f32(16 * 10 * 256), f32(16 * 10 * 128), i32(10)).facts()
    assert (facts.read_bytes, facts.written_bytes) == (16 * 10 * 1024, 16 * 10 * 512)
    assert [loop.trips for loop in facts.loops] == [10.0]
    assert [(a.path, a.program_bytes) for a in facts.accesses if a.kind == "load"] == [("bulk", 10240.0)]


def test_lanes_that_copy_one_by_one(cubin: tuple[str, bytes]) -> None:
    if "in_turns" not in sass.kernels(cubin[1]):
        pytest.skip(f"{cubin[0]} has no copies of this kind")
    of = executed(cubin, "in_turns", 64, 32, f32(64 * 128), f32(64 * 32))
    [copy] = [i for i, each in enumerate(of.code.instructions) if each.mnemonic == "UBLKCP"]
    assert (of.detail.passes[of.program.block_of[copy]] == 32).all()
    assert of.facts().read_bytes == 64 * 128 * 4


def test_a_copy_asks_for_a_sector_once_for_each_32_bytes_that_it_goes_to(cubin: tuple[str, bytes]) -> None:
    """Rows of 32 bytes, every other one of which begins in the middle of 32 bytes of shared memory: counters on an H200
    have 1.50 times what is asked for."""
    if "padded" not in sass.kernels(cubin[1]):
        pytest.skip(f"{cubin[0]} has no copies of this kind")
    load, store = executed(cubin, "padded", 256, 64, f32(256 * 256), f32(256 * 64)).facts().accesses
    assert (load.program_bytes, load.fetched) == (1024.0, 1.5)
    assert (store.program_bytes, store.fetched) == (256.0, 1.0)


@pytest.mark.skipif(NVCC is None, reason="no nvcc")
@pytest.mark.parametrize(("n", "passes"), [(1 << 31, 1 << 13), (1 << 33, 1 << 15)])
def test_what_is_divided_by_the_threads_of_a_grid_is_whole(n: int, passes: int) -> None:
    """The code for a dividend beyond 32 bits is a call of its own, which is followed since all is known."""
    source = """extern "C" __global__ void share(const float* x, float* y, long long n) {
        long long threads = (long long)gridDim.x * blockDim.x, at = blockIdx.x * (long long)blockDim.x + threadIdx.x;
        float sum = 0;
        #pragma unroll 1
        for (long long k = 0; k < n / threads; k++) sum += x[at + k * threads];
        y[at] = sum; }"""
    arch = load("h200")
    args = (f32(n), f32(1 << 18), np.int64(n))
    made = source_binary(carver.Kernel(source, "share"), {}, args=args, grid=1024, block=256, arch=arch)
    facts = facts_of_binary(made, arch)
    assert [loop.trips for loop in facts.loops] == [passes]
    assert facts.read_bytes == 4 * n


@pytest.mark.skipif(NVCC is None, reason="no nvcc")
@pytest.mark.parametrize("by", [1, 3])
def test_long_unsigned_numbers_are_divided_by_one_as_by_others(by: int) -> None:
    """The reciprocal of 1 is just below 2^64."""
    source = """extern "C" __global__ void times(const float* x, float* y, unsigned long long n, unsigned long long by,
                                                 unsigned long long less) {
        float sum = 0;
        #pragma unroll 1
        for (unsigned long long k = 0; k < n / by - less; k++) sum += x[k * 32 + threadIdx.x];
        y[threadIdx.x] = sum; }"""
    arch, n = load("h200"), 52_140_811_516
    args = (f32(4096), f32(32), np.uint64(n), np.uint64(by), np.uint64(n // by - 7))
    made = source_binary(carver.Kernel(source, "times"), {}, args=args, grid=1, block=32, arch=arch)
    assert [loop.trips for loop in facts_of_binary(made, arch).loops] == [7]


@pytest.mark.skipif(NVCC is None, reason="no nvcc")
@pytest.mark.parametrize(
    ("entry", "each"), [("sums<float, 4>", 4), ("sums<float,16>", 16), ("sums<unsigned char, 8>", 8)]
)
def test_a_template_is_told_by_its_arguments(entry: str, each: int) -> None:
    """The source makes two others itself."""
    source = """template <typename T, int EACH> __global__ void sums(const T* x, T* y) {
        int at = blockIdx.x * blockDim.x + threadIdx.x;
        T sum = 0;
        for (int i = 0; i < EACH; i++) sum += x[at * EACH + i];
        y[at] = sum; }
    template __global__ void sums<float, 4>(const float*, float*);
    template __global__ void sums<unsigned char, 32>(const unsigned char*, unsigned char*);"""
    arch, n, dtype = load("h100"), 1 << 20, "float32" if "float" in entry else "uint8"
    args = (carver.Tensor(dtype, (n * each,)), carver.Tensor(dtype, (n,)))
    made = source_binary(carver.Kernel(source, entry), {}, args=args, grid=n // 256, block=256, arch=arch)
    assert facts_of_binary(made, arch).read_bytes == args[0].nbytes


def test_code_that_a_device_does_not_run_is_refused() -> None:
    """Code for 9.0 is no code for 8.0 and 10.0, that for 8.0 runs on 8.6; and `__launch_bounds__` is a promise."""
    kernel = sass.Kernel("k", 90, b"", 32, 0, 0, most_threads=256)
    assert not kernel.refuses((9, 0), 256)
    assert kernel.refuses((8, 0), 256) == "the code is for compute capability 9.0, the device has 8.0"
    assert kernel.refuses((10, 0), 256)
    assert "its block has 512 threads, its code is for 256 at most" in kernel.refuses((9, 0), 512)
    older = replace(kernel, sm=80)
    assert not older.refuses((8, 6), 32) and replace(kernel, sm=86).refuses((8, 0), 32)


@pytest.mark.skipif(NVCC is None, reason="no nvcc")
def test_bounds_of_a_launch_are_read_from_the_code() -> None:
    source = 'extern "C" __global__ void __launch_bounds__(256) one(float* y) { y[threadIdx.x] = 1.0f; }'
    arch = load("h100")
    made = source_binary(carver.Kernel(source, "one"), {}, args=(f32(1024),), grid=1, block=256, arch=arch)
    facts_of_binary(made, arch)
    with pytest.raises(CompileError, match="its block has 512 threads, its code is for 256 at most"):
        facts_of_binary(replace(made, block=(512, 1, 1)), arch)
