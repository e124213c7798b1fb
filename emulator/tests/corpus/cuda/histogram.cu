// A histogram in shared memory, by classes that a table in constant memory gives.
__constant__ unsigned char class_of[256];
__device__ unsigned launches = 40;

extern "C" __global__ void histogram(const unsigned char* in, unsigned* bins, int n) {
    __shared__ unsigned local[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[class_of[in[i]] % 64], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        if (local[i]) atomicAdd(&bins[i], local[i]);
    if (blockIdx.x == 0 && threadIdx.x == 0) bins[64] = atomicAdd(&launches, 1u);
}
