//! Collectives of ranks on emulators: the host adds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::transport::{Collective, Kind, Share, Transport};
use crate::{DType, Error, Result, Stream, bf16, f16};

/// Where ranks meet.
#[derive(Debug, Default)]
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Collectives that are not done, by number.
    rounds: HashMap<u64, Round>,
    aborted: bool,
}

#[derive(Debug)]
struct Round {
    /// What each rank brought.
    brought: Vec<Option<Arc<[u8]>>>,
    /// Ranks that have not taken the others'.
    left: usize,
}

/// A rank's end.
#[derive(Debug)]
struct Rank {
    rank: usize,
    ranks: usize,
    /// The next collective's number.
    next: AtomicU64,
    meeting: Arc<Meeting>,
}

pub(super) fn all(ranks: usize) -> Vec<Box<dyn Transport>> {
    let meeting = Arc::new(Meeting::default());
    let rank = |rank| Box::new(Rank { rank, ranks, next: AtomicU64::new(0), meeting: meeting.clone() }) as _;
    (0..ranks).map(rank).collect()
}

impl Rank {
    /// What all ranks bring; waits for them.
    fn exchange(&self, bytes: Vec<u8>) -> Result<Vec<Arc<[u8]>>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Meeting { state, changed } = &*self.meeting;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Round { brought: vec![None; self.ranks], left: self.ranks };
        let round = state.rounds.entry(number).or_insert_with(new);
        if let Some(place) = round.brought.get_mut(self.rank) {
            *place = Some(bytes.into());
        }
        changed.notify_all();
        loop {
            if state.aborted {
                let allowed = "of a group whose ranks are all there";
                return Err(Error::argument("communicator", "broken while it waited", allowed));
            }
            let round = state.rounds.get_mut(&number);
            if let Some(round) = round.filter(|round| round.brought.iter().all(Option::is_some)) {
                let all = round.brought.iter().flatten().cloned().collect();
                round.left -= 1;
                if round.left == 0 {
                    state.rounds.remove(&number);
                }
                return Ok(all);
            }
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Transport for Rank {
    unsafe fn queue(&self, what: Collective, _: Share, from: u64, to: u64, stream: &Stream) -> Result<()> {
        stream.refuse_capture("a collective of emulators")?;
        stream.synchronize()?;
        let Collective { kind, dtype, count } = what;
        let part = count * dtype.bytes();
        let mut bytes = vec![0; if kind == Kind::ReduceScatter { part * self.ranks } else { part }];
        let backend = stream.device().backend();
        // SAFETY: promised by the caller; `bytes` has the room, and stays until the copy is done.
        unsafe { backend.download(stream.id(), from, bytes.as_mut_ptr().cast(), bytes.len())? };
        stream.synchronize()?;
        let all = self.exchange(bytes)?;
        let own =
            if kind == Kind::ReduceScatter { part * self.rank..part * (self.rank + 1) } else { 0..part };
        let result = match kind {
            Kind::AllGather => all.concat(),
            Kind::AllReduce | Kind::ReduceScatter => {
                sum(dtype, all.iter().map(|of| of.get(own.clone()).unwrap_or_default()))
            }
        };
        // SAFETY: promised by the caller; `result` has as many bytes, and stays until the copy is done.
        unsafe { backend.upload(stream.id(), to, result.as_ptr().cast(), result.len())? };
        stream.synchronize()
    }

    fn abort(&self) {
        self.meeting.state.lock().unwrap_or_else(PoisonError::into_inner).aborted = true;
        self.meeting.changed.notify_all();
    }
}

/// The sums of what ranks brought, in the order of ranks, rounded once.
fn sum<'a>(dtype: DType, all: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        let half = |of: &[u8]| u16::from_le_bytes([of[0], of[1]]);
        match dtype {
            DType::F16 => bytes.chunks_exact(2).map(|of| f16::from_bits(half(of)).to_f32()).collect(),
            DType::BF16 => bytes.chunks_exact(2).map(|of| bf16::from_bits(half(of)).to_f32()).collect(),
            _ => bytes.chunks_exact(4).map(|of| f32::from_le_bytes([of[0], of[1], of[2], of[3]])).collect(),
        }
    };
    let add = |sums: Vec<f32>, next: Vec<f32>| sums.iter().zip(next).map(|(sum, next)| sum + next).collect();
    let sums = all.map(numbers).reduce(add).unwrap_or_default();
    match dtype {
        DType::F16 => sums.iter().flat_map(|&sum| f16::from_f32(sum).to_le_bytes()).collect(),
        DType::BF16 => sums.iter().flat_map(|&sum| bf16::from_f32(sum).to_le_bytes()).collect(),
        _ => sums.iter().flat_map(|sum| sum.to_le_bytes()).collect(),
    }
}
