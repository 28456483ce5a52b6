// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scales of operands: of which shapes they may be, and how the kernels are told of them.

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::fp8::{SCALE_BLOCK, ScalePlan};
use ndarray::{Ix3, Ix5, IxDyn, s};

use crate::array::DeviceArray;
use crate::error::{Error, Result};
use crate::launch::Words;
use crate::ops::transpose::Ordered;
use crate::view::DeviceView;

/// The scales of an operand: for each product, each line (row of A, column of B) or block of them, and each block of k.
pub(super) struct Scales<'a> {
    pub(super) memory: Ordered<'a, f32, IxDyn>,
    /// Products, lines or blocks of them, blocks of k: of each as many as there are, or 1 for all.
    pub(super) extents: [usize; 3],
    /// For each of them, 0 where there is 1 for all.
    pub(super) strides: [usize; 3],
    pub(super) by_blocks: bool,
}

impl<'a> Scales<'a> {
    /// Those of operand `a` or `b`, of so many products, lines, blocks of k, and, where it has scales of blocks, groups of
    /// lines.
    pub(super) fn new(
        operation: &'static str,
        of: &str,
        scales: &DeviceView<'a, f32, IxDyn>,
        [batch, lines, of_k, groups]: [usize; 4],
    ) -> Result<Self> {
        let shape = scales.shape();
        let mut extents = [1; 3];
        let fits = shape.len() <= 3;
        if fits {
            extents[3 - shape.len()..].copy_from_slice(shape);
        }
        // Products, lines, k.
        let order = if of == "a" { [0, 1, 2] } else { [0, 2, 1] };
        let extents = order.map(|axis: usize| extents[axis]);
        let one_or = |given: usize, all: usize| given == 1 || given == all;
        let by_lines = extents[2] == 1 && one_or(extents[1], lines);
        let by_blocks = extents[2] == of_k && one_or(extents[1], groups);
        if !fits || !one_or(extents[0], batch) || !(by_lines || by_blocks) {
            let wanted = match of {
                "a" => format!("1 × 1, {lines} × 1 or {lines} × {of_k}"),
                _ => format!("1 × 1, 1 × {lines} or {of_k} × {groups}"),
            };
            return Err(Error::Shape {
                operation,
                given: format!("scales of `{of}` of shape {shape:?}"),
                wanted: format!("scales of {wanted}, for each of {batch} products or for all"),
            });
        }
        let memory = match scales.forwards::<IxDyn>(None)? {
            Ordered::Copied(copy) => Ordered::Copied(copy),
            Ordered::AsIs(_) => Ordered::AsIs(scales.clone()),
        };
        let mut strides = [0; 3];
        strides[3 - shape.len()..].copy_from_slice(&memory.steps());
        let strides = [0, 1, 2].map(|i| if extents[i] == 1 { 0 } else { strides[order[i]] });
        Ok(Self {
            memory,
            extents,
            strides,
            by_blocks: !by_lines,
        })
    }
}

impl Scales<'_> {
    /// The strides; 0 where there are no scales.
    fn strides(of: &Option<Self>) -> [usize; 3] {
        of.as_ref().map_or([0; 3], |scales| scales.strides)
    }

    /// The elements from the first to the last.
    fn len(of: &Option<Self>) -> usize {
        of.as_ref()
            .map_or(0, |scales| scales.memory.bytes().len() / size_of::<f32>())
    }

    /// The memory, if there are scales.
    fn words(of: &Option<Self>) -> Option<Words<'_, f32>> {
        of.as_ref().map(|scales| Words::of(&scales.memory))
    }

    /// Those of blocks of so many lines and 128 along k, one for each element, or for all lines: products, lines, k.
    pub(super) fn of_elements(&self, block: usize, [lines, k]: [usize; 2]) -> Result<DeviceArray<f32, Ix3>> {
        let ([products, groups, of_k], [product, group, step]) = (self.extents, self.strides);
        let block = if groups == 1 { 1 } else { block };
        let each = Ix5(products, groups, block, of_k, SCALE_BLOCK);
        let each = self
            .memory
            .laid_out(each, vec![product, group, 0, step, 0])
            .to_array()?;
        let each = each.into_shape(Ix3(products, groups * block, of_k * SCALE_BLOCK))?;
        each.slice(s![.., ..lines.min(groups * block), ..k])?.to_array()
    }
}

/// The scales of both operands as the kernels take them.
pub(super) struct ScaleArgs<'a> {
    pub(super) plan: ScalePlan,
    pub(super) a: Option<Words<'a, f32>>,
    pub(super) b: Option<Words<'a, f32>>,
}

impl<'a> ScaleArgs<'a> {
    /// Those of a batch of products of this shape, whose sums are on one level, or not.
    pub(super) fn new(a: &'a Option<Scales<'_>>, b: &'a Option<Scales<'_>>, one_level: bool, of: &GemmShape) -> Self {
        let by_blocks = |scales: &Option<Scales<'_>>| scales.as_ref().is_some_and(|scales| scales.by_blocks).into();
        let plan = ScalePlan {
            a: Scales::strides(a),
            b: Scales::strides(b),
            a_by_blocks: by_blocks(a),
            b_by_blocks: by_blocks(b),
            one_level: one_level.into(),
        };
        let extents = [of.batch, of.m, of.n, of.k];
        debug_assert!(plan.fits(extents, Scales::len(a), Scales::len(b)));
        Self {
            plan,
            a: Scales::words(a),
            b: Scales::words(b),
        }
    }

    /// Those of a batch of parts of so many elements along k, which are whole blocks.
    pub(super) fn of_parts(mut self, k: usize) -> Self {
        for strides in [&mut self.plan.a, &mut self.plan.b] {
            strides[0] = k / SCALE_BLOCK * strides[2];
        }
        self
    }

    /// Those of the product of the transposes, in the other order: not of blocks, which have other lines in both.
    pub(super) fn transposed(self) -> Self {
        let ScalePlan { a, b, .. } = self.plan;
        Self {
            plan: ScalePlan {
                a: b,
                b: a,
                ..self.plan
            },
            a: self.b,
            b: self.a,
        }
    }
}
