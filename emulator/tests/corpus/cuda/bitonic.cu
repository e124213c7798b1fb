// Bitonic sorts: K. E. Batcher, "Sorting Networks and their Applications", 1968.

// 1024 keys with their values by 512 threads, through shared memory.
extern "C" __global__ void sort_block(float* keys, int* values) {
    __shared__ float k[1024];
    __shared__ int v[1024];
    for (int i = threadIdx.x; i < 1024; i += 512) {
        k[i] = keys[blockIdx.x * 1024 + i];
        v[i] = values[blockIdx.x * 1024 + i];
    }
    for (int size = 2; size <= 1024; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            int i = threadIdx.x / step * 2 * step + threadIdx.x % step, j = i + step;
            bool rising = (i & size) == 0;
            if ((k[i] > k[j]) == rising) {
                float key = k[i];
                k[i] = k[j];
                k[j] = key;
                int value = v[i];
                v[i] = v[j];
                v[j] = value;
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 512) {
        keys[blockIdx.x * 1024 + i] = k[i];
        values[blockIdx.x * 1024 + i] = v[i];
    }
}

// One step of a sort of as many keys as the grid has threads twice.
extern "C" __global__ void step(unsigned long long* keys, int size, int step) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int i = t / step * 2 * step + t % step, j = i + step;
    unsigned long long a = keys[i], b = keys[j];
    if ((a > b) == ((i & size) == 0)) {
        keys[i] = b;
        keys[j] = a;
    }
}

// 32 numbers by each warp, in registers.
extern "C" __global__ void sort_warps(short* keys) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    int key = keys[t];
#pragma unroll
    for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
        for (int step = size / 2; step > 0; step /= 2) {
            int other = __shfl_xor_sync(~0u, key, step);
            bool lower = (lane & step) == 0, rising = (lane & size) == 0;
            key = lower == rising ? min(key, other) : max(key, other);
        }
    }
    keys[t] = short(key);
}
