// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the arrays of a program lie, and what of their elements is read at once.

use cuda_std::scalar::ScalarType;

use super::{Input, Layout, Program, Value};
use crate::expr::ptx;

/// How elements with these strides lie.
pub(super) fn layout(strides: &[isize]) -> Layout {
    match strides.split_last() {
        _ if strides.iter().all(|&stride| stride == 0) => Layout::Single,
        Some((1, _)) => Layout::Rows,
        Some((0, _)) => Layout::Columns,
        _ => Layout::Strided,
    }
}

/// Whether elements that share a sector of memory are neighbours along the last axis but one, and those along the last are
/// farther apart.
pub(super) fn is_transposed(input: &Input, strides: &[isize]) -> bool {
    match *strides {
        [.., row, column] if input.layout == Layout::Strided => {
            let [row, column] = [row, column].map(isize::unsigned_abs);
            (1..column).contains(&row) && row * input.ty.bytes() < ptx::SECTOR
        }
        _ => false,
    }
}

/// Has inputs read by vectors along the last axis but one, if they lie so, as many as a block has shared memory for.
pub(super) fn turn(program: &mut Program, inputs: &[u64], strides: &[Vec<isize>]) {
    let vector = ptx::vector_len(program);
    let all = program.inputs.iter_mut().zip(inputs).zip(strides);
    let turned = all.filter(|((input, address), strides)| {
        let along = strides.len() - 2;
        let others = strides.iter().enumerate().filter(|(axis, _)| *axis != along);
        let mut others = others.map(|(_, stride)| stride.unsigned_abs());
        input.layout == Layout::Strided
            && strides[along] == 1
            && vector * input.ty.bytes() == ptx::ACCESS
            && address.is_multiple_of(ptx::ACCESS as u64)
            && others.all(|stride| stride.is_multiple_of(vector))
    });
    turned
        .take(ptx::MOST_TURNED)
        .for_each(|((input, _), _)| input.layout = Layout::Turned);
}

/// [`Program::aligned`]
pub(super) fn are_aligned(
    program: &Program,
    inputs: &[u64],
    outputs: &[u64],
    lengths: &[usize],
    strides: &[Vec<isize>],
) -> bool {
    let (vector, along) = (ptx::vector_len(program), ptx::row_multiple(program));
    let begins = |address: u64, ty: ScalarType| address.is_multiple_of((vector * ty.bytes()) as u64);
    let is_whole = |(input, (&address, strides)): (&Input, (&u64, &Vec<isize>))| {
        let outer = &strides[..strides.len() - 1];
        input.layout != Layout::Rows
            || begins(address, input.ty) && outer.iter().all(|stride| stride.unsigned_abs().is_multiple_of(vector))
    };
    let rows_are_whole = lengths.len() == 1 || lengths[lengths.len() - 1].is_multiple_of(along);
    let ty = |&value: &Value| program.types[usize::from(value)];
    let stored = outputs.iter().zip(program.outputs.iter().map(ty)).enumerate();
    let mut by_vectors = stored.filter(|(output, _)| !program.is_alone(*output));
    rows_are_whole
        && program.inputs.iter().zip(inputs.iter().zip(strides)).all(is_whole)
        && by_vectors.all(|(_, (&address, ty))| begins(address, ty))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ndarray::s;

    use super::*;
    use crate::expr::graph::Node;
    use crate::expr::program::lower::lower;
    use crate::{Device, DeviceArray};

    /// Views of an array that were put together with `x`, and whether the program is transposed.
    #[test]
    fn programs_are_transposed_where_an_input_has_its_neighbours_along_the_last_axis_but_one() -> crate::Result<()> {
        let device = Device::simulator();
        let zeros = |shape: [usize; 3]| DeviceArray::<f32, _>::zeros(device.default_stream(), shape);
        let (x, y) = (zeros([4, 40, 50])?, zeros([4, 50, 40])?);
        let is_transposed = |part: Arc<Node<'_>>| lower(&[Arc::clone(&part)], &part.shape, &[0]).program.transposed;
        let plain = (x.expr() + &x).part.expect("one shape");
        assert!(!is_transposed(plain));
        let turned = y.view().permuted_axes([0, 2, 1])?;
        assert!(is_transposed((x.expr() + &*turned).part.expect("one shape")));
        assert!(is_transposed(turned.expr().part.expect("an array")));
        let reversed = turned.slice(s![.., ..;-1, ..;-1])?;
        assert!(is_transposed(reversed.expr().part.expect("an array")));
        // Of a matrix, whatever other axes of one element it has.
        let one = turned.slice(s![1..2, .., ..])?;
        assert!(is_transposed(one.expr().part.expect("an array")));
        // Columns, one row for all, elements that are apart, in C order, or in no sector with others.
        for view in [
            turned.slice(s![.., .., 0..1])?,
            turned.slice(s![.., 0..1, ..])?,
            x.slice(s![.., .., ..;2])?,
            x.slice(s![.., .., ..;-1])?,
            turned.slice(s![.., ..;8, ..])?,
        ] {
            assert!(
                !is_transposed(view.expr().part.expect("an array")),
                "{:?}",
                view.strides()
            );
        }
        Ok(())
    }

    /// Arrays that are turned, of whole tiles, are read by vectors if these begin at multiples of their size.
    #[test]
    fn arrays_are_turned_where_vectors_are_whole() -> crate::Result<()> {
        let device = Device::simulator();
        let zeros = |shape: [usize; 3]| DeviceArray::<f32, _>::zeros(device.default_stream(), shape);
        let x = zeros([4, 128, 68])?;
        let turned = |part: Arc<Node<'_>>| {
            let program = lower(&[Arc::clone(&part)], &part.shape, &[0]).program;
            program
                .inputs
                .iter()
                .filter(|input| input.layout == Layout::Turned)
                .count()
        };
        let part = |begin: usize| x.slice(s![.., .., begin..begin + 64])?.permuted_axes([0, 2, 1]);
        for begin in [0, 4] {
            assert_eq!(turned(part(begin)?.expr().part.expect("an array")), 1);
        }
        let y = part(0)?;
        assert_eq!(turned((y.expr() + y.expr().exp()).part.expect("one array")), 1);
        let many = (1..5).fold(y.expr(), |sum, _| sum.exp() + &*y);
        assert_eq!(turned(many.part.expect("some calls")), 1);
        let more = (1..20).fold(y.expr(), |sum, _| sum + &*y);
        assert_eq!(turned(more.part.expect("many calls")), 0);
        // Between vectors, reversed, of other lengths, and of other sizes.
        for other in [
            part(1)?,
            part(2)?,
            y.slice(s![.., ..;-1, ..])?,
            y.slice(s![.., ..60, ..])?,
            y.slice(s![.., .., ..96])?,
        ] {
            assert_eq!(turned(other.expr().part.expect("an array")), 0, "{:?}", other.shape());
        }
        let wide = DeviceArray::<f64, _>::zeros(device.default_stream(), [1, 128, 64])?;
        assert_eq!(
            turned(wide.view().permuted_axes([0, 2, 1])?.expr().part.expect("an array")),
            0
        );
        Ok(())
    }
}
