//! Variables one after the other.

use crate::decode::Decoded;
use crate::error::LoadError;
use tilewright_ptx::ast::Variable;

/// Bytes that variables have together, of each space at most: more than any has.
const MOST: u32 = 1 << 30;

/// Places variables one after the other.
#[derive(Default)]
pub(crate) struct Layout {
    end: u32,
}

impl Layout {
    pub(crate) fn place(&mut self, variable: &Variable) -> Decoded<u32> {
        let too_large =
            || LoadError::new(variable.line, format!("variable `{}` is too large", variable.name));
        let start = self.end.checked_next_multiple_of(variable.align).ok_or_else(too_large)?;
        let bytes = u32::try_from(variable.bytes).map_err(|_| too_large())?;
        self.end = start.checked_add(bytes).filter(|&end| end <= MOST).ok_or_else(too_large)?;
        Ok(start)
    }

    /// Leaves bytes free.
    pub(crate) fn skip(&mut self, bytes: u32) -> Decoded<()> {
        let end = self.end.checked_add(bytes);
        self.end = end.ok_or_else(|| LoadError::new(1, "too much memory"))?;
        Ok(())
    }

    pub(crate) fn align_to(&mut self, align: u32) -> Decoded<u32> {
        let end = self.end.checked_next_multiple_of(align).filter(|&end| end <= MOST);
        self.end = end.ok_or_else(|| LoadError::new(1, "the variables in shared memory are too large"))?;
        Ok(self.end)
    }

    pub(crate) fn size(&self) -> u32 {
        self.end
    }
}
