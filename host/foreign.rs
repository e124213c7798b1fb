//! What views of other crates' memory have in common.

use crate::{Error, Result};

/// Checks that a slice has all elements of a view.
pub fn expect(extent: usize, len: usize) -> Result<()> {
    if extent <= len {
        return Ok(());
    }
    Err(Error::argument(
        "slice",
        format!("of {len} elements"),
        format!("of {extent} or more, which the view has"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_all_of_the_view() {
        assert_eq!(expect(8, 8), Ok(()));
        let error = expect(9, 8).unwrap_err().to_string();
        assert_eq!(error, "`slice` was of 8 elements; it must be of 9 or more, which the view has");
    }
}
