// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times vector, and the dot product of two vectors.

use cuda_std::launch::SafeKernel;
use kernels_gpu::compiled::{CombineParams, FinishSums, GemvParams, MatVec};
use kernels_gpu::matmul::epilogue::parts::OF_THREAD;
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::gemv::{GemvShape, ROWS, THREADS, rows_combined, vector_of};
use kernels_gpu::num::Num;
use ndarray::{Dimension, Ix1, Ix2};

use super::finish::{self, Finish, Finished, Passed, Sums};
use super::gemm::Multiplication;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::Words;
use crate::ops::tiles;
use crate::stream::Stream;

/// Sums that a matrix of few rows is cut into, for the kernel along rows: enough warps for any device.
const ROW_SUMS: usize = 8192;
/// Elements that such a sum has at least, and of which it has a multiple.
const ROW_CHUNK: usize = 4096;
/// Blocks that a matrix of few rows is cut into, for the kernel along columns, of elements of so many bytes: about as many as run at the
/// same time on an H200, three on a multiprocessor of 16 bits, four of others.
const fn column_blocks(bytes: usize) -> usize {
    if bytes == 2 { 400 } else { 512 }
}
/// Columns that such a block has at least, and of which it has a multiple: all that its threads load at once.
const COLUMN_CHUNK: usize = 64;
/// The longest row that is never cut: one launch is enough, and no memory for sums is wanted.
const UNCUT: usize = 256;

/// A product of a matrix and a vector, or of two rows or columns of those, as the kernels take it: memory, and where the
/// elements lie in it.
pub(super) struct MatrixVector<'a, T, D, E> {
    pub(super) a: &'a DeviceArrayRef<T, D>,
    pub(super) x: &'a DeviceArrayRef<T, E>,
    /// Rows of the matrix, and elements of each.
    pub(super) extents: [usize; 2],
    /// The matrix' strides: along its rows' numbers, along the rows.
    pub(super) a_strides: [usize; 2],
    pub(super) x_stride: usize,
}

/// How a product is done. It depends on shape, strides, and where the matrix begins; the bits of its result also on whether `x` is aligned.
struct Plan {
    /// Whether a warp has a row, and not a lane.
    rows: bool,
    shape: GemvShape,
}

impl Plan {
    /// For elements of so many bytes, the first of the matrix at that address.
    fn new([m, k]: [usize; 2], a: [usize; 2], x: usize, bytes: usize, address: u64) -> Self {
        // Along rows, if there is enough in one for the lanes of a warp.
        let rows = k >= 32 && (m == 1 || a[1] == 1 || (a[0] != 1 && a[1] <= a[0]));
        let lane = vector_of(bytes);
        // Of no columns nothing is read, and an empty array lies anywhere.
        let in_vectors = k > 0 && a[0] == 1 && (a[1] | m).is_multiple_of(lane) && address.is_multiple_of(8);
        let vector = if in_vectors { lane } else { 1 };
        let (wanted, least) = if rows {
            (ROW_SUMS / m.max(1), ROW_CHUNK)
        } else {
            (column_blocks(bytes) / m.div_ceil(32 * vector).max(1), COLUMN_CHUNK)
        };
        let most = if k <= UNCUT { 1 } else { k.div_ceil(least) };
        let chunks = wanted.clamp(1, most);
        let chunk = k.div_ceil(chunks).next_multiple_of(least);
        let shape = GemvShape {
            m,
            k,
            a,
            x,
            chunks: k.div_ceil(chunk.max(1)).max(1),
            chunk,
            vector,
        };
        Self { rows, shape }
    }

    /// Where the sum of a row's chunk lies among all: the strides of rows and of chunks.
    fn sums(&self) -> [usize; 2] {
        match self.rows {
            true => [self.shape.chunks, 1],
            false => [1, self.shape.m],
        }
    }

    /// One launch, by `Rows` or `Columns`.
    fn launch<T: MatVec, Y: Element, Rows, Columns>(
        &self,
        stream: &Stream,
        of: &MatrixVector<'_, T, impl Dimension, impl Dimension>,
        y: &mut DeviceArrayRef<Y, impl Dimension>,
        (alpha, beta): (T::Wide, T::Wide),
    ) -> Result<()>
    where
        Rows: SafeKernel<Params = GemvParams<T, Y>>,
        Columns: SafeKernel<Params = GemvParams<T, Y>>,
    {
        let args = (Words::of(of.a), Words::of(of.x), y, self.shape, alpha, beta);
        if self.rows {
            let config = tiles(self.shape.m * self.shape.chunks, ROWS, THREADS);
            stream.launch::<Rows>(&config, args)
        } else {
            let blocks = self.shape.m.div_ceil(32 * self.shape.vector);
            stream.launch::<Columns>(&tiles(blocks * self.shape.chunks, 1, THREADS), args)
        }
    }
}

impl<T: MatVec<Wide: Element>, D: Dimension, E: Dimension> MatrixVector<'_, T, D, E> {
    /// `y ← alpha · A x + beta · y` on that stream, for a `y` in C order.
    pub(super) fn run(
        &self,
        stream: &Stream,
        y: &mut DeviceArrayRef<T, impl Dimension>,
        scales: (T::Wide, T::Wide),
    ) -> Result<()> {
        self.run_by::<T, T::GemvRows, T::GemvColumns, T::GemvCombine>(stream, y, scales)
    }

    /// By these kernels, of which the last adds up the sums of rows that were cut.
    fn run_by<Y: Element, Rows, Columns, Combine>(
        &self,
        stream: &Stream,
        y: &mut DeviceArrayRef<Y, impl Dimension>,
        (alpha, beta): (T::Wide, T::Wide),
    ) -> Result<()>
    where
        Rows: SafeKernel<Params = GemvParams<T, Y>>,
        Columns: SafeKernel<Params = GemvParams<T, Y>>,
        Combine: SafeKernel<Params = CombineParams<T::Wide, Y>>,
    {
        let plan = self.plan(alpha);
        let GemvShape { m, chunks, .. } = plan.shape;
        if m == 0 {
            return Ok(());
        }
        if chunks == 1 {
            return plan.launch::<T, Y, Rows, Columns>(stream, self, y, (alpha, beta));
        }
        let (sums, strides) = (self.sums_of_chunks(stream, &plan)?, plan.sums());
        let args = (&sums, y, chunks, strides, alpha, beta);
        stream.launch::<Combine>(&tiles(m, rows_combined(chunks, strides), THREADS), args)
    }

    /// As in BLAS: if alpha is 0, the operands are not read, so nothing of theirs gets into the result.
    fn plan(&self, alpha: T::Wide) -> Plan {
        let [m, k] = self.extents;
        let k = if alpha == T::Wide::ZERO { 0 } else { k };
        Plan::new([m, k], self.a_strides, self.x_stride, size_of::<T>(), self.a.address())
    }

    /// The sums of all chunks.
    fn sums_of_chunks(&self, stream: &Stream, plan: &Plan) -> Result<DeviceArray<T::Wide, Ix1>> {
        let mut sums = DeviceArray::uninit(stream, Ix1(plan.shape.m * plan.shape.chunks))?;
        let scales = (T::Wide::ONE, T::Wide::ZERO);
        plan.launch::<T, T::Wide, T::SumRows, T::SumColumns>(stream, self, &mut sums, scales)?;
        Ok(sums)
    }
}

impl<W: MatVec<Wide = W> + Element, T: MatVec<Wide = W>, D: Dimension, E: Dimension> MatrixVector<'_, T, D, E> {
    /// `alpha · A x` as it was summed.
    fn sums(&self, stream: &Stream, alpha: W) -> Result<DeviceArray<W, Ix1>> {
        let mut sums = DeviceArray::uninit(stream, Ix1(self.extents[0]))?;
        self.run_by::<W, T::SumRows, T::SumColumns, W::GemvCombine>(stream, &mut sums, (alpha, W::ZERO))?;
        Ok(sums)
    }

    /// `A x`, a product of that shape, and what follows it. Few chunks are added up by the kernel that finishes them,
    /// which does not scale: with an alpha their whole sum is scaled, once, as it is where nothing follows.
    fn run_and_finish<F: Passed<W>>(
        &self,
        stream: &Stream,
        of: &GemmShape,
        out: &mut DeviceArrayRef<T, D>,
        finish: &Finish<'_, T, D, F>,
    ) -> Result<()>
    where
        T: Finished<Scalar = W> + FinishSums<F>,
    {
        let plan = self.plan(finish.alpha);
        let GemvShape { m, chunks, .. } = plan.shape;
        if m == 0 {
            return Ok(());
        }
        if (2..=OF_THREAD).contains(&chunks) && !plan.rows && finish.alpha == W::ONE {
            let sums = self.sums_of_chunks(stream, &plan)?;
            let parts = Sums::in_parts(&sums, chunks, [of.m * of.n, of.n, 1]);
            return finish::finish_sums_into(parts, of, stream, out, finish);
        }
        let sums = self.sums(stream, finish.alpha)?;
        finish::finish_sums_into(Sums::new(&sums, of), of, stream, out, finish)
    }
}

/// Multiplies a matrix by a vector, if one of the operands is one: what takes the time is to read the matrix.
pub(super) fn by_vector<W, T, D: Dimension, F: Passed<W>>(
    product: &Multiplication<'_, T, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, D>,
    finish: &Finish<'_, T, D, F>,
) -> Result<bool>
where
    W: MatVec<Wide = W> + Element,
    T: MatVec<Wide = W> + Finished<Scalar = W> + FinishSums<F>,
{
    let of = &product.shape;
    let product = match (of.batch, of.m, of.n) {
        (1, _, 1) => MatrixVector {
            a: &*product.a,
            x: &*product.b,
            extents: [of.m, of.k],
            a_strides: [of.a[1], of.a[2]],
            x_stride: of.b[2],
        },
        (1, 1, _) => MatrixVector {
            a: &*product.b,
            x: &*product.a,
            extents: [of.n, of.k],
            a_strides: [of.b[1], of.b[2]],
            x_stride: of.a[2],
        },
        _ => return Ok(false),
    };
    if finish.only_scales() {
        product.run(stream, out, (finish.alpha, finish.beta))?;
    } else {
        product.run_and_finish(stream, of, out, finish)?;
    }
    Ok(true)
}

/// An error unless `a` is m × k, `x` has k elements, and `y`, if there is one, m, all on one device.
fn check<T: Element>(
    operation: &'static str,
    a: &DeviceArrayRef<T, Ix2>,
    x: &DeviceArrayRef<T, Ix1>,
    y: Option<&DeviceArrayRef<T, Ix1>>,
) -> Result<()> {
    let (m, k) = a.raw_dim().into_pattern();
    check_matvec(operation, [m, k], x.len(), y.map(|y| y.len()))?;
    a.stream().check_device(operation, x.stream())?;
    y.map_or(Ok(()), |y| a.stream().check_device(operation, y.stream()))
}

/// An error unless `x` has k elements, and `y`, if there is one, m.
pub(crate) fn check_matvec(operation: &'static str, [m, k]: [usize; 2], x: usize, y: Option<usize>) -> Result<()> {
    if x == k && y.is_none_or(|y| y == m) {
        return Ok(());
    }
    let given = format!("shapes {:?} and {:?}", [m, k], [x]);
    Err(Error::Shape {
        operation,
        given: y.map_or(given.clone(), |y| format!("{given} into {:?}", [y])),
        wanted: format!("m × k and k{}", if y.is_some() { " into m" } else { "" }),
    })
}

/// `y ← alpha · A x + beta · y` on that stream, of shapes that fit.
fn gemv<T: MatVec<Wide: Element>>(
    stream: &Stream,
    a: &DeviceArrayRef<T, Ix2>,
    x: &DeviceArrayRef<T, Ix1>,
    y: &mut DeviceArrayRef<T, Ix1>,
    scales: (T::Wide, T::Wide),
) -> Result<()> {
    let (m, k) = a.raw_dim().into_pattern();
    // The kernels go forwards.
    let (a, x) = (&*a.forwards(Some(y))?, &*x.forwards(Some(y))?);
    let product = MatrixVector {
        a,
        x,
        extents: [m, k],
        a_strides: [a.steps()[0], a.steps()[1]],
        x_stride: x.steps()[0],
    };
    product.run(stream, y, scales)
}

/// Products of a matrix and a vector.
impl<T: MatVec<Wide: Element>> DeviceArrayRef<T, Ix2> {
    /// The product of this m × k matrix and the vector `x` of k elements: a vector of m.
    ///
    /// The operands may be views of any strides, of which only those that go backwards are copied: a vector times a matrix is `a.t().matvec(&x)`, without a copy.
    /// Every element of the matrix is read once. The order of summation depends only on shape, strides and the place where a
    /// view begins, so floats have the same bits on every device; an element's error is at most `k u Σ|a||x|`, to first order
    /// in the unit roundoff `u`. `f16` and `bf16` are summed in `f32`, and the sum is rounded once. Where k is 0, the sum is 0.
    /// Integers wrap around on overflow.
    ///
    /// `2 m k` operations. A warp sums a contiguous row, each lane in several chains that are folded as a tree; of contiguous
    /// columns a lane of each of eight warps sums its share of as many rows as have 8 bytes (two of f32 and i32, four of 16 bits),
    /// or of one where columns do not begin at multiples of 8 bytes, as of other strides. Where there are few rows, longer than
    /// 256, they are summed in parts, by a second launch.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not fit, [`Error::DifferentDevices`], and those of an allocation and a
    /// launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let a = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, 2.0], [3.0, 4.0]])?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0, 10.0])?;
    /// assert_eq!(a.matvec(&x)?.to_ndarray()?, array![21.0, 43.0]);
    /// assert_eq!(a.t().matvec(&x)?.to_ndarray()?, array![31.0, 42.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn matvec(&self, x: &DeviceArrayRef<T, Ix1>) -> Result<DeviceArray<T, Ix1>> {
        check("matvec", self, x, None)?;
        let mut y = DeviceArray::uninit(self.stream(), Ix1(self.shape()[0]))?;
        gemv(self.stream(), self, x, &mut y, (T::Wide::ONE, T::Wide::ZERO))?;
        Ok(y)
    }

    /// [`matvec`](Self::matvec) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`matvec`](Self::matvec); on an error nothing is written.
    pub fn matvec_into(&self, x: &DeviceArrayRef<T, Ix1>, out: &mut DeviceArrayRef<T, Ix1>) -> Result<()> {
        check("matvec", self, x, Some(out))?;
        out.write_in_order(self.stream(), &mut |out| {
            gemv(self.stream(), self, x, out, (T::Wide::ONE, T::Wide::ZERO))
        })
    }
}

/// The dot product.
impl<T: MatVec<Wide: Element>> DeviceArrayRef<T, Ix1> {
    /// The dot product with a vector of as many elements, `Σ x y`; 0 for empty vectors.
    ///
    /// As [`matvec`](DeviceArrayRef::matvec) of a matrix of one row. Waits for the result.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the lengths differ, [`Error::DifferentDevices`], and those of an allocation and a
    /// launch; waits for the result, so also those of earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2, 3])?;
    /// assert_eq!(x.dot(&x)?, 14);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("inner", "vdot"))]
    pub fn dot(&self, y: &DeviceArrayRef<T, Ix1>) -> Result<T> {
        let x = self;
        x.fits("dot", y)?;
        let mut result = DeviceArray::uninit(x.stream(), Ix1(1))?;
        let row = x.broadcast([1, x.len()])?;
        gemv(x.stream(), &row, y, &mut result, (T::Wide::ONE, T::Wide::ZERO))?;
        Ok(result.to_ndarray()?[0])
    }
}

/// Products of a matrix and a vector in place.
impl<T: MatVec<Wide: Element>> DeviceArrayRef<T, Ix1> {
    /// `self ← alpha · a x + beta · self`, for an m × k matrix `a` and a vector `x` of k elements, as BLAS does.
    ///
    /// If `beta` is 0, the old elements are not looked at, if `alpha` is 0, those of `a` and `x` are not: a NaN there
    /// does not get into the result. The sum of products is that of [`matvec`](DeviceArrayRef::matvec); `alpha` times it
    /// is rounded, then `beta` times the old element is added by fused multiply-add. The scalars are of the elements' type,
    /// but `f32` for `f16` and `bf16`, whose result is rounded once.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not fit, [`Error::DifferentDevices`], and those of an allocation and a launch;
    /// on an error nothing is written.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let a = DeviceArray::from_ndarray(stream, &array![[1.0, 2.0], [3.0, 4.0]])?;
    /// let x = DeviceArray::from_ndarray(stream, &array![1.0, 10.0])?;
    /// let mut y = DeviceArray::from_ndarray(stream, &array![1.0, 1.0])?;
    /// y.gemv(2.0, &a, &x, -1.0)?;
    /// assert_eq!(y.to_ndarray()?, array![41.0, 85.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn gemv(
        &mut self,
        alpha: T::Wide,
        a: &DeviceArrayRef<T, Ix2>,
        x: &DeviceArrayRef<T, Ix1>,
        beta: T::Wide,
    ) -> Result<()> {
        check("gemv", a, x, Some(self))?;
        let stream = self.stream().clone();
        self.change_in_order(&mut |y| gemv(&stream, a, x, y, (alpha, beta)))
    }
}
