// A transposition through dynamic shared memory, and one of vectors of four.
extern __shared__ float tile[];

extern "C" __global__ void transpose(const float* in, float* out, int rows, int columns) {
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += blockDim.y)
        if (column < columns && row + i < rows)
            tile[(threadIdx.y + i) * 33 + threadIdx.x] = in[(row + i) * columns + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x;
    row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += blockDim.y)
        if (column < rows && row + i < columns)
            out[(row + i) * rows + column] = tile[threadIdx.x * 33 + threadIdx.y + i];
}

struct Pixel { float x, y, z, w; };

extern "C" __global__ void turn(const float4* __restrict__ in, Pixel* out, float4 scale) {
    float4 p = __ldcs(&in[threadIdx.x]);
    out[threadIdx.x] = Pixel{p.w * scale.x, p.z * scale.y, p.y * scale.z, p.x * scale.w};
}
