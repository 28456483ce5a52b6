// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of many shapes in one launch: of groups of rows with a matrix each, and of any matrices.

use std::ops::Range;

use cuda_std::launch::Abi;
use kernels_gpu::compiled::{GroupedGemm, RowNumber};
use kernels_gpu::matmul::grouped::{A_ALONG_M, B_ALONG_N, GroupsShape, Problem, TILE_M};
use kernels_gpu::matmul::mma::grouped::COLUMNS;
use kernels_gpu::matmul::mma::{shared_bytes, threads};
use kernels_gpu::matmul::wgmma::{self, WgmmaShape};
use kernels_gpu::num::Num;
use ndarray::{Array1, Axis, Dimension, Ix1, Ix2, Ix3, s};

use super::finish::Finish;
use super::gemm::Multiplication;
use super::hopper::{self, is_hopper};
use super::operand::{can_be_mapped, coordinates};
use super::tensor::{Factor, Half, Operand};
use super::{AMPERE, MatMul, ampere, has_tensor_cores};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{Arg, LaunchConfig, Words, WordsMut};
use crate::ops::transpose::Ordered;
use crate::stream::Stream;
use crate::view::DeviceView;

const OPERATION: &str = "grouped_matmul";

/// Products of groups of rows.
impl<T: MatMul> DeviceArrayRef<T, Ix2> {
    /// The product of each group of this matrix's rows and a matrix of its own: what a mixture of experts computes of tokens
    /// that are sorted by expert, PyTorch's `torch._grouped_mm`.
    ///
    /// This is a matrix of rows × k, `b` one of groups × k × n, and `ends[i]` is the number of the row behind group `i`, which
    /// begins where the one before ends, the first at row 0. The result has rows × n. Groups may be empty. The ends are on the
    /// device, and nobody waits for them: an end that is less than one before counts as that, and one beyond the last row, or
    /// negative, as the nearest there is. Rows behind the last group are 0 in the result. The running sum of
    /// [`bincount_into`](DeviceArrayRef::bincount_into) is such an array of `u64`.
    ///
    /// A row's elements are [`matmul`](Self::matmul)'s to its errors, and do not change from run to run; their bits may be
    /// others, and do not depend on how the other rows are grouped.
    ///
    /// # Cost
    ///
    /// One launch, and a small one ahead that finds the groups' tiles, by the tensor cores of a GPU from Ampere on, for `f16`
    /// and `bf16`; tiles have 128 rows, so that a group costs as much as the next multiple of 128. On Hopper, rows of a result
    /// of a multiple of 16 bytes are computed by instructions of its own, others by Ampere's. Operands
    /// are copied as `matmul` does, and so are these rows if their elements are not neighbours.
    ///
    /// For the other types, and without tensor cores, this waits for the ends, and launches a product for each group.
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
    /// let stream = device.default_stream();
    /// let tokens = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
    /// let experts = DeviceArray::from_ndarray(stream, &array![[[1.0], [0.0]], [[0.0], [10.0]]])?;
    /// // The first token is the first expert's.
    /// let ends = DeviceArray::from_ndarray(stream, &array![1, 3])?;
    /// let result = tokens.grouped_matmul(&experts, &ends)?;
    /// assert_eq!(result.to_ndarray()?, array![[1.0], [40.0], [60.0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn grouped_matmul<O: RowNumber>(
        &self,
        b: &DeviceArrayRef<T, Ix3>,
        ends: &DeviceArrayRef<O, Ix1>,
    ) -> Result<DeviceArray<T, Ix2>> {
        let groups = Groups::new(self, b, ends, None)?;
        DeviceArray::made(self.stream(), Ix2(groups.rows, groups.n), &mut |out| {
            groups.multiply_into(self.stream(), out)
        })
    }

    /// [`grouped_matmul`](Self::grouped_matmul) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`grouped_matmul`](Self::grouped_matmul).
    pub fn grouped_matmul_into<O: RowNumber>(
        &self,
        b: &DeviceArrayRef<T, Ix3>,
        ends: &DeviceArrayRef<O, Ix1>,
        out: &mut DeviceArrayRef<T, Ix2>,
    ) -> Result<()> {
        let stream = self.stream();
        stream.check_device(OPERATION, out.stream())?;
        out.write_in_order(stream, &mut |out| {
            Groups::new(self, b, ends, Some(out))?.multiply_into(stream, out)
        })
    }
}

/// Two matrices that are multiplied, m × k and k × n.
pub type Pair<'a, T> = (DeviceView<'a, T, Ix2>, DeviceView<'a, T, Ix2>);

/// The product of each pair of matrices, of any shapes: m × k and k × n, each its own.
///
/// The operands may be views of any strides, and overlap. The results are arrays of their own, on the stream of the first
/// operand; of no pair there is none. Each is [`matmul`](DeviceArrayRef::matmul)'s to its errors, and does not change from run
/// to run, but its bits may be others.
///
/// # Cost
///
/// Products of `f16` and `bf16` are computed in one launch by the tensor cores of a GPU from Ampere on, by tiles of
/// 128 × 128; the table of the operands, of 68 bytes a pair, is uploaded ahead. On Hopper those of as many tiles as the GPU
/// has multiprocessors are launched by themselves, by its own tensor cores. Operands are copied as `matmul` does. For the
/// other types, and without tensor cores, there is a launch for each product.
///
/// # Errors
///
/// [`Error::Shape`], which says which pair it is, if the shapes of one do not fit, [`Error::DifferentDevices`], and those of
/// an allocation and a launch.
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::{Device, DeviceArray, ops};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
/// let products = ops::grouped_matmul(&[(x.view(), x.t()), (x.t(), x.view())])?;
/// assert_eq!(products[0].shape(), [3, 3]);
/// assert_eq!(products[1].to_ndarray()?, array![[35.0, 44.0], [44.0, 56.0]]);
/// # Ok(())
/// # }
/// ```
pub fn grouped_matmul<T: MatMul>(pairs: &[Pair<'_, T>]) -> Result<Vec<DeviceArray<T, Ix2>>> {
    let Some((first, _)) = pairs.first() else {
        return Ok(Vec::new());
    };
    let stream = first.stream();
    let products = pairs.iter().enumerate().map(|(number, (a, b))| {
        let product = Multiplication::new(OPERATION, a, b, None);
        let product = product.and_then(|product| stream.check_device(OPERATION, a.stream()).map(|()| product));
        product.map_err(|error| of_pair(error, number))
    });
    let products = products.collect::<Result<Vec<_>>>()?;
    let out = |product: &Multiplication<'_, T, Ix2>| {
        let of = &product.shape;
        match of.k {
            0 => DeviceArray::zeros(stream, Ix2(of.m, of.n)),
            _ => DeviceArray::uninit(stream, Ix2(of.m, of.n)),
        }
    };
    let mut outs = products.iter().map(out).collect::<Result<Vec<_>>>()?;
    let each = products.into_iter().zip(&mut outs);
    let there = each.filter(|(product, out)| product.shape.k > 0 && !out.is_empty());
    T::multiply_each(there.collect(), stream)?;
    Ok(outs)
}

/// The error, of that pair.
fn of_pair(error: Error, number: usize) -> Error {
    match error {
        Error::Shape {
            operation,
            given,
            wanted,
        } => Error::Shape {
            operation,
            given: format!("{given} as pair {number}"),
            wanted,
        },
        error => error,
    }
}

/// A product that has something to be summed, and where it goes.
#[doc(hidden)]
pub type Each<'a, T> = (Multiplication<'a, T, Ix2>, &'a mut DeviceArray<T, Ix2>);

/// A launch for each product.
pub(super) fn each_alone<T: MatMul>(products: Vec<Each<'_, T>>, stream: &Stream) -> Result<()> {
    let scale = Finish::scale(T::Scalar::ONE, T::Scalar::ZERO);
    let mut products = products.into_iter();
    products.try_for_each(|(product, out)| T::multiply(product, stream, out, &scale))
}

/// One launch for all products that do not fill Hopper by themselves, where there are tensor cores.
pub(super) fn each_at_once<T: Half + GroupedGemm>(products: Vec<Each<'_, T>>, stream: &Stream) -> Result<()> {
    let fills = |product: &Multiplication<'_, T, Ix2>| {
        let tiles = tiles(product.shape.m, product.shape.n);
        is_hopper(stream) && tiles >= stream.backend().properties().multiprocessors as usize
    };
    let is_alone = |product: &Multiplication<'_, T, Ix2>| {
        fills(product) || ampere::mma_shape(&product.shape, AMPERE, stream).is_none()
    };
    let (alone, together) = products
        .into_iter()
        .partition::<Vec<_>, _>(|(product, _)| is_alone(product));
    each_alone(alone, stream)?;
    let of_all = together
        .iter()
        .map(|(product, _)| tiles(product.shape.m, product.shape.n));
    let total = of_all.fold(0, usize::saturating_add);
    if together.len() < 2 || i32::try_from(total).is_err() {
        return each_alone(together, stream);
    }
    let (products, mut outs): (Vec<_>, Vec<_>) = together.into_iter().unzip();
    let operands = products.iter().map(|product| {
        let of = &product.shape;
        let a = Operand::new(&product.a, [1, of.m, of.k], of.a, true)?;
        Ok((a, Operand::new(&product.b, [1, of.n, of.k], of.b, true)?))
    });
    let operands = operands.collect::<Result<Vec<_>>>()?;
    let (mut problems, mut starts) = (Vec::with_capacity(products.len()), vec![0]);
    let mut before = 0;
    for ((product, out), (a, b)) in products.iter().zip(&outs).zip(&operands) {
        let of = &product.shape;
        problems.push(Problem {
            c: out.address(),
            ..problem::<T>([of.m, of.n, of.k], a, b)
        });
        before += tiles(of.m, of.n) as u32;
        starts.push(before);
    }
    let reads = operands.iter().flat_map(|(a, b)| [a, b]);
    let table = Table {
        problems: &DeviceArray::literal(stream, &Array1::from(problems))?,
        reads: reads.map(|operand| Words::<T>::of(operand.elements())).collect(),
        writes: outs.iter_mut().map(|out| WordsMut::of(&mut ***out)).collect(),
    };
    let starts = DeviceArray::literal(stream, &Array1::from(starts))?;
    // SAFETY: the problems are those of `operands` and `outs`, with the elements of their shapes; operands begin at multiples
    // of 16 bytes, with such strides, as a tensor map wants them.
    unsafe { launch_mma(stream, total, table, &starts) }
}

/// A table of problems, with what these read and write.
struct Table<'a, T> {
    problems: &'a DeviceArray<Problem, Ix1>,
    reads: Vec<Words<'a, T>>,
    writes: Vec<WordsMut<'a, T>>,
}

// SAFETY: the table, in the memory of the stream's device, borrowed shared; whose problems' elements are borrowed as their
// kernel accesses them, and ordered like arguments of their own.
unsafe impl<T: Element> Arg<&'static [Problem]> for Table<'_, T> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        Arg::<&'static [Problem]>::prepare(&self.problems, kernel, stream)?;
        self.reads.iter().try_for_each(|words| words.prepare(kernel, stream))?;
        self.writes.iter().try_for_each(|words| words.prepare(kernel, stream))
    }

    fn is_part(&self) -> bool {
        self.reads.iter().any(Arg::is_part) || self.writes.iter().any(Arg::is_part)
    }

    fn abi(&self) -> Abi<&'static [Problem]> {
        Arg::<&'static [Problem]>::abi(&self.problems)
    }
}

/// A problem with these extents and operands, whose result is nowhere yet.
fn problem<T: Factor>([m, n, k]: [usize; 3], a: &Operand<'_, T::Element>, b: &Operand<'_, T::Element>) -> Problem {
    let along = |is: bool, flag| if is { flag } else { 0 };
    Problem {
        a: a.elements().address(),
        b: b.elements().address(),
        c: 0,
        a_stride: ampere::strides(a)[1] as u64,
        b_stride: ampere::strides(b)[1] as u64,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        row: 0,
        product: 0,
        layout: along(a.along_lines, A_ALONG_M) | along(b.along_lines, B_ALONG_N),
    }
}

/// One launch of a block for each of so many tiles, or more than there are.
///
/// # Safety
///
/// The problems lie where the table says, which `reads` and `writes` have.
unsafe fn launch_mma<T: Half + GroupedGemm>(
    stream: &Stream,
    tiles: usize,
    table: Table<'_, T>,
    starts: &DeviceArray<u32, Ix1>,
) -> Result<()> {
    let config = LaunchConfig {
        dynamic_shared: shared_bytes(COLUMNS, size_of::<T>()),
        ..LaunchConfig::new(tiles as u32, threads(COLUMNS) as u32)
    };
    // SAFETY: the kernel's contract: threads, shared memory and blocks are those of its tiles, and the rest is the caller's
    // promise.
    unsafe { stream.launch_on_tensor_cores::<<T as GroupedGemm>::Ampere>(&config, (table, starts)) }
}

/// Tiles of a product.
fn tiles(m: usize, n: usize) -> usize {
    m.div_ceil(TILE_M as usize).saturating_mul(n.div_ceil(COLUMNS))
}

/// Groups of rows, each with a matrix of its own, whose shapes fit.
#[doc(hidden)]
pub struct Groups<'a, T, O> {
    a: Ordered<'a, T, Ix2>,
    b: Ordered<'a, T, Ix3>,
    ends: Ordered<'a, O, Ix1>,
    rows: usize,
    n: usize,
    k: usize,
}

impl<'a, T: MatMul, O: RowNumber> Groups<'a, T, O> {
    fn new(
        a: &'a DeviceArrayRef<T, Ix2>,
        b: &'a DeviceArrayRef<T, Ix3>,
        ends: &'a DeviceArrayRef<O, Ix1>,
        out: Option<&DeviceArrayRef<T, Ix2>>,
    ) -> Result<Self> {
        let ([rows, k], [groups, b_k, n]) = (
            <[usize; 2]>::from(a.raw_dim().into_pattern()),
            <[usize; 3]>::from(b.raw_dim().into_pattern()),
        );
        let of_out = out.map_or([rows, n], |out| <[usize; 2]>::from(out.raw_dim().into_pattern()));
        if b_k != k || ends.len() != groups || of_out != [rows, n] {
            let into = out.map_or(String::new(), |out| format!(" into {:?}", out.shape()));
            return Err(Error::Shape {
                operation: OPERATION,
                given: format!(
                    "shapes {:?} and {:?}, and {} ends{into}",
                    a.shape(),
                    b.shape(),
                    ends.len()
                ),
                wanted: "rows × k and groups × k × n, an end for each group, and a result of rows × n".into(),
            });
        }
        a.stream().check_device(OPERATION, b.stream())?;
        a.stream().check_device(OPERATION, ends.stream())?;
        Ok(Self {
            // The kernels go forwards.
            a: a.forwards(out)?,
            b: b.forwards(out)?,
            ends: ends.in_order()?,
            rows,
            n,
            k,
        })
    }

    fn multiply_into(&self, stream: &Stream, out: &mut DeviceArrayRef<T, Ix2>) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        if self.k == 0 || self.ends.is_empty() {
            return out.fill(T::zeroed());
        }
        T::multiply_groups(self, stream, out)
    }
}

/// A launch for each group, when the host has read where they end.
pub(super) fn groups_alone<T: MatMul, O: RowNumber>(
    groups: &Groups<'_, T, O>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, Ix2>,
) -> Result<()> {
    let scale = Finish::scale(T::Scalar::ONE, T::Scalar::ZERO);
    let mut done = 0;
    for (number, rows) in rows_of_groups(groups.ends.to_ndarray()?, groups.rows).enumerate() {
        done = rows.end;
        if !rows.is_empty() {
            let part = s![rows, ..];
            let (a, b) = (groups.a.slice(part)?, groups.b.index_axis(Axis(0), number)?);
            let product = Multiplication::new(OPERATION, &a, &b, None)?;
            T::multiply(product, stream, &mut *out.slice_mut(part)?, &scale)?;
        }
    }
    out.slice_mut(s![done.., ..])?.fill(T::zeroed())
}

/// The rows of each group, of so many in all. One that ends ahead of where it begins has none.
fn rows_of_groups<O: RowNumber>(ends: impl IntoIterator<Item = O>, rows: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    ends.into_iter().map(move |end| {
        let end = usize::try_from(end.row()).unwrap_or(usize::MAX);
        let group = start..end.min(rows).max(start);
        start = group.end;
        group
    })
}

/// One launch for all groups, where there are tensor cores.
pub(super) fn groups_at_once<T: Half + GroupedGemm, O: RowNumber>(
    groups: &Groups<'_, T, O>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, Ix2>,
) -> Result<()> {
    let &Groups { rows, n, k, .. } = groups;
    let count = groups.ends.len();
    // At most: each group, and the rest, may have a tile that is not full.
    let tiles = |width: usize| (rows / TILE_M as usize + count + 1).saturating_mul(n.div_ceil(width));
    let fits = [rows, n, k, count, tiles(COLUMNS)]
        .map(coordinates)
        .iter()
        .all(Option::is_some);
    if !fits || !has_tensor_cores(stream, AMPERE) {
        return groups_alone(groups, stream, out);
    }
    // A group begins at any row.
    let a = Operand::new(
        &groups.a,
        [1, rows, k],
        [0, groups.a.steps()[0], groups.a.steps()[1]],
        false,
    )?;
    let of_b = groups.b.steps();
    let b = Operand::new(&groups.b, [count, n, k], [of_b[0], of_b[2], of_b[1]], true)?;
    let mapped = out.in_shape(Ix3(1, rows, n));
    let by_hopper = is_hopper(stream) && n.is_multiple_of(16 / size_of::<T>()) && can_be_mapped(&mapped);
    let width = if by_hopper { wgmma::grouped::COLUMNS } else { COLUMNS };
    let (problems, starts) = place(groups, (&a, &b), n.div_ceil(width), stream, out)?;
    if !by_hopper {
        let table = Table {
            problems: &problems,
            reads: [&a, &b].map(|operand| Words::<T>::of(operand.elements())).into(),
            writes: vec![WordsMut::of(out)],
        };
        // SAFETY: the problems are parts of these arrays, as `place` says; the operands begin at multiples of 16 bytes, with
        // such strides, as a tensor map wants them, and so does each row of `a`.
        return unsafe { launch_mma(stream, tiles(width), table, &starts) };
    }
    let shape = WgmmaShape {
        batch: 1,
        m: rows as u32,
        n: n as u32,
        k: k as u32,
        a_step: 0,
        b_step: (of_b[0] != 0).into(),
        k_step: 0,
        a_along_m: 0,
        b_along_n: b.along_lines.into(),
        c_transposed: 0,
        tile_m: wgmma::TILE_M as u32,
        a_lines: wgmma::TILE_M as u32,
        cluster: 0,
        last_row: u32::MAX,
        last_column: u32::MAX,
    };
    let blocks = tiles(width).min(stream.backend().properties().multiprocessors as usize);
    let config = LaunchConfig {
        dynamic_shared: wgmma::grouped::SHARED_BYTES,
        ..LaunchConfig::new(blocks as u32, wgmma::THREADS as u32)
    };
    let of = <T as Factor>::TYPE;
    let (a, b) = (a.map(of, wgmma::TILE_M)?, b.map(of, wgmma::grouped::COLUMNS)?);
    let mut out = out.in_shape_mut(Ix3(1, rows, n));
    let mut c = hopper::result_map(&mut out)?;
    // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps' types and
    // tiles, by how the operands lie, and their swizzle; the problems are parts of these arrays, as `place` says.
    unsafe {
        stream
            .launch_on_tensor_cores::<<T as GroupedGemm>::Hopper>(&config, (&a, &b, &mut c, shape, &problems, &starts))
    }
}

/// Has the device write the table of the groups' products, with so many columns of tiles.
fn place<T: Half + GroupedGemm, O: RowNumber>(
    groups: &Groups<'_, T, O>,
    (a, b): (&Operand<'_, T>, &Operand<'_, T>),
    columns: usize,
    stream: &Stream,
    out: &DeviceArrayRef<T, Ix2>,
) -> Result<(DeviceArray<Problem, Ix1>, DeviceArray<u32, Ix1>)> {
    let count = groups.ends.len();
    let bytes = |elements: usize| (elements * size_of::<T>()) as u64;
    let shape = GroupsShape {
        whole: Problem {
            c: out.address(),
            ..problem::<T>([groups.rows, groups.n, groups.k], a, b)
        },
        a_row: bytes(ampere::strides(a)[1]),
        b_product: bytes(ampere::strides(b)[0]),
        c_row: bytes(groups.n),
        columns: columns as u32,
    };
    let mut problems = DeviceArray::uninit(stream, Ix1(count + 1))?;
    let mut starts = DeviceArray::uninit(stream, Ix1(count + 2))?;
    let args = (&*groups.ends, shape, &mut problems, &mut starts);
    // SAFETY: the kernel's contract: there is room for as many.
    unsafe { stream.launch_unchecked::<<O as RowNumber>::Place>(&LaunchConfig::new(1, 32), args)? };
    Ok((problems, starts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_groups_are_counted_by_64_bits() {
        let all = |ends: &[u64], rows| rows_of_groups(ends.iter().copied(), rows).collect::<Vec<_>>();
        assert_eq!(all(&[2, 1, 5, 9], 7), [0..2, 2..2, 2..5, 5..7]);
        let many = (1 << 32) + 5;
        assert_eq!(
            all(&[3, many as u64 - 1, u64::MAX], many),
            [0..3, 3..many - 1, many - 1..many]
        );
        let signed: Vec<_> = rows_of_groups([-1, i32::MIN, 4, i32::MAX], many).collect();
        assert_eq!(signed, [0..0, 0..0, 0..4, 4..i32::MAX as usize]);
    }
}
