//! What is said about a conflict.

use super::Order;
use super::access::Access;
use super::cell::Conflict;
use super::preceding::Preceding;
use crate::error::Reason;
use crate::memory::SHARED_START;
use crate::program::op::Op;
use crate::program::shared::Variable;

impl Order<'_> {
    /// What is wrong with an access, as "read", of `bytes`, as "4 bytes of shared memory at 0x400".
    pub(super) fn explain(&self, conflict: Conflict, bytes: &str, access: &str) -> Reason {
        if let Conflict::Race { first, .. } = conflict
            && first.cluster != self.cluster
        {
            self.global.race();
        }
        let kind = match conflict {
            Conflict::Race { .. } | Conflict::Lanes { .. } => Reason::race,
            Conflict::Loose { .. } | Conflict::Alone { .. } => Reason::race,
            Conflict::Unfenced { .. } | Conflict::ReadOnly { .. } | Conflict::Preceding { .. } => {
                Reason::race
            }
            Conflict::Unwritten => Reason::uninitialized,
            Conflict::Gap(_) | Conflict::Ended | Conflict::NotBegun => Reason::address,
            Conflict::Memory => Reason::limit,
            Conflict::Mbarrier => Reason::misuse,
        };
        kind(match conflict {
            Conflict::Race { first, wrote } if usize::from(first.agent) >= self.warps.len() => {
                format!("race: {bytes}: {}", self.engine(&first, wrote))
            }
            Conflict::Race { first, wrote } => format!(
                "race: {bytes}: {}, and nothing orders this {access} after that",
                self.who(&first, wrote)
            ),
            Conflict::Lanes { first, wrote } => format!(
                "race: {bytes}: {}, and no bar.warp.sync orders this {access} after that",
                self.who(&first, wrote)
            ),
            Conflict::Loose { first, wrote } => format!(
                "race: {bytes}: {}, and this {access} is ordered after what another lane of that warp released, before \
                 which there is no bar.warp.sync",
                self.who(&first, wrote)
            ),
            Conflict::Alone { first, wrote } => {
                let what = match usize::from(first.agent) < self.warps.len() || first.cluster != self.cluster
                {
                    true => self.who(&first, wrote),
                    false => format!("{} {} them", self.place(&first), if wrote { "wrote" } else { "read" }),
                };
                format!(
                    "race: {bytes}: {what}, for which another lane of this warp has waited, and no bar.warp.sync orders \
                     this {access} after that"
                )
            }
            Conflict::Preceding { wrote } => format!(
                "race: {bytes}: a preceding grid may still {} them, the last of which is of kernel {}, and no \
                 griddepcontrol.wait orders this {access} after that",
                if wrote { "write" } else { "read" },
                self.preceding.map_or("", Preceding::kernel)
            ),
            Conflict::Unwritten => format!("{bytes} are read, and nobody wrote all of them"),
            Conflict::Unfenced { first } => format!(
                "{bytes}: {} through the generic proxy, and no fence.proxy.async stands between that and this {access} \
                 of the async proxy",
                self.who(&first, true)
            ),
            Conflict::Ended => format!("{bytes}: the CTA whose shared memory that is has ended"),
            Conflict::NotBegun => {
                format!(
                    "{bytes}: nothing says that the CTA whose shared memory that is has begun (barrier.cluster)"
                )
            }
            Conflict::ReadOnly { first, wrote } => {
                let (who, does) = (self.who(&first, wrote), if wrote { "reads" } else { "wrote" });
                let nc = if wrote { "this ld.global.nc" } else { "this kernel, after an ld.global.nc," };
                format!("{bytes}: {who}, and {nc} {does} what must not change while the kernel runs")
            }
            Conflict::Gap(variable) => match self.program.shared.variables.get(variable as usize) {
                Some(Variable { name, place }) => format!(
                    "{bytes}: out of bounds; they lie behind the variable `{name}`, {:#x} to {:#x}",
                    SHARED_START + place.start,
                    SHARED_START + place.end
                ),
                None => format!("{bytes}: out of bounds of every variable"),
            },
            Conflict::Memory => {
                "out of memory: what is known of accesses to global memory, with all else, takes more than \
                                 `Limits::memory`"
                    .into()
            }
            Conflict::Mbarrier => format!("{bytes} are of an mbarrier, which no ordinary access may touch"),
        })
    }

    fn place(&self, access: &Access) -> String {
        let line = self.program.code.get(access.pc as usize).map_or(0, |coded| coded.line);
        format!("PTX line {line} ({})", self.program.line(line))
    }

    /// A warp's access.
    fn who(&self, access: &Access, wrote: bool) -> String {
        let (cta, warp) =
            (usize::from(access.agent) / self.warps_each, usize::from(access.agent) % self.warps_each);
        let mut who = match access.lane {
            lane @ 0..32 => format!("thread {}", 32 * warp + usize::from(lane)),
            _ => format!("warp {warp}"),
        };
        if access.cluster != self.cluster {
            who += &format!(" of CTA {cta} of cluster {}", access.cluster);
        } else if self.shadows.len() > 1 {
            who += &format!(" of CTA {cta} of the cluster");
        }
        format!("{who} {} at {}", if wrote { "wrote them" } else { "read them" }, self.place(access))
    }

    /// An access of something asynchronous, which is not known to have ended.
    fn engine(&self, access: &Access, wrote: bool) -> String {
        let place = self.place(access);
        let op = self.program.code.get(access.pc as usize).map(|coded| &coded.op);
        match op {
            Some(Op::CopyAsync { .. }) if wrote => {
                format!("the cp.async at {place} writes them, and was not waited for (cp.async.wait_group)")
            }
            Some(Op::CopyAsync { .. }) => {
                format!("the cp.async at {place} still reads them (cp.async.wait_group)")
            }
            Some(Op::Wgmma(_)) => format!("the wgmma at {place} still reads them (wgmma.wait_group)"),
            Some(Op::BulkStore(_) | Op::BulkReduce { .. }) if wrote => {
                format!(
                    "the bulk copy at {place} writes them, and was not waited for (cp.async.bulk.wait_group)"
                )
            }
            Some(Op::BulkStore(_) | Op::BulkReduce { .. }) => {
                format!("the bulk copy at {place} still reads them (cp.async.bulk.wait_group.read)")
            }
            _ if wrote => {
                format!(
                    "they are the destination of the copy at {place}, whose mbarrier phase was not waited for"
                )
            }
            _ => format!("the copy at {place} still reads them, and its mbarrier phase was not waited for"),
        }
    }
}
