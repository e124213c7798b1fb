//! Shared memory: how many wavefronts a request takes.
//!
//! Shared memory has 32 banks of 4 bytes, word `w` in bank `w % 32`; a wavefront serves one word of each bank, to any
//! number of lanes ("Shared Memory" of the CUDA C++ programming guide). A request is served in phases of at most 128 bytes:
//! all lanes where each accesses up to 4 bytes, half a warp where it is 8, a quarter where it is 16; one 8 x 8 matrix of
//! `ldmatrix` and `stmatrix`; one core matrix of a `wgmma` operand, 8 times 16 bytes; 128 bytes of a bulk copy. A phase takes
//! one wavefront if no bank has two words of it, else as many as the fullest bank has words: those after the
//! first are conflicts.
//!
//! Not modelled: hardware may serve phases together that ask for the same words, atomics of lanes that meet
//! at one word are not counted as conflicts, and the memories of a cluster's CTAs are taken for one where
//! the lanes of an instruction access several.

use crate::program::register::LANES;

/// Bytes of all banks.
const LINE: u32 = 128;
/// Bytes of a row of a matrix, and of what a bulk copy writes at a time.
pub(crate) const PIECE: u32 = 16;

counters! {
    /// Requests to shared memory, of one kind.
    SharedTraffic {
        /// Instructions of a warp, operands of a warpgroup's product, or copies.
        requests,
        /// Bytes accessed, those of every lane counted.
        bytes,
        /// Times that the banks were accessed.
        wavefronts,
        /// Those that bank conflicts are to blame for.
        conflicts,
    }
}

impl SharedTraffic {
    /// Counts a request of lanes, `bytes` each.
    pub(crate) fn lanes(&mut self, addresses: &[u32; LANES], mask: u32, bytes: u32) {
        if mask == 0 {
            return;
        }
        self.requests += 1;
        self.bytes += u64::from(mask.count_ones() * bytes);
        // A power of two: to divide by it is to shift.
        let unit = bytes.clamp(4, PIECE);
        let (shift, together) = (unit.trailing_zeros(), (LINE / unit) as usize);
        let mut units = [0; LANES];
        for (unit, address) in units.iter_mut().zip(addresses) {
            *unit = address >> shift;
        }
        for (phase, all) in units.chunks(together).enumerate() {
            let mask = mask >> (phase * together) & u32::MAX >> (LANES - together);
            if mask.count_ones() as usize == together {
                self.phase(all, LINE / unit);
                continue;
            }
            let (mut units, mut count) = ([0; LANES], 0);
            for (lane, unit) in all.iter().enumerate() {
                units[count] = *unit;
                count += (mask >> lane & 1) as usize;
            }
            self.phase(&units[..count], LINE / unit);
        }
    }

    /// Counts a request of lanes, `bytes` each, of which the addresses follow each other or are the same: no bank has two words.
    pub(crate) fn near(&mut self, mask: u32, bytes: u32) {
        self.requests += 1;
        self.bytes += u64::from(mask.count_ones() * bytes);
        let together = LINE / bytes.clamp(4, PIECE);
        let lanes = u32::MAX >> (LANES as u32 - together);
        self.wavefronts +=
            (0..LANES as u32).step_by(together as usize).filter(|first| mask >> first & lanes != 0).count()
                as u64;
    }

    /// Counts a request for pieces of 16 bytes, eight at a time.
    pub(crate) fn pieces(&mut self, addresses: impl Iterator<Item = u32>) {
        let (mut units, mut count) = ([0; (LINE / PIECE) as usize], 0);
        self.requests += 1;
        for address in addresses {
            units[count] = address / PIECE;
            count += 1;
            self.bytes += u64::from(PIECE);
            if count == units.len() {
                self.phase(&units, LINE / PIECE);
                count = 0;
            }
        }
        self.phase(&units[..count], LINE / PIECE);
    }

    fn phase(&mut self, units: &[u32], banks: u32) {
        if !units.is_empty() {
            let wavefronts = u64::from(wavefronts(units, banks));
            self.wavefronts += wavefronts;
            self.conflicts += wavefronts - 1;
        }
    }
}

/// The most different units that one of the banks, at most 32 and a power of two, has of these, at most 32.
fn wavefronts(units: &[u32], banks: u32) -> u32 {
    const NONE: u32 = u32::MAX;
    // Mostly each is in a bank of its own, but for lanes side by side that share one.
    let (mut taken, mut different, mut before) = (0u32, 0, NONE);
    for &unit in units {
        taken |= 1 << (unit & (banks - 1) & 31);
        different += u32::from(unit != before);
        before = unit;
    }
    if taken.count_ones() == different {
        return 1;
    }
    let mut last = [NONE; LANES];
    let mut conflict = false;
    for &unit in units {
        let slot = &mut last[(unit & (banks - 1)) as usize % LANES];
        conflict |= *slot != NONE && *slot != unit;
        *slot = unit;
    }
    if !conflict {
        return 1;
    }
    let mut sorted = [NONE; LANES];
    sorted[..units.len()].copy_from_slice(units);
    sorted.sort_unstable();
    let mut words = [0; LANES];
    for (i, &unit) in sorted[..units.len()].iter().enumerate() {
        words[(unit & (banks - 1)) as usize % LANES] += u32::from(i == 0 || sorted[i - 1] != unit);
    }
    words.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::SharedTraffic;

    /// Wavefronts and conflicts of a warp.
    fn lanes(address: impl Fn(u32) -> u32, bytes: u32, mask: u32) -> (u64, u64) {
        let mut traffic = SharedTraffic::default();
        traffic.lanes(&std::array::from_fn(|lane| address(lane as u32)), mask, bytes);
        (traffic.wavefronts, traffic.conflicts)
    }

    #[test]
    fn strides_of_words() {
        for (stride, wavefronts) in [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (32, 32), (33, 1)] {
            assert_eq!(lanes(|lane| 4 * stride * lane, 4, u32::MAX), (wavefronts, wavefronts - 1));
        }
        assert_eq!(lanes(|lane| 2 * lane, 2, u32::MAX), (1, 0), "two lanes share a word");
        assert_eq!(lanes(|lane| 128 * lane, 4, 0b101), (2, 1), "the other lanes are away");
        assert_eq!(lanes(|_| 0, 4, 0), (0, 0));
    }

    #[test]
    fn vectors_are_served_in_parts() {
        assert_eq!(lanes(|lane| 8 * lane, 8, u32::MAX), (2, 0));
        assert_eq!(lanes(|lane| 16 * lane, 16, u32::MAX), (4, 0));
        // Each eight lanes read one 16-byte column of lines of 128 bytes; padded to 144, each reads another bank.
        assert_eq!(lanes(|lane| 128 * lane, 16, u32::MAX), (32, 28));
        assert_eq!(lanes(|lane| 144 * lane, 16, u32::MAX), (4, 0));
        assert_eq!(lanes(|lane| 16 * lane, 16, 0xff), (1, 0), "a quarter of the warp");
    }

    #[test]
    fn rows_and_single_places_have_no_conflicts() {
        for bytes in [1, 2, 4, 8, 16] {
            for mask in [u32::MAX, 1, 0x00ff_ff00, 0x8000_0000] {
                for step in [0, bytes] {
                    let (mut near, mut each) = (SharedTraffic::default(), SharedTraffic::default());
                    near.near(mask, bytes);
                    each.lanes(&std::array::from_fn(|lane| 1040 + step * lane as u32), mask, bytes);
                    assert_eq!(near, each, "{bytes} bytes, {step} apart, by {mask:#x}");
                }
            }
        }
    }

    #[test]
    fn pieces_are_served_by_eight() {
        let count = |address: fn(u32) -> u32, pieces: u32| {
            let mut traffic = SharedTraffic::default();
            traffic.pieces((0..pieces).map(address));
            traffic
        };
        let plain = SharedTraffic { requests: 1, bytes: 192, wavefronts: 2, conflicts: 0 };
        assert_eq!(count(|i| 16 * i, 12), plain);
        let column = SharedTraffic { requests: 1, bytes: 128, wavefronts: 8, conflicts: 7 };
        assert_eq!(count(|i| 128 * i, 8), column);
    }
}
