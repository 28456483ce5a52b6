// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix, one by one and in batches.

use kernels_gpu::compiled::{Gemm, SumParts, Tiled};
use kernels_gpu::matmul::gemm::{GemmShape, Large, Medium, Small};
use kernels_gpu::num::Num;
use ndarray::{Dimension, Ix2, Ix3};

use super::MatMul;
use super::costs::{Parts, best_size, blocks, tile_costs};
use super::finish::{self, Finish, Finished, Sums};
use super::fused::FusedMatMul;
use super::gemv::by_vector;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{LaunchConfig, Words};
use crate::ops::transpose::Ordered;
use crate::stream::Stream;

/// The most blocks that a grid has along z.
const MAX_GRID_Z: usize = 65_535;

/// The products of a batch, of operands whose shapes fit.
#[doc(hidden)]
pub struct Multiplication<'a, T, D> {
    pub(super) a: Ordered<'a, T, D>,
    pub(super) b: Ordered<'a, T, D>,
    pub(super) shape: GemmShape,
    /// The most products of one grid: what a GPU has room for along z, and fewer in tests.
    pub(super) grid: usize,
}

/// What `operation` wants of the shapes of its operands.
fn wanted(axes: usize, with_output: bool) -> String {
    let operands = match axes {
        2 => "m × k and k × n",
        _ => "batch × m × k and batch × k × n (a batch of 1 is repeated)",
    };
    let output = match (with_output, axes) {
        (false, _) => "",
        (true, 2) => " into m × n",
        (true, _) => " into batch × m × n",
    };
    format!("{operands}{output}")
}

/// The extents batch, m, n and k of products of operands of these shapes, of two axes (batches of one) or three.
fn extents(operation: &'static str, a: &[usize], b: &[usize], out: Option<&[usize]>) -> Result<[usize; 4]> {
    let axes = |shape: &[usize]| match *shape {
        [rows, columns] => [1, rows, columns],
        [batch, rows, columns] => [batch, rows, columns],
        _ => unreachable!("the operations are those of two and three axes"),
    };
    let ([a_batch, m, k], [b_batch, b_k, n]) = (axes(a), axes(b));
    let batch = if a_batch == 1 { b_batch } else { a_batch };
    let result = [batch, m, n];
    let fits = k == b_k && (b_batch == batch || b_batch == 1);
    if fits && out.is_none_or(|out| *out == result[3 - out.len()..]) {
        return Ok([batch, m, n, k]);
    }
    Err(Error::Shape {
        operation,
        given: match out {
            Some(out) => format!("shapes {a:?} and {b:?} into {out:?}"),
            None => format!("shapes {a:?} and {b:?}"),
        },
        wanted: wanted(a.len(), out.is_some()),
    })
}

/// The shape of the product of operands of these shapes, both of two axes or of three.
pub(crate) fn matmul_shape(operation: &'static str, a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let [batch, m, n, _] = extents(operation, a, b, None)?;
    Ok([batch, m, n][3 - a.len()..].to_vec())
}

impl<'a, T: Element, D: Dimension> Multiplication<'a, T, D> {
    /// The product of operands of two axes (batches of one) or three.
    pub(super) fn new(
        operation: &'static str,
        a: &'a DeviceArrayRef<T, D>,
        b: &'a DeviceArrayRef<T, D>,
        out: Option<&DeviceArrayRef<T, D>>,
    ) -> Result<Self> {
        let [batch, m, n, k] = extents(operation, a.shape(), b.shape(), out.map(DeviceArrayRef::shape))?;
        a.stream().check_device(operation, b.stream())?;
        // The kernels go forwards.
        let (a, b) = (a.forwards(out)?, b.forwards(out)?);
        let (of_a, of_b) = (a.broadcast([batch, m, k])?.steps(), b.broadcast([batch, k, n])?.steps());
        let shape = GemmShape {
            batch,
            first: 0,
            m,
            n,
            k,
            a: [of_a[0], of_a[1], of_a[2]],
            b: [of_b[0], of_b[2], of_b[1]],
            whole: 0,
            pitch: n,
        };
        Ok(Self {
            a,
            b,
            shape,
            grid: MAX_GRID_Z,
        })
    }
}

impl<T: Tiled + Finished<Scalar = T> + Num<Wide = T>, D: Dimension> Multiplication<'_, T, D> {
    /// Multiplies by the kernel for any GPU.
    pub(super) fn run(self, stream: &Stream, out: &mut DeviceArrayRef<T, D>, finish: &Finish<'_, T, D>) -> Result<()> {
        self.run_by(None, stream, out, finish)
    }

    /// The same by tiles of so many rows, if that is said.
    pub(super) fn run_by(
        mut self,
        rows: Option<usize>,
        stream: &Stream,
        out: &mut DeviceArrayRef<T, D>,
        finish: &Finish<'_, T, D>,
    ) -> Result<()> {
        if finish.alpha == T::ZERO {
            // As in BLAS: the operands are not read, so nothing of theirs gets into the result.
            self.shape.k = 0;
        }
        let multiprocessors = stream.backend().properties().multiprocessors as usize;
        let chosen = rows.and_then(|rows| tile_costs::<T>().iter().position(|size| size.tile[0] == rows));
        let size = chosen.unwrap_or_else(|| best_size::<T>(&self.shape, multiprocessors).0);
        self.run_size(size, stream, out, finish)
    }

    /// The same with k in parts, whose sums are added up behind.
    pub(super) fn run_parts(
        &self,
        how: Parts,
        stream: &Stream,
        out: &mut DeviceArrayRef<T, D>,
        finish: &Finish<'_, T, D>,
    ) -> Result<()>
    where
        T: SumParts,
    {
        let GemmShape { m, n, k, a, b, .. } = self.shape;
        let pitch = n.next_multiple_of(finish::width_of::<T>());
        let parts = Multiplication {
            a: Ordered::AsIs(self.a.laid_out(Ix3(1, m, k), a.to_vec())),
            b: Ordered::AsIs(self.b.laid_out(Ix3(1, k, n), vec![b[0], b[2], b[1]])),
            shape: GemmShape {
                pitch,
                ..how.of(&self.shape)
            },
            grid: self.grid,
        };
        let count = parts.shape.batch;
        let mut sums = DeviceArray::<T, _>::uninit_with_room(stream, Ix3(count, m, pitch))?;
        parts.run_size(how.size, stream, &mut sums, &Finish::scale(finish.alpha, T::ZERO))?;
        let sums = Sums::in_parts(&sums, count, [m * pitch, pitch, 1]);
        finish::finish_parts_into(sums, &self.shape, stream, out, finish)
    }

    /// By the tiles of that number.
    fn run_size(
        &self,
        size: usize,
        stream: &Stream,
        out: &mut DeviceArrayRef<T, D>,
        finish: &Finish<'_, T, D>,
    ) -> Result<()> {
        match size {
            0 => self.launch::<Large>(stream, out, finish),
            1 => self.launch::<Medium>(stream, out, finish),
            _ => self.launch::<Small>(stream, out, finish),
        }
    }

    /// By tiles of size `S`; what their kernel does not finish is finished where it lies.
    fn launch<S>(&self, stream: &Stream, out: &mut DeviceArrayRef<T, D>, finish: &Finish<'_, T, D>) -> Result<()>
    where
        T: Gemm<S>,
    {
        let blocks = blocks(&self.shape, <T as Gemm<S>>::BLOCK_TILE);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        for first in (0..self.shape.batch).step_by(self.grid) {
            let shape = GemmShape { first, ..self.shape };
            let products = (shape.batch - first).min(self.grid) as u32;
            let config = LaunchConfig::new((blocks, 1, products), <T as Gemm<S>>::THREADS as u32);
            let args = (
                Words::of(&self.a),
                Words::of(&self.b),
                &mut *out,
                shape,
                finish.alpha,
                finish.beta,
                finish.plan(),
                finish.bias(),
                finish.residual(),
            );
            match (along_k(shape.a), along_k(shape.b)) {
                (true, true) => stream.launch::<<T as Gemm<S>>::AlongKK>(&config, args),
                (true, false) => stream.launch::<<T as Gemm<S>>::AlongKN>(&config, args),
                (false, true) => stream.launch::<<T as Gemm<S>>::AlongMK>(&config, args),
                (false, false) => stream.launch::<<T as Gemm<S>>::AlongMN>(&config, args),
            }?;
        }
        if <T as Gemm<S>>::FINISHES || finish.only_scales() {
            return Ok(());
        }
        // SAFETY: the launch takes the output mutably beside it; a thread of its kernel reads what it then sets.
        let sums = unsafe { Sums::in_place(out, &self.shape) };
        finish::finish_sums_into(sums, &self.shape, stream, out, &finish.without_scaling())
    }
}

/// Whether an operand with these strides (batch, lines, k) lies along k rather than along its lines.
fn along_k([_, line, k]: [usize; 3]) -> bool {
    k == 1 || (line != 1 && k < line)
}

/// Multiplies integers, whose sums are the same with k in parts, and a matrix by a vector as `matvec`.
pub(super) fn multiply_integers<D: Dimension>(
    product: Multiplication<'_, i32, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<i32, D>,
    finish: &Finish<'_, i32, D>,
) -> Result<()> {
    if by_vector(&product, stream, out, finish)? {
        return Ok(());
    }
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    match Parts::best::<i32>(&product.shape, finish.behind_parts(stream), multiprocessors).filter(|_| finish.alpha != 0)
    {
        Some(parts) => product.run_parts(parts, stream, out, finish),
        None => product.run(stream, out, finish),
    }
}

/// Adds products to sums of their own type.
pub(super) fn add_products<T: MatMul<Scalar = T> + Num>(
    a: &DeviceArrayRef<T, Ix3>,
    b: &DeviceArrayRef<T, Ix3>,
    sums: &mut DeviceArrayRef<T, Ix3>,
) -> Result<()> {
    a.fused_batched_matmul(b).accumulate_into(sums, T::ONE)
}

/// What multiplies into an output, and finishes the sums, on that stream.
pub(super) type Multiply<T, D> =
    fn(Multiplication<'_, T, D>, &Stream, &mut DeviceArrayRef<T, D>, &Finish<'_, T, D>) -> Result<()>;

/// Products of matrices.
impl<T: MatMul> DeviceArrayRef<T, Ix2> {
    /// The product of this m × k matrix and the k × n matrix `b`: an m × n matrix.
    ///
    /// The operands may be views of any strides. Where k is 0, the sum is 0. NaN and infinities propagate as IEEE 754 says,
    /// `0 · ∞` too. The bits of a result do not change from run to run.
    ///
    /// How exact it is, with `u` for the unit roundoff of the type that is summed in, to first order:
    ///
    /// * `f32` and `f64` are summed in their own type, in the order of k, by fused multiply-add: the same bits on every
    ///   device, whichever kernel is chosen, but that a product with one row or one column is that of
    ///   [`matvec`](Self::matvec), that where the result of `f32` has few tiles for the device, a k of some hundreds or more is cut into up
    ///   to 64 parts, which are then added in a fixed order, that a sum of `f64` that underflows to −0 is 0 on tensor cores, and that `f64` on Hopper, where the result has few tiles, is summed in two or four chains, of which each has the next eight elements of k in
    ///   turn, and, where k is some hundreds at least, in up to 16 parts of k; these are then added in a fixed order: where k is cut the bits
    ///   depend on the device's number of multiprocessors, on the number of products of a batch, and on whether operands have to be
    ///   copied. An element's error is at most `k u Σ|a||b|`.
    /// * `f16` and `bf16` are summed in `f32`, and the sum is rounded once. A GPU from Ampere on, of `f16` from Turing on, does
    ///   it on its tensor cores, which truncate where `f32` rounds: the error of the sum is at most `k u Σ|a||b|` with `u = 2⁻²³`. Any
    ///   other device converts the operands to `f32` and multiplies these, with `u = 2⁻²⁴`. So the bits differ between
    ///   devices. A product with one row or one column is that of [`matvec`](Self::matvec), everywhere. Rounding adds at
    ///   most the type's unit roundoff times the sum; what is beyond its range is an infinity.
    /// * `i32` wraps around on overflow.
    ///
    /// # Cost
    ///
    /// `2 m n k` operations, `k` of them one after another; `m n k (1 / r + 1 / c)` elements are loaded for tiles of
    /// r × c, most of them from the cache. Which kernel, and how large the tiles, the number of tiles for each
    /// multiprocessor decides, or, where that was measured, a table
    /// ([`set_matmul_choices`](crate::ops::set_matmul_choices)), with which the bits of `f16` and `bf16` differ:
    ///
    /// * a block keeps a tile of the result in registers, from 128 × 128 (f64: 128 × 64) down to 32 × 32, and goes along
    ///   k by tiles of the operands in shared memory (CUTLASS, NVIDIA, 2017); where k is cut into parts, of `f32` and `i32`, these
    ///   take the memory of as many results;
    /// * `f32` on Hopper: tiles of 128 × 256, 64 × 128 or 32 × 64, by blocks that take several in turn, and whose operands
    ///   the tensor memory accelerator copies, but small products with an operand that it cannot read; where the last round of
    ///   tiles would leave multiprocessors idle, its tiles are cut along k, and sums that one block began another one ends;
    ///   where k is cut into parts, these take the memory of as many results;
    /// * `f16` and `bf16` on Hopper: the same by tensor cores, tiles of 128 × 64 to 128 × 256 (CUTLASS 3, NVIDIA, 2023);
    /// * `f16` and `bf16` on other GPUs from Ampere on: tiles of 64 × 64 to 128 × 256, a block each (CUTLASS 2, NVIDIA,
    ///   2020);
    /// * `f16` on Turing, and `f64` on a GPU of compute capability 8.0 or 10.0: the same by tiles of 128 × 128; `f64` on Hopper:
    ///   tiles of 128 × 128 to 32 × 32, the last of which are cut along k among the multiprocessors, or, where there are few, all.
    ///
    /// The first copies no operand, transposed or not. The others read lines without gaps between their elements that begin
    /// at multiples of 16 bytes: rows or columns of 16-bit numbers; of `f32`, columns of this matrix (with the smaller tiles
    /// rows, too) and rows of `b`. The accelerator stores such rows of 16-bit numbers. An operand that lies otherwise is
    /// copied first, and on Hopper a result of 16-bit numbers to its place, which takes as much memory and time as they have
    /// bytes. So does, with any kernel, an operand that goes backwards. On GPUs without
    /// tensor cores for them `f16` and `bf16` take the memory of the operands and the result in `f32`.
    ///
    /// Sources: N. Higham, "Accuracy and Stability of Numerical Algorithms", 3.5; M. Fasi, N. Higham, M. Mikaitis, S.
    /// Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not fit, [`Error::DifferentDevices`], and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let a = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
    /// assert_eq!(a.t().matmul(&a)?.to_ndarray()?, array![[35.0, 44.0], [44.0, 56.0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn matmul(&self, b: &DeviceArrayRef<T, Ix2>) -> Result<DeviceArray<T, Ix2>> {
        FusedMatMul::new("matmul", self, b).compute()
    }

    /// [`matmul`](Self::matmul) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`matmul`](Self::matmul); on an error nothing is written.
    pub fn matmul_into(&self, b: &DeviceArrayRef<T, Ix2>, out: &mut DeviceArrayRef<T, Ix2>) -> Result<()> {
        FusedMatMul::new("matmul", self, b).compute_into(out)
    }
}

/// Products of batches of matrices.
impl<T: MatMul> DeviceArrayRef<T, Ix3> {
    /// The products of these batch × m × k matrices and the batch × k × n matrices `b`, one by one: batch × m × n. A batch
    /// of one matrix is multiplied with all of the other.
    ///
    /// Each product is [`matmul`](DeviceArrayRef::matmul)'s: its operands may be views of any strides, its error, its cost
    /// and its copies are those. All products are done in one launch, whose tiles are chosen for all of them together; in
    /// several where there are more than 65535, but for the kernels that the tensor memory accelerator copies for.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not fit, [`Error::DifferentDevices`], and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let rotation = DeviceArray::from_ndarray(device.default_stream(), &array![[[0, -1], [1, 0]]])?;
    /// let points = DeviceArray::from_ndarray(device.default_stream(), &array![[[1], [2]], [[3], [4]]])?;
    /// assert_eq!(rotation.batched_matmul(&points)?.to_ndarray()?, array![[[-2], [1]], [[-4], [3]]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn batched_matmul(&self, b: &DeviceArrayRef<T, Ix3>) -> Result<DeviceArray<T, Ix3>> {
        FusedMatMul::new("batched_matmul", self, b).compute()
    }

    /// [`batched_matmul`](Self::batched_matmul) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`batched_matmul`](Self::batched_matmul); on an error nothing is written.
    pub fn batched_matmul_into(&self, b: &DeviceArrayRef<T, Ix3>, out: &mut DeviceArrayRef<T, Ix3>) -> Result<()> {
        FusedMatMul::new("batched_matmul", self, b).compute_into(out)
    }
}

/// Products of matrices in place.
impl<T: MatMul> DeviceArrayRef<T, Ix2> {
    /// `self ← alpha · a b + beta · self`, for an m × k matrix `a` and a k × n matrix `b`, as BLAS does.
    ///
    /// If `beta` is 0, the old elements are not looked at, if `alpha` is 0, those of `a` and `b` are not: a NaN there
    /// does not get into the result. The sum of products is that of [`matmul`](DeviceArrayRef::matmul), as are the cost
    /// and the copies; `alpha` times it is rounded, then `beta` times the old element is added by fused multiply-add.
    ///
    /// The scalars are of the elements' type, but `f32` for `f16` and `bf16`: these are scaled and added in `f32`, and the
    /// result is rounded to the type once.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not fit, [`Error::DifferentDevices`], and those of a launch; on an error
    /// nothing is written.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let a = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0]])?;
    /// let b = DeviceArray::from_ndarray(stream, &array![[3.0], [4.0]])?;
    /// let mut c = DeviceArray::from_ndarray(stream, &array![[100.0]])?;
    /// c.gemm(2.0, &a, &b, 0.5)?;
    /// assert_eq!(c.to_ndarray()?, array![[72.0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn gemm(
        &mut self,
        alpha: T::Scalar,
        a: &DeviceArrayRef<T, Ix2>,
        b: &DeviceArrayRef<T, Ix2>,
        beta: T::Scalar,
    ) -> Result<()> {
        FusedMatMul::new("gemm", a, b).alpha(alpha).accumulate_into(self, beta)
    }
}

/// Products of batches of matrices in place.
impl<T: MatMul> DeviceArrayRef<T, Ix3> {
    /// `self[i] ← alpha · a[i] b[i] + beta · self[i]`, for batches of m × k and k × n matrices, of which either may
    /// have one matrix for all; as [`gemm`](DeviceArrayRef::gemm) does for each.
    ///
    /// # Errors
    ///
    /// As [`gemm`](DeviceArrayRef::gemm).
    pub fn batched_gemm(
        &mut self,
        alpha: T::Scalar,
        a: &DeviceArrayRef<T, Ix3>,
        b: &DeviceArrayRef<T, Ix3>,
        beta: T::Scalar,
    ) -> Result<()> {
        let product = FusedMatMul::new("batched_gemm", a, b).alpha(alpha);
        product.accumulate_into(self, beta)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array3;

    use super::*;
    use crate::device::Device;

    /// Products beyond a grid are those of the next ones, each once, to the last grid, which is not whole.
    #[test]
    fn a_batch_has_as_many_grids_as_it_takes() {
        assert_eq!(MAX_GRID_Z, cuda_sim::LIMITS.max_grid.z as usize);
        let device = Device::simulator();
        let stream = device.default_stream();
        let upload = |array: &Array3<i32>| DeviceArray::from_ndarray(stream, array).unwrap();
        let a = Array3::from_shape_fn((7, 2, 3), |(p, i, k)| (5 * p + 2 * i + k) as i32);
        let b = Array3::from_shape_fn((7, 3, 4), |(p, k, j)| (p * j) as i32 - k as i32);
        let old = Array3::from_shape_fn((7, 2, 4), |(p, i, j)| (9 * p + i + j) as i32);
        let (x, y, mut out) = (upload(&a), upload(&b), upload(&old));
        let mut products = Multiplication::new("products", &x, &y, Some(&out)).unwrap();
        products.grid = 3;
        products.run(stream, &mut out, &Finish::scale(1, 2)).unwrap();
        let wanted = Array3::from_shape_fn(old.dim(), |(p, i, j)| {
            let sum: i32 = (0..3).map(|k| a[[p, i, k]] * b[[p, k, j]]).sum();
            sum + 2 * old[[p, i, j]]
        });
        assert_eq!(out.to_ndarray().unwrap(), wanted);
    }
}
