// SPDX-License-Identifier: MIT OR Apache-2.0
// The vector add of a CUDA C++ beginner, one element a thread, timed by events: nvcc -O3 -arch=native vector_add.cu
// Prints the median and the least of 25 launches after a warm-up, in milliseconds, for n float elements.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void add(const float *x, const float *y, float *out, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}

#define CHECK(call)                                                                  \
    if (cudaError_t e = (call); e != cudaSuccess) {                                  \
        std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));              \
        return 1;                                                                    \
    }

int main(int argc, char **argv) {
    size_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : size_t(1) << 28;
    std::vector<float> a(n), b(n), c(n);
    unsigned state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        a[i] = float(state >> 8) / float(1 << 24);
        b[i] = 1.0f - a[i] * 0.5f;
    }
    float *x, *y, *out;
    CHECK(cudaMalloc(&x, n * 4));
    CHECK(cudaMalloc(&y, n * 4));
    CHECK(cudaMalloc(&out, n * 4));
    CHECK(cudaMemcpy(x, a.data(), n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(y, b.data(), n * 4, cudaMemcpyHostToDevice));
    cudaEvent_t start, end;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < 28; i++) {
        CHECK(cudaEventRecord(start));
        add<<<unsigned((n + 255) / 256), 256>>>(x, y, out, n);
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, end));
        if (i >= 3) times.push_back(ms);
    }
    CHECK(cudaMemcpy(c.data(), out, n * 4, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++) {
        if (c[i] != a[i] + b[i]) {
            std::fprintf(stderr, "wrong at %zu\n", i);
            return 1;
        }
    }
    std::sort(times.begin(), times.end());
    std::printf("vector add of %zu f32, CUDA C++: median %.4f ms, least %.4f ms\n", n, times[12], times[0]);
}
