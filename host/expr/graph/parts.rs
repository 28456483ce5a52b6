// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a call or a reduction is of, and short lists of numbers: most are few, and take no allocation, or one.

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

/// Lengths or axes, as parts share them.
pub(in crate::expr) fn shared<T: Copy + Default>(mut items: impl Iterator<Item = T>) -> Arc<[T]> {
    let mut few = [T::default(); SHORT];
    let mut len = 0;
    for place in &mut few {
        let Some(item) = items.next() else {
            return few[..len].into();
        };
        *place = item;
        len += 1;
    }
    few.into_iter().chain(items).collect()
}

/// A list with one more item ahead of item `at`.
pub(in crate::expr) fn with_one_more<T: Copy + Default>(list: &[T], at: usize, item: T) -> Arc<[T]> {
    let (ahead, behind) = list.split_at(at);
    shared(ahead.iter().copied().chain([item]).chain(behind.iter().copied()))
}
