//! What a call costs the host.

use tilewright::ops::{Mla, MlaViews};
use tilewright::{Device, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::timing::host_us;

use crate::case::PAGE;

/// Sequences, heads, and pages of each sequence.
const SIZES: [usize; 3] = [128, 128, 16];

/// Prints the host time of calls that queue a step: with the plan of the last one, and with another.
pub fn costs(device: &Device) -> Result<()> {
    println!("\n| cost | |\n| --- | ---: |");
    let line = |what: &str, us: f64| println!("| host time of {what} | {us:.2} µs |");
    let [batch, heads, entries] = SIZES;
    let q = Tensor::<bf16>::zeros(device, &[batch, 1, heads, 576])?;
    let cache = Tensor::<bf16>::zeros(device, &[batch * entries, PAGE, 1, 576])?;
    let mut o = Tensor::<bf16>::zeros(device, &[batch, 1, heads, 512])?;
    let numbers: Vec<i32> = (0..).take(batch * entries).collect();
    let table = Tensor::from_slice(device, &numbers, &[batch, entries])?;
    let (q, cache, mut o) = (q.view(), cache.view(), o.view_mut());
    let stream = tilewright::Stream::new(device)?;
    let mut lengths = [vec![1024; batch], vec![960; batch]];

    let mut mla = Mla::new().block_table(table.view()).lengths(&lengths[0]);
    mla.run(&stream, &q, &cache, &mut o)?;
    line(
        "`ops::Mla::run`, a table on the device",
        host_us(&stream, || mla.run(&stream, &q, &cache, &mut o))?,
    );
    let plan = mla.plan(&q, &cache, &o)?;
    let mut views = MlaViews { block_table: Some(table.view().into()), ..MlaViews::default() };
    let planned = host_us(&stream, || plan.run(&stream, &q, &cache, &mut o, &mut views))?;
    line("`ops::MlaPlan::run`", planned);
    let mut mla = Mla::new().host_block_table(&numbers).lengths(&lengths[0]);
    mla.run(&stream, &q, &cache, &mut o)?;
    line("the same, a table on the host", host_us(&stream, || mla.run(&stream, &q, &cache, &mut o))?);
    let mut mla = Mla::new().block_table(table.view());
    let changing = || {
        lengths.swap(0, 1);
        mla.set_lengths(&lengths[0]);
        mla.run(&stream, &q, &cache, &mut o)
    };
    line("the same, a table on the device and other lengths, which waits", host_us(&stream, changing)?);
    Ok(())
}
