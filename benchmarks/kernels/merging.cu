/* How far reads of one address by several SMs become one look-up in L2. Build and count:

    nvcc -O3 -arch=sm_90 benchmarks/kernels/merging.cu -o merging
    ncu --metrics lts__t_sectors_srcunit_tex_op_read.sum,l1tex__m_xbar2l1tex_read_bytes.sum,gpu__time_duration.sum \
        --csv ./merging

Blocks of a group read the same 256 KiB, past L1, in the same order; each begins `skew` clocks after the one before.
It prints a line for each launch, in the order of ncu's lines, with the SM of each block in the last one. */
#include <cstdio>
#include <vector>

enum { WORDS = 16384 }; /* of 16 bytes: 256 KiB a group */

template <int CACHED>
__global__ void read(const float4 *table, int groups, int together, long long skew, int pace, int passes, float *out, int *sm) {
    /* `together`: neighbours in the grid are a group; otherwise blocks `groups` apart are */
    int per = (gridDim.x + groups - 1) / groups;
    int group = together ? blockIdx.x / per : blockIdx.x % groups;
    int rank = together ? blockIdx.x % per : blockIdx.x / groups;
    if (!threadIdx.x) {
        int id;
        asm("mov.u32 %0, %%smid;" : "=r"(id));
        sm[blockIdx.x] = id;
    }
    long long begin = clock64();
    while (clock64() - begin < skew * rank) {}
    const float4 *own = table + (size_t)group * WORDS;
    float sum = 0;
    for (int pass = 0; pass < passes; pass++)
        for (int i = threadIdx.x; i < WORDS; i += blockDim.x) {
            float4 v = CACHED ? __ldca(own + i) : __ldcg(own + i);
            sum += v.x + v.y + v.z + v.w;
            if (pace) { /* each load waits for the one before, then for some clocks, as a loop with a barrier does */
                long long from = clock64() + (sum == 12345.678f);
                while (clock64() - from < pace) {}
                __syncthreads();
            }
        }
    if (sum == 12345.678f) out[0] = sum;
}

int main() {
    float4 *table;
    float *out;
    int *sm, most = 132 * 4;
    cudaMalloc(&table, (size_t)most * WORDS * 16);
    cudaMemset(table, 1, (size_t)most * WORDS * 16);
    cudaMalloc(&out, 4);
    cudaMalloc(&sm, most * 4);
    struct Launch { int blocks, threads, groups, together, pace, cached; long long skew; };
    std::vector<Launch> all;
    for (int blocks : {2, 4, 8, 12, 16, 24, 33, 48, 66, 99, 132, 264, 528}) all.push_back({blocks, 256, 1, 1, 0, 0, 0});
    for (long long skew : {20, 100, 300, 1000, 5000}) all.push_back({132, 256, 1, 1, 0, 0, skew});
    for (int per : {2, 3, 4, 6, 8, 16, 33, 66})
        for (int together : {0, 1})
            for (long long skew : {0, 300, 3000}) all.push_back({132, 256, 132 / per, together, 0, 0, skew});
    for (int pace : {100, 500, 2000})
        for (int per : {2, 8, 132}) all.push_back({132, 256, 132 / per, 1, pace, 0, 0});
    for (int threads : {32, 128, 512, 1024}) all.push_back({132, threads, 1, 1, 0, 0, 0});
    for (int blocks : {132, 264, 528}) all.push_back({blocks, 256, 1, 1, 0, 1, 0});
    for (int per : {2, 8}) all.push_back({528, 256, 528 / per, 1, 0, 1, 0});
    int at = 0;
    for (const Launch &l : all) {
        auto run = l.cached ? read<1> : read<0>;
        run<<<l.blocks, l.threads>>>(table, l.groups, l.together, l.skew, l.pace, l.pace > 200 ? 1 : 4, out, sm);
        cudaError_t found = cudaDeviceSynchronize();
        printf("{\"at\": %d, \"blocks\": %d, \"threads\": %d, \"groups\": %d, \"together\": %d, \"pace\": %d, \"cached\": %d, \"skew\": %lld, \"found\": \"%s\"}\n",
               at++, l.blocks, l.threads, l.groups, l.together, l.pace, l.cached, l.skew, cudaGetErrorString(found));
        fflush(stdout);
    }
    std::vector<int> where(132);
    read<0><<<132, 256>>>(table, 1, 1, 0, 0, 4, out, sm);
    cudaMemcpy(where.data(), sm, 132 * 4, cudaMemcpyDeviceToHost);
    printf("{\"sm\": [");
    for (int i = 0; i < 132; i++) printf("%d%s", where[i], i < 131 ? ", " : "]}\n");
}
