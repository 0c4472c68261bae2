// A CUDA kernel on one core of a CPU: its threads are coroutines, which take turns at barriers, shuffles and reads of other
// blocks. KERNEL is the source, CALL the call of its entry with the arguments of `run`. Clusters run one after the other.
//
// Errors: a thread that waits for one that does not come, a vector that is not aligned, a block that is read after it ended,
// writes outside of shared memory, copies that nobody waited for. Shared memory is NaN at first.
#include KERNEL

#include <ucontext.h>

#include <memory>
#include <vector>

#ifndef CLUSTER
#define CLUSTER 1
#endif

constexpr int kMargin = 4096, kThreads = CLUSTER * THREADS, kStackBytes = 1 << 16;
alignas(128) unsigned char shared_memory[SMEM_BYTES + kMargin];
Index threadIdx, blockIdx;

namespace {

struct Copy {
    void *to;
    const void *from;
    int bytes;
};
struct Thread {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(kStackBytes);
    int block, number;
    bool ended = false;
    long phase = 0;
    std::vector<Copy> copies;
};
struct Barrier {
    int here = 0;
    long passed = 0;
};

std::vector<std::unique_ptr<Thread>> threads;
std::vector<std::vector<unsigned char>> memories;
std::vector<Barrier> of_block, of_warp;
std::vector<unsigned char> lanes;
Thread *now;
ucontext_t scheduler;
long events, arrived;
int running[CLUSTER], current;
unsigned first_block;
const char *wrong;
const void *x, *y;
long long r, c;

void yield() { swapcontext(&now->context, &scheduler); }
void meet(Barrier &barrier, int count) {
    const long before = barrier.passed;
    ++events;
    if (++barrier.here == count)
        barrier.here = 0, ++barrier.passed;
    else
        while (barrier.passed == before) yield();
}
int place() { return now->block * THREADS + now->number; }

void body() {
    using namespace carver;
    auto *const in = static_cast<const X::type *>(x);
    auto *const out = static_cast<Y::type *>(const_cast<void *>(y));
    CALL;
    if (!now->copies.empty()) emulated::fault("copies that nobody waited for");
    now->ended = true, ++events, --running[now->block];
    yield();
}

void swap_memory(int block) {
    if (block == current) return;
    memories[current].assign(shared_memory, shared_memory + sizeof(shared_memory));
    memcpy(shared_memory, memories[block].data(), sizeof(shared_memory));
    current = block;
}

void run_cluster() {
    threads.clear();
    memories.assign(CLUSTER, std::vector<unsigned char>(sizeof(shared_memory), 0xff));
    memset(shared_memory, 0xff, sizeof(shared_memory));
    of_block.assign(CLUSTER, {}), of_warp.assign(kThreads / 32, {}), lanes.assign(kThreads * 8, 0);
    current = 0, arrived = 0;
    for (int i = 0; i < kThreads; ++i) {
        threads.push_back(std::make_unique<Thread>());
        Thread &thread = *threads.back();
        thread.block = i / THREADS, thread.number = i % THREADS;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data(), thread.context.uc_stack.ss_size = kStackBytes;
        makecontext(&thread.context, body, 0);
    }
    for (int &count : running) count = THREADS;
    for (bool left = true; left && !wrong;) {
        const long before = events;
        left = false;
        for (auto &thread : threads) {
            if (thread->ended || wrong) continue;
            now = thread.get(), threadIdx.x = now->number, blockIdx.x = first_block + now->block;
            swap_memory(now->block);
            swapcontext(&scheduler, &now->context);
            left = left || !now->ended;
        }
        if (left && events == before) wrong = "threads wait for others that do not come";
    }
    for (int block = 0; block < CLUSTER; ++block) {
        swap_memory(block);
        for (int i = SMEM_BYTES; i < SMEM_BYTES + kMargin; ++i)
            if (shared_memory[i] != 0xff) wrong = "shared memory is written beyond its end";
    }
}

}  // namespace

namespace emulated {

void sync_block() { meet(of_block[now->block], THREADS); }
void exchange(void *value, int bytes, int bit) {
    unsigned char *const warp = &lanes[place() / 32 * 32 * 8];
    const int lane = now->number % 32;
    memcpy(warp + 8 * lane, value, bytes);
    meet(of_warp[place() / 32], 32);
    memcpy(value, warp + 8 * (lane ^ bit), bytes);
    meet(of_warp[place() / 32], 32);
}
void arrive() { ++events, now->phase = arrived++ / kThreads; }
void wait() {
    ++events;
    while (arrived < (now->phase + 1) * kThreads) yield();
}
void pause() { ++events, yield(); }
int rank() { return now->block; }
const unsigned char *shared_of(int rank, const void *mine) {
    if (running[rank] < THREADS) fault("a block is read after it ended");
    const auto offset = static_cast<const unsigned char *>(mine) - shared_memory;
    return (rank == current ? shared_memory : memories[rank].data()) + offset;
}
void copy_later(void *to, const void *from, int bytes) { now->copies.push_back({to, from, bytes}); }
void finish_copies() {
    for (const Copy &copy : now->copies) memcpy(copy.to, copy.from, copy.bytes);
    now->copies.clear();
}
void fault(const char *what) {
    wrong = what;
    yield();
}

}  // namespace emulated

// Runs so many blocks; returns what went wrong, or null.
extern "C" const char *run(const void *from, void *to, long long rows, long long columns, unsigned blocks) {
    x = from, y = to, r = rows, c = columns, wrong = nullptr;
    for (first_block = 0; first_block < blocks && !wrong; first_block += CLUSTER) run_cluster();
    return wrong;
}
