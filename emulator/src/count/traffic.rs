//! Global memory: how many sectors a request touches.
//!
//! Global memory moves in sectors of 32 aligned bytes ("Coalesced Access to Global Memory" of NVIDIA's best practices
//! guide). The lanes of a warp's instruction are one request, and so is a bulk copy or a box of the TMA unit; a request moves
//! each sector once. Caches are not modelled: two requests for a sector are two sectors.

use std::ops::Range;

use crate::program::register::LANES;

/// Bytes of a sector.
const SECTOR: u64 = 32;

counters! {
    /// Requests to global memory, of one kind.
    GlobalTraffic {
        /// Instructions of a warp, or copies.
        requests,
        /// Bytes asked for; those that several lanes ask for count once.
        bytes,
        /// Sectors of 32 bytes that hold them.
        sectors,
    }
}

impl GlobalTraffic {
    /// Counts a request for contiguous bytes.
    pub(crate) fn line(&mut self, bytes: Range<u64>) {
        self.requests += 1;
        self.bytes += bytes.end - bytes.start;
        self.sectors += bytes.end.div_ceil(SECTOR) - bytes.start / SECTOR;
    }

    /// Whether nothing is moved but what was asked for.
    pub fn is_coalesced(&self) -> bool {
        self.sectors * SECTOR == self.bytes
    }
}

/// The sectors of a request, each with those of its bytes that are asked for.
#[derive(Debug, Default)]
pub(crate) struct Request(Vec<(u64, u32)>);

impl Request {
    /// Adds the bytes that a lane asks for.
    pub(crate) fn lane(&mut self, at: u64, bytes: u64) {
        self.add(at, bytes, LANES);
    }

    /// Adds a line of a copy, which shares sectors with its neighbours alone.
    pub(crate) fn line(&mut self, at: u64, bytes: u64) {
        self.add(at, bytes, 1);
    }

    /// Adds bytes, which may be in the last `near` sectors.
    fn add(&mut self, mut at: u64, bytes: u64, near: usize) {
        let end = at.saturating_add(bytes);
        while at < end {
            let sector = at / SECTOR;
            let count = (end - at).min(SECTOR - at % SECTOR);
            let mask = (u32::MAX >> (SECTOR - count)) << (at % SECTOR);
            match self.0.iter_mut().rev().take(near).find(|(known, _)| *known == sector) {
                Some((_, bytes)) => *bytes |= mask,
                None => self.0.push((sector, mask)),
            }
            at += count;
        }
    }

    /// Ends the request, and counts it if it asks for anything.
    pub(crate) fn count(&mut self, into: &mut GlobalTraffic) {
        into.requests += u64::from(!self.0.is_empty());
        into.sectors += self.0.len() as u64;
        into.bytes += self.0.drain(..).map(|(_, bytes)| u64::from(bytes.count_ones())).sum::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use super::{GlobalTraffic, Request};

    fn lanes(address: impl Fn(u64) -> u64, bytes: u64) -> GlobalTraffic {
        let (mut request, mut traffic) = (Request::default(), GlobalTraffic::default());
        (0..32).for_each(|lane| request.lane(address(lane), bytes));
        request.count(&mut traffic);
        traffic
    }

    #[test]
    fn a_warp_moves_the_sectors_that_it_touches() {
        assert_eq!(lanes(|lane| 4 * lane, 4), GlobalTraffic { requests: 1, bytes: 128, sectors: 4 });
        assert_eq!(lanes(|lane| 4 * lane + 16, 4), GlobalTraffic { requests: 1, bytes: 128, sectors: 5 });
        assert_eq!(lanes(|lane| 64 * lane, 4), GlobalTraffic { requests: 1, bytes: 128, sectors: 32 });
        assert_eq!(lanes(|lane| 4 * (31 - lane), 4), GlobalTraffic { requests: 1, bytes: 128, sectors: 4 });
        assert_eq!(lanes(|lane| 16 * lane, 16), GlobalTraffic { requests: 1, bytes: 512, sectors: 16 });
        assert_eq!(lanes(|_| 96, 4), GlobalTraffic { requests: 1, bytes: 4, sectors: 1 });
    }

    #[test]
    fn a_row_is_counted_as_its_lanes_are() {
        for (at, bytes) in [(0, 4), (4, 4), (1000, 8), (32, 1), (62, 2), (16, 16)] {
            let mut row = GlobalTraffic::default();
            row.line(at..at + 32 * bytes);
            assert_eq!(row, lanes(|lane| at + bytes * lane, bytes));
        }
    }

    #[test]
    fn lines_share_the_sectors_of_their_neighbours() {
        let (mut request, mut traffic) = (Request::default(), GlobalTraffic::default());
        (0..4).for_each(|line| request.line(48 * line, 48));
        request.count(&mut traffic);
        assert_eq!(traffic, GlobalTraffic { requests: 1, bytes: 192, sectors: 6 });
        assert!(traffic.is_coalesced());
        request.count(&mut traffic);
        assert_eq!(traffic.requests, 1, "nothing was asked for");
    }
}
