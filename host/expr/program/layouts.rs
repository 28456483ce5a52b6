// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the arrays of a program lie, and what of their elements is read at once.

use cuda_std::scalar::ScalarType;

use super::{Input, Layout, Program, Value};
use crate::expr::plan::run::dense;
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

/// The axis along which elements of an input share a sector of memory, where those along the last axis are farther apart.
pub(super) fn neighbours(inputs: &[Input], lengths: &[usize], strides: &[Vec<isize>]) -> Option<u8> {
    let all = inputs.iter().zip(strides);
    let axes = all.filter_map(|(input, strides)| neighbours_of(input, lengths, strides));
    axes.max().map(|axis| axis as u8)
}

fn neighbours_of(input: &Input, lengths: &[usize], strides: &[isize]) -> Option<usize> {
    let [ref outer @ .., column] = *strides else {
        return None;
    };
    let column = column.unsigned_abs();
    let is_near = |&axis: &usize| {
        let stride = outer[axis].unsigned_abs();
        (1..column).contains(&stride) && stride * input.ty.bytes() < ptx::SECTOR
    };
    if input.layout != Layout::Strided {
        return None;
    }
    let last = outer.len().checked_sub(1)?;
    if is_near(&last) {
        return Some(last);
    }
    // What is stored is apart then, too: pieces of rows, which are to be whole sectors.
    let is_apart = column * input.ty.bytes() >= ptx::SECTOR && lengths[outer.len()] * input.ty.bytes() >= ptx::SECTOR;
    let near = (0..last).filter(is_near);
    near.min_by_key(|&axis| outer[axis].unsigned_abs()).filter(|_| is_apart)
}

/// Has inputs read by vectors along the axis that the program is transposed along, if they lie so, as many as a block has shared
/// memory for.
pub(super) fn turn(program: &mut Program, inputs: &[u64], strides: &[Vec<isize>]) {
    let Some(along) = program.transposed.map(usize::from) else {
        return;
    };
    let vector = ptx::vector_len(program);
    let all = program.inputs.iter_mut().zip(inputs).zip(strides);
    let turned = all.filter(|((input, address), strides)| {
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

/// Says whether the program is [aligned](Program::aligned) or [ragged](Program::ragged), and which inputs are
/// [off](Layout::Offset) the vectors.
pub(super) fn align(program: &mut Program, inputs: &[u64], outputs: &[u64], lengths: &[usize], strides: &[Vec<isize>]) {
    let (vector, along) = (ptx::vector_len(program), ptx::row_multiple(program));
    let begins = |address: u64, ty: ScalarType| address.is_multiple_of((vector * ty.bytes()) as u64);
    let ty = |&value: &Value| program.types[usize::from(value)];
    let stored = outputs.iter().zip(program.outputs.iter().map(ty)).enumerate();
    let mut by_vectors = stored.filter(|(output, _)| !program.is_alone(*output));
    if !by_vectors.all(|(_, (&address, ty))| begins(address, ty)) {
        return;
    }
    let rows_are_whole = lengths.len() == 1 || lengths[lengths.len() - 1].is_multiple_of(along);
    let dense = dense(lengths);
    // Vectors of the outputs are vectors of the input, too.
    let is_off = |(input, (&address, strides)): (&Input, (&u64, &Vec<isize>))| {
        let mut outer = strides.iter().zip(&dense).take(lengths.len() - 1);
        let is_vector = |(stride, dense): (&isize, &isize)| (stride - dense).unsigned_abs().is_multiple_of(vector);
        input.layout == Layout::Rows && !(begins(address, input.ty) && outer.all(is_vector))
    };
    let off: Vec<bool> = program
        .inputs
        .iter()
        .zip(inputs.iter().zip(strides))
        .map(is_off)
        .collect();
    if rows_are_whole && !off.contains(&true) {
        program.aligned = true;
        return;
    }
    lie(program, &off, Layout::Offset);
    match ptx::goes_by_vectors(program, vector, lengths) {
        true => (program.aligned, program.ragged) = (rows_are_whole, !rows_are_whole),
        false => lie(program, &off, Layout::Rows),
    }
}

/// Has those inputs lie so.
fn lie(program: &mut Program, those: &[bool], layout: Layout) {
    let inputs = program.inputs.iter_mut().zip(those).filter(|(_, is_one)| **is_one);
    inputs.for_each(|(input, _)| input.layout = layout);
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
        let is_transposed = |part: Arc<Node<'_>>| {
            lower(&[Arc::clone(&part)], &part.shape, &[0])
                .program
                .transposed
                .is_some()
        };
        let plain = (x.expr() + &x).into_part().expect("one shape");
        assert!(!is_transposed(plain));
        let turned = y.view().permuted_axes([0, 2, 1])?;
        assert!(is_transposed((x.expr() + &*turned).into_part().expect("one shape")));
        assert!(is_transposed(turned.expr().into_part().expect("an array")));
        let reversed = turned.slice(s![.., ..;-1, ..;-1])?;
        assert!(is_transposed(reversed.expr().into_part().expect("an array")));
        // Of a matrix, whatever other axes of one element it has.
        let one = turned.slice(s![1..2, .., ..])?;
        assert!(is_transposed(one.expr().into_part().expect("an array")));
        // Columns, one row for all, elements that are apart, in C order, or in no sector with others.
        for view in [
            turned.slice(s![.., .., 0..1])?,
            turned.slice(s![.., 0..1, ..])?,
            x.slice(s![.., .., ..;2])?,
            x.slice(s![.., .., ..;-1])?,
            turned.slice(s![.., ..;8, ..])?,
        ] {
            assert!(
                !is_transposed(view.expr().into_part().expect("an array")),
                "{:?}",
                view.strides()
            );
        }
        Ok(())
    }

    /// The axis along which programs are transposed, whether they are ragged, and how their two inputs lie.
    fn lies(part: crate::expr::graph::Part<'_>) -> (Option<u8>, bool, bool, Vec<Layout>) {
        let part = part.expect("one shape");
        let program = lower(&[Arc::clone(&part)], &part.shape, &[1 << 20]).program;
        let layouts = program.inputs.iter().map(|input| input.layout).collect();
        (program.transposed, program.aligned, program.ragged, layouts)
    }

    /// By any axis, of which tiles have rows, if pieces of rows are whole sectors.
    #[test]
    fn programs_are_transposed_along_any_axis() -> crate::Result<()> {
        use Layout::{Rows, Strided, Turned};
        let device = Device::simulator();
        let zeros = |shape: [usize; 3]| DeviceArray::<f32, _>::zeros(device.default_stream(), shape);
        for (shape, wanted) in [
            ([64, 5, 64], (Some(0), true, false, vec![Rows, Turned])),
            ([9, 5, 12], (Some(0), true, false, vec![Rows, Strided])),
            ([9, 5, 193], (Some(0), false, true, vec![Rows, Strided])),
            ([9, 5, 9], (Some(0), false, false, vec![Rows, Strided])),
            ([9, 5, 4], (None, true, false, vec![Rows, Strided])),
        ] {
            let x = zeros(shape)?;
            let y = zeros([shape[2], shape[1], shape[0]])?;
            let turned = y.view().reversed_axes();
            assert_eq!(lies((x.expr() + &turned).into_part()), wanted, "{shape:?}");
        }
        Ok(())
    }

    /// Inputs that have vectors elsewhere than the outputs are read element by element, where that is worth it.
    #[test]
    fn inputs_are_off_the_vectors_of_outputs() -> crate::Result<()> {
        use Layout::{Offset, Rows};
        let device = Device::simulator();
        let bytes = DeviceArray::<u8, _>::zeros(device.default_stream(), [10, 100])?;
        let (one, other) = (
            bytes.slice(s![.., 1..81])?,
            DeviceArray::<u8, _>::zeros(device.default_stream(), [10, 80])?,
        );
        let wanted = (None, true, false, vec![Offset, Rows]);
        assert_eq!(lies((one.expr() + &other).into_part()), wanted);
        let words = DeviceArray::<f32, _>::zeros(device.default_stream(), 100)?;
        let (one, other) = (words.slice(s![1..81])?, words.slice(s![..80])?);
        let wanted = (None, false, false, vec![Rows, Rows]);
        assert_eq!(lies((one.expr() + &other).into_part()), wanted);
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
            assert_eq!(turned(part(begin)?.expr().into_part().expect("an array")), 1);
        }
        let y = part(0)?;
        assert_eq!(turned((y.expr() + y.expr().exp()).into_part().expect("one array")), 1);
        let many = (1..5).fold(y.expr(), |sum, _| sum.exp() + &*y);
        assert_eq!(turned(many.into_part().expect("some calls")), 1);
        let more = (1..20).fold(y.expr(), |sum, _| sum + &*y);
        assert_eq!(turned(more.into_part().expect("many calls")), 0);
        // Between vectors, reversed, of other lengths, and of other sizes.
        for other in [
            part(1)?,
            part(2)?,
            y.slice(s![.., ..;-1, ..])?,
            y.slice(s![.., ..60, ..])?,
            y.slice(s![.., .., ..96])?,
        ] {
            assert_eq!(
                turned(other.expr().into_part().expect("an array")),
                0,
                "{:?}",
                other.shape()
            );
        }
        let wide = DeviceArray::<f64, _>::zeros(device.default_stream(), [1, 128, 64])?;
        assert_eq!(
            turned(
                wide.view()
                    .permuted_axes([0, 2, 1])?
                    .expr()
                    .into_part()
                    .expect("an array")
            ),
            0
        );
        Ok(())
    }
}
