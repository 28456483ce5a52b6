// SPDX-License-Identifier: MIT OR Apache-2.0
//! The macros of cuda_std_macros, and what they do.

/// Makes a function a kernel: an entry point of a PTX module, and a typed handle for the host.
///
/// The function stays what it is, and can be called by other device code. Beside it comes a type of the same name, the
/// kernel's handle, which implements `cuda_std::launch::Kernel` on the host; launching through it checks number and
/// types of the arguments at compile time. A kernel that is an `unsafe fn` has an unsafe launch, any other a safe one.
///
/// Parameters are what `cuda_std::param::Param` is implemented for: numbers, `bool`, arrays and tuples of them, structures
/// with [`KernelParam`](derive@KernelParam), `&[T]` and `SliceMut<'_, T>`. A kernel returns nothing.
///
/// # Generic kernels
///
/// A PTX entry has no type parameters, so a generic kernel lists the types (or constants) it is compiled for; with
/// several parameters, for every combination.
///
/// ```
/// use cuda_std::prelude::*;
///
/// #[kernel(T = [f32, f64])]
/// pub fn halve<T: Float>(x: &[T], out: SliceMut<'_, T>) {
///     let i = thread::index_1d();
///     if i < out.len() {
///         out.set(i, x[i] * T::from_f64(0.5));
///     }
/// }
/// ```
///
/// Where not every combination is wanted, there are several groups of lists, with semicolons between them, the options
/// behind the last: `#[kernel(T = [f32], U = [u8, u16]; T = [f64], U = [u32], max_threads = 256)]` is of three.
///
/// # Options
///
/// * `max_threads = N`: the largest block it is launched with (`__launch_bounds__`), which lets the assembler use more
///   registers. A constant expression. A launch with more threads is an error.
/// * `min_blocks = N`: how many blocks shall fit on a multiprocessor at least, which bounds the registers.
/// * `cluster = N`, or `(X, Y)` or `(X, Y, Z)`: the extents of its thread block [clusters](crate::cluster), in blocks
///   (`__cluster_dims__`). Constant expressions, of which the product is at most 8. A launch whose grid is no multiple of them
///   is an error, as is one on a GPU without clusters. Without `arch` the kernel is then for `sm_90`, the first architecture
///   that has clusters, and every later one. There is none for a kernel that takes a `GridBarrier`.
/// * `arch = "sm_90a"`: the architecture whose instructions the kernel uses. It has PTX for that alone, whatever others the
///   crate is built for, and can be launched where that runs: `sm_80` on that and every later GPU, `sm_90a` on Hopper
///   alone. Without, it is compiled for each architecture that the crate is built for.
/// * `nested`: the kernel stands in a block, of a macro's expansion for instance, and not in a module. The types of its
///   parameters and its bounds are then named by paths that hold in the module around the block.
///
/// The bounds and the cluster may name the function's constant parameters.
///
/// A cluster of more blocks than all GPUs with clusters take does not compile:
///
/// ```compile_fail,E0080
/// use cuda_std::prelude::*;
///
/// #[kernel(cluster = (4, 4))]
/// pub fn large(out: SliceMut<'_, u32>) {
///     out.set(0, 1);
/// }
/// ```
///
/// # Names
///
/// The entry is called like the function and its type arguments (`halve_f32`), and so is its PTX module: each entry is
/// a module of its own, which is compiled by the driver when it is first launched. Two kernels of one crate cannot have
/// one name.
pub use cuda_std_macros::kernel;

/// Makes a function a device function: one that expressions on the host are made of, and a typed handle for the host.
///
/// The function stays what it is, and can be called by device code and on the host. Beside it comes a type of the same name,
/// its handle, which implements `cuda_std::launch::DeviceFn` on the host. On the GPU it is a PTX function that the host puts
/// into a kernel which it writes at run time; on the simulated GPU the function itself is called, so that both compute the same.
///
/// It takes up to six numbers and gives one: types that `cuda_std::scalar::Scalar` is implemented for, by value. It is a
/// safe function. It is called once for each element, by threads that may diverge: it uses neither shared memory nor what a
/// warp or a block does together.
///
/// A generic function lists the types (or constants) it is compiled for, as a [`kernel`](macro@kernel) does: for every
/// combination, and with several groups of lists behind semicolons.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// The distance from the origin.
/// #[device_fn]
/// pub fn norm(x: f32, y: f32) -> f32 {
///     Float::sqrt(Float::mul_add(x, x, y * y))
/// }
///
/// #[device_fn(T = [f32, f64])]
/// pub fn logistic<T: Float>(x: T) -> T {
///     let one = T::from_f64(1.0);
///     one / (one + (-x).exp())
/// }
/// # assert_eq!((norm(3.0, 4.0), logistic(0.0_f64)), (5.0, 0.5));
/// ```
///
/// The PTX function is called like the function and its type arguments (`logistic_f32`). Kernels and device functions of one
/// crate share one space of names. All instances of a function are one module of PTX, named like the function.
pub use cuda_std_macros::device_fn;

/// Lets kernels take a structure by value.
///
/// The structure is `Copy` and `#[repr(C)]`, and its fields are what a kernel takes by value: numbers, `bool`, arrays and
/// tuples of them, and other such structures. Its fields may be private, and a kernel rely on what the constructor has
/// checked.
///
/// ```
/// use cuda_std::prelude::*;
///
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelParam)]
/// pub struct Camera {
///     position: [f32; 3],
///     zoom: f32,
///     mirrored: bool,
/// }
///
/// #[kernel]
/// pub fn project(camera: Camera, depths: &[f32], out: SliceMut<'_, f32>) {
///     let i = thread::index_1d();
///     if i < out.len() {
///         let scale = camera.zoom / (depths[i] - camera.position[2]);
///         out.set(i, if camera.mirrored { -scale } else { scale });
///     }
/// }
/// ```
pub use cuda_std_macros::KernelParam;

/// Declares an array in the block's static shared memory: `shared_array![f32; 256]`.
///
/// Gives a `cuda_std::shared::Shared<f32>`. The element type and the length are constants of the module, not parameters of an
/// enclosing function: see below for those. Each place in the source that declares one is one array, whichever type
/// arguments the function around it has; its contents are unspecified at the start. Static arrays may take 48 KiB a
/// block.
///
/// ```
/// use cuda_std::prelude::*;
///
/// const BLOCK: usize = 256;
///
/// /// Reverses each block's share of the array, for blocks of 256 threads.
/// #[kernel(max_threads = BLOCK)]
/// pub fn reverse_in_blocks(data: SliceMut<'_, f32>) {
///     let tile = shared_array![f32; BLOCK];
///     let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
///     tile.set(t, data.get(i));
///     thread::sync_threads();
///     data.set(i, tile.get(BLOCK - 1 - t));
/// }
/// ```
///
/// # In generic functions
///
/// A static cannot be made of a parameter of the function around it; the compiler says E0401. So
/// `shared_array![T as f64; 256]` names a type that is known, and takes its room for each of 256 elements of type `T`, which are
/// to be as large at most. A length is the largest that there is; a constant parameter says how much of it is used. Where the
/// room of the largest is too much, the memory is [dynamic](crate::shared::dynamic).
///
/// ```
/// use cuda_std::prelude::*;
///
/// const MOST: usize = 256;
///
/// /// Reverses each block's share of the array, for blocks of `BLOCK` threads.
/// #[kernel(T = [f32, f64], BLOCK = [128, 256], max_threads = BLOCK)]
/// pub fn reverse_in_blocks<T: Float, const BLOCK: usize>(data: SliceMut<'_, T>) {
///     const { assert!(BLOCK <= MOST) };
///     let tile = shared_array![T as f64; MOST];
///     let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
///     tile.set(t, data.get(i));
///     thread::sync_threads();
///     data.set(i, tile.get(BLOCK - 1 - t));
/// }
/// # let mut data: Vec<f32> = (0..256).map(|i| i as f32).collect();
/// # cuda_std::launch::on_simulator(2, 128, &mut data, |data| reverse_in_blocks::<f32, 128>(data));
/// # assert_eq!((data[0], data[127], data[128]), (127.0, 0.0, 255.0));
/// ```
pub use cuda_std_macros::shared_array;
