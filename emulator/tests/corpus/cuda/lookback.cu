// Inclusive scans of a grid in one pass, by looking back at what the blocks before have published: Merrill and Garland,
// "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016.
#include <cuda/atomic>

constexpr int THREADS = 128, ITEMS = 4, TILE = THREADS * ITEMS;
enum State : unsigned { NOTHING, SUM, PREFIX };

// Scans a tile of the block: each thread's items, inclusive, without what is before the tile. Gives the tile's sum.
__device__ unsigned scan_tile(unsigned (&x)[ITEMS]) {
    __shared__ unsigned warps[THREADS / 32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = 1; i < ITEMS; i++) x[i] += x[i - 1];
    unsigned sum = x[ITEMS - 1];
    for (unsigned step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    unsigned before = sum - x[ITEMS - 1], all = 0;
    for (int i = 0; i < THREADS / 32; i++) {
        if (i < warp) before += warps[i];
        all += warps[i];
    }
    for (int i = 0; i < ITEMS; i++) x[i] += before;
    return all;
}

// Tiles are taken in the order in which blocks begin.
__device__ unsigned take(unsigned* tickets) {
    __shared__ unsigned tile;
    if (threadIdx.x == 0) tile = atomicAdd(tickets, 1);
    __syncthreads();
    return tile;
}

__device__ void load(const unsigned* in, unsigned tile, int n, unsigned (&x)[ITEMS]) {
    for (int i = 0; i < ITEMS; i++) {
        int at = tile * TILE + threadIdx.x * ITEMS + i;
        x[i] = at < n ? in[at] : 0;
    }
}

__device__ void store(unsigned* out, unsigned tile, int n, const unsigned (&x)[ITEMS], unsigned before) {
    for (int i = 0; i < ITEMS; i++) {
        int at = tile * TILE + threadIdx.x * ITEMS + i;
        if (at < n) out[at] = x[i] + before;
    }
}

// State and value are one word, so that no order is needed.
extern "C" __global__ void in_one_word(const unsigned* in, unsigned* out, unsigned long long* tiles, unsigned* tickets, int n) {
    __shared__ unsigned before;
    unsigned tile = take(tickets), x[ITEMS];
    load(in, tile, n, x);
    unsigned sum = scan_tile(x);
    auto publish = [&](State state, unsigned value) {
        cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> word(tiles[tile]);
        word.store((unsigned long long)state << 32 | value, cuda::memory_order_relaxed);
    };
    if (threadIdx.x < 32) {
        unsigned prefix = 0;
        if (tile > 0) {
            if (threadIdx.x == 0) publish(SUM, sum);
            // A warp looks at 32 tiles at a time.
            for (int back = int(tile) - 1 - int(threadIdx.x);; back -= 32) {
                unsigned long long word;
                do {
                    word = (unsigned long long)PREFIX << 32;
                    if (back >= 0) {
                        cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> other(tiles[back]);
                        word = other.load(cuda::memory_order_relaxed);
                    }
                } while (__any_sync(~0u, word >> 32 == NOTHING));
                unsigned whole = __ballot_sync(~0u, word >> 32 == PREFIX);
                int first = __ffs(whole) - 1;
                unsigned value = whole == 0 || int(threadIdx.x) <= first ? unsigned(word) : 0;
                prefix += __reduce_add_sync(~0u, value);
                if (whole) break;
            }
        }
        if (threadIdx.x == 0) {
            publish(PREFIX, prefix + sum);
            before = prefix;
        }
    }
    __syncthreads();
    store(out, tile, n, x, before);
}

// Values beside their states: fences order them.
extern "C" __global__ void beside(const unsigned* in, unsigned* out, volatile unsigned* states, volatile unsigned* sums,
                                  volatile unsigned* prefixes, unsigned* tickets, int n) {
    __shared__ unsigned before;
    unsigned tile = take(tickets), x[ITEMS];
    load(in, tile, n, x);
    unsigned sum = scan_tile(x);
    if (threadIdx.x == 0) {
        unsigned prefix = 0;
        if (tile > 0) {
            sums[tile] = sum;
            __threadfence();
            states[tile] = SUM;
            for (int back = tile - 1; back >= 0; back--) {
                unsigned state;
                while ((state = states[back]) == NOTHING) {}
                __threadfence();
                prefix += state == PREFIX ? prefixes[back] : sums[back];
                if (state == PREFIX) break;
            }
        }
        prefixes[tile] = prefix + sum;
        __threadfence();
        states[tile] = PREFIX;
        before = prefix;
    }
    __syncthreads();
    store(out, tile, n, x, before);
}
