//! Another kernel where one cannot read a tensor.

use crate::{Error, Result};

/// What is done where a kernel cannot read a tensor as it lies in memory.
pub trait OrWhereUnreadable {
    /// The same result; or, if it is [`Error::Unreadable`], that of `other`: the launch of an instance for any strides.
    ///
    /// ```ignore
    /// launch::<Hopper>(stream, x, y).or_where_unreadable(|| launch::<AnyStrides>(stream, x, y))
    /// ```
    fn or_where_unreadable(self, other: impl FnOnce() -> Self) -> Self;
}

impl<T> OrWhereUnreadable for Result<T> {
    fn or_where_unreadable(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Err(Error::Unreadable { .. }) => other(),
            result => result,
        }
    }
}
