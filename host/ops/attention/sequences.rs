// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which keys belong to which queries: windows, biases, and sequences of various lengths.

use std::fmt;
use std::fmt::Debug;

use kernels_gpu::attention::{MAX_LENGTH, MAX_PACKED};
use ndarray::{Array1, Ix1, Ix4};

use super::{Attend, Attention, OPERATION};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::ops::transpose::Ordered;
use crate::stream::Stream;
use crate::view::DeviceView;

/// Sequences of various lengths, the queries of which lie one after another along an axis, and so do their keys and values: for
/// [`packed`](Attention::packed).
///
/// They are looked at when they are made, and may be used for any number of attentions then, in each of which no number leaves the device.
pub struct Sequences {
    /// Where queries of each begin, and where the last end; then keys.
    starts: DeviceArray<u32, Ix1>,
    /// All queries, and all keys.
    totals: [usize; 2],
}

impl fmt::Debug for Sequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [queries, keys] = self.totals;
        let mut fields = f.debug_struct("Sequences");
        fields
            .field("queries", &queries)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

impl Sequences {
    /// Sequences that have so many queries each, and as many keys.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if there are more than 2²⁰ of them, none, or more than 2³⁰ positions in all; those of an allocation and a copy.
    pub fn new(stream: &Stream, lengths: &[usize]) -> Result<Self> {
        Self::with_keys(stream, lengths, lengths)
    }

    /// Sequences that have so many queries, and so many keys, each.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`Error::Parameter`] if there are not as many of both.
    pub fn with_keys(stream: &Stream, queries: &[usize], keys: &[usize]) -> Result<Self> {
        if queries.len() != keys.len() {
            let given = format!("{} of queries, {} of keys", queries.len(), keys.len());
            return Err(refuse("lengths", given, "one of each for each sequence".into()));
        }
        let starts = |lengths: &[usize]| {
            let mut starts = vec![0];
            for &len in lengths {
                let end = starts[starts.len() - 1];
                starts.push(len.saturating_add(end));
            }
            starts
        };
        Self::from_host(stream, [starts(queries), starts(keys)])
    }

    /// Sequences whose queries, and keys, begin at these lines, with the end of the last one behind them: `cu_seqlens` of
    /// FlashAttention. Both may be the same array. They are copied to the host, which waits for them.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless both begin with 0, do not descend, and are of one length; and as [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray, ops::Sequences};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let starts = DeviceArray::from_ndarray(device.default_stream(), &array![0i32, 2, 7])?;
    /// let sequences = Sequences::from_starts(&starts, &starts)?;
    /// assert_eq!(sequences.len(), 2);
    ///
    /// let descending = DeviceArray::from_ndarray(device.default_stream(), &array![0i32, 7, 2])?;
    /// assert!(Sequences::from_starts(&descending, &descending).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_starts<I>(queries: &DeviceArrayRef<I, Ix1>, keys: &DeviceArrayRef<I, Ix1>) -> Result<Self>
    where
        I: Element + TryInto<usize> + Debug,
    {
        let read = |starts: &DeviceArrayRef<I, Ix1>| -> Result<Vec<usize>> {
            let number = |&start: &I| {
                let wanted = || "numbers of lines from 0 on".into();
                start
                    .try_into()
                    .map_err(|_| refuse("starts", format!("{start:?}"), wanted()))
            };
            starts.to_ndarray()?.iter().map(number).collect()
        };
        Self::from_host(queries.stream(), [read(queries)?, read(keys)?])
    }

    /// Looks at them, and copies them to the device.
    fn from_host(stream: &Stream, starts: [Vec<usize>; 2]) -> Result<Self> {
        let [queries, keys] = &starts;
        if queries.len() != keys.len() || !(2..=MAX_PACKED as usize + 1).contains(&queries.len()) {
            let given = format!("{} of queries, {} of keys", queries.len(), keys.len());
            let wanted = format!("one of each for 1 to {MAX_PACKED} sequences, and one more of each");
            return Err(refuse("starts", given, wanted));
        }
        for starts in &starts {
            let wrong = match starts.windows(2).find(|pair| pair[0] > pair[1]) {
                Some(pair) => Some(format!("{} behind {}", pair[1], pair[0])),
                None if starts[0] != 0 => Some(format!("{} first", starts[0])),
                None => starts
                    .last()
                    .filter(|&&end| end > MAX_LENGTH as usize)
                    .map(|end| format!("an end at {end}")),
            };
            if let Some(given) = wrong {
                let wanted =
                    format!("0 first, and none that is less than the one before it, or more than {MAX_LENGTH}");
                return Err(refuse("starts", given, wanted));
            }
        }
        let totals = [queries, keys].map(|starts| starts[starts.len() - 1]);
        let all: Array1<u32> = starts.iter().flatten().map(|&start| start as u32).collect();
        Ok(Self {
            starts: DeviceArray::from_ndarray(stream, &all)?,
            totals,
        })
    }

    /// How many sequences there are: never none.
    #[allow(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        self.starts.len() / 2 - 1
    }
}

/// The error for what is no such thing.
fn refuse(parameter: &'static str, given: String, wanted: String) -> Error {
    Error::Parameter {
        operation: OPERATION,
        parameter,
        given,
        wanted,
    }
}

/// How the queries and keys of an attention belong together.
#[derive(Clone, Copy)]
pub(super) enum Together<'a> {
    /// All of a problem.
    All,
    /// Of each problem, so many keys.
    First(&'a DeviceArrayRef<u32, Ix1>),
    /// Those of a sequence.
    Packed(&'a Sequences),
}

/// What kernels are told besides operands and shape.
pub(super) struct Extra<'a, T> {
    pub(super) bias: Option<Ordered<'a, T, Ix4>>,
    /// As kernels have them.
    pub(super) sequences: Option<Ordered<'a, u32, Ix1>>,
}

impl<T: Element> Extra<'_, T> {
    /// Whether there is a bias.
    pub(super) fn has_bias(&self) -> bool {
        self.bias.is_some()
    }

    /// Whether there is neither a bias nor sequences.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_bias() && self.sequences.is_none()
    }

    /// The bias for scores of that shape.
    pub(super) fn bias(&self, scores: [usize; 4]) -> Result<Option<DeviceView<'_, T, Ix4>>> {
        self.bias.as_ref().map(|bias| bias.broadcast(scores)).transpose()
    }
}

impl<'a, T: Attend> Attention<'a, T> {
    /// Hides from each query the keys more than `left` positions before its own, and those more than `right` behind it; `None` hides none
    /// there. As for [`causal`](Self::causal), the last query is at the position of the last key. (FlashAttention's `window_size`, where −1
    /// is `None`.) With `causal` no key behind the query's is seen.
    ///
    /// Of keys that no query of a tile sees, nothing is read.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let x = DeviceArray::<f32, _>::zeros(stream, (1, 1, 3, 1))?;
    /// let v = DeviceArray::from_ndarray(stream, &array![[[[2.0f32], [4.0], [8.0]]]])?;
    /// // Each position has the mean of its own value and the one before.
    /// let y = x.attention(&x, &v).window(Some(1), Some(0)).compute()?;
    /// assert_eq!(y.to_ndarray()?, array![[[[2.0], [3.0], [6.0]]]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn window(mut self, left: Option<usize>, right: Option<usize>) -> Self {
        self.window = [left, right];
        self
    }

    /// Adds `bias` to the scores, after they are scaled: an array of the shape (batch, heads, queries, keys), each axis of which may have
    /// length 1 instead, for all. −∞ hides a key. Its gradient is [`bias_gradient`](Self::bias_gradient)'s.
    ///
    /// It is read once for each pair of a query and a key, and takes as long as that where it is not repeated. For Hopper's tensor cores it is copied unless the
    /// keys lie side by side, and each line of them begins at a multiple of 16 bytes; a bias that is the same for all keys goes by the kernel for any GPU.
    ///
    /// # Examples
    ///
    /// A mask:
    ///
    /// ```
    /// # use ndarray::{Axis, array};
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let mask = DeviceArray::from_ndarray(stream, &array![[[[1u8, 0, 1]]]])?;
    /// let bias = mask.expr().equal(0).select(f32::NEG_INFINITY, 0.0).eval()?;
    /// let q = DeviceArray::<f32, _>::zeros(stream, (1, 2, 1, 1))?;
    /// let k = DeviceArray::<f32, _>::zeros(stream, (1, 2, 3, 1))?;
    /// let v = DeviceArray::from_ndarray(stream, &array![[[[2.0f32], [4.0], [8.0]], [[1.0], [1.0], [3.0]]]])?;
    /// let y = q.attention(&k, &v).bias(&bias).compute()?;
    /// assert_eq!(y.to_ndarray()?, array![[[[5.0]], [[2.0]]]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bias(mut self, bias: &'a DeviceArrayRef<T, Ix4>) -> Self {
        self.bias = Some(bias);
        self
    }

    /// Has each problem of the batch see only its first `lengths[b]` keys, as if there were no others: a batch of sequences that are filled
    /// up to one length, or a cache of keys and values that has room for more. The last query is at the position of the last of these
    /// keys. A length that is more than there are keys counts as all.
    ///
    /// The lengths are on the device, and are read there: a step of decoding that is a [graph](crate::Graph) has new ones each time. They
    /// take the place of [`packed`](Self::packed) sequences.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let q = DeviceArray::<f32, _>::zeros(stream, (2, 1, 1, 8))?;
    /// let cache = DeviceArray::<f32, _>::ones(stream, (2, 1, 100, 8))?;
    /// let lengths = DeviceArray::from_ndarray(stream, &array![3u32, 0])?;
    /// let y = q.attention(&cache, &cache).key_lengths(&lengths).compute()?.to_ndarray()?;
    /// assert_eq!((y[[0, 0, 0, 0]], y[[1, 0, 0, 0]]), (1.0, 0.0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_lengths(mut self, lengths: &'a DeviceArrayRef<u32, Ix1>) -> Self {
        self.together = Together::First(lengths);
        self
    }

    /// Has each query see the keys of its own sequence alone, where sequences of various lengths lie one after another along the axes of
    /// positions (FlashAttention's `varlen`): the batch is 1 then. [`causal`](Self::causal) and [`window`](Self::window) are by positions in
    /// the sequence. They take the place of [`key_lengths`](Self::key_lengths), and have no [`bias`](Self::bias).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray, ops::Sequences};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let x = DeviceArray::<f32, _>::zeros(stream, (1, 1, 3, 1))?;
    /// let v = DeviceArray::from_ndarray(stream, &array![[[[2.0f32], [4.0], [8.0]]]])?;
    /// let sequences = Sequences::new(stream, &[2, 1])?;
    /// let y = x.attention(&x, &v).packed(&sequences).compute()?;
    /// assert_eq!(y.to_ndarray()?, array![[[[3.0], [3.0], [8.0]]]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn packed(mut self, sequences: &'a Sequences) -> Self {
        self.together = Together::Packed(sequences);
        self
    }

    /// The lines that a query sees, from which to which, relative to its own, where the last query is at the position of the last key.
    pub(super) fn reach(&self, queries: u32, keys: u32) -> [i32; 2] {
        let (queries, keys) = (i64::from(queries), i64::from(keys));
        let [left, right] = self
            .window
            .map(|most| most.map(|most| i64::try_from(most).unwrap_or(i64::MAX)));
        let right = if self.causal { Some(0) } else { right };
        let shift = keys - queries;
        let from = left.map_or(-queries, |left| shift.saturating_sub(left).max(-queries));
        let reach = right.map_or(keys, |right| shift.saturating_add(right).min(keys));
        [from as i32, reach as i32]
    }

    /// How many sequences are packed.
    pub(super) fn sequences_packed(&self) -> usize {
        match self.together {
            Together::Packed(sequences) => sequences.len(),
            _ => 0,
        }
    }

    /// What kernels are told besides, if it fits.
    pub(super) fn extra(&self) -> Result<Extra<'a, T>> {
        let (q, k) = (self.q.raw_dim(), self.k.raw_dim());
        if let Some(bias) = self.bias {
            self.check_devices(&[bias.stream()])?;
            let scores = [q[0], q[1], q[2], k[2]];
            let fits = bias.shape().iter().zip(&scores).all(|(&n, &most)| n == 1 || n == most);
            if !fits || matches!(self.together, Together::Packed(_)) {
                return Err(Error::Shape {
                    operation: OPERATION,
                    given: format!("a bias of shape {:?} for scores of shape {scores:?}", bias.shape()),
                    wanted: "that shape, or 1 for any of its axes, and sequences that are not packed".into(),
                });
            }
        }
        let sequences = match self.together {
            Together::All => None,
            Together::First(lengths) => {
                self.check_devices(&[lengths.stream()])?;
                if lengths.len() != q[0] {
                    return Err(Error::Shape {
                        operation: OPERATION,
                        given: format!("{} lengths of keys", lengths.len()),
                        wanted: format!("one for each of the {} problems", q[0]),
                    });
                }
                Some(lengths.in_order()?)
            }
            Together::Packed(sequences) => {
                self.check_devices(&[sequences.starts.stream()])?;
                if q[0] != 1 || [q[2], k[2]] != sequences.totals {
                    let [queries, keys] = sequences.totals;
                    return Err(self.refuse(format!(
                        "a batch of 1, and the {queries} queries and {keys} keys of the packed sequences"
                    )));
                }
                Some(Ordered::AsIs(sequences.starts.view()))
            }
        };
        Ok(Extra {
            bias: self.bias.map(|bias| bias.forwards::<Ix4>(None)).transpose()?,
            sequences,
        })
    }
}
