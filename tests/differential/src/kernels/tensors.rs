//! Boxes of tensors: `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`.

use tilewright_emulator::{DataType, Fill, Im2col, Swizzle, TensorMap};

use super::{Kernel, bytes, wait};
use crate::random::Random;

/// Bytes of shared memory that a box may take.
const SHARED: usize = 32 << 10;

pub(super) fn kernels() -> Vec<Kernel> {
    let mut random = Random::new(7);
    let mut kernels = Vec::new();
    for rank in 1..=5 {
        for swizzle in [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128] {
            for narrow in [false, true] {
                let map = tensor(DataType::F16, rank, swizzle, narrow);
                kernels.extend(places(&map).iter().map(|at| load(map, at, &[], &mut random)));
                kernels.extend(stored(&map).iter().map(|at| store(map, at, "", &mut random)));
            }
        }
    }
    let types = [
        DataType::U8,
        DataType::U16,
        DataType::U32,
        DataType::I32,
        DataType::U64,
        DataType::I64,
        DataType::F32,
        DataType::F64,
        DataType::Bf16,
    ];
    for data in types {
        let map = tensor(data, 2, Swizzle::B128, false);
        kernels.extend(places(&map).iter().map(|at| load(map, at, &[], &mut random)));
        kernels.extend(stored(&map).iter().map(|at| store(map, at, "", &mut random)));
    }
    for data in [DataType::F16, DataType::Bf16, DataType::F32, DataType::F64] {
        let map = TensorMap { fill: Fill::Nan, ..tensor(data, 3, Swizzle::B64, false) };
        for at in places(&map) {
            kernels.push(load(map, &at, &[], &mut random));
        }
    }
    for steps in [[1, 2, 1, 1, 1], [1, 3, 2, 1, 1], [1, 8, 4, 1, 1]] {
        let map = TensorMap { steps, ..tensor(DataType::F16, 3, Swizzle::B64, false) };
        for at in places(&map) {
            kernels.push(load(map, &at, &[], &mut random));
        }
    }
    let reductions = [
        ("add", DataType::F16),
        ("add", DataType::Bf16),
        ("add", DataType::F32),
        ("add", DataType::F64),
        ("add", DataType::U32),
        ("add", DataType::I32),
        ("add", DataType::U64),
        ("min", DataType::F16),
        ("max", DataType::Bf16),
        ("min", DataType::I32),
        ("max", DataType::U32),
        ("min", DataType::I64),
        ("and", DataType::U32),
        ("or", DataType::U64),
        ("xor", DataType::U32),
        ("inc", DataType::U32),
        ("dec", DataType::U32),
    ];
    for (operation, data) in reductions {
        let map = tensor(data, 2, Swizzle::B128, false);
        kernels.extend(stored(&map).iter().map(|at| store(map, at, operation, &mut random)));
    }
    kernels
}

/// A tensor whose rows are no multiple of 16 bytes, and a box of a span of the swizzle, or less.
pub(super) fn tensor(data: DataType, rank: usize, swizzle: Swizzle, narrow: bool) -> TensorMap {
    let size = data.bytes() as u64;
    let span = match swizzle {
        Swizzle::None => 64,
        Swizzle::B32 => 32,
        Swizzle::B64 => 64,
        Swizzle::B128 => 128,
    };
    let line = if narrow { span / 2 } else { span };
    let line = if narrow && swizzle == Swizzle::B128 { 48 } else { line };
    let row = 272u64;
    let mut shape = [row / size - 3, 19, 5, 3, 3];
    if size == 1 {
        shape[0] = row - 5;
    }
    let strides = [row, row * 20, row * 20 * 5, row * 20 * 5 * 4];
    let tile = [(line / size as u32).max(16 / size as u32), 9, 3, 2, 2];
    for extent in &mut shape[rank..] {
        *extent = 1;
    }
    TensorMap {
        data,
        rank,
        address: 0,
        shape,
        strides,
        tile,
        steps: [1; 5],
        swizzle,
        fill: Fill::Zero,
        im2col: None,
    }
}

/// Bytes of all of the tensor.
fn bytes_of(map: &TensorMap) -> usize {
    match map.rank {
        1 => 272,
        rank => map.strides[rank - 2] as usize * map.shape[rank - 1] as usize,
    }
}

/// Inside, and across each end of the tensor; not at all inside. In the first dimension, at multiples of 16 bytes.
fn places(map: &TensorMap) -> Vec<Vec<i32>> {
    let mut middle: Vec<_> = (0..map.rank).map(|i| (map.shape[i] / 3) as i32).collect();
    let piece = 16 / map.data.bytes() as i32;
    middle[0] = middle[0] / piece * piece;
    let mut places = vec![vec![0; map.rank], middle.clone()];
    for dimension in 0..map.rank {
        let (extent, tile) = (map.shape[dimension] as i32, map.tile[dimension] as i32);
        for at in [-1, 1 - tile, extent - tile + 1, extent - 1, extent + 5] {
            let mut place = middle.clone();
            place[dimension] = if dimension == 0 { at.div_euclid(piece) * piece } else { at };
            places.push(place);
        }
    }
    places.push((0..map.rank).map(|i| if i == 0 { 0 } else { -1 }).collect());
    // The innermost dimension on its own takes most cases: of high ranks, fewer.
    if map.rank > 2 {
        places.retain(|place| place.iter().map(|at| at.rem_euclid(7)).sum::<i32>() % 2 == 0);
    }
    places
}

/// Those where a store may begin: at no negative coordinate.
fn stored(map: &TensorMap) -> Vec<Vec<i32>> {
    let mut places = places(map);
    places.retain(|place| place.iter().all(|&at| at >= 0));
    places
}

fn coordinates(at: &[i32]) -> (String, String) {
    let moves = at.iter().enumerate().map(|(i, at)| format!("mov.b32 %r{}, {at};\n", 10 + i)).collect();
    (moves, super::registers(10, at.len()))
}

fn named(what: &str, map: &TensorMap, at: &[i32]) -> String {
    let TensorMap { data, rank, shape, tile, steps, swizzle, fill, .. } = map;
    let (shape, tile, steps) = (&shape[..*rank], &tile[..*rank], &steps[..*rank]);
    format!(
        "TMA {what} {data:?} {shape:?} box {tile:?} steps {steps:?} swizzle {swizzle:?} fill {fill:?} at {at:?}"
    )
}

fn contents(data: DataType, count: usize, random: &mut Random) -> Vec<u8> {
    // Words of any bits, half of them such that sums of floats round.
    let mask = match data {
        DataType::F16 => 0x87ff_87ff,
        DataType::Bf16 => 0x83ff_83ff,
        _ => 0x80ff_ffff,
    };
    let set = match data {
        DataType::F16 => 0x3800_3800,
        DataType::Bf16 => 0x3c00_3c00,
        _ => 0x3f00_0000,
    };
    let word = |random: &mut Random| {
        let word = random.bits() as u32;
        if random.one_in(2) { word & mask | set } else { word }
    };
    bytes((0..count / 4).map(|_| word(random)))
}

/// A load of a box, or of pixels, with offsets of as many dimensions.
pub(super) fn load(map: TensorMap, at: &[i32], offsets: &[u16], random: &mut Random) -> Kernel {
    let (mut moves, list) = coordinates(at);
    let rank = map.rank;
    let (mode, end, lines) = match map.im2col {
        Some(_) => {
            let halves: Vec<_> = (0..offsets.len()).map(|i| format!("%h{i}")).collect();
            let set = |(half, offset): (&String, &u16)| format!("mov.b16 {half}, {offset};\n");
            moves.extend(halves.iter().zip(offsets).map(set));
            ("im2col", format!(", {{{}}}", halves.join(", ")), map.tile[1])
        }
        None => {
            let lines = (1..rank).map(|i| map.tile[i].div_ceil(map.steps[i])).product();
            ("tile", String::new(), lines)
        }
    };
    let size = lines * map.tile[0] * map.data.bytes() as u32;
    let body = format!(
        "add.u32 %r1, %shared, {SHARED};\nsetp.ne.u32 %p0, %id, 0;\n@%p0 bra READY;\nmbarrier.init.shared.b64 [%r1], 1;\n\
         fence.mbarrier_init.release.cluster;\nfence.proxy.async;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r1], {size};\n\
         mov.b64 %d0, map;\ncvta.param.u64 %d0, %d0;\n{moves}\
         cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%shared], [%d0, {{{list}}}], [%r1]{end};\n\
         READY:\nbar.sync 0;\n{}mov.u32 %n, %id;\nCOPY:\nmad.lo.u32 %r2, %n, 4, %shared;\nld.shared.b32 %r3, [%r2];\n\
         mad.wide.u32 %d1, %n, 4, %out;\nst.global.b32 [%d1], %r3;\nadd.u32 %n, %n, 128;\n\
         setp.lt.u32 %q, %n, {};\n@%q bra COPY;\n",
        wait("%r1", 0, "LOADED"),
        SHARED / 4
    );
    let tensor = contents(map.data, bytes_of(&map), random);
    let name = match map.im2col {
        None => named("load", &map, at),
        Some(Im2col { lower, upper }) => {
            let load = named("load of pixels", &map, at);
            format!("{load} offsets {offsets:?} corners {lower:?} {upper:?}")
        }
    };
    let mut kernel = Kernel::new(name, SHARED / 4 / 128, body).threads(128);
    kernel = kernel.shared(vec![0xa5; SHARED]);
    kernel.launch.dynamic_shared = SHARED as u32 + 16;
    kernel.tensor = Some((map, tensor));
    kernel
}

/// A store, or a reduction.
fn store(map: TensorMap, at: &[i32], operation: &str, random: &mut Random) -> Kernel {
    let (moves, list) = coordinates(at);
    let rank = map.rank;
    let (opcode, end) = match operation {
        "" => ("cp.async.bulk".to_owned(), String::new()),
        operation => ("cp.reduce.async.bulk".to_owned(), format!(".{operation}")),
    };
    let body = format!(
        "fence.proxy.async;\nbar.sync 0;\nsetp.ne.u32 %p0, %id, 0;\n@%p0 bra END;\nmov.b64 %d0, map;\ncvta.param.u64 %d0, %d0;\n\
         {moves}{opcode}.tensor.{rank}d.global.shared::cta{end}.tile.bulk_group [%d0, {{{list}}}], [%shared];\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:\n"
    );
    let tensor = contents(map.data, bytes_of(&map), random);
    let what = if operation.is_empty() { "store" } else { operation };
    let input = contents(map.data, SHARED, random);
    let mut kernel = Kernel::new(named(what, &map, at), 1, body).threads(128).shared(input);
    kernel.tensor = Some((map, tensor));
    kernel
}
