//! The queue of tiles that take unequal times: the kernel that lists packed sequences, or for lists of blocks sets the counters alone, and where the list lies.

use tilewright_attention::{
    AnySequences, InCache, KERNELS, LISTS, ListOrder, ListSequencesArgs, Packed, SequenceList,
};

use super::problem::{Problem, Size};
use super::table::{Queries, blocks};
use crate::{AnyFunction, Arch, Error, Launch, Result, Stream};

/// Bytes of keys and values whose heads' tiles are taken together, where some tiles cost more than others: a third of the L2 cache of Hopper.
const TOGETHER: usize = 16 << 20;

/// How tiles are taken from a queue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    function: AnyFunction,
    arch: Arch,
    order: ListOrder,
    /// Sequences that are listed.
    count: u32,
}

impl Queue {
    /// For the launches of `queries`, which are `passes`; none where it is known how long each tile takes, or every tile has a CTA.
    pub(super) fn new(queries: &Queries, problem: &Problem, passes: usize) -> Result<Option<Self>> {
        let Problem { device, size, keys, sequences, .. } = problem;
        let Queries { kernel, order, ctas, .. } = queries;
        if matches!(sequences, AnySequences::Equal(_)) || order.total() <= *ctas {
            return Ok(None);
        }
        let lists = LISTS.iter().find(|lists| lists.arch == kernel.arch);
        let lists = lists.ok_or_else(|| Error::KernelMissing {
            kernel: kernel.name,
            arch: kernel.arch,
            reason: "the set has no kernel that lists packed sequences".to_owned(),
        })?;
        let function = device.listed(&KERNELS, lists)?;
        let &Size { batch, heads, kv_heads, queries, columns, .. } = size;
        let [tile, _] = kernel.tile;
        // They count fewer than 2^31 tiles.
        let [batch, heads, shared_by, queries, counters] =
            [batch, heads, heads / kv_heads.max(1), queries, passes].map(|n| n as u32);
        let most = queries.div_ceil(tile);
        let even = [most / 2, most - 1].iter().all(|&m| blocks(kernel, keys, m) == blocks(kernel, keys, 0));
        let keys_together = if even { 0 } else { (TOGETHER / (2 * (columns[0] + columns[1]))) as u32 };
        let order = ListOrder { tile, most, heads, shared_by, keys_together, counters };
        let count = if matches!(sequences, AnySequences::Packed(_)) { batch } else { 0 };
        Ok(Some(Queue { function, arch: kernel.arch, order, count }))
    }

    /// Elements of the workspace.
    pub(super) fn workspace_len(&self) -> usize {
        SequenceList::len(self.count as usize, self.order.counters as usize)
    }

    /// The list in the workspace, with the counter of a launch.
    pub(super) fn list(&self, workspace: u64, pass: usize) -> SequenceList {
        SequenceList::at(workspace, self.count, (pass as u32, self.order.counters))
    }

    /// Lists the sequences, if they are packed, and sets the counters to 0, for all launches.
    pub(super) fn prepare(
        &self,
        sequences: AnySequences,
        stream: &Stream,
        overlap: bool,
        workspace: u64,
    ) -> Result<()> {
        let launch = Launch::grid([1, 1, 1]).pdl(overlap && self.arch == Arch::Sm90a);
        let sequences = match sequences {
            AnySequences::Packed(packed) => packed,
            // Tiles are counted alone.
            _ => Packed::NONE,
        };
        let args = ListSequencesArgs {
            sequences: InCache(sequences),
            list: self.list(workspace, 0),
            order: self.order,
        };
        // SAFETY: the arguments are those of `list_sequences`; of sequences that are listed the offsets are an element more than there are sequences, a cache's lengths as many, and the workspace,
        // which the caller has alone, is as large as the list with its counters. It waits for the preceding grid before it reads or writes.
        unsafe { self.function.launch_block(stream, &launch, &args) }
    }
}
