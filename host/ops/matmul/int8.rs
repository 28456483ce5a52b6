// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of 8-bit integers, summed in `i32`.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::Int8Params;
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::mma::int8::{COLUMNS, gemm_int8_mma, gemm_int8_turing};
use kernels_gpu::matmul::mma::{Ampere, Turing};
use kernels_gpu::matmul::wgmma::int8::gemm_int8;
use ndarray::{Dimension, Ix2, Ix3};

use super::ampere::{self, Operands};
use super::bytes::{ByteProduct, best_parts, check_output, product_dim};
use super::finish::{self, Finish};
use super::gemm::Multiplication;
use super::hopper;
use super::split::Parts;
use super::{AMPERE, TURING, has_tensor_cores};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;
use crate::view::DeviceViewMut;

/// The product as a new array, on the stream of its left operand.
fn multiply<D: Dimension>(
    operation: &'static str,
    a: &DeviceArrayRef<i8, D>,
    b: &DeviceArrayRef<i8, D>,
) -> Result<DeviceArray<i32, D>> {
    let (a_bytes, b_bytes) = (a.bits::<u8>(), b.bits::<u8>());
    let product = Multiplication::new(operation, &a_bytes, &b_bytes, None)?;
    DeviceArray::made(a.stream(), product_dim(a, b), &mut |out| {
        run(&product, [a, b], a.stream(), out)
    })
}

/// The product into an existing array or view.
fn multiply_into<D: Dimension>(
    operation: &'static str,
    a: &DeviceArrayRef<i8, D>,
    b: &DeviceArrayRef<i8, D>,
    out: &mut DeviceArrayRef<i32, D>,
) -> Result<()> {
    let (a_bytes, b_bytes) = (a.bits::<u8>(), b.bits::<u8>());
    let product = Multiplication::new(operation, &a_bytes, &b_bytes, None)?;
    check_output(operation, &product_dim(a, b), a.stream(), out)?;
    out.write_in_order(a.stream(), &mut |out| run(&product, [a, b], a.stream(), out))
}

fn run<D: Dimension>(
    product: &Multiplication<'_, u8, D>,
    [a, b]: [&DeviceArrayRef<i8, D>; 2],
    stream: &Stream,
    out: &mut DeviceArrayRef<i32, D>,
) -> Result<()> {
    let of = &product.shape;
    if out.is_empty() {
        return Ok(());
    }
    if let Some(parts) = by_parts(product, stream)? {
        return finish::finish_parts_into(parts.sums(), of, stream, out, &Finish::scale(1, 0));
    }
    if by_tensor_cores(product, stream, out)? {
        return Ok(());
    }
    let (a, b) = (a.cast::<i32>()?, b.cast::<i32>()?);
    Multiplication::new("matmul_i32", &a, &b, Some(out))?.run(stream, out, &Finish::scale(1, 0))
}

/// The products, of one launch, if the stream's device has tensor cores that can count them: Hopper's, or those of a warp.
fn by_tensor_cores<D: Dimension>(
    product: &Multiplication<'_, u8, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<i32, impl Dimension>,
) -> Result<bool> {
    if let Some(bytes) = ByteProduct::new(product, stream)? {
        multiply_bytes(bytes, &product.shape, stream, out)?;
        return Ok(true);
    }
    let Some(mut shape) = ampere::mma_shape(&product.shape, TURING, stream) else {
        return Ok(false);
    };
    let operands = Operands::new(product, false, &mut shape)?;
    let (a, b) = operands.words();
    let args = (a, b, out, shape);
    // SAFETY (of the three): the kernel's contract: threads and shared memory are those of its tiles, which are as many as the
    // blocks; the operands lie along k, and have the elements of the shape, from multiples of 16 bytes on and with such
    // strides, as a tensor map wants them, and `out` those of the products.
    if has_tensor_cores(stream, AMPERE) {
        let multiprocessors = stream.backend().properties().multiprocessors as usize;
        let columns = ampere::best_columns(&product.shape, 1, columns(stream), multiprocessors);
        let config = ampere::config::<i8, i32, Ampere>(&product.shape, columns);
        match columns {
            64 => unsafe { stream.launch_on_tensor_cores::<gemm_int8_mma<64>>(&config, args) }?,
            _ => unsafe { stream.launch_on_tensor_cores::<gemm_int8_mma<128>>(&config, args) }?,
        }
    } else {
        let config = ampere::config::<i8, i32, Turing>(&product.shape, COLUMNS);
        unsafe { stream.launch_on_tensor_cores::<gemm_int8_turing>(&config, args) }?;
    }
    Ok(true)
}

/// The sums of few tiles with a long k, or of few rows, in parts on tensor cores, if that pays.
fn by_parts<D: Dimension>(product: &Multiplication<'_, u8, D>, stream: &Stream) -> Result<Option<Parts<i32>>> {
    let how = match best_parts(product, &WIDTHS, stream) {
        None if has_tensor_cores(stream, TURING) => ampere::best_parts(&product.shape, columns(stream), stream),
        how => how,
    };
    let Some(how) = how else {
        return Ok(None);
    };
    let cut = how.product(product);
    let GemmShape { batch, m, n, .. } = cut.shape;
    let mut sums = DeviceArray::uninit(stream, Ix3(batch, m, n))?;
    Ok(by_tensor_cores(&cut, stream, &mut sums)?.then_some(Parts {
        sums,
        transposed: how.transposed,
    }))
}

/// The columns of tiles that the kernel for a warp has.
fn columns(stream: &Stream) -> &'static [usize] {
    match has_tensor_cores(stream, AMPERE) {
        true => &[128, 64],
        false => &[COLUMNS],
    }
}

/// Widths of tiles, by the registers of their sums.
const WIDTHS: [usize; 3] = [128, 64, 32];

/// The products, of one launch.
fn multiply_bytes(
    bytes: ByteProduct<'_>,
    of: &GemmShape,
    stream: &Stream,
    out: &mut DeviceArrayRef<i32, impl Dimension>,
) -> Result<()> {
    let registers = hopper::best_registers(of, 1, &WIDTHS, stream);
    let bytes = bytes.with_best_rows(of, registers, stream);
    hopper::write_mapped(out, [of.batch, of.m, of.n], false, stream, |out| match registers {
        32 => launch::<gemm_int8<32>>(&bytes, 32, stream, out),
        64 => launch::<gemm_int8<64>>(&bytes, 64, stream, out),
        _ => launch::<gemm_int8<128>>(&bytes, 128, stream, out),
    })
}

/// With tiles whose sums take so many registers, as `K`'s do.
fn launch<K: Kernel<Params = Int8Params>>(
    bytes: &ByteProduct<'_>,
    registers: usize,
    stream: &Stream,
    out: &mut DeviceViewMut<'_, i32, Ix3>,
) -> Result<()> {
    let [a, b] = bytes.maps(registers)?;
    let mut c = hopper::result_map(out)?;
    let config = hopper::config(&bytes.shape, registers, stream);
    // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps' tiles and
    // their swizzle; both operands lie along k.
    unsafe { stream.launch_on_tensor_cores::<K>(&config, (&a, &b, &mut c, bytes.shape)) }
}

/// Products of matrices of 8-bit integers.
impl DeviceArrayRef<i8, Ix2> {
    /// The product of this m × k matrix and the k × n matrix `b`, summed in `i32`, modulo 2^32: exact up to k = 131071.
    ///
    /// # Cost
    ///
    /// By the tensor cores of a GPU from Turing on, `2 m n k` operations, on Hopper at the speed of 8-bit floats. They take
    /// bytes only along k: an operand whose neighbours along k are not beside one another in memory is copied there first (in C
    /// order the `b` of `a · b`, but nothing of `a · b.t()`), and so is one whose lines do not begin at multiples of 16 bytes.
    /// On the simulated GPU, and where a length is beyond what they can count, the operands are converted to `i32`, which
    /// wants memory for them, and multiplied as [`matmul`](DeviceArrayRef::matmul) does.
    ///
    /// # Errors
    ///
    /// As [`matmul`](DeviceArrayRef::matmul).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let a = DeviceArray::from_ndarray(device.default_stream(), &array![[1i8, -2], [127, -128]])?;
    /// assert_eq!(a.matmul_i32(&a.t())?.to_ndarray()?, array![[5, 383], [383, 32513]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn matmul_i32(&self, b: &DeviceArrayRef<i8, Ix2>) -> Result<DeviceArray<i32, Ix2>> {
        multiply("matmul_i32", self, b)
    }

    /// [`matmul_i32`](Self::matmul_i32) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`matmul`](DeviceArrayRef::matmul); on an error nothing is written.
    pub fn matmul_i32_into(&self, b: &DeviceArrayRef<i8, Ix2>, out: &mut DeviceArrayRef<i32, Ix2>) -> Result<()> {
        multiply_into("matmul_i32", self, b, out)
    }
}

/// Products of batches of matrices of 8-bit integers.
impl DeviceArrayRef<i8, Ix3> {
    /// The products of these batch × m × k matrices and the batch × k × n matrices `b`, one by one, as
    /// [`matmul_i32`](DeviceArrayRef::matmul_i32). A batch of one matrix is multiplied with all of the other.
    ///
    /// # Errors
    ///
    /// As [`matmul`](DeviceArrayRef::matmul).
    pub fn batched_matmul_i32(&self, b: &DeviceArrayRef<i8, Ix3>) -> Result<DeviceArray<i32, Ix3>> {
        multiply("batched_matmul_i32", self, b)
    }

    /// [`batched_matmul_i32`](Self::batched_matmul_i32) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`matmul`](DeviceArrayRef::matmul); on an error nothing is written.
    pub fn batched_matmul_i32_into(
        &self,
        b: &DeviceArrayRef<i8, Ix3>,
        out: &mut DeviceArrayRef<i32, Ix3>,
    ) -> Result<()> {
        multiply_into("batched_matmul_i32", self, b, out)
    }
}
