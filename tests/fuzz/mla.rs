//! Decoding steps of latent attention.

use tilewright::ops::{HalfElement, LatentElement, Mla};
use tilewright::{DType, Device, F8E4M3, Stream, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Scores};
use tilewright_support::random::normal;
use tilewright_support::reference::sample;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(4) {
        0 => of::<f16, f16>(random, device, call),
        1 => of::<bf16, bf16>(random, device, call),
        _ => of::<bf16, u8>(random, device, call),
    }
}

/// How the keys of queries of `T` are kept.
trait Kept<T>: Number + LatentElement<T> {
    /// Elements of a key of `d` columns.
    fn width(d: usize) -> usize;
    /// A key's elements, and the key as queries see it.
    fn keep(key: &[T]) -> (Vec<Self>, Vec<T>);
}

impl<T: Number + LatentElement<T>> Kept<T> for T {
    fn width(d: usize) -> usize {
        d
    }
    fn keep(key: &[T]) -> (Vec<T>, Vec<T>) {
        (key.to_vec(), key.to_vec())
    }
}

/// Records of FlashMLA: codes of 512 columns, a scale for 128 of them each, 64 columns as they are.
impl Kept<bf16> for u8 {
    fn width(_: usize) -> usize {
        656
    }
    fn keep(key: &[bf16]) -> (Vec<u8>, Vec<bf16>) {
        let (latent, rotary) = key.split_at(512);
        let (mut codes, mut scales, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for (i, columns) in latent.chunks(128).enumerate() {
            // Each of another size, so that none is taken for another.
            let most = columns.iter().fold(0.0f32, |most, x| most.max(x.to_f32().abs()));
            let scale = most / (448.0 - 50.0 * i as f32);
            scales.extend(scale.to_le_bytes());
            for x in columns {
                let code = F8E4M3::from_f32(x.to_f32() / scale);
                codes.push(code.to_bits());
                seen.push(bf16::from_f32(code.to_f32() * scale));
            }
        }
        seen.extend(rotary);
        let rotary = rotary.iter().flat_map(|x| x.to_bits().to_le_bytes());
        (codes.into_iter().chain(scales).chain(rotary).collect(), seen)
    }
}

/// Heads of a position that are compared.
const HEADS: usize = 5;

fn of<T: Real + Number + HalfElement, C: Kept<T>>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
) -> Outcome {
    let codes = C::DTYPE == DType::U8;
    let (batch, positions) = (random.within(1..=3), random.pick(&[1, 1, 2, 5]));
    let heads = random.pick(&[1, 2, 16, 40, 64, 100]);
    let [d, dv] = if codes { [576, 512] } else { random.pick(&[[576, 512], [320, 256]]) };
    // Each sequence by itself, or pages of so many rows with a table on the device or on the host.
    let (dense, host) = (random.one_in(3), random.one_in(2));
    let rows = if dense { random.size(200).max(1) } else { random.pick(&[16, 32, 64, 128]) };
    // A page of records may have one row, as a list of tokens has.
    let rows = if codes && !dense && random.one_in(3) { random.pick(&[1, 2, 8]) } else { rows };
    let entries = if dense { 1 } else { random.within(1..=200 / rows + 1) };
    let pages = if dense { batch } else { batch * entries + 2 };
    let room = entries * rows;
    let lengths: Option<Vec<u32>> =
        random.one_in(2).then(|| (0..batch).map(|_| random.below(room + 1) as u32).collect());
    let mut table: Vec<i32> =
        random.shuffled(pages)[..batch * entries].iter().map(|&page| page as i32).collect();
    if !dense && !host && random.one_in(4) {
        let at = random.below(table.len());
        table[at] = random.pick(&[-1, i32::MIN, i32::MAX, 1 << 20]);
    }
    let q_place = Place::lines(random, &[batch, positions, heads, d], 2);
    let o_place = Place::lines(random, &[batch, positions, heads, dv], 2);
    let width = C::width(d);
    let mut cache_place = Place::lines(random, &[pages, rows, 1, width], 2);
    if codes {
        // From multiples of 16 bytes on.
        cache_place.strides[..2].iter_mut().for_each(|stride| *stride = stride.next_multiple_of(16));
        cache_place.strides[0] = cache_place.strides[0].max(rows * cache_place.strides[1]);
        cache_place.offset = cache_place.offset.next_multiple_of(16);
    }
    cache_place.strides[2] = random.pick(&[width, 0, 1, usize::MAX]);
    let lse_place = Place::packed(&[batch, positions, heads]);
    let scores = Scores {
        scale: random.pick(&[1.0 / (d as f32).sqrt(), 0.02, 0.3]),
        causal: random.one_in(2),
        ..Scores::new(d)
    };
    let splits = random.one_in(3).then(|| random.within(1..=5));
    let (with_lse, own, forced) = (random.one_in(2), random.one_in(2), random.next());
    call.set(format!(
        "Mla<{}> of a cache of {}: dense {dense}, table {table:?} of the host's {host}, lengths {lengths:?}, Q {q_place:?}, cache \
         {cache_place:?}, O {o_place:?}, {scores:?}, splits {splits:?}, log-sum-exp {with_lse}, workspace of its own {own}",
        T::DTYPE,
        C::DTYPE
    ));

    let q = Placed::new(device, q_place.clone(), &normal::<T>(forced, q_place.count()))?;
    // The keys as queries see them, and as they are kept; what no sequence has is poison.
    let mut keys = normal::<T>(forced.wrapping_add(1), pages * rows * d);
    let mut kept = vec![C::POISON; pages * rows * width];
    for (sequence, at) in (0..batch * room).map(|at| (at / room, at % room)) {
        let length = lengths.as_ref().map_or(room, |lengths| lengths[sequence] as usize);
        let page = if dense { sequence as i32 } else { table[sequence * entries + at / rows] };
        let Some(page) = usize::try_from(page).ok().filter(|&page| page < pages && at < length) else {
            continue;
        };
        let row = page * rows + at % rows;
        let (elements, seen) = C::keep(&keys[row * d..][..d]);
        kept[row * width..][..width].copy_from_slice(&elements);
        keys[row * d..][..d].copy_from_slice(&seen);
    }
    let cache = Placed::new(device, cache_place, &kept)?;
    let mut o = Placed::<T>::poisoned(device, o_place)?;
    let mut lse = Placed::<f32>::poisoned(device, lse_place)?;
    let on_device = Placed::new(device, Place::packed(&[batch, entries]), &table)?;
    let stream = Stream::new(device)?;
    {
        let (q, cache, mut o) = (q.view()?, cache.view()?, o.view_mut()?);
        let (mut rows, on_device) = (lse.view_mut()?, on_device.view()?);
        let mla = Mla::new().scale(scores.scale);
        let mla = if scores.causal { mla.causal() } else { mla };
        let mla = splits.into_iter().fold(mla, Mla::splits);
        let mla = match &lengths {
            Some(lengths) => mla.lengths(lengths),
            None => mla,
        };
        let mla = match (dense, host) {
            (true, _) => mla,
            (false, true) => mla.host_block_table(&table),
            (false, false) => mla.block_table(&on_device),
        };
        let mla = if with_lse { mla.lse(&mut rows) } else { mla };
        let all = mla.candidates(&q, &cache, &o)?;
        let names: Vec<_> =
            all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect();
        assert!(!names.is_empty(), "no kernel for it");
        let mla = if forced.is_multiple_of(2) {
            let name = names[(forced / 2) as usize % names.len()];
            call.add(format!(", kernel {name}"));
            mla.kernel(name)
        } else {
            mla
        };
        let memory = Place::packed(&[mla.workspace_len(&q, &cache, &o)?]);
        let mut memory = Placed::<f32>::poisoned(device, memory)?;
        {
            let mut workspace = memory.view_mut()?;
            let mut mla = if own { mla } else { mla.workspace(&mut workspace) };
            // The second run has its plan.
            for _ in 0..random.within(1..=2) {
                mla.run(&stream, &q, &cache, &mut o)?;
            }
            stream.synchronize()?;
        }
        memory.read()?;
    }
    let (out, lse) = (T::widen(&o.read()?), lse.read()?);

    let (q, keys) = (T::widen(&q.values()?), T::widen(&keys));
    let some = sample(heads, HEADS);
    for sequence in 0..batch {
        let length = lengths.as_ref().map_or(room, |lengths| lengths[sequence] as usize);
        let row = |at: usize| {
            let page = if dense { sequence as i32 } else { table[sequence * entries + at / rows] };
            let page = usize::try_from(page).ok().filter(|&page| page < pages);
            page.map_or(vec![0.0; d], |page| keys[(page * rows + at % rows) * d..][..d].to_vec())
        };
        for position in 0..positions {
            let seen = scores.seen(position, positions, length).end;
            let k: Vec<f32> = (0..seen).flat_map(row).collect();
            let v: Vec<f32> = k.chunks(d).flat_map(|key| &key[..dv]).copied().collect();
            let first = (sequence * positions + position) * heads;
            let q = &q[first * d..][..heads * d];
            let plain = Scores { causal: false, ..scores };
            let rows = Head::new::<f32>([q, &k, &v], heads, seen, [d, dv]).rows(&some, &plain);
            for (expected, at) in rows.iter().zip(some.iter().map(|head| first + head)) {
                expected
                    .agrees::<T>(d, 0.0, &out[at * dv..][..dv], with_lse.then(|| lse[at]))
                    .map_err(|what| format!("sequence {sequence}, position {position}, row {at}: {what}"))?;
            }
        }
    }
    if let Some(at) = out.iter().position(|x| x.is_nan()) {
        return Err(format!("O's element {at} is NaN or was not written").into());
    }
    Ok(())
}
