//! Things shared out among CTAs.

use core::ops::Range;

use tilewright_device::abi::PassedAsIs;

/// Neighbouring things for each CTA, as evenly as can be.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Of every CTA.
    each: u32,
    /// CTAs that have one more.
    more: u32,
}

impl Shares {
    /// Shares of `total` things for `ctas` CTAs, at least one.
    pub const fn new(total: u32, ctas: u32) -> Self {
        let ctas = if ctas == 0 { 1 } else { ctas };
        Shares { each: total / ctas, more: total % ctas }
    }

    /// What CTA `cta` takes, at most `some` at a time.
    #[inline(always)]
    pub fn of(self, cta: u32, some: u32) -> impl Iterator<Item = Range<u32>> {
        let (before, one) = if cta < self.more { (cta, 1) } else { (self.more, 0) };
        let mut next = cta * self.each + before;
        let end = next + self.each + one;
        core::iter::from_fn(
            #[inline(always)]
            move || {
                let first = next;
                next = if end - first < some { end } else { first + some };
                (first < end).then_some(first..next)
            },
        )
    }
}

impl PassedAsIs for Shares {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn shares_are_even_and_cover_all() {
        for (total, ctas, some) in [(896, 132, 7), (128, 132, 7), (5, 3, 1), (1, 1, 7), (2000, 4, 7)] {
            let shares = Shares::new(total, ctas);
            let mut all = Vec::new();
            for cta in 0..ctas {
                let before = all.len() as u32;
                for range in shares.of(cta, some) {
                    assert!(!range.is_empty() && range.end - range.start <= some);
                    all.extend(range);
                }
                let share = all.len() as u32 - before;
                assert!((total / ctas..=total.div_ceil(ctas)).contains(&share), "{total} {ctas}: {share}");
            }
            assert_eq!(all, (0..total).collect::<Vec<_>>());
        }
    }
}
