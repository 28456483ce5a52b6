// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of operators that other crates define.

/// Compiles the library's kernels for an operator of one's own, in a kernels crate: `operator: types => families`, where
/// the families are `reduce` (whole arrays, and along axes) and `scan` (the same).
///
/// The operator is a [`ReduceOp`](crate::op::ReduceOp) of each of the types. On the host, `x.reduce::<Operator>()`,
/// `x.inclusive_scan::<Operator>()` and the like then work as for the library's own. An operator for reductions is
/// commutative, one for scans need not be.
///
/// The crate depends on `cuda_std` too. The names of the PTX entries have the operator's and the type's own names in
/// them, without those of their modules: of two operators of one name for types of one name in a crate, the build of its
/// device code says that a symbol is already defined, and where.
///
/// # Examples
///
/// ```
/// use kernels_gpu::op::ReduceOp;
///
/// /// The largest absolute value.
/// pub struct MaxNorm;
///
/// impl ReduceOp<f32> for MaxNorm {
///     type Acc = f32;
///     type Output = f32;
///
///     fn identity() -> f32 {
///         0.0
///     }
///
///     fn lift(x: f32, _: u64) -> f32 {
///         x.abs()
///     }
///
///     fn combine(a: f32, b: f32) -> f32 {
///         cuda_std::Float::maximum(a, b)
///     }
///
///     fn finish(acc: f32, _: u64) -> f32 {
///         acc
///     }
/// }
///
/// kernels_gpu::operator_kernels!(MaxNorm: f32 => reduce, scan);
///
/// # fn main() {
/// // What the kernels compute.
/// let lifted = [3.0, -8.0, 5.0].map(|x| MaxNorm::lift(x, 0));
/// let norm = lifted.into_iter().fold(MaxNorm::identity(), MaxNorm::combine);
/// assert_eq!(MaxNorm::finish(norm, 3), 8.0);
/// # }
/// ```
#[macro_export]
macro_rules! operator_kernels {
    ($operator:ident: $($type:ty),+ => $($family:ident),+ $(,)?) => {
        $crate::operator_kernels!(@types $operator [$($type),+] [$($family),+]);
    };
    (@types $operator:ident [$($type:ty),+] $families:tt) => {
        $($crate::operator_kernels!(@families $operator $type, $families);)+
    };
    (@families $operator:ident $type:ty, [$($family:ident),+]) => {
        $($crate::operator_kernels!(@$family $operator $type);)+
    };
    (@reduce $operator:ident $type:ty) => {
        const _: () = {
            #[::cuda_std::kernel(
                nested,
                T = [$type],
                Op = [$operator],
                max_threads = $crate::reduce::THREADS,
                min_blocks = $crate::reduce::BLOCKS,
            )]
            pub fn reduce<T: $crate::__Pod, Op: $crate::op::ReduceOp<T>>(
                x: &[T],
                plan: $crate::reduce::RowPlan,
                partials: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Acc>,
                counters: ::cuda_std::SliceMut<'_, u32>,
                out: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Output>,
            ) {
                $crate::reduce::reduce::<T, Op>(x, plan, partials, counters, out);
            }

            #[::cuda_std::kernel(
                nested,
                T = [$type],
                Op = [$operator],
                max_threads = $crate::reduce::THREADS,
                min_blocks = $crate::reduce::BLOCKS,
            )]
            pub fn reduce_columns<T: $crate::__Pod, Op: $crate::op::ReduceOp<T>>(
                x: &[T],
                plan: $crate::reduce::ColumnPlan,
                partials: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Acc>,
                counters: ::cuda_std::SliceMut<'_, u32>,
                out: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Output>,
            ) {
                $crate::reduce::reduce_columns::<T, Op>(x, plan, partials, counters, out);
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::compiled::Reduce<$operator> for $type {
                type Rows = reduce<$type, $operator>;
                type Columns = reduce_columns<$type, $operator>;
            }
        };
    };
    (@scan $operator:ident $type:ty) => {
        const _: () = {
            #[::cuda_std::kernel(nested, T = [$type], Op = [$operator], max_threads = $crate::scan::lookback::THREADS)]
            pub fn scan<T: $crate::__Pod, Op: $crate::op::ReduceOp<T>>(
                x: &[T],
                n: usize,
                exclusive: u32,
                state: ::cuda_std::SliceMut<'_, u64>,
                out: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Output>,
            ) {
                $crate::scan::lookback::scan::<T, Op>(x, n, exclusive, state, out);
            }

            #[::cuda_std::kernel(nested, T = [$type], Op = [$operator], max_threads = $crate::scan::THREADS)]
            pub fn scan_rows<T: $crate::__Pod, Op: $crate::op::ReduceOp<T>>(
                x: &[T],
                lines: $crate::scan::Lines,
                rows: u32,
                exclusive: u32,
                out: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Output>,
            ) {
                $crate::scan::scan_rows::<T, Op>(x, lines, rows, exclusive, out);
            }

            #[::cuda_std::kernel(nested, T = [$type], Op = [$operator], max_threads = $crate::scan::THREADS)]
            pub fn scan_columns<T: $crate::__Pod, Op: $crate::op::ReduceOp<T>>(
                x: &[T],
                lines: $crate::scan::Lines,
                width: u32,
                exclusive: u32,
                state: ::cuda_std::SliceMut<'_, u64>,
                out: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Output>,
            ) {
                $crate::scan::scan_columns::<T, Op>(x, lines, width, exclusive, state, out);
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::compiled::Scan<$operator> for $type {
                type LookBack = scan<$type, $operator>;
                type Rows = scan_rows<$type, $operator>;
                type Columns = scan_columns<$type, $operator>;
                type Few = scan_columns<$type, $operator>;
            }
        };
    };
}

/// Compiles products of matrices with an epilogue of one's own, in a kernels crate: `epilogue: types`, of `f32`, `f64`, `i32`,
/// `f16` and `bf16`.
///
/// The epilogue is an [`EpilogueOp`](crate::matmul::epilogue::EpilogueOp) of what each type is summed in. On the host,
/// `a.fused_matmul(&b).bias(&bias).epilogue(value).compute()` then computes it, for every shape and on every device that the
/// library's own run on, but for types of none of these lines, with which it does not compile.
///
/// # Cost
///
/// Each of `f16` and `bf16` is twelve kernels: eight sizes of tiles for Hopper's tensor cores, three for those of Ampere and
/// later, and what finishes sums in memory, of products in parts and of GPUs without tensor cores. The others are that last
/// kernel each, which then follows the library's product.
///
/// The function is part of the kernels' loops if it is `#[inline(always)]`, and cannot panic, as by an index: where there is a
/// call, Hopper's tensor cores wait for each product.
///
/// Entries are named as [`operator_kernels!`](crate::operator_kernels) says.
///
/// # Examples
///
/// ```
/// use cuda_std::prelude::*;
/// use kernels_gpu::matmul::epilogue::EpilogueOp;
///
/// /// `x / (1 + e^−βx)` of sum and bias, times the residual: a gate.
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelParam)]
/// pub struct SwishGate {
///     pub beta: f32,
/// }
///
/// impl EpilogueOp<f32> for SwishGate {
///     #[inline(always)]
///     fn apply(self, sum: f32, bias: f32, residual: f32) -> f32 {
///         let x = sum + bias;
///         x / (1.0 + Float::exp(-self.beta * x)) * residual
///     }
/// }
///
/// kernels_gpu::epilogue_kernels!(SwishGate: bf16, f32);
///
/// # fn main() {
/// // What the kernels compute.
/// assert_eq!(SwishGate { beta: 0.0 }.apply(3.0, 1.0, -2.0), -4.0);
/// # }
/// ```
#[macro_export]
macro_rules! epilogue_kernels {
    ($function:ident: $($type:ident),+ $(,)?) => {
        $($crate::epilogue_kernels!(@type $function $type);)+
    };
    (@type $function:ident f32) => { $crate::epilogue_kernels!(@sums $function [f32]); };
    (@type $function:ident f64) => { $crate::epilogue_kernels!(@sums $function [f64]); };
    (@type $function:ident i32) => { $crate::epilogue_kernels!(@sums $function [i32]); };
    (@type $function:ident f16) => { $crate::epilogue_kernels!(@halves $function [::cuda_std::half::f16]); };
    (@type $function:ident bf16) => { $crate::epilogue_kernels!(@halves $function [::cuda_std::half::bf16]); };
    (@type $function:ident $type:ident) => {
        ::core::compile_error!("epilogues are of products of f32, f64, i32, f16 and bf16");
    };
    (@halves $function:ident $type:tt) => {
        $crate::epilogue_kernels!(@sums $function $type);
        $crate::epilogue_kernels!(@hopper $function $type);
        $crate::epilogue_kernels!(@ampere $function $type);
    };
    (@sums $function:ident [$($type:tt)+]) => {
        const _: () = {
            #[::cuda_std::kernel(nested, T = [$($type)+], F = [$function], max_threads = $crate::matmul::epilogue::parts::THREADS)]
            pub unsafe fn finish_sums<
                T: $crate::num::Num<Wide: $crate::matmul::epilogue::Activate + $crate::matmul::MulAdd>,
                F: $crate::matmul::epilogue::EpilogueOp<<T as $crate::num::Num>::Wide>,
            >(
                sums: ::cuda_std::Slice<'_, <T as $crate::num::Num>::Wide>,
                out: ::cuda_std::SliceMut<'_, T>,
                shape: $crate::matmul::epilogue::SumsShape,
                beta: <T as $crate::num::Num>::Wide,
                function: F,
                bias: &[T],
                residual: &[T],
            ) {
                // SAFETY: the kernel's contract is the function's.
                unsafe { $crate::matmul::epilogue::finish_sums_with(sums, out, shape, beta, function, bias, residual) };
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::compiled::FinishSums<$function> for $($type)+ {
                type Kernel = finish_sums<$($type)+, $function>;
            }
        };
    };
    (@hopper $function:ident [$($type:tt)+]) => {
        const _: () = {
            #[::cuda_std::kernel(
                nested,
                T = [$($type)+],
                F = [$function],
                R = [32, 64, 96, 128],
                arch = "sm_90a",
                max_threads = $crate::matmul::wgmma::THREADS,
                min_blocks = 1,
            )]
            pub unsafe fn gemm_wgmma<
                T: $crate::matmul::wgmma::Input<Element = T> + $crate::matmul::wgmma::Output,
                F: $crate::matmul::epilogue::EpilogueOp<f32>,
                const R: usize,
            >(
                a: ::cuda_std::tma::TensorMap<'_, T>,
                b: ::cuda_std::tma::TensorMap<'_, T>,
                c: ::cuda_std::tma::TensorMapMut<'_, T>,
                addend: ::cuda_std::tma::TensorMap<'_, T>,
                shape: $crate::matmul::wgmma::WgmmaShape,
                alpha: f32,
                ring: $crate::matmul::wgmma::addend::RingAddend,
                plan: $crate::matmul::epilogue::EpiloguePlan<F>,
                bias: &[T],
                residual: &[T],
            ) where
                [f32; R]: ::cuda_std::wgmma::Registers,
            {
                // SAFETY: the kernel's contract is the function's.
                unsafe {
                    $crate::matmul::wgmma::gemm_wgmma_with::<T, T, F, R>(
                        a, b, c, addend, shape, alpha, ring, plan, bias, residual,
                    )
                };
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::compiled::HopperGemm<$($type)+, $function> for $($type)+ {
                type N64 = gemm_wgmma<$($type)+, $function, 32>;
                type N128 = gemm_wgmma<$($type)+, $function, 64>;
                type N192 = gemm_wgmma<$($type)+, $function, 96>;
                type N256 = gemm_wgmma<$($type)+, $function, 128>;
            }

            #[::cuda_std::kernel(
                nested,
                T = [$($type)+],
                F = [$function],
                R = [24, 48, 56, 80, 84, 88],
                arch = "sm_90a",
                max_threads = $crate::matmul::wgmma::threads(R),
                min_blocks = 1,
            )]
            pub unsafe fn gemm_wgmma_across<
                T: $crate::matmul::wgmma::Input<Element = T> + $crate::matmul::wgmma::Output,
                F: $crate::matmul::epilogue::EpilogueOp<f32>,
                const R: usize,
            >(
                a: ::cuda_std::tma::TensorMap<'_, T>,
                b: ::cuda_std::tma::TensorMap<'_, T>,
                c: ::cuda_std::tma::TensorMapMut<'_, T>,
                shape: $crate::matmul::wgmma::WgmmaShape,
                alpha: f32,
                beta: f32,
                has_residual: u32,
                plan: $crate::matmul::epilogue::EpiloguePlan<F>,
                bias: &[T],
                residual: ::cuda_std::tma::TensorMap<'_, T>,
            ) where
                [f32; R]: ::cuda_std::wgmma::Registers,
            {
                // SAFETY: the kernel's contract is the function's.
                unsafe {
                    $crate::matmul::wgmma::across::gemm_wgmma_across_with::<T, F, R>(
                        a, b, c, shape.across(R), alpha, beta, has_residual, plan, bias, residual,
                    )
                };
            }

            #[::cuda_std::kernel(
                nested,
                T = [$($type)+],
                F = [$function],
                R = [56],
                arch = "sm_90a",
                max_threads = $crate::matmul::wgmma::threads(R),
                min_blocks = 1,
            )]
            pub unsafe fn gemm_wgmma_across_in_fours<
                T: $crate::matmul::wgmma::Input<Element = T> + $crate::matmul::wgmma::Output,
                F: $crate::matmul::epilogue::EpilogueOp<f32>,
                const R: usize,
            >(
                a: ::cuda_std::tma::TensorMap<'_, T>,
                b: ::cuda_std::tma::TensorMap<'_, T>,
                c: ::cuda_std::tma::TensorMapMut<'_, T>,
                shape: $crate::matmul::wgmma::WgmmaShape,
                alpha: f32,
                beta: f32,
                has_residual: u32,
                plan: $crate::matmul::epilogue::EpiloguePlan<F>,
                bias: &[T],
                residual: ::cuda_std::tma::TensorMap<'_, T>,
            ) where
                [f32; R]: ::cuda_std::wgmma::Registers,
            {
                // SAFETY: the kernel's contract is the function's.
                unsafe {
                    $crate::matmul::wgmma::across::gemm_wgmma_across_with::<T, F, R>(
                        a, b, c, shape.in_fours(), alpha, beta, has_residual, plan, bias, residual,
                    )
                };
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::compiled::AcrossGemm<$function> for $($type)+ {
                type Tiles64By48 = gemm_wgmma_across<$($type)+, $function, 24>;
                type Tiles192By96 = gemm_wgmma_across<$($type)+, $function, 48>;
                type Tiles64By112 = gemm_wgmma_across_in_fours<$($type)+, $function, 56>;
                type Tiles128By112 = gemm_wgmma_across<$($type)+, $function, 56>;
                type Tiles256By160 = gemm_wgmma_across<$($type)+, $function, 80>;
                type Tiles256By168 = gemm_wgmma_across<$($type)+, $function, 84>;
                type Tiles192By176 = gemm_wgmma_across<$($type)+, $function, 88>;
            }
        };
    };
    (@ampere $function:ident [$($type:tt)+]) => {
        const _: () = {
            #[::cuda_std::kernel(
                nested,
                T = [$($type)+],
                F = [$function],
                COLUMNS = [64, 128, 256],
                arch = "sm_80",
                max_threads = $crate::matmul::mma::threads(COLUMNS),
                min_blocks = $crate::matmul::mma::blocks(COLUMNS),
            )]
            pub unsafe fn gemm_mma<
                T: $crate::matmul::mma::Multiply<$crate::matmul::mma::Ampere, Element = T, Sum = f32>
                    + $crate::matmul::mma::Output,
                F: $crate::matmul::epilogue::EpilogueOp<f32>,
                const COLUMNS: usize,
            >(
                a: &[T],
                b: &[T],
                c: ::cuda_std::SliceMut<'_, T>,
                shape: $crate::matmul::mma::MmaShape,
                alpha: f32,
                beta: f32,
                plan: $crate::matmul::epilogue::EpiloguePlan<F>,
                bias: &[T],
                residual: &[T],
            ) {
                // SAFETY: the kernel's contract is the function's.
                unsafe {
                    $crate::matmul::mma::gemm_mma_with::<T, T, F, COLUMNS, $crate::matmul::mma::Ampere>(
                        a, b, c, shape, alpha, beta, plan, bias, residual,
                    )
                };
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::compiled::AmpereGemm<$($type)+, $function> for $($type)+ {
                type N64 = gemm_mma<$($type)+, $function, 64>;
                type N128 = gemm_mma<$($type)+, $function, 128>;
                type N256 = gemm_mma<$($type)+, $function, 256>;
            }
        };
    };
}

/// Compiles products of matrices whose rows are reduced as they are stored, in a kernels crate: `operator: types`, of `f16` and
/// `bf16`.
///
/// The operator is a [`ReduceOp`](crate::op::ReduceOp) of the elements, commutative, and one for whose reductions there are
/// kernels as well (`operator_kernels!(LogSumExp: bf16 => reduce)`), which reduce rows where these products do not: on other
/// GPUs than Hopper's, for one. On the host, `a.fused_matmul(&b).compute_with_rows::<LogSumExp>()` then gives the product and a
/// value for each row, without reading the product.
///
/// # Cost
///
/// Five kernels for each type: four widths of tiles, and what combines the parts of rows. The operator's functions want to be
/// `#[inline(always)]` and not to panic, as those of [`epilogue_kernels!`](crate::epilogue_kernels).
///
/// # Examples
///
/// ```
/// use cuda_std::Float;
/// use cuda_std::half::bf16;
/// use kernels_gpu::op::ReduceOp;
///
/// /// `ln Σ e^x`: with it, rows become their softmax by `e^(x − …)`.
/// pub struct LogSumExp;
///
/// impl ReduceOp<bf16> for LogSumExp {
///     // The largest element m, and the sum of e^(x − m).
///     type Acc = [f32; 2];
///     type Output = f32;
///
///     fn identity() -> [f32; 2] {
///         [f32::NEG_INFINITY, 0.0]
///     }
///
///     #[inline(always)]
///     fn lift(x: bf16, _: u64) -> [f32; 2] {
///         [x.to_f32(), 1.0]
///     }
///
///     #[inline(always)]
///     fn combine(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
///         let most = Float::maximum(a[0], b[0]);
///         let scaled = |[m, sum]: [f32; 2]| if m == most { sum } else { sum * Float::exp(m - most) };
///         [most, scaled(a) + scaled(b)]
///     }
///
///     fn finish([most, sum]: [f32; 2], _: u64) -> f32 {
///         most + Float::ln(sum)
///     }
/// }
///
/// kernels_gpu::operator_kernels!(LogSumExp: bf16 => reduce);
/// kernels_gpu::row_kernels!(LogSumExp: bf16);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! row_kernels {
    ($operator:ident: $($type:ident),+ $(,)?) => {
        $($crate::row_kernels!(@type $operator $type);)+
    };
    (@type $operator:ident f16) => { $crate::row_kernels!(@kernels $operator [::cuda_std::half::f16]); };
    (@type $operator:ident bf16) => { $crate::row_kernels!(@kernels $operator [::cuda_std::half::bf16]); };
    (@type $operator:ident $type:ident) => {
        ::core::compile_error!("rows are reduced of products of f16 and bf16");
    };
    (@kernels $operator:ident [$($type:tt)+]) => {
        const _: () = {
            #[::cuda_std::kernel(
                nested,
                T = [$($type)+],
                Op = [$operator],
                R = [32, 64, 96, 128],
                arch = "sm_90a",
                max_threads = $crate::matmul::wgmma::THREADS,
                min_blocks = 1,
            )]
            pub unsafe fn gemm_wgmma_rows<
                T: $crate::matmul::wgmma::Input<Element = T> + $crate::matmul::wgmma::Output + $crate::matmul::mma::Output,
                Op: $crate::op::ReduceOp<T>,
                const R: usize,
            >(
                a: ::cuda_std::tma::TensorMap<'_, T>,
                b: ::cuda_std::tma::TensorMap<'_, T>,
                c: ::cuda_std::tma::TensorMapMut<'_, T>,
                addend: ::cuda_std::tma::TensorMap<'_, T>,
                shape: $crate::matmul::wgmma::WgmmaShape,
                alpha: f32,
                ring: $crate::matmul::wgmma::addend::RingAddend,
                plan: $crate::matmul::epilogue::EpiloguePlan,
                bias: &[T],
                residual: &[T],
                partials: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Acc>,
            ) where
                [f32; R]: ::cuda_std::wgmma::Registers,
            {
                // SAFETY (of both): the kernel's contract is the functions'.
                unsafe {
                    let plan = plan.with_rows::<T, Op>(shape.batch as usize * shape.m as usize, partials);
                    $crate::matmul::wgmma::gemm_wgmma_with::<T, T, _, R>(
                        a, b, c, addend, shape, alpha, ring, plan, bias, residual,
                    )
                };
            }

            #[::cuda_std::kernel(
                nested,
                T = [$($type)+],
                Op = [$operator],
                max_threads = $crate::matmul::epilogue::rows::COMBINE_THREADS,
            )]
            pub fn combine_rows<T: $crate::__Pod, Op: $crate::op::ReduceOp<T>>(
                partials: &[<Op as $crate::op::ReduceOp<T>>::Acc],
                columns: u64,
                out: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Output>,
            ) {
                $crate::matmul::epilogue::rows::combine_rows::<T, Op>(partials, columns, out);
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::compiled::HopperRows<$operator> for $($type)+ {
                type N64 = gemm_wgmma_rows<$($type)+, $operator, 32>;
                type N128 = gemm_wgmma_rows<$($type)+, $operator, 64>;
                type N192 = gemm_wgmma_rows<$($type)+, $operator, 96>;
                type N256 = gemm_wgmma_rows<$($type)+, $operator, 128>;
                type Combine = combine_rows<$($type)+, $operator>;
            }
        };
    };
}

/// Functions of the elements of one to four arrays, made kernels: for a chain of operations in one pass, and for what
/// the library has not.
///
/// Each function becomes a kernel of its name, and [`compiled::Elementwise`](crate::compiled), so that on the host
/// `x.map_with::<function>()` and `elementwise::<function, _>((&x, &y))` take it and no other. Arguments and result can
/// be of any plain types.
///
/// Every element is read and written once, in vectors of 16 bytes of the largest of the types. The function is called
/// inside the kernel alone.
///
/// # Examples
///
/// ```
/// use cuda_std::Float;
///
/// kernels_gpu::elementwise! {
///     /// From degrees Celsius to degrees Fahrenheit.
///     pub fn fahrenheit(celsius: f32) -> f32 {
///         celsius * 1.8 + 32.0
///     }
///
///     /// The length of the hypotenuse, of a triangle that exists.
///     pub fn hypotenuse(a: f32, b: f32, exists: u8) -> f32 {
///         if exists != 0 { Float::sqrt(a * a + b * b) } else { 0.0 }
///     }
/// }
///
/// # fn main() {
/// # use cuda_std::Slice;
/// # let mut x = [0.0, 100.0, -40.0];
/// # cuda_std::launch::on_simulator(1, kernels_gpu::elementwise::THREADS as u32, &mut x, |out| {
/// #     // SAFETY: the same elements, for the kernel's time.
/// #     fahrenheit(unsafe { Slice::from_raw_parts(out.as_ptr(), out.len()) }, out);
/// # });
/// // `x.map_with::<fahrenheit>()` on the host
/// assert_eq!(x, [32.0, 212.0, -40.0]);
/// # }
/// ```
#[macro_export]
macro_rules! elementwise {
    ($(
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident($($input:ident: $type:ty),+ $(,)?) -> $output:ty $body:block
    )+) => {$(
        $(#[$meta])*
        #[::cuda_std::kernel(max_threads = $crate::elementwise::THREADS)]
        $visibility fn $name($($input: ::cuda_std::Slice<'_, $type>,)+ out: ::cuda_std::SliceMut<'_, $output>) {
            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            fn function($($input: $type),+) -> $output $body

            $crate::elementwise::run(($($input,)+), out, |($($input,)+)| function($($input),+));
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl $crate::compiled::Elementwise for $name {
            type Inputs = ($($type,)+);
            type Output = $output;
            const TILE: usize = $crate::elementwise::tile_len::<$output>(&[$(::core::mem::size_of::<$type>()),+]);
            type Kernel = $name;
        }
    )+};
}
