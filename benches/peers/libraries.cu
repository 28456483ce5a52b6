// SPDX-License-Identifier: MIT OR Apache-2.0
// The work of `warpsmith bench` in CUDA C++: CUB, cuBLAS, the driver's copy, and for pictures, which these do not have,
// the kernel of a beginner, one thread a pixel.
//
//   nvcc -O3 -std=c++17 -arch=native libraries.cu -lcublas -o libraries && ./libraries 1048576 16777216 268435456
//
// Options ahead of the sizes: --only PART,... for the rows whose names contain one of the parts, as `warpsmith bench` has it.
//
// Prints a JSON object a line, one for each row and size: name, peer, dtype, n, ms_median, ms_min, repeats. Inputs
// are random, outputs and temporary storage are allocated once; a launch is timed between two events, 30 times after 3.
// As in `warpsmith bench`, the 30 are queued behind fills of memory that keep the GPU busy for twice as long as that
// takes the host, so that the times are without the host's launching.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/cub.cuh>
#include <functional>
#include <initializer_list>
#include <sstream>
#include <string>
#include <thrust/iterator/transform_iterator.h>
#include <vector>

#define CHECK(call)                                                                                  \
    do {                                                                                             \
        if (auto status = (call); int(status) != 0) {                                                \
            std::fprintf(stderr, "%s:%d: %s failed with %d\n", __FILE__, __LINE__, #call, int(status)); \
            std::exit(1);                                                                            \
        }                                                                                            \
    } while (0)

constexpr int WARM_UP = 3, REPEATS = 30, ATTEMPTS = 3;
static cudaStream_t stream;
// Parts of the names of the rows that are wanted; all are, where there are none.
static std::vector<std::string> parts;

// Whether any of these rows is wanted: else there is no need of what they take.
static bool wanted(std::initializer_list<std::string> names) {
    auto has = [](const std::string &name) {
        return std::any_of(parts.begin(), parts.end(), [&](auto &part) { return name.find(part) != std::string::npos; });
    };
    return parts.empty() || std::any_of(names.begin(), names.end(), has);
}

// Gives the GPU work for twice the time that the host needs to queue the calls that follow, at most 20 ms: fills of
// 256 MiB, each of which takes 50 us or more, as it would at 5 TB/s. A call that waits for the GPU loses the head start
// and no more. The fills also evict the L2 cache, before the first call alone, which does not move a median.
static void head_start(double host_seconds) {
    constexpr size_t FILL_BYTES = 256 << 20;
    constexpr double FILL_SECONDS = 50e-6, LONGEST_SECONDS = 20e-3;
    static void *filled = nullptr;
    if (!filled) CHECK(cudaMalloc(&filled, FILL_BYTES));
    int fills = int(std::ceil(std::min(2 * host_seconds, LONGEST_SECONDS) / FILL_SECONDS));
    for (int i = 0; i < fills; i++) CHECK(cudaMemsetAsync(filled, 0, FILL_BYTES, stream));
}

static void bench(const char *name, const char *peer, const char *dtype, size_t n, const std::function<void()> &launch) {
    if (!wanted({name})) return;
    std::vector<cudaEvent_t> events(2 * REPEATS);
    for (auto &event : events) CHECK(cudaEventCreate(&event));
    auto timed = [&](int i) {
        CHECK(cudaEventRecord(events[2 * i], stream));
        launch();
        CHECK(cudaEventRecord(events[2 * i + 1], stream));
    };
    // Of the fastest one of the warm-up, when all is loaded.
    std::chrono::duration<double> host_time = std::chrono::hours(1);
    for (int i = 0; i < WARM_UP; i++) {
        auto before = std::chrono::steady_clock::now();
        timed(i);
        host_time = std::min<std::chrono::duration<double>>(host_time, std::chrono::steady_clock::now() - before);
    }
    std::vector<float> times;
    double median = 0;
    // Until the host has queued all calls while their head start lasts; else it was held up, and times are its own in part.
    bool is_ahead = false;
    for (int attempt = 0; attempt < ATTEMPTS && !is_ahead; attempt++) {
        head_start((attempt + 1) * REPEATS * host_time.count());
        for (int i = 0; i < REPEATS; i++) timed(i);
        is_ahead = cudaEventQuery(events[0]) == cudaErrorNotReady;
        CHECK(cudaStreamSynchronize(stream));
        // That of the query was "not ready".
        if (cudaError_t error = cudaGetLastError(); error != cudaErrorNotReady) CHECK(error);
        std::vector<float> of_attempt(REPEATS);
        for (int i = 0; i < REPEATS; i++) CHECK(cudaEventElapsedTime(&of_attempt[i], events[2 * i], events[2 * i + 1]));
        std::sort(of_attempt.begin(), of_attempt.end());
        double median_of_attempt = (of_attempt[REPEATS / 2 - 1] + of_attempt[REPEATS / 2]) / 2.0;
        if (attempt == 0 || is_ahead || median_of_attempt < median) {
            times = of_attempt;
            median = median_of_attempt;
        }
    }
    for (auto &event : events) CHECK(cudaEventDestroy(event));
    std::printf("{\"name\":\"%s\",\"peer\":\"%s\",\"dtype\":\"%s\",\"n\":%zu,\"ms_median\":%.6f,\"ms_min\":%.6f,\"repeats\":%d}\n",
                name, peer, dtype, n, median, times[0], REPEATS);
    std::fflush(stdout);
}

// SplitMix64 by the element's number.
__device__ uint32_t random_bits(size_t i) {
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return uint32_t((z ^ (z >> 31)) >> 16);
}

template <class T> __device__ T random_value(size_t i, int limit) {
    return limit ? T(random_bits(i) % unsigned(limit)) : T((random_bits(i) >> 8) * (1.0 / (1 << 24)));
}

template <class T> __global__ void fill_kernel(T *x, size_t n, int limit) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
        x[i] = limit == 1 ? T(42) : random_value<T>(i, limit);
}

// From the standard normal distribution (G. Box, M. Muller, 1958), by the element's number from first on.
template <class T> __global__ void normal_kernel(T *x, size_t n, size_t first) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
        float radius = (random_bits(2 * (first + i)) + 1.0f) * 0x1p-32f, angle = random_bits(2 * (first + i) + 1) * 0x1p-32f;
        x[i] = T(sqrtf(-2.0f * logf(radius)) * cospif(2.0f * angle));
    }
}

struct NormalFrom {
    size_t first;
};

// Device memory of n random numbers: below limit, or from 0 to 1 where it is 0; all equal where it is 1; or normal ones.
template <class T> struct Array {
    T *data = nullptr;
    explicit Array(size_t n, int limit = 0) {
        CHECK(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T)));
        fill_kernel<<<2048, 256, 0, stream>>>(data, n, limit);
        CHECK(cudaStreamSynchronize(stream));
    }
    Array(size_t n, NormalFrom numbers) {
        CHECK(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T)));
        normal_kernel<<<2048, 256, 0, stream>>>(data, n, numbers.first);
        CHECK(cudaStreamSynchronize(stream));
    }
    ~Array() { cudaFree(data); }
    Array(const Array &) = delete;
};

// CUB's way: asked once for the size of its storage, which is allocated outside of the timing.
template <class Call> static void bench_cub(const char *name, const char *dtype, size_t n, Call call) {
    if (!wanted({name})) return;
    size_t bytes = 0;
    CHECK(call(nullptr, bytes));
    Array<char> storage(bytes, 1);
    bench(name, "CUB", dtype, n, [&] { CHECK(call(storage.data, bytes)); });
}

template <class T> static void reductions_and_scans(size_t n, const char *dtype, const char *suffix, int limit) {
    auto name = [&](const char *base) { return std::string(base) + suffix; };
    if (!wanted({name("reduce_sum"), name("reduce_max"), name("scan_inclusive_sum"), name("scan_exclusive_sum")})) return;
    Array<T> x(n, limit), out(n, limit);
    bench_cub(name("reduce_sum").c_str(), dtype, n,
              [&](void *storage, size_t &bytes) { return cub::DeviceReduce::Sum(storage, bytes, x.data, out.data, n, stream); });
    bench_cub(name("reduce_max").c_str(), dtype, n,
              [&](void *storage, size_t &bytes) { return cub::DeviceReduce::Max(storage, bytes, x.data, out.data, n, stream); });
    bench_cub(name("scan_inclusive_sum").c_str(), dtype, n,
              [&](void *storage, size_t &bytes) { return cub::DeviceScan::InclusiveSum(storage, bytes, x.data, out.data, n, stream); });
    bench_cub(name("scan_exclusive_sum").c_str(), dtype, n,
              [&](void *storage, size_t &bytes) { return cub::DeviceScan::ExclusiveSum(storage, bytes, x.data, out.data, n, stream); });
}

template <class Wide> struct Widen {
    template <class T> __host__ __device__ Wide operator()(T x) const { return x; }
};

// Sums of integers in 64 bits: CUB's accumulator has the type of what it is given, so it is given wide elements.
template <class T, class Wide> static void wide_sums(size_t n, const char *dtype, const char *suffix, bool scans) {
    auto name = [&](const char *base) { return std::string(base) + suffix; };
    if (!wanted({name("reduce_sum"), name("scan_inclusive_sum")})) return;
    Array<T> x(n, 256);
    auto wide = thrust::make_transform_iterator(x.data, Widen<Wide>{});
    Array<Wide> out(scans ? n : 1, 1);
    bench_cub(name("reduce_sum").c_str(), dtype, n,
              [&](void *storage, size_t &bytes) { return cub::DeviceReduce::Sum(storage, bytes, wide, out.data, n, stream); });
    if (!scans) return;
    bench_cub(name("scan_inclusive_sum").c_str(), dtype, n,
              [&](void *storage, size_t &bytes) { return cub::DeviceScan::InclusiveSum(storage, bytes, wide, out.data, n, stream); });
}

template <class T> static void histogram(const char *name, const char *dtype, size_t n, int limit) {
    if (!wanted({name})) return;
    Array<T> x(n, limit);
    Array<int> counts(256, 1);
    bench_cub(name, dtype, n, [&](void *storage, size_t &bytes) {
        return cub::DeviceHistogram::HistogramEven(storage, bytes, x.data, counts.data, 257, 0, 256, (long long)n, stream);
    });
}

template <class T, class Op> __global__ void map_kernel(const T *x, T *out, size_t n, Op op) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = op(x[i]);
}

__global__ void add_kernel(const float *x, const float *y, float *out, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}

struct Square {
    __device__ float operator()(float x) const { return x * x; }
};

struct TanhAffine {
    __device__ float operator()(float x) const { return tanhf(x) * 2.0f + 1.0f; }
};

static unsigned blocks(size_t n) { return unsigned((n + 255) / 256); }

static void elementwise(size_t n) {
    if (!wanted({"copy", "add", "square", "tanh_affine"})) return;
    Array<float> x(n), y(n), out(n);
    bench("copy", "driver", "f32", n, [&] { CHECK(cudaMemcpyAsync(out.data, x.data, n * 4, cudaMemcpyDeviceToDevice, stream)); });
    bench("add", "CUDA C++", "f32", n, [&] { add_kernel<<<blocks(n), 256, 0, stream>>>(x.data, y.data, out.data, n); });
    bench("square", "CUDA C++", "f32", n, [&] { map_kernel<<<blocks(n), 256, 0, stream>>>(x.data, out.data, n, Square{}); });
    bench("tanh_affine", "CUDA C++", "f32", n, [&] { map_kernel<<<blocks(n), 256, 0, stream>>>(x.data, out.data, n, TanhAffine{}); });
}

__global__ void gray_kernel(const uint8_t *rgb, uint8_t *out, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = uint8_t((2990 * rgb[3 * i] + 5870 * rgb[3 * i + 1] + 1140 * rgb[3 * i + 2] + 5000) / 10000);
}

__global__ void blur_kernel(const uint8_t *x, uint8_t *out, int side) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= side || row >= side) return;
    int sum = 0, count = 0;
    for (int r = max(row - 1, 0); r <= min(row + 1, side - 1); r++)
        for (int c = max(column - 1, 0); c <= min(column + 1, side - 1); c++, count++) sum += x[size_t(r) * side + c];
    out[size_t(row) * side + column] = uint8_t((sum + count / 2) / count);
}

// A product of matrices of normal numbers, accumulated in f32 throughout. In f32 without tensor cores, which pedantic
// mathematics leaves out; for numbers of 16 bits and TF32 with them, but with no sum of a part of k in the type itself.
template <class T> static void product(const char *name, const char *dtype, cudaDataType type, cublasMath_t mode, int side,
                                       cublasHandle_t cublas) {
    if (!wanted({name})) return;
    size_t n = size_t(side) * side;
    Array<T> x(n, NormalFrom{0}), y(n, NormalFrom{n}), out(n, NormalFrom{0});
    const float one = 1, zero = 0;
    CHECK(cublasSetMathMode(cublas, mode));
    bench(name, "cuBLAS", dtype, n, [&] {
        CHECK(cublasGemmEx(cublas, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &one, x.data, type, side, y.data, type, side,
                           &zero, out.data, type, side, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    });
}

static void products(int side, cublasHandle_t cublas) {
    auto halves = cublasMath_t(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    product<float>("matmul_f32", "f32", CUDA_R_32F, CUBLAS_PEDANTIC_MATH, side, cublas);
    product<__half>("matmul_f16", "f16", CUDA_R_16F, halves, side, cublas);
    product<__nv_bfloat16>("matmul_bf16", "bf16", CUDA_R_16BF, halves, side, cublas);
    product<float>("matmul_tf32", "tf32", CUDA_R_32F, CUBLAS_TF32_TENSOR_OP_MATH, side, cublas);
}

// Pictures and matrices: squares of n pixels or elements.
static void squares(size_t n, cublasHandle_t cublas) {
    int side = int(std::sqrt(double(n)));
    n = size_t(side) * side;
    if (wanted({"grayscale", "blur3x3"})) {
        Array<uint8_t> rgb(3 * n, 256), out(n, 256);
        bench("grayscale", "CUDA C++", "u8", n, [&] { gray_kernel<<<blocks(n), 256, 0, stream>>>(rgb.data, out.data, n); });
        dim3 grid((side + 31) / 32, (side + 7) / 8);
        bench("blur3x3", "CUDA C++", "u8", n, [&] { blur_kernel<<<grid, dim3(32, 8), 0, stream>>>(rgb.data, out.data, side); });
    }
    if (!wanted({"transpose"})) return;
    Array<float> x(n), out(n);
    const float one = 1, zero = 0;
    bench("transpose", "cuBLAS", "f32", n, [&] {
        CHECK(cublasSgeam(cublas, CUBLAS_OP_T, CUBLAS_OP_N, side, side, &one, x.data, side, &zero, x.data, side, out.data, side));
    });
}

// Four elements a thread; those that are left over one each, by the threads behind them.
template <class Op> __global__ void map_four_kernel(const float *x, float *out, size_t n, Op op) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x, rest = n - n % 4 + (i - n / 4);
    if (i < n / 4) {
        float4 a = reinterpret_cast<const float4 *>(x)[i];
        reinterpret_cast<float4 *>(out)[i] = make_float4(op(a.x), op(a.y), op(a.z), op(a.w));
    } else if (rest < n) {
        out[rest] = op(x[rest]);
    }
}

struct Chain {
    __device__ float operator()(float x) const {
        float y = fabsf(expf(sinf(x) * 1.5f + 0.5f) - 1.0f);
        return tanhf(logf(sqrtf(y + 1.0f)) * 0.25f + x);
    }
};

constexpr float CENTRE = 0.5f;

// What is added up of a block's numbers, in its first thread.
template <int THREADS> __device__ float sum_of_block(float x) {
    using Reduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename Reduce::TempStorage storage;
    return Reduce(storage).Sum(x);
}

// Of each block's elements.
template <int THREADS> __global__ void sum_squares_kernel(const float *x, float *sums, size_t n) {
    size_t first = blockIdx.x * size_t(THREADS) + threadIdx.x, step = size_t(gridDim.x) * THREADS;
    auto square = [](float x) { return (x - CENTRE) * (x - CENTRE); };
    float sum = 0;
#pragma unroll 4
    for (size_t i = first; i < n / 4; i += step) {
        float4 a = reinterpret_cast<const float4 *>(x)[i];
        sum += (square(a.x) + square(a.y)) + (square(a.z) + square(a.w));
    }
    if (first < n % 4) sum += square(x[n - 1 - first]);
    sum = sum_of_block<THREADS>(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <int THREADS> __global__ void sum_kernel(const float *x, float *out, int n) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) sum += x[i];
    sum = sum_of_block<THREADS>(sum);
    if (threadIdx.x == 0) *out = sum;
}

struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// A block a row, of which each thread has four times four elements in registers.
template <int THREADS> __global__ void softmax_kernel(const float *x, float *out) {
    using Reduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename Reduce::TempStorage storage;
    __shared__ float of_block;
    size_t row = blockIdx.x * size_t(THREADS) * 4;
    float4 a[4];
    float largest = -INFINITY, sum = 0;
    for (int k = 0; k < 4; k++) {
        a[k] = reinterpret_cast<const float4 *>(x)[row + k * THREADS + threadIdx.x];
        largest = fmaxf(largest, fmaxf(fmaxf(a[k].x, a[k].y), fmaxf(a[k].z, a[k].w)));
    }
    largest = Reduce(storage).Reduce(largest, Larger{});
    if (threadIdx.x == 0) of_block = largest;
    __syncthreads();
    largest = of_block;
    for (int k = 0; k < 4; k++) {
        a[k] = make_float4(expf(a[k].x - largest), expf(a[k].y - largest), expf(a[k].z - largest), expf(a[k].w - largest));
        sum += (a[k].x + a[k].y) + (a[k].z + a[k].w);
    }
    __syncthreads();
    sum = Reduce(storage).Sum(sum);
    if (threadIdx.x == 0) of_block = sum;
    __syncthreads();
    sum = of_block;
    for (int k = 0; k < 4; k++)
        reinterpret_cast<float4 *>(out)[row + k * THREADS + threadIdx.x] =
            make_float4(a[k].x / sum, a[k].y / sum, a[k].z / sum, a[k].w / sum);
}

// What our expressions compute, in kernels as they are written for it, of normal numbers.
static void expressions(size_t n) {
    constexpr int THREADS = 256, COLUMNS = 16 * THREADS;
    if (!wanted({"expr_tanh_affine", "expr_chain", "expr_sum_squares", "expr_softmax_4096"})) return;
    Array<float> x(n, NormalFrom{0}), out(n, NormalFrom{0});
    unsigned fours = blocks(n / 4 + n % 4);
    bench("expr_tanh_affine", "CUDA C++", "f32", n,
          [&] { map_four_kernel<<<fours, 256, 0, stream>>>(x.data, out.data, n, TanhAffine{}); });
    bench("expr_chain", "CUDA C++", "f32", n, [&] { map_four_kernel<<<fours, 256, 0, stream>>>(x.data, out.data, n, Chain{}); });
    int device, processors;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    // All threads that the multiprocessors hold.
    int sums = std::min(processors * 2048 / THREADS, int(std::min<size_t>(fours, 1 << 20)));
    Array<float> of_blocks(sums, 1);
    bench("expr_sum_squares", "CUDA C++", "f32", n, [&] {
        sum_squares_kernel<THREADS><<<sums, THREADS, 0, stream>>>(x.data, of_blocks.data, n);
        sum_kernel<THREADS><<<1, THREADS, 0, stream>>>(of_blocks.data, out.data, sums);
    });
    if (size_t rows = n / COLUMNS)
        bench("expr_softmax_4096", "CUDA C++", "f32", rows * COLUMNS,
              [&] { softmax_kernel<THREADS><<<unsigned(rows), THREADS, 0, stream>>>(x.data, out.data); });
}

int main(int argc, char **argv) {
    int first = 1;
    if (argc > 2 && std::string(argv[1]) == "--only") {
        std::istringstream text(argv[2]);
        for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
        first = 3;
    }
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cublasHandle_t cublas;
    CHECK(cublasCreate(&cublas));
    CHECK(cublasSetStream(cublas, stream));
    for (int i = first; i < argc; i++) {
        size_t n = std::strtoull(argv[i], nullptr, 10);
        elementwise(n);
        expressions(n);
        reductions_and_scans<float>(n, "f32", "", 0);
        reductions_and_scans<double>(n, "f64", "_f64", 0);
        reductions_and_scans<int64_t>(n, "i64", "_i64", 256);
        wide_sums<int32_t, int64_t>(n, "i32", "_i32", true);
        wide_sums<uint8_t, uint64_t>(n, "u8", "_u8", true);
        wide_sums<uint16_t, uint64_t>(n, "u16", "_u16", false);
        histogram<int>("histogram_i32", "i32", n, 256);
        histogram<uint8_t>("histogram_u8", "u8", n, 256);
        histogram<uint8_t>("histogram_u8_equal", "u8", n, 1);
        squares(n, cublas);
        if (int side = int(std::sqrt(double(n))); side <= 8192) products(side, cublas);
    }
    CHECK(cublasDestroy(cublas));
    return 0;
}
