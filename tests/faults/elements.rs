// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that moves elements, and that makes arrays.

use ndarray::{Array1, Array2, Ix1, Ix2, array, s};
use warpsmith::dlpack::DLManagedTensor;
use warpsmith::ops::{self, Border, Side};

use super::*;

pub const WORK: &[(&str, Work)] = &[
    ("arrays of one value and of equal steps", |_, stream| {
        let mut sums = DeviceArray::from_elem(stream, 5, 2.0f32)?;
        sums.add_assign(&DeviceArray::range(stream, 0.0f32, 5.0, 1.0)?)?;
        sums.add_assign(&DeviceArray::linspace(stream, 0.0f32, 4.0, 5)?)?;
        assert_eq!(sums.to_ndarray()?, array![2.0, 4.0, 6.0, 8.0, 10.0]);
        let unit = DeviceArray::<f32, _>::eye(stream, 3)?;
        assert_eq!(unit.sub(&unit.ones_like()?)?.sum()?, -6.0);
        let made = DeviceArray::from_shape_fn(stream, (2, 2), |(i, j)| 2 * i + j)?;
        assert_eq!(made.to_ndarray()?, array![[0, 1], [2, 3]]);
        Ok(())
    }),
    ("random arrays", |_, stream| {
        let mut random = Generator::new(3);
        let uniform = random.uniform::<f32, _>(stream, 1001, 0.0..1.0)?;
        assert!(uniform.min()? >= 0.0 && uniform.max()? < 1.0);
        let normal = random.standard_normal::<f64, _>(stream, (20, 50))?;
        assert!(normal.mean()?.abs() < 0.2);
        assert_eq!(random.integers(stream, 100, 3..=3i32)?.sum()?, 300);
        assert_eq!(random.bernoulli(stream, 100, 1.0)?.sum()?, 100);
        assert_eq!(random.permutation(stream, 100)?.sum()?, 4950);
        Ok(())
    }),
    ("random expressions", |_, stream| {
        let mut random = Generator::new(4);
        let points = random.uniform_expr::<f32, _>(1000, 1.0..2.0);
        let sum = points.sum().eval_on(stream)?.to_ndarray()?.into_scalar();
        assert!((1400.0..1600.0).contains(&sum));
        let kept = ones(stream, 1000)?.expr().dropout(0.5, &mut random).sum().eval()?;
        assert!((800.0..1200.0).contains(&kept.to_ndarray()?.into_scalar()));
        Ok(())
    }),
    ("parts of arrays", |_, stream| {
        let mut x = DeviceArray::from_ndarray(stream, &Array2::from_shape_fn((6, 8), |(i, j)| (8 * i + j) as i32))?;
        let corner = x.slice(s![..;-2, 1..;3])?;
        assert_eq!(corner.to_ndarray()?, array![[41, 44, 47], [25, 28, 31], [9, 12, 15]]);
        assert_eq!(corner.sum_axis(Axis(0))?.to_ndarray()?, array![75, 84, 93]);
        assert_eq!(corner.inclusive_scan_axis::<Sum>(Axis(1))?.max()?, 132);
        assert_eq!((corner.get([1, 2])?, corner.argmax()?), (31, 2));
        x.set([0, 0], 100)?;
        let [mut left, mut right] = [0, 4].map(|_| None);
        for (part, place) in x.axis_chunks_mut(Axis(1), 4)?.zip([&mut left, &mut right]) {
            *place = Some(part);
        }
        let (mut left, mut right) = (left.expect("two parts"), right.expect("two parts"));
        left.slice_mut(s![..;-1, ..])?.assign(&right)?;
        right.fill(1)?;
        right.add_assign_scalar(1)?;
        assert_eq!(x.slice(s![0, ..])?.to_ndarray()?, array![44, 45, 46, 47, 2, 2, 2, 2]);
        Ok(())
    }),
    ("parts by indices", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
        let indices = DeviceArray::from_ndarray(stream, &array![2i64, 0])?;
        let taken = x.take(Axis(1), &indices)?;
        assert_eq!(taken.to_ndarray()?, array![[3.0, 1.0], [6.0, 4.0]]);
        let mut sums = x.zeros_like()?;
        sums.scatter_add(Axis(1), &indices, &taken)?;
        sums.scatter_add_in_order(Axis(1), &indices, &taken)?;
        assert_eq!(sums.to_ndarray()?, array![[2.0, 0.0, 6.0], [8.0, 0.0, 12.0]]);
        let mut halves = sums.cast::<f16>()?;
        halves.scatter_add(Axis(1), &indices, &taken.cast()?)?;
        assert_eq!(halves.sum()?, f16::from_f32(42.0));
        Ok(())
    }),
    ("parts by masks", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
        let mask = x.greater(&x.full_like(3.0)?)?;
        assert_eq!(x.compress(&mask)?.to_ndarray()?, array![4.0, 5.0, 6.0]);
        let columns = DeviceArray::from_ndarray(stream, &array![1u8, 0, 1])?;
        assert_eq!(
            x.compress_axis(Axis(1), &columns)?.to_ndarray()?,
            array![[1.0, 3.0], [4.0, 6.0]]
        );
        assert_eq!(columns.flatnonzero()?.to_ndarray()?, array![0, 2]);
        Ok(())
    }),
    ("the largest and the middle", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
        let (largest, places) = x.top_k(Axis(1), 2)?;
        assert_eq!((largest.sum()?, places.sum()?), (16.0, 6));
        assert_eq!(x.median()?, 3.5);
        Ok(())
    }),
    ("sorting", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
        assert_eq!(x.sort(Axis(0))?.to_ndarray()?, x.to_ndarray()?);
        Ok(())
    }),
    ("sorting of places", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
        assert_eq!(x.argsort(Axis(1))?.sum_axis(Axis(1))?.to_ndarray()?, array![3, 3]);
        Ok(())
    }),
    ("different values", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
        assert_eq!(x.unique_counts()?.1.sum()?, 6);
        Ok(())
    }),
    ("medians, places among edges, members", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
        assert_eq!(x.median_axis(Axis(0))?.to_ndarray()?, array![2.5, 3.5, 4.5]);
        let edges = DeviceArray::from_ndarray(stream, &array![1.0, 3.0, 6.0])?;
        assert_eq!(edges.searchsorted(&x, Side::Right)?.sum()?, 11);
        assert_eq!(x.isin(&edges)?.sum()?, 3);
        Ok(())
    }),
    ("sorting of more than a block sorts", |_, stream| {
        let x = DeviceArray::<u8, _>::ones(stream, 4097)?;
        assert_eq!(x.argsort(Axis(0))?.max()?, 4096);
        Ok(())
    }),
    ("arrays that are joined, padded, turned and repeated", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1, 2], [3, 4]])?;
        let joined = ops::concatenate(Axis(0), &[x.view(), x.flip(Axis(1))?])?;
        assert_eq!(joined.to_ndarray()?, array![[1, 2], [3, 4], [2, 1], [4, 3]]);
        assert_eq!(ops::stack(Axis(2), &[x.view(), x.t()])?.sum()?, 20);
        assert_eq!(x.roll(Axis(1), 1)?.to_ndarray()?, array![[2, 1], [4, 3]]);
        assert_eq!(x.pad(&[[0, 1], [1, 0]], Border::Clamp)?.row_sums()?, array![4, 10, 10]);
        assert_eq!((x.tile((2, 1))?.sum()?, x.repeat(Axis(0), 3)?.sum()?), (20, 30));
        Ok(())
    }),
    ("casts that check and that wrap around", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![300i32, -1])?;
        assert_eq!(x.cast_saturating::<u8>()?.to_ndarray()?, array![255, 0]);
        assert_eq!(x.cast_wrapping::<u8>()?.to_ndarray()?, array![44, 255]);
        Ok(())
    }),
    ("NumPy's files", |_, stream| {
        let x = DeviceArray::range(stream, 0i32, 3000, 1)?;
        let mut file = Vec::new();
        x.write_npy(&mut file)?;
        let back = DeviceArray::<i32, Ix1>::read_npy(stream, &*file)?;
        assert_eq!(back.sum()?, 4_498_500);
        Ok(())
    }),
    ("memory of others", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0], [3.0, 4.0]])?;
        let tensor = x.into_dlpack::<DLManagedTensor>()?;
        // SAFETY: nobody else has the tensor.
        let mut x: DeviceArray<f32, Ix2> = unsafe { DeviceArray::from_dlpack(stream, tensor)? };
        let address = x.as_device_mut_ptr(stream)?;
        // SAFETY: the elements of the array that is the owner.
        let y = unsafe { DeviceArray::from_device_ptr(stream, address, 4, x)? };
        assert_eq!(y.sum()?, 10.0);
        Ok(())
    }),
    ("views by pinned memory", |device, stream| {
        let mut x = DeviceArray::<i32, _>::zeros(stream, (40, 50))?;
        let host = PinnedArray::from_ndarray(device, &Array1::from_iter(0..40))?;
        drop(x.slice_mut(s![..;-1, 7])?.assign_async(host)?);
        assert_eq!(
            x.slice(s![.., 7])?.download_async()?.wait()?.view(),
            Array1::from_iter((0..40).rev())
        );
        Ok(())
    }),
    ("text", |_, stream| {
        let x = DeviceArray::range(stream, 0i32, 2000, 1)?;
        let text = x.to_string();
        assert!(
            text == "[0, 1, 2, ..., 1997, 1998, 1999]" || text.contains("a failure that was asked for"),
            "{text}"
        );
        Ok(())
    }),
];

/// Sums of rows, on the host.
trait RowSums {
    fn row_sums(&self) -> Result<Array1<i64>>;
}

impl RowSums for DeviceArray<i32, Ix2> {
    fn row_sums(&self) -> Result<Array1<i64>> {
        self.sum_axis(Axis(1))?.to_ndarray()
    }
}
