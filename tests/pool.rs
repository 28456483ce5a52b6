// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pooling and its gradients against loops in `f64`.

use ndarray::{Array5, ArrayD, Dim, IxDyn, s};
use warpsmith::ops::Pool;
use warpsmith::{DeviceArray, Error};

use crate::common::*;

trait Float: FloatNumber + Pool {}

impl<T: FloatNumber + Pool> Float for T {}

/// The unit roundoff of what is computed with.
fn unit<T: Float>() -> f64 {
    T::UNIT_ROUNDOFF.min(f32::UNIT_ROUNDOFF)
}

/// A pooling of three axes.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// (images, three axes, channels).
    shape: [usize; 5],
    size: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
}

impl Case {
    fn output(&self) -> [usize; 5] {
        let mut output = self.shape;
        for k in 0..3 {
            output[1 + k] = (self.shape[1 + k] + 2 * self.padding[k] - self.size[k]) / self.stride[k] + 1;
        }
        output
    }

    /// Calls `what` with each place of the output and the elements of its window, in C order.
    fn for_windows(&self, mut what: impl FnMut([usize; 5], &[[usize; 5]])) {
        for (n, z, y, x, c) in ndarray::indices(Dim(self.output())) {
            let first = |k: usize, o: usize| o * self.stride[k];
            let mut window = Vec::new();
            for (dz, dy, dx) in ndarray::indices(Dim(self.size)) {
                let padded = [first(0, z) + dz, first(1, y) + dy, first(2, x) + dx];
                let place: [usize; 3] = std::array::from_fn(|k| padded[k].wrapping_sub(self.padding[k]));
                if (0..3).all(|k| place[k] < self.shape[1 + k]) {
                    window.push([n, place[0], place[1], place[2], c]);
                }
            }
            what([n, z, y, x, c], &window);
        }
    }

    /// The shape with the last `axes` of the three.
    fn dim(&self, shape: [usize; 5], axes: usize) -> IxDyn {
        assert!(shape[1..4 - axes].iter().all(|&n| n == 1), "{self:?}");
        IxDyn(&[&shape[..1], &shape[4 - axes..]].concat())
    }
}

/// With the number of axes.
const CASES: [(usize, Case); 10] = [
    // Windows side by side, of channels that are whole vectors.
    (2, case([2, 1, 4, 6, 16], [1, 2, 2], [1, 2, 2], [0, 0, 0])),
    // That overlap, at the edges with padding.
    (2, case([1, 1, 5, 7, 8], [1, 3, 3], [1, 2, 2], [0, 1, 1])),
    (2, case([1, 1, 4, 5, 4], [1, 3, 2], [1, 1, 1], [0, 1, 0])),
    // That leave gaps, and places at the end.
    (2, case([2, 1, 8, 9, 3], [1, 2, 1], [1, 3, 4], [0, 0, 0])),
    // With padding, too.
    (2, case([2, 1, 8, 7, 4], [1, 3, 2], [1, 3, 3], [0, 2, 1])),
    // Channels that are no vectors.
    (2, case([3, 1, 5, 4, 5], [1, 2, 3], [1, 1, 2], [0, 1, 2])),
    (1, case([3, 1, 1, 301, 1], [1, 1, 4], [1, 1, 3], [0, 0, 3])),
    (1, case([1, 1, 1, 1, 2], [1, 1, 2], [1, 1, 1], [0, 0, 1])),
    (3, case([1, 3, 4, 5, 4], [2, 3, 2], [1, 2, 2], [1, 0, 1])),
    // One window.
    (3, case([2, 2, 3, 4, 1], [2, 3, 4], [1, 1, 1], [0, 0, 0])),
];

const fn case(shape: [usize; 5], size: [usize; 3], stride: [usize; 3], padding: [usize; 3]) -> Case {
    Case {
        shape,
        size,
        stride,
        padding,
    }
}

fn array<T: Number>(shape: [usize; 5], seed: u64) -> Array5<T> {
    Array5::from_shape_vec(Dim(shape), random(shape.iter().product(), seed)).unwrap()
}

/// Whole numbers, whose sums are exact.
fn whole<T: Float>(shape: [usize; 5], seed: u64) -> Array5<T> {
    array::<u8>(shape, seed).mapv(|x| T::of(f64::from(x % 16) - 8.0))
}

fn on_device<T: Float>(x: &Array5<T>, dim: IxDyn) -> Dyn<T> {
    upload(&x.clone().into_shape_with_order(dim).unwrap())
}

fn as_five<T: Float>(x: Dyn<T>, shape: [usize; 5]) -> Array5<T> {
    x.to_ndarray().unwrap().into_shape_with_order(shape).unwrap()
}

/// Which of a window's elements counts: the first NaN, or the first of the largest.
fn place_of_largest<T: Float>(x: &Array5<T>, window: &[[usize; 5]]) -> [usize; 5] {
    let mut best = window[0];
    for &place in &window[1..] {
        let (value, largest) = (x[place].wide(), x[best].wide());
        if !largest.is_nan() && (value.is_nan() || value > largest) {
            best = place;
        }
    }
    best
}

fn max_pool<T: Float>() {
    for (number, (axes, case)) in CASES.into_iter().enumerate() {
        let x = array::<T>(case.shape, number as u64);
        let gradient = whole::<T>(case.output(), 100 + number as u64);
        let mut wanted = Array5::from_elem(case.output(), T::of(0.0));
        let mut wanted_gradient = Array5::<f64>::zeros(case.shape);
        case.for_windows(|out, window| {
            let values = || window.iter().map(|&place| x[place].wide());
            let is_nan = values().any(f64::is_nan);
            // +0 is above −0.
            let largest = values().fold(f64::NEG_INFINITY, |a, b| if a.total_cmp(&b).is_lt() { b } else { a });
            wanted[out] = T::of(if is_nan { f64::NAN } else { largest });
            wanted_gradient[place_of_largest(&x, window)] += gradient[out].wide();
        });
        let device = on_device(&x, case.dim(case.shape, axes));
        let pool = device
            .max_pool(&case.size[3 - axes..])
            .stride(&case.stride[3 - axes..])
            .padding(&case.padding[3 - axes..]);
        let got = as_five(pool.compute().unwrap(), case.output());
        assert_same(
            got.as_slice().unwrap(),
            wanted.as_slice().unwrap(),
            &format!("{case:?}"),
        );
        let on_device = on_device(&gradient, case.dim(case.output(), axes));
        let got = as_five(pool.gradient(&on_device).unwrap(), case.shape);
        let wanted = wanted_gradient.mapv(T::of);
        assert_same(
            got.as_slice().unwrap(),
            wanted.as_slice().unwrap(),
            &format!("gradient, {case:?}"),
        );
    }
}
for_types!(max_pool: f32 f64 f16 bf16);

/// Numbers of moderate size.
fn moderate<T: Float>(shape: [usize; 5], seed: u64) -> Array5<T> {
    array::<i32>(shape, seed).mapv(|x| T::of(f64::from(x % 1000) / 64.0))
}

fn average_pool<T: Float>() {
    for (number, (axes, case)) in CASES.into_iter().enumerate() {
        for counts_padding in [false, true] {
            let x = moderate::<T>(case.shape, number as u64);
            let gradient = moderate::<T>(case.output(), 100 + number as u64);
            let mut forward = Vec::new();
            let mut backward = Array5::from_elem(case.shape, (0.0, 0.0, 0.0));
            case.for_windows(|out, window| {
                let count = match counts_padding {
                    true => case.size.iter().product::<usize>(),
                    false => window.len(),
                } as f64;
                let values = || window.iter().map(|&place| x[place].wide());
                let mean = values().sum::<f64>() / count;
                let size = values().map(f64::abs).sum::<f64>() / count;
                // A sum of n numbers, and a division; and the rounding of the result.
                let bound = unit::<T>() * window.len() as f64 * size + T::UNIT_ROUNDOFF * mean.abs();
                forward.push((out, mean, bound));
                for &place in window {
                    let (sum, size, terms) = &mut backward[place];
                    let part = gradient[out].wide() / count;
                    (*sum, *size, *terms) = (*sum + part, *size + part.abs(), *terms + 1.0);
                }
            });
            let device = on_device(&x, case.dim(case.shape, axes));
            let mut pool = device
                .average_pool(&case.size[3 - axes..])
                .stride(&case.stride[3 - axes..])
                .padding(&case.padding[3 - axes..]);
            if counts_padding {
                pool = pool.counting_padding();
            }
            let got = as_five(pool.compute().unwrap(), case.output());
            for (out, mean, bound) in forward {
                let off = (got[out].wide() - mean).abs();
                assert!(off <= 1.01 * bound, "{case:?} {out:?}: {off:e} > {bound:e}");
            }
            let on_device = on_device(&gradient, case.dim(case.output(), axes));
            let got = as_five(pool.gradient(&on_device).unwrap(), case.shape);
            for (place, &(sum, size, terms)) in backward.indexed_iter() {
                let off = (got[place].wide() - sum).abs();
                let bound = unit::<T>() * terms * size + T::UNIT_ROUNDOFF * sum.abs();
                assert!(off <= 1.01 * bound, "gradient, {case:?} {place:?}: {off:e} > {bound:e}");
            }
        }
    }
}
for_types!(average_pool: f32 f64 f16 bf16);

/// Of functions that are linear along rays, as both are, `Σ g f(x) = Σ (∂f/∂x g) x`: whatever the gradient is computed by.
#[test]
fn gradients_are_those_of_the_results() {
    for (number, (axes, case)) in CASES.into_iter().enumerate() {
        let x = moderate::<f64>(case.shape, number as u64);
        let g = moderate::<f64>(case.output(), 50 + number as u64);
        let (x, g) = (
            on_device(&x, case.dim(case.shape, axes)),
            on_device(&g, case.dim(case.output(), axes)),
        );
        let (size, stride, padding) = (
            &case.size[3 - axes..],
            &case.stride[3 - axes..],
            &case.padding[3 - axes..],
        );
        let largest = x.max_pool(size).stride(stride).padding(padding);
        let mean = x.average_pool(size).stride(stride).padding(padding);
        let results = [
            (largest.compute().unwrap(), largest.gradient(&g).unwrap()),
            (mean.compute().unwrap(), mean.gradient(&g).unwrap()),
        ];
        for (y, dx) in results {
            let sum = |a: &Dyn<f64>, b: &Dyn<f64>| {
                let products = a.to_ndarray().unwrap() * b.to_ndarray().unwrap();
                (products.sum(), products.mapv(f64::abs).sum())
            };
            let ((by_results, size), (by_elements, _)) = (sum(&g, &y), sum(&dx, &x));
            let bound = 1e-13 * size;
            assert!(
                (by_results - by_elements).abs() <= bound,
                "{case:?}: {by_results} {by_elements}"
            );
        }
    }
}

#[test]
fn views_and_parts_are_pooled() {
    let x = whole::<f32>([2, 1, 6, 8, 12], 7)
        .into_shape_with_order((2, 6, 8, 12))
        .unwrap();
    let reference = |x: ArrayD<f32>| {
        let (x, g) = (upload(&x.as_standard_layout()), 2.0);
        let pool = x.max_pool([3, 2]).stride(2);
        let y = pool.compute().unwrap();
        let dx = pool
            .gradient(&DeviceArray::from_elem(y.stream(), y.raw_dim(), g).unwrap())
            .unwrap();
        (y.to_ndarray().unwrap(), dx.to_ndarray().unwrap())
    };
    let device = upload(&x);
    // Channels in front, as in PyTorch; a part that begins between vectors; one that goes backwards.
    let in_front = upload(&x.view().permuted_axes([0, 3, 1, 2]).as_standard_layout());
    let views = [
        (
            in_front.view().permuted_axes([0, 2, 3, 1]).unwrap(),
            x.view().into_dyn(),
        ),
        (
            device.slice(s![1.., .., .., 1..9]).unwrap(),
            x.slice(s![1.., .., .., 1..9]).into_dyn(),
        ),
        (
            device.slice(s![.., ..;-1, 1.., ..]).unwrap(),
            x.slice(s![.., ..;-1, 1.., ..]).into_dyn(),
        ),
    ];
    for (view, on_host) in views {
        let (y, dx) = reference(on_host.to_owned());
        let pool = view.max_pool([3, 2]).stride(2);
        assert_eq!(pool.compute().unwrap().to_ndarray().unwrap().into_dyn(), y);
        let two = DeviceArray::from_elem(view.stream(), 1, 2.0f32).unwrap();
        let shape = ndarray::Ix4(y.shape()[0], y.shape()[1], y.shape()[2], y.shape()[3]);
        let two = two.broadcast(shape).unwrap();
        assert_eq!(pool.gradient(&two).unwrap().to_ndarray().unwrap().into_dyn(), dx);
    }
    // A vector's channels, but no vector's address.
    let flat = upload(&whole::<f32>([1, 1, 1, 33, 1], 8).into_shape_with_order(33).unwrap());
    let part = flat.slice(s![1..]).unwrap().to_ndarray().unwrap();
    let shifted = flat.slice(s![1..]).unwrap();
    let view = shifted.view().into_dyn();
    let rows = view.insert_axis(ndarray::Axis(0)).unwrap();
    let rows = rows.insert_axis(ndarray::Axis(2)).unwrap();
    let got = rows.average_pool(2).compute().unwrap();
    let wanted: Vec<f32> = part
        .as_slice()
        .unwrap()
        .chunks(2)
        .map(|two| (two[0] + two[1]) / 2.0)
        .collect();
    assert_eq!(elements(&got), wanted);
}

#[test]
fn nothing_is_pooled_to_nothing() {
    let stream = device().default_stream();
    for shape in [[0, 4, 4, 3], [2, 4, 4, 0]] {
        let x = DeviceArray::<f32, _>::zeros(stream, shape).unwrap();
        let y = x.max_pool(2).compute().unwrap();
        assert_eq!(y.shape(), [shape[0], 2, 2, shape[3]]);
        assert_eq!(x.max_pool(2).gradient(&y).unwrap().shape(), shape);
        assert_eq!(x.average_pool(2).compute().unwrap().shape(), y.shape());
        assert_eq!(x.average_pool(2).gradient(&y).unwrap().shape(), shape);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let stream = device().default_stream();
    let x = DeviceArray::<f32, _>::zeros(stream, (1, 4, 5, 3)).unwrap();
    let error = |result: warpsmith::Result<DeviceArray<f32, ndarray::Ix4>>| result.unwrap_err().to_string();
    assert_eq!(
        error(x.max_pool([2, 6]).compute()),
        "max_pool: given an input of shape [1, 4, 5, 3], wanted along axis 2 from 1 to 1073741824 places, with the padding of 0 on \
         both sides no fewer than the 6 of a window, and less padding than that"
    );
    assert!(matches!(x.max_pool(2).padding(2).compute(), Err(Error::Shape { .. })));
    assert_eq!(
        error(x.average_pool([2, 2, 2]).compute()),
        "average_pool: size: given [2, 2, 2], wanted a number of 1 to 1073741824 for each of 2 axes"
    );
    assert_eq!(
        error(x.average_pool(2).stride(0).compute()),
        "average_pool: stride: given [0, 0], wanted a number of 1 to 1073741824 for each of 2 axes"
    );
    assert!(matches!(x.max_pool(0).compute(), Err(Error::Parameter { .. })));
    assert_eq!(
        error(x.max_pool(2).gradient(&x)),
        "max_pool gradient: given a gradient of shape [1, 4, 5, 3], wanted that of the result, [1, 2, 2, 3]"
    );
    assert!(matches!(x.average_pool(2).gradient(&x), Err(Error::Shape { .. })));
    let flat = DeviceArray::<f32, _>::zeros(stream, (4, 5)).unwrap();
    assert!(matches!(flat.max_pool(1).compute(), Err(Error::Shape { .. })));
    let no_places = DeviceArray::<f32, _>::zeros(stream, (1, 0, 3)).unwrap();
    assert!(matches!(
        no_places.max_pool(2).padding(1).compute(),
        Err(Error::Shape { .. })
    ));
}
