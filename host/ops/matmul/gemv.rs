// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times vector, and the dot product of two vectors.

use kernels_gpu::compiled::MatVec;
use kernels_gpu::matmul::gemv::{GemvShape, LANES, ROWS, THREADS};
use ndarray::{Dimension, Ix1, Ix2};

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
/// Blocks that a matrix of few rows is cut into, for the kernel along columns.
const COLUMN_BLOCKS: usize = 1024;
/// Columns that such a block has at least, and of which it has a multiple.
const COLUMN_CHUNK: usize = 256;

/// How a product is done. It depends on shape and strides alone; the bits of its result also on whether the operands are aligned.
struct Plan {
    /// Whether a warp has a row, and not a lane.
    rows: bool,
    shape: GemvShape,
}

impl Plan {
    fn new(m: usize, k: usize, a: [usize; 2], x: usize) -> Self {
        // Along rows, if there is enough in one for the lanes of a warp.
        let rows = k >= 32 && (m == 1 || a[1] == 1 || (a[0] != 1 && a[1] <= a[0]));
        let (wanted, least) = if rows {
            (ROW_SUMS / m, ROW_CHUNK)
        } else {
            (COLUMN_BLOCKS / m.div_ceil(LANES), COLUMN_CHUNK)
        };
        let chunks = wanted.clamp(1, k.div_ceil(least).max(1));
        let chunk = k.div_ceil(chunks).next_multiple_of(least);
        let shape = GemvShape {
            m,
            k,
            a,
            x,
            chunks: k.div_ceil(chunk.max(1)).max(1),
            chunk,
        };
        Self { rows, shape }
    }

    fn launch<T: MatVec>(
        &self,
        stream: &Stream,
        a: &DeviceArrayRef<T, Ix2>,
        x: &DeviceArrayRef<T, Ix1>,
        y: &mut DeviceArrayRef<T, Ix1>,
        (alpha, beta): (T, T),
    ) -> Result<()> {
        let args = (Words::of(a), Words::of(x), y, self.shape, alpha, beta);
        if self.rows {
            let config = tiles(self.shape.m * self.shape.chunks, ROWS, THREADS);
            stream.launch::<T::GemvRows>(&config, args)
        } else {
            let config = tiles(self.shape.m.div_ceil(LANES) * self.shape.chunks, 1, THREADS);
            stream.launch::<T::GemvColumns>(&config, args)
        }
    }
}

/// An error unless `a` is m × k, `x` has k elements, and `y`, if there is one, m, all on one device.
fn check<T: Element>(
    operation: &'static str,
    a: &DeviceArrayRef<T, Ix2>,
    x: &DeviceArrayRef<T, Ix1>,
    y: Option<&DeviceArrayRef<T, Ix1>>,
) -> Result<()> {
    let (m, k) = a.raw_dim().into_pattern();
    if x.len() == k && y.is_none_or(|y| y.len() == m) {
        a.stream().check_device(operation, x.stream())?;
        return y.map_or(Ok(()), |y| a.stream().check_device(operation, y.stream()));
    }
    let given = format!("shapes {:?} and {:?}", a.shape(), x.shape());
    Err(Error::Shape {
        operation,
        given: y.map_or(given.clone(), |y| format!("{given} into {:?}", y.shape())),
        wanted: format!("m × k and k{}", if y.is_some() { " into m" } else { "" }),
    })
}

/// `y ← alpha · A x + beta · y` on that stream, of shapes that fit.
fn gemv<T: MatVec>(
    stream: &Stream,
    a: &DeviceArrayRef<T, Ix2>,
    x: &DeviceArrayRef<T, Ix1>,
    y: &mut DeviceArrayRef<T, Ix1>,
    (alpha, beta): (T, T),
) -> Result<()> {
    let (m, k) = a.raw_dim().into_pattern();
    if m == 0 {
        return Ok(());
    }
    // The kernels go forwards.
    let (a, x) = (&*a.forwards(Some(y))?, &*x.forwards(Some(y))?);
    // As in BLAS: if alpha is 0, the operands are not read, so nothing of theirs gets into the result.
    let k = if alpha == T::ZERO { 0 } else { k };
    let plan = Plan::new(m, k, [a.steps()[0], a.steps()[1]], x.steps()[0]);
    let chunks = plan.shape.chunks;
    if chunks == 1 {
        return plan.launch(stream, a, x, y, (alpha, beta));
    }
    let mut partials = DeviceArray::uninit(stream, Ix1(m * chunks))?;
    plan.launch(stream, a, x, &mut partials, (T::ONE, T::ZERO))?;
    stream.launch::<T::GemvCombine>(&tiles(m, ROWS, THREADS), (&partials, y, chunks, alpha, beta))
}

/// Products of a matrix and a vector.
impl<T: MatVec> DeviceArrayRef<T, Ix2> {
    /// The product of this m × k matrix and the vector `x` of k elements: a vector of m.
    ///
    /// The operands may be views of any strides, of which only those that go backwards are copied: a vector times a matrix is `a.t().matvec(&x)`, without a copy.
    /// Every element of the matrix is read once. The order of summation depends only on shape, strides and the place where a
    /// view begins, so floats have the same bits on every device; an element's error is at most `k u Σ|a||x|`, to first order
    /// in the unit roundoff `u`. Where k is 0, the sum is 0. Integers wrap around on overflow.
    ///
    /// `2 m k` operations. A warp sums a contiguous row, each lane in several chains that are folded as a tree; of other
    /// strides a lane sums a row. Where there are few rows, they are summed in parts, by a second launch.
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
        gemv(self.stream(), self, x, &mut y, (T::ONE, T::ZERO))?;
        Ok(y)
    }

    /// [`matvec`](Self::matvec) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`matvec`](Self::matvec); on an error nothing is written.
    pub fn matvec_into(&self, x: &DeviceArrayRef<T, Ix1>, out: &mut DeviceArrayRef<T, Ix1>) -> Result<()> {
        check("matvec", self, x, Some(out))?;
        out.write_in_order(self.stream(), |out| {
            gemv(self.stream(), self, x, out, (T::ONE, T::ZERO))
        })
    }
}

/// The dot product.
impl<T: MatVec> DeviceArrayRef<T, Ix1> {
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
    pub fn dot(&self, y: &DeviceArrayRef<T, Ix1>) -> Result<T> {
        let x = self;
        if x.len() != y.len() {
            return Err(Error::Shape {
                operation: "dot",
                given: format!("shapes {:?} and {:?}", x.shape(), y.shape()),
                wanted: "equal shapes".into(),
            });
        }
        let mut result = DeviceArray::uninit(x.stream(), Ix1(1))?;
        let row = x.broadcast([1, x.len()])?;
        gemv(x.stream(), &row, y, &mut result, (T::ONE, T::ZERO))?;
        Ok(result.to_ndarray()?[0])
    }
}

/// Products of a matrix and a vector in place.
impl<T: MatVec> DeviceArrayRef<T, Ix1> {
    /// `self ← alpha · a x + beta · self`, for an m × k matrix `a` and a vector `x` of k elements, as BLAS does.
    ///
    /// If `beta` is 0, the old elements are not looked at, if `alpha` is 0, those of `a` and `x` are not: a NaN there
    /// does not get into the result. The sum of products is that of [`matvec`](DeviceArrayRef::matvec); `alpha` times it
    /// is rounded, then `beta` times the old element is added by fused multiply-add.
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
    pub fn gemv(&mut self, alpha: T, a: &DeviceArrayRef<T, Ix2>, x: &DeviceArrayRef<T, Ix1>, beta: T) -> Result<()> {
        check("gemv", a, x, Some(self))?;
        let stream = self.stream().clone();
        self.change_in_order(|y| gemv(&stream, a, x, y, (alpha, beta)))
    }
}
