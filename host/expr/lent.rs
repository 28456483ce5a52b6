// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts whose destructor may run when what they borrow is gone.

use std::marker::PhantomData;
use std::mem;
use std::ops::Deref;

use super::graph::Part;

/// A part of arrays that are lent for `'a`, and may be used only as long; but it may be dropped later.
///
/// In `x = (x.expr() * 2.0).eval()?` the expression is a temporary value: it is dropped at the end of the statement, when `x` has
/// been replaced. A [`Part<'a>`](Part) would have to be gone by then. It has `dyn Elements + 'a` in it and a destructor of its own,
/// of both of which the compiler takes for granted that they use what they borrow. Nothing here has a destructor that names
/// `'a`, and there is none that uses what is lent: see [`Elements`](super::graph::Elements), whose implementations promise that.
pub(super) struct Lent<'a> {
    /// A `Part<'a>`, which is given out as nothing else.
    part: Part<'static>,
    /// Covariant, as the part is.
    _arrays: PhantomData<&'a ()>,
}

impl<'a> Lent<'a> {
    pub(super) fn new(part: Part<'a>) -> Self {
        // SAFETY: the types differ in a lifetime alone, and so have one layout. The longer one is never made use of: the field is
        // private to this module, which gives the part out by `deref` and `into_part`, as a `Part` of `'a` or of less, since `Lent`
        // is covariant in it; and both take a `Lent<'a>`, which is no longer there for safe code when `'a` is over. What is left
        // then is its destructor, that of a `Part`. Beside arrays a part has numbers, shapes, functions and operations, which
        // are `'static` (`Operation: Any`), and counted references to other parts and arrays. `Node::drop` and what it calls take
        // apart which parts there are, and ask no array for anything. An array is `dyn Elements`, of which dropping reads
        // nothing that is lent, by that trait's contract; what an array shares with others, its memory and its stream, is
        // counted and `'static`. References that a part holds, dangling by then, lie behind an `Arc` and are neither read nor
        // moved when that goes, as with any `Arc<&T>` of std, which may be dropped when `T` is gone.
        let part = unsafe { mem::transmute::<Part<'a>, Part<'static>>(part) };
        Self {
            part,
            _arrays: PhantomData,
        }
    }

    pub(super) fn into_part(self) -> Part<'a> {
        self.part
    }
}

impl<'a> Deref for Lent<'a> {
    type Target = Part<'a>;

    fn deref(&self) -> &Part<'a> {
        &self.part
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use cuda_std::scalar::ScalarType;
    use ndarray::{Ix1, array};

    use crate::expr::Expr;
    use crate::expr::graph::{Elements, Node};
    use crate::stream::Stream;
    use crate::{Device, DeviceArray, Result};

    /// The elements of an array that is lent, whose drops are counted.
    struct Counted<'a> {
        array: &'a DeviceArray<f32, Ix1>,
        drops: Arc<AtomicUsize>,
    }

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.drops.fetch_add(1, Ordering::Relaxed);
        }
    }

    // SAFETY: dropping it counts, and asks the array for nothing.
    unsafe impl Elements for Counted<'_> {
        fn stream(&self) -> &Stream {
            self.array.stream()
        }

        fn shape(&self) -> &[usize] {
            self.array.shape()
        }

        fn strides(&self) -> &[isize] {
            self.array.strides()
        }

        fn first_address(&self) -> u64 {
            Elements::first_address(self.array)
        }

        fn reads_on(&self, stream: &Stream) -> Result<()> {
            self.array.reads_on(stream)
        }

        fn writes_on(&self, stream: &Stream) -> Result<()> {
            self.array.writes_on(stream)
        }

        fn is_part(&self) -> bool {
            self.array.is_part()
        }
    }

    #[test]
    fn what_is_lent_may_go_first() -> Result<()> {
        let device = Device::simulator();
        let drops = Arc::new(AtomicUsize::new(0));
        let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, -2.0])?;
        for round in 0..3 {
            let counted = Counted {
                array: &x,
                drops: Arc::clone(&drops),
            };
            let lent = Expr::<f32, Ix1>::of(Ok(Node::of_array(Arc::new(counted), ScalarType::F32)));
            let doubled = &lent + &lent;
            let (norm, clone) = (doubled.softmax(ndarray::Axis(0)), doubled.clone());
            // They are dropped at the end of the round, when what they are of is gone.
            x = (norm * 0.0 + &clone).eval()?;
            assert_eq!(drops.load(Ordering::Relaxed), round);
        }
        assert_eq!(drops.load(Ordering::Relaxed), 3);
        assert_eq!(x.to_ndarray()?, array![8.0, -16.0]);
        Ok(())
    }
}
