// Locks, queues and barriers of a grid, of atomic operations.
#include <cuda/atomic>
#include <cuda/semaphore>

template <typename T> using Ref = cuda::atomic_ref<T, cuda::thread_scope_device>;

// A lock by compare-and-swap and fences guards numbers that no atomic operation could update together.
extern "C" __global__ void spin(int* lock, volatile double* sums, const double* in) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    sums[0] = sums[0] + in[blockIdx.x];
    sums[1] = sums[1] + in[blockIdx.x] * in[blockIdx.x];
    __threadfence();
    atomicExch(lock, 0);
}

// Who comes first is served first.
extern "C" __global__ void ticket(unsigned* tickets, unsigned* serving, int* list, int* length) {
    if (threadIdx.x != 0) return;
    unsigned mine = Ref<unsigned>(*tickets).fetch_add(1, cuda::memory_order_relaxed);
    while (Ref<unsigned>(*serving).load(cuda::memory_order_acquire) != mine) __nanosleep(20);
    list[*length] = blockIdx.x;
    *length = *length + 1;
    Ref<unsigned>(*serving).store(mine + 1, cuda::memory_order_release);
}

// Every lane of a warp takes the lock: the loop that sm_70 made possible.
extern "C" __global__ void lanes(int* lock, int* sum) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile int*)sum = *(volatile int*)sum + threadIdx.x + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// All blocks wait for all, several times: they fit on the device together.
extern "C" __global__ void phases(unsigned* arrived, int* a, int* b, int rounds) {
    for (int round = 0; round < rounds; round++) {
        int* from = round % 2 ? b : a;
        int* to = round % 2 ? a : b;
        int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
        to[i] = from[(i + 1) % n] + from[(i + n - 1) % n];
        __syncthreads();
        if (threadIdx.x == 0) {
            Ref<unsigned> count(*arrived);
            count.fetch_add(1, cuda::memory_order_release);
            while (count.load(cuda::memory_order_acquire) < (round + 1) * gridDim.x) {}
        }
        __syncthreads();
    }
}

// Blocks take work from a list until it is empty: the first ones put some there.
extern "C" __global__ void queue(int* items, unsigned* head, unsigned* tail, int* done, int n) {
    __shared__ int item;
    for (;;) {
        if (threadIdx.x == 0) {
            unsigned at = Ref<unsigned>(*head).fetch_add(1, cuda::memory_order_relaxed);
            item = -1;
            // As many items as there will be in all.
            if (at < n) {
                Ref<int> slot(items[at]);
                while ((item = slot.load(cuda::memory_order_acquire)) < 0) {}
            }
        }
        __syncthreads();
        int mine = item;
        __syncthreads();
        if (mine < 0) return;
        if (threadIdx.x == 0) {
            atomicAdd(&done[mine], 1);
            // An item below half begets two.
            for (int child = 2 * mine + 1; child <= 2 * mine + 2; child++) {
                if (child >= n) break;
                unsigned at = Ref<unsigned>(*tail).fetch_add(1, cuda::memory_order_relaxed);
                Ref<int>(items[at]).store(child, cuda::memory_order_release);
            }
        }
    }
}

// The largest of floats, which no single instruction gives.
extern "C" __global__ void most(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int* bits = reinterpret_cast<int*>(out);
    int old = *(volatile int*)bits;
    while (__int_as_float(old) < in[i]) {
        int seen = atomicCAS(bits, old, __float_as_int(in[i]));
        if (seen == old) break;
        old = seen;
    }
}

// Threads of a block by a semaphore of libcu++: never more than two inside.
extern "C" __global__ void semaphore(int* inside, int* most, int* entered) {
    using Semaphore = cuda::counting_semaphore<cuda::thread_scope_block, 2>;
    __shared__ alignas(Semaphore) char memory[sizeof(Semaphore)];
    Semaphore& places = *reinterpret_cast<Semaphore*>(memory);
    if (threadIdx.x == 0) new (&places) Semaphore(2);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        places.acquire();
        int now = atomicAdd(inside, 1) + 1;
        atomicMax(most, now);
        atomicAdd(entered, 1);
        atomicSub(inside, 1);
        places.release();
    }
}
