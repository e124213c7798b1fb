//! Memory as an instruction sees it.

/// Memory with addresses of type `A`: `u32` offsets in shared memory, or `u64` global addresses.
///
/// One call is one access: what it covers must be mapped, and its address a multiple of the access's size where the
/// instruction asks for that. Both methods take `&mut self` so that an implementation can keep account.
pub(crate) trait Memory<A> {
    /// Why an access was refused.
    type Fault;

    /// Reads `into.len()` bytes.
    fn read(&mut self, at: A, into: &mut [u8]) -> Result<(), Self::Fault>;

    /// Writes all of `from`.
    fn write(&mut self, at: A, from: &[u8]) -> Result<(), Self::Fault>;

    /// Reads `len` bytes, lets `change` change them and writes them. Memory that several threads use makes it atomic.
    fn update(&mut self, at: A, len: usize, change: &mut dyn FnMut(&mut [u8])) -> Result<(), Self::Fault>
    where
        A: Copy,
    {
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes)?;
        change(&mut bytes);
        self.write(at, &bytes)
    }
}

#[cfg(test)]
pub(crate) mod flat {
    //! The memory of tests: bytes from an address on.

    use super::Memory;

    /// Bytes that begin at address `base`.
    pub(crate) struct Flat {
        pub(crate) base: u64,
        pub(crate) bytes: Vec<u8>,
        /// Every access: address, length, whether it wrote.
        pub(crate) accesses: Vec<(u64, usize, bool)>,
    }

    impl Flat {
        pub(crate) fn new(base: u64, bytes: Vec<u8>) -> Self {
            Flat { base, bytes, accesses: Vec::new() }
        }

        fn range(&mut self, at: u64, len: usize, wrote: bool) -> Result<std::ops::Range<usize>, u64> {
            self.accesses.push((at, len, wrote));
            let from = at.checked_sub(self.base).ok_or(at)? as usize;
            (from + len <= self.bytes.len()).then_some(from..from + len).ok_or(at)
        }
    }

    impl<A: Into<u64>> Memory<A> for Flat {
        /// The address outside.
        type Fault = u64;

        fn read(&mut self, at: A, into: &mut [u8]) -> Result<(), u64> {
            let range = self.range(at.into(), into.len(), false)?;
            into.copy_from_slice(&self.bytes[range]);
            Ok(())
        }

        fn write(&mut self, at: A, from: &[u8]) -> Result<(), u64> {
            let range = self.range(at.into(), from.len(), true)?;
            self.bytes[range].copy_from_slice(from);
            Ok(())
        }
    }
}
