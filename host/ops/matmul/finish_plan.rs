// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launches that finish sums in memory: one, but where numbers of products, rows or columns, or strides, have more than 32 bits,
//! or are more than a grid has.

use kernels_gpu::matmul::epilogue::parts::MOST_PARTS;
use kernels_gpu::matmul::epilogue::{Lines, SumsShape};
use kernels_gpu::matmul::gemm::GemmShape;
use ndarray::Dimension;

use super::finish::{self, Finish, Finished, Sums, groups, width_of};
use crate::launch::LaunchConfig;

/// Columns of a launch at most: with those of a block beyond them their numbers have 32 bits.
const MOST_COLUMNS: usize = 1 << 30;

/// Blocks of a grid along its second and third axis at most.
const MOST_BLOCKS: usize = u16::MAX as usize;

/// Where the elements of one array lie.
#[derive(Clone, Copy)]
struct Lies {
    /// Products, rows, columns.
    strides: [usize; 3],
    in_vectors: bool,
}

impl Lies {
    /// With these strides, from a place on that is aligned to vectors or not; where rows of `n` have no room behind them.
    fn new(strides: [usize; 3], is_aligned: bool, n: usize, width: usize) -> Self {
        let [product, row, column] = strides;
        Self {
            strides,
            in_vectors: is_aligned && column == 1 && (product | row | n).is_multiple_of(width),
        }
    }

    /// From these products, rows and columns on, for a launch of so many.
    fn lines(&self, first: [usize; 3], extents: [usize; 3]) -> Lines {
        let along = |axis: usize| first[axis] * self.strides[axis];
        // A launch has one alone along axes whose strides have more bits.
        let stride = |axis: usize| {
            if extents[axis] > 1 {
                self.strides[axis] as u32
            } else {
                0
            }
        };
        Lines {
            first: along(0) + along(1) + along(2),
            strides: [0, 1, 2].map(stride),
            in_vectors: self.in_vectors.into(),
        }
    }
}

/// How sums are finished.
pub(super) struct FinishPlan {
    /// Products, rows, columns.
    extents: [usize; 3],
    /// Those of a launch, at most.
    at_once: [usize; 3],
    parts: usize,
    /// Elements from a part to the next one.
    of_part: usize,
    /// Threads of a block: along columns, along rows, and those that share the parts of a sum.
    block: [usize; 3],
    /// Columns of a thread.
    width: usize,
    /// Sums, output, bias, residual.
    lies: [Lies; 4],
}

impl FinishPlan {
    /// That for an output in C order at that address.
    pub(super) fn new<C: Finished, A>(
        sums: &Sums<A>,
        of: &GemmShape,
        out: u64,
        finish: &Finish<'_, C, impl Dimension, impl Copy>,
    ) -> Self {
        let &GemmShape { batch, m, n, .. } = of;
        let width = width_of::<C>();
        let is_aligned = |address: u64, element: usize| address.is_multiple_of((width * element) as u64);
        // Rows of sums whose strides are multiples of vectors have room for whole ones.
        let of_sums = Lies::new(sums.strides, is_aligned(sums.address, size_of::<C::Wide>()), 0, width);
        let of_result = |strides, address| Lies::new(strides, is_aligned(address, size_of::<C>()), n, width);
        let [bias, residual] = [&finish.bias, &finish.residual].map(|addend| {
            let address = addend.as_deref().map_or(0, |addend| addend.address());
            of_result(finish::strides(addend), address)
        });
        let groups = groups(sums.parts);
        let (along, rows) = finish::block::<C>(n, groups);
        let block = [along, rows, groups];
        let lies = [of_sums, of_result([m * n, n, 1], out), bias, residual];
        Self::of(
            [batch, m, n],
            (sums.parts, batch * sums.strides[0]),
            (block, width),
            lies,
        )
    }

    /// That of sums in parts, each so many elements behind the one before it.
    fn of(
        extents: [usize; 3],
        (parts, of_part): (usize, usize),
        ([along, rows, groups], width): ([usize; 3], usize),
        mut lies: [Lies; 4],
    ) -> Self {
        assert!(
            (1..=MOST_PARTS).contains(&parts),
            "sums in {parts} parts, where 1 to {MOST_PARTS} are added up"
        );
        let mut at_once = [MOST_BLOCKS, MOST_BLOCKS * rows, MOST_COLUMNS];
        for (axis, at_once) in at_once.iter_mut().enumerate() {
            if lies.iter().any(|lies| u32::try_from(lies.strides[axis]).is_err()) {
                *at_once = 1;
            }
        }
        // Launches then begin between vectors.
        if at_once[2] == 1 {
            lies.iter_mut().for_each(|lies| lies.in_vectors = false);
        }
        let share = parts.div_ceil(groups);
        Self {
            extents,
            at_once,
            parts,
            of_part,
            block: [along, rows, parts.div_ceil(share)],
            width,
            lies,
        }
    }

    /// The launches, each with its shape; none where there is no element.
    pub(super) fn launches(&self) -> impl Iterator<Item = (LaunchConfig, SumsShape)> + '_ {
        let firsts = |axis: usize| (0..self.extents[axis]).step_by(self.at_once[axis]);
        firsts(0).flat_map(move |product| {
            let of_row = move |row| firsts(2).map(move |column| self.launch([product, row, column]));
            firsts(1).flat_map(of_row)
        })
    }

    /// That from these products, rows and columns on.
    fn launch(&self, first: [usize; 3]) -> (LaunchConfig, SumsShape) {
        let extents = [0, 1, 2].map(|axis| (self.extents[axis] - first[axis]).min(self.at_once[axis]));
        let [products, m, n] = extents.map(|extent| extent as u32);
        let [along, rows, groups] = self.block.map(|threads| threads as u32);
        let grid = (n.div_ceil(along * self.width as u32), m.div_ceil(rows), products);
        let [sums, out, bias, residual] = self.lies.map(|lies| lies.lines(first, extents));
        let shape = SumsShape {
            parts: self.parts as u32,
            share: self.parts.div_ceil(self.block[2]) as u32,
            m,
            n,
            of_part: self.of_part,
            sums,
            out,
            bias,
            residual,
        };
        (LaunchConfig::new(grid, (along, rows, groups)), shape)
    }
}

#[cfg(test)]
mod tests {
    use cuda_sim::Dim3;

    use super::*;

    /// One part in C order, in vectors, by blocks of 64 threads and 4 rows, and a bias of all rows.
    fn plan(extents: [usize; 3]) -> FinishPlan {
        let [_, m, n] = extents;
        let lies = |strides| Lies {
            strides,
            in_vectors: true,
        };
        let in_order = lies([m * n, n, 1]);
        FinishPlan::of(
            extents,
            (1, 0),
            ([64, 4, 1], 4),
            [in_order, in_order, lies([0, 0, 1]), in_order],
        )
    }

    #[test]
    fn one_launch_where_numbers_fit() {
        let launches: Vec<_> = plan([3, 1000, 2000]).launches().collect();
        let [(config, shape)] = &launches[..] else {
            panic!("{} launches", launches.len());
        };
        assert_eq!([config.grid, config.block], [(8, 250, 3).into(), (64, 4, 1).into()]);
        assert_eq!((shape.m, shape.n, shape.share), (1000, 2000, 1));
        assert_eq!((shape.out.first, shape.out.strides), (0, [2_000_000, 2000, 1]));
        assert_eq!((shape.bias.strides, shape.bias.in_vectors), ([0, 0, 1], 1));
        for empty in [[0, 5, 5], [5, 0, 5], [5, 5, 0]] {
            assert_eq!(plan(empty).launches().count(), 0, "{empty:?}");
        }
    }

    #[test]
    fn what_has_more_bits_is_cut() {
        // More products, rows and columns than a grid has; rows, and products, that are far apart.
        let many: [[usize; 3]; 5] = [
            [70_000, 3, 8],
            [1, 5_000_000_000, 1],
            [1, 2, 3_000_000_000],
            [1, 3, 5_000_000_000],
            [3, 70_000, 70_000],
        ];
        for extents in many {
            let plan = plan(extents);
            let (mut elements, mut firsts) = (0, Vec::new());
            for (config, shape) in plan.launches() {
                let Dim3 {
                    x: columns,
                    y: rows,
                    z: products,
                } = config.grid;
                assert!(rows <= 65_535 && products <= 65_535, "{extents:?}: {config:?}");
                assert!(
                    columns * 256 >= shape.n && rows * 4 >= shape.m,
                    "{extents:?}: {config:?}"
                );
                let last = [products, shape.m, shape.n].map(|number| number as usize - 1);
                let along = |axis: usize| last[axis] * shape.out.strides[axis] as usize;
                let last = shape.out.first + along(0) + along(1) + along(2);
                assert!(last < extents.iter().product(), "{extents:?}: {shape:?}");
                elements += products as usize * shape.m as usize * shape.n as usize;
                firsts.push(shape.out.first);
            }
            let count = firsts.len();
            firsts.sort_unstable();
            firsts.dedup();
            assert!(count > 1 && firsts.len() == count, "{extents:?}: {count} launches");
            assert_eq!(elements, extents.iter().product::<usize>(), "{extents:?}");
        }
    }

    #[test]
    fn columns_that_are_far_apart_are_no_vectors() {
        let far = Lies {
            strides: [0, 1, 1 << 33],
            in_vectors: false,
        };
        let mut lies = plan([1, 2, 4]).lies;
        lies[3] = far;
        let plan = FinishPlan::of([1, 2, 4], (1, 0), ([64, 4, 1], 4), lies);
        let launches: Vec<_> = plan.launches().collect();
        assert_eq!(launches.len(), 4);
        for (column, (_, shape)) in launches.iter().enumerate() {
            assert_eq!((shape.n, shape.out.in_vectors, shape.sums.in_vectors), (1, 0, 0));
            assert_eq!(
                (shape.residual.first, shape.residual.strides),
                (column << 33, [0, 1, 0])
            );
        }
    }

    #[test]
    #[should_panic(expected = "sums in 65 parts, where 1 to 64 are added up")]
    fn no_more_parts_than_a_block_adds_up() {
        let lies = plan([1, 1, 1]).lies;
        FinishPlan::of([1, 1, 1], (65, 1), ([1, 16, 16], 4), lies);
    }
}
