// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who owns what other libraries made.

use std::any::Any;
use std::fmt;

/// What keeps somebody else's memory or stream alive, as long as it lives itself.
pub(crate) struct Owner(Box<dyn Any + Send + Sync>);

impl Owner {
    pub(crate) fn new(owner: impl Any + Send + Sync) -> Self {
        Self(Box::new(owner))
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:?})", (*self.0).type_id())
    }
}
