//! The named barriers of a CTA, of which the hardware has 16: one place says who has which, and none is a number elsewhere.

/// Named barriers with neighbouring numbers: `COUNT` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barriers<const COUNT: u32> {
    first: u32,
}

impl<const COUNT: u32> Barriers<COUNT> {
    /// The barriers behind these: a compile error where the hardware has no more.
    const fn then<const NEXT: u32>(self) -> Barriers<NEXT> {
        assert!(self.first + COUNT + NEXT <= 16, "a CTA has 16 named barriers");
        Barriers { first: self.first + COUNT }
    }
    /// The number of the `I`-th.
    #[inline(always)]
    pub const fn get<const I: u32>(self) -> u32 {
        const { assert!(I < COUNT, "there is no such barrier among these") };
        self.first + I
    }
    /// The number of the `i`-th, below `COUNT`, that is known at run time: that of a warpgroup.
    #[inline(always)]
    pub const fn of(self, i: u32) -> u32 {
        self.first + i
    }
}

/// Where all roles of a CTA meet when a pipeline, or what a kernel has in its place, opens.
pub const OPENING: Barriers<1> = Barriers { first: 0 };
/// One for each warpgroup, by its number: its own threads meet.
pub const WARPGROUP: Barriers<4> = OPENING.then();
/// One for each warpgroup, by its number: the sums of a CTA that shares the tile have been read.
pub(in crate::tile) const SPLIT_SUMS: Barriers<3> = WARPGROUP.then();
/// One for each warpgroup, by its number: its turn.
pub(in crate::tile) const TURN: Barriers<4> = SPLIT_SUMS.then();
/// For kernels: nothing in this library meets at them.
pub const KERNEL: Barriers<2> = TURN.then();
/// Where a producer waits for those who compute.
pub(in crate::tile) const FOLLOWING: Barriers<1> = KERNEL.then();
/// Where a CTA's consumers meet around an exchange through shared memory.
pub(super) const EXCHANGE: Barriers<1> = FOLLOWING.then();
