//! `st.async` and `red.async`.

use super::atomic::combine;
use crate::error::Reason;
use crate::exec::cta::in_cluster;
use crate::exec::env::Env;
use crate::exec::memory::check_alignment;
use crate::exec::warp::{Warp, lanes};
use crate::order::By;
use crate::order::access::STRONG;
use crate::program::op::Op;
use crate::program::operand::AtomicOp;

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Result<(), Reason> {
    let Op::StoreAsync { bytes, ref from, at, bar, reduction } = *op else { unreachable!("no store") };
    let total = bytes as usize * from.len();
    for lane in lanes(mask) {
        let value = warp.gather(from, bytes as usize, lane);
        let at = [at, bar].map(|at| warp.address(at, lane) as u32);
        if let Some(order) = &mut env.order {
            order.of_lane(lane);
        }
        store(warp, env, &value[..total], at, reduction).map_err(|what| warp.blame(lane, what))?;
    }
    env.events += 1;
    Ok(())
}

/// A store or a reduction of one lane that completes on an mbarrier.
fn store(
    warp: &Warp,
    env: &mut Env<'_>,
    value: &[u8],
    [to, bar]: [u32; 2],
    reduction: Option<AtomicOp>,
) -> Result<(), Reason> {
    let (cta, to) = in_cluster(to, warp.cta, env.ctas.len())?;
    let (bar_cta, bar) = in_cluster(bar, warp.cta, env.ctas.len())?;
    if cta != bar_cta {
        return Err(Reason::misuse("a destination and an mbarrier are in different CTAs"));
    }
    check_alignment(to.into(), value.len(), "shared memory")?;
    let into = env.ctas[cta].bytes_mut(to, value.len())?;
    let number = |bytes: &[u8]| {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(all)
    };
    match reduction {
        None => into.copy_from_slice(value),
        Some(op) => {
            let new = combine(op, value.len() as u32, [number(into), number(value), 0], false);
            into.copy_from_slice(&new.to_le_bytes()[..value.len()]);
        }
    }
    let phase = env.use_mbarrier(cta, bar)?;
    if let Some(order) = &mut env.order {
        if reduction.is_some() {
            order.shared((cta, to), value.len(), (By::Phase(phase), STRONG), false)?;
        }
        let kind = if reduction.is_some() { STRONG } else { 0 };
        order.shared((cta, to), value.len(), (By::Phase(phase), kind), true)?;
    }
    env.ctas[cta].mbarrier(bar)?.complete(value.len() as u32)
}
