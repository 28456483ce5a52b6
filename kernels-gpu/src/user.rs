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
                exclusive: u32,
                out: ::cuda_std::SliceMut<'_, <Op as $crate::op::ReduceOp<T>>::Output>,
            ) {
                $crate::scan::scan_rows::<T, Op>(x, lines, exclusive, out);
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
            #[inline(always)]
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
