// Atomic operations of every width and type, and ordered accesses.
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Totals {
    unsigned counter;
    int least, most;
    unsigned bits, wrap;
    float sum;
    double sum64;
    unsigned long long sum_u64, most_u64;
    unsigned short tickets;
    half2 halves;
    half one_half;
    __nv_bfloat162 brains;
    float4 vector;
    int exchanged;
};

extern "C" __global__ void atomics(Totals* to) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&to->counter, 2u);
    atomicMin(&to->least, -t);
    atomicMax(&to->most, t);
    atomicOr(&to->bits, 1u << (t % 32));
    atomicInc(&to->wrap, 99u);
    atomicAdd(&to->sum, 0.5f);
    atomicAdd(&to->sum64, 0.25);
    atomicAdd(&to->sum_u64, 1ull << 33);
    atomicMax(&to->most_u64, (unsigned long long)t << 40);
    unsigned short seen = *(volatile unsigned short*)&to->tickets, assumed;
    do {
        assumed = seen;
        seen = atomicCAS(&to->tickets, assumed, (unsigned short)(assumed + 1));
    } while (seen != assumed);
    atomicAdd(&to->halves, __floats2half2_rn(1.0f, 0.5f));
    atomicAdd(&to->one_half, __float2half(2.0f));
    atomicAdd(&to->brains, __floats2bfloat162_rn(0.25f, 0.5f));
#if __CUDA_ARCH__ >= 900
    atomicAdd(&to->vector, make_float4(1, 2, 3, 4));
#endif
    if (t == 7) atomicExch(&to->exchanged, 77);
}

extern "C" __global__ void handover(int* data, int* flag, int* out) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x * 3;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) ready.store(1, cuda::memory_order_release);
    } else {
        if (threadIdx.x == 0) while (ready.load(cuda::memory_order_acquire) == 0) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x] + 1;
        if (threadIdx.x == 0) {
            int expected = 1;
            out[blockDim.x] = ready.compare_exchange_strong(expected, 5) + ready.fetch_add(10);
        }
    }
}
