//! Loads and stores of every size, at addresses that lie next to each other, are the same or are anywhere, by all lanes or some.

use tilewright_emulator::{Arch, Emulator, Launch, Module};

/// Bytes of the memory that is accessed.
const BYTES: usize = 1024;

/// Types: the modifier, bytes of an element, elements.
const TYPES: [(&str, usize, usize); 9] = [
    ("u8", 1, 1),
    ("s8", 1, 1),
    ("u16", 2, 1),
    ("s16", 2, 1),
    ("u32", 4, 1),
    ("s32", 4, 1),
    ("u64", 8, 1),
    ("v2.u64", 8, 2),
    ("v4.u32", 4, 4),
];

/// Where a lane's access is, in units of its size: what computes it, in the kernel and here.
type Place = (&'static str, fn(u32) -> u32);

const PLACES: [Place; 4] = [
    ("mov.u32 %place, %t;", |t| t),
    ("mov.u32 %place, 3;", |_| 3),
    ("mul.lo.u32 %place, %t, 5;\nand.b32 %place, %place, 31;", |t| (5 * t) & 31),
    ("xor.b32 %place, %t, 8;\nadd.u32 %place, %place, 1;", |t| (t ^ 8) + 1),
];

const MASKS: [u32; 4] = [u32::MAX, 0x000f_fff0, 0x8000_0001, 0x1234_5678];

/// How the memory is named: the modifier, and what makes the address of shared memory, if it is that.
type Space = (&'static str, Option<&'static str>);

const SPACES: [Space; 4] = [
    (".global", None),
    ("", None),
    (".shared", Some("cvt.u64.u32 %base, %shared;")),
    ("", Some("cvt.u64.u32 %base, %shared;\ncvta.shared.u64 %base, %base;")),
];

/// What the memory holds at first.
fn bytes() -> Vec<u8> {
    (0..BYTES).map(|i| (i * 7 + i / 256 * 3 + 0x55) as u8).collect()
}

/// The registers of an operand.
fn registers(count: usize) -> String {
    match (0..count).map(|i| format!("%v{i}")).collect::<Vec<_>>().as_slice() {
        [one] => one.clone(),
        all => format!("{{{}}}", all.join(", ")),
    }
}

/// Runs a warp: `body` by the lanes of a mask, in which `%at` is each lane's address. Gives what memory holds then, and 32 bytes of
/// each lane, of its registers.
fn run((space, shared): Space, place: &str, mask: u32, size: usize, body: &str) -> (Vec<u8>, Vec<u8>) {
    let base = shared.unwrap_or("mov.u64 %base, %memory;");
    let values: String =
        (0..4).map(|i| format!("mul.wide.u32 %v{i}, %t, 0x{:x};\n", 0x9e37_79b1u32 - i)).collect();
    let copy = |from: &str, to: &str, load: &str, store: &str| {
        (0..8)
            .map(|i| format!("{load}.u32 %r, [{from}+{}];\n{store}.u32 [{to}+{}], %r;\n", 128 * i, 128 * i))
            .collect::<String>()
    };
    let text = format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 memory, .param .u64 out)\n{{\n\
         .reg .pred %p;\n.reg .b32 %t, %place, %shared, %own, %r;\n.reg .b64 %v<4>, %base, %at, %memory, %out, %word;\n\
         .shared .align 16 .b8 buffer[{BYTES}];\n\
         ld.param.u64 %memory, [memory];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %shared, buffer;\n\
         mad.lo.u32 %own, %t, 4, %shared;\nmad.wide.u32 %word, %t, 4, %memory;\nmad.wide.u32 %out, %t, 32, %out;\n\
         {}bar.sync 0;\n{values}{place}\n{base}\nmad.wide.u32 %at, %place, {size}, %base;\n\
         shr.u32 %r, 0x{mask:x}, %t;\nand.b32 %r, %r, 1;\nsetp.ne.u32 %p, %r, 0;\n@%p {}\nbar.sync 0;\n{}\
         st.global.v2.u64 [%out], {{%v0, %v1}};\nst.global.v2.u64 [%out+16], {{%v2, %v3}};\nret;\n}}\n",
        copy("%word", "%own", "ld.global", "st.shared"),
        body.replace("SPACE", space),
        if shared.is_some() { copy("%own", "%word", "ld.shared", "st.global") } else { String::new() },
    );
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let emulator = Emulator::new(Arch::Sm90a);
    let (memory, out) = (emulator.allocate(BYTES as u64).unwrap(), emulator.allocate(1024).unwrap());
    emulator.write(memory, &bytes()).unwrap();
    let parameters = [memory.to_le_bytes(), out.to_le_bytes()].concat();
    let launch = Launch { threads: [32, 1, 1], ..Launch::default() };
    let kernel = module.kernel("k").unwrap();
    emulator.launch(&kernel, &launch, &parameters).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let (mut after, mut registers) = (vec![0; BYTES], vec![0; 1024]);
    emulator.read(memory, &mut after).unwrap();
    emulator.read(out, &mut registers).unwrap();
    (after, registers)
}

/// What a lane's registers hold before the access.
fn before(lane: u32) -> [u64; 4] {
    std::array::from_fn(|i| u64::from(lane) * u64::from(0x9e37_79b1 - i as u32))
}

/// Every type, place, mask and space.
fn every(mut test: impl FnMut((&str, usize, usize), Place, u32, Space)) {
    for ty in TYPES {
        for place in PLACES {
            for mask in MASKS {
                SPACES.iter().for_each(|&space| test(ty, place, mask, space));
            }
        }
    }
}

#[test]
fn loads_give_each_lane_its_bytes() {
    every(|(ty, size, count), (place, at), mask, space| {
        let body = format!("ldSPACE.{ty} {}, [%at];", registers(count));
        let (after, found) = run(space, place, mask, size * count, &body);
        assert_eq!(after, bytes());
        for lane in 0..32 {
            let mut expected = before(lane);
            if mask >> lane & 1 != 0 {
                for (i, value) in expected.iter_mut().enumerate().take(count) {
                    let start = (at(lane) as usize * count + i) * size;
                    let mut element = [0; 8];
                    element[..size].copy_from_slice(&bytes()[start..start + size]);
                    let (bits, unused) = (u64::from_le_bytes(element), 64 - 8 * size);
                    let signed = ty.starts_with('s');
                    *value = if signed { ((bits << unused) as i64 >> unused) as u64 } else { bits };
                }
            }
            let expected: Vec<u8> = expected.iter().flat_map(|value| value.to_le_bytes()).collect();
            let place = format!("{ty} of {space:?}, mask {mask:#x}, {place}");
            assert_eq!(found[32 * lane as usize..][..32], expected, "lane {lane}: {place}");
        }
    });
}

#[test]
fn stores_leave_the_other_bytes() {
    every(|(ty, size, count), (place, at), mask, space| {
        // Lanes that store different values to one place race.
        if at(0) == at(1) {
            return;
        }
        let body = format!("stSPACE.{ty} [%at], {};", registers(count));
        let (after, _) = run(space, place, mask, size * count, &body);
        let mut expected = bytes();
        for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
            for (i, value) in before(lane).into_iter().enumerate().take(count) {
                let start = (at(lane) as usize * count + i) * size;
                expected[start..start + size].copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
        assert_eq!(after, expected, "{ty} of {space:?}, mask {mask:#x}, {place}");
    });
}
