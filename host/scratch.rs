//! Memory that a device keeps for the partial sums of operators that were given none.

use std::sync::{Mutex, PoisonError};

use crate::backend::{Backend, EventId, StreamId};
use crate::{Result, Stream};

/// Pieces of memory, of any values between launches: one for each of the streams that used them last.
///
/// A launch waits for the one that used its piece before, on whatever stream that was: a handle may be of several streams.
#[derive(Default)]
pub(crate) struct Scratch {
    pieces: Mutex<Vec<Piece>>,
}

/// Pieces that are kept; more streams share them, one launch after the other. CTAs that wait for later ones of their launch hold at most a quarter of the SMs: of four launches that run
/// at a time one goes on.
const MOST: usize = 4;

/// Of few bytes the next power of two, so that pieces seldom grow; of many, as copies of operands have, no more than a little.
fn rounded(bytes: usize) -> usize {
    const MANY: usize = 64 << 20;
    if bytes <= MANY { bytes.next_power_of_two() } else { bytes.next_multiple_of(MANY) }
}

struct Piece {
    stream: StreamId,
    address: u64,
    bytes: usize,
    /// Set when the work that uses it is done.
    used: EventId,
}

impl Piece {
    fn new(backend: &dyn Backend, stream: StreamId, bytes: usize) -> Result<Self> {
        let used = backend.create_event()?;
        match backend.allocate(bytes) {
            Ok(address) => Ok(Piece { stream, address, bytes, used }),
            Err(error) => {
                backend.destroy_event(used);
                Err(error)
            }
        }
    }

    /// Frees it, after the work that uses it.
    fn free(self, backend: &dyn Backend) {
        backend.free(self.address);
        backend.destroy_event(self.used);
    }
}

impl Scratch {
    /// Calls `launch` with the address of so many bytes, aligned to 256. The stream is not captured.
    pub(crate) fn lend(
        &self,
        stream: &Stream,
        bytes: usize,
        launch: impl FnOnce(u64) -> Result<()>,
    ) -> Result<()> {
        let (backend, id) = (stream.device().backend(), stream.id());
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let found = pieces.iter().position(|piece| piece.stream == id);
        // The piece that was made, or taken over, first makes room.
        let at = found.or_else(|| (pieces.len() == MOST).then_some(0));
        let kept = at.map(|at| pieces.remove(at));
        let piece = match kept {
            Some(piece) if piece.bytes >= bytes => Piece { stream: id, ..piece },
            kept => {
                if let Some(small) = kept {
                    small.free(backend);
                }
                Piece::new(backend, id, rounded(bytes))?
            }
        };
        let launched = backend.wait(id, piece.used).and_then(|()| {
            let launched = launch(piece.address);
            // Some launches may have come before one that failed.
            launched.and(backend.record(piece.used, id))
        });
        pieces.push(piece);
        launched
    }

    /// Frees all of it: the device is no longer used.
    pub(crate) fn clear(&mut self, backend: &dyn Backend) {
        let pieces = self.pieces.get_mut().unwrap_or_else(PoisonError::into_inner);
        pieces.drain(..).for_each(|piece| piece.free(backend));
    }
}
