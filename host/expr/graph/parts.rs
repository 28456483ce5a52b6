// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a call or a reduction is of, and lengths along axes: most are few, and take no allocation.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use super::Node;
use super::walk::Depth;

/// Parts of a part, in order. Up to three lie where this lies.
#[derive(Clone)]
pub(in crate::expr) enum Parts<'a> {
    One([Arc<Node<'a>>; 1]),
    Two([Arc<Node<'a>>; 2]),
    Three([Arc<Node<'a>>; 3]),
    /// Any number.
    Many(Vec<Arc<Node<'a>>>),
}

impl<'a> Parts<'a> {
    /// The first one, of one or more.
    pub(in crate::expr) fn into_first(self) -> Arc<Node<'a>> {
        match self {
            Self::One([first]) | Self::Two([first, _]) | Self::Three([first, ..]) => first,
            Self::Many(mut all) => all.swap_remove(0),
        }
    }

    /// Moves those that have parts themselves behind others, and drops the rest.
    pub(super) fn leave_to(self, others: &mut Vec<Arc<Node<'a>>>) {
        let has_parts = |part: &Arc<Node<'_>>| !part.parts(Depth::All).is_empty();
        match self {
            Self::One(parts) => others.extend(parts.into_iter().filter(has_parts)),
            Self::Two(parts) => others.extend(parts.into_iter().filter(has_parts)),
            Self::Three(parts) => others.extend(parts.into_iter().filter(has_parts)),
            Self::Many(parts) => others.extend(parts.into_iter().filter(has_parts)),
        }
    }
}

impl<'a> Deref for Parts<'a> {
    type Target = [Arc<Node<'a>>];

    fn deref(&self) -> &Self::Target {
        match self {
            Self::One(parts) => parts,
            Self::Two(parts) => parts,
            Self::Three(parts) => parts,
            Self::Many(parts) => parts,
        }
    }
}

impl<'p, 'a> IntoIterator for &'p Parts<'a> {
    type Item = &'p Arc<Node<'a>>;
    type IntoIter = std::slice::Iter<'p, Arc<Node<'a>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> From<[Arc<Node<'a>>; 1]> for Parts<'a> {
    fn from(parts: [Arc<Node<'a>>; 1]) -> Self {
        Self::One(parts)
    }
}

impl<'a> From<[Arc<Node<'a>>; 2]> for Parts<'a> {
    fn from(parts: [Arc<Node<'a>>; 2]) -> Self {
        Self::Two(parts)
    }
}

impl<'a> From<[Arc<Node<'a>>; 3]> for Parts<'a> {
    fn from(parts: [Arc<Node<'a>>; 3]) -> Self {
        Self::Three(parts)
    }
}

impl<'a> From<Vec<Arc<Node<'a>>>> for Parts<'a> {
    fn from(parts: Vec<Arc<Node<'a>>>) -> Self {
        Self::Many(parts)
    }
}

impl<'a> FromIterator<Arc<Node<'a>>> for Parts<'a> {
    fn from_iter<I: IntoIterator<Item = Arc<Node<'a>>>>(parts: I) -> Self {
        let mut parts = parts.into_iter().fuse();
        let [one, two, three, four] = std::array::from_fn(|_| parts.next());
        match (one, two, three, four) {
            (Some(one), None, ..) => Self::One([one]),
            (Some(one), Some(two), None, _) => Self::Two([one, two]),
            (Some(one), Some(two), Some(three), None) => Self::Three([one, two, three]),
            (one, two, three, four) => Self::Many([one, two, three, four].into_iter().flatten().chain(parts).collect()),
        }
    }
}

/// Lists up to so long are put together without an allocation.
const SHORT: usize = 8;

/// A list that several share.
pub(in crate::expr) fn shared<T: Copy + Default>(mut items: impl Iterator<Item = T>) -> Arc<[T]> {
    let mut few = [T::default(); SHORT];
    for len in 0..SHORT {
        match items.next() {
            Some(item) => few[len] = item,
            None => return few[..len].into(),
        }
    }
    few.into_iter().chain(items).collect()
}

/// Lengths along axes, or axes. Up to four lie where this lies.
#[derive(Clone)]
pub(in crate::expr) enum Shape {
    Few(usize, [usize; FEW_AXES]),
    Many(Arc<[usize]>),
}

const FEW_AXES: usize = 4;

impl Shape {
    /// That of numbers.
    pub(in crate::expr) const NONE: Self = Self::Few(0, [0; FEW_AXES]);
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        match self {
            Self::Few(len, lengths) => &lengths[..*len],
            Self::Many(lengths) => lengths,
        }
    }
}

impl From<&[usize]> for Shape {
    fn from(lengths: &[usize]) -> Self {
        lengths.iter().copied().collect()
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(lengths: I) -> Self {
        let mut lengths = lengths.into_iter();
        let mut few = [0; FEW_AXES];
        for len in 0..FEW_AXES {
            match lengths.next() {
                Some(length) => few[len] = length,
                None => return Self::Few(len, few),
            }
        }
        match lengths.next() {
            None => Self::Few(FEW_AXES, few),
            Some(next) => Self::Many(few.into_iter().chain([next]).chain(lengths).collect()),
        }
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The lengths along all axes but these.
pub(in crate::expr) fn without(shape: &[usize], axes: &[usize]) -> Shape {
    let lengths = shape.iter().enumerate();
    let kept = lengths.filter(|(axis, _)| !axes.contains(axis));
    kept.map(|(_, &length)| length).collect()
}

/// A list with one more item ahead of item `at`.
pub(in crate::expr) fn with_one_more<T: Copy>(list: &[T], at: usize, item: T) -> impl Iterator<Item = T> {
    let (ahead, behind) = list.split_at(at);
    ahead.iter().copied().chain([item]).chain(behind.iter().copied())
}

#[cfg(test)]
mod tests {
    use cuda_std::scalar::ScalarType;

    use super::*;

    #[test]
    fn lists_of_any_length_are_what_they_were_made_of() {
        for len in 0..2 * SHORT {
            let list: Vec<usize> = (3..3 + len).collect();
            assert_eq!(*list.iter().copied().collect::<Shape>(), list[..]);
            assert_eq!(*shared(list.iter().copied()), list[..]);
            for at in 0..=len {
                let mut longer = list.clone();
                longer.insert(at, 1);
                assert_eq!(*with_one_more(&list, at, 1).collect::<Shape>(), longer[..]);
            }
            let parts = (0..len as u64).map(|bits| Node::scalar(ScalarType::U64, bits));
            let parts: Vec<Arc<Node<'_>>> = parts.collect();
            let same: Parts<'_> = parts.iter().cloned().collect();
            assert!(same.len() == len && same.iter().zip(&parts).all(|(a, b)| Arc::ptr_eq(a, b)));
            if let Some(first) = parts.first() {
                assert!(Arc::ptr_eq(&same.into_first(), first));
            }
        }
    }
}
