//! What the parser takes, and what it says of the rest.

use super::{Operand, Statement, parse};

const HEAD: &str = ".version 8.1\n.target sm_90a\n.address_size 64\n";

fn instructions(body: &str) -> Vec<(String, Vec<Operand>)> {
    let text = format!("{HEAD}.visible .entry k(.param .u64 k_0)\n.maxntid 128, 1, 1\n{{\n{body}\n}}\n");
    let module = parse(&text).unwrap();
    let body = module.entries.into_iter().next().unwrap().body;
    let instruction = |statement| match statement {
        Statement::Instruction(instruction) => Some((instruction.opcode, instruction.operands)),
        _ => None,
    };
    body.into_iter().filter_map(instruction).collect()
}

fn name(name: &str) -> Operand {
    Operand::Name(name.into())
}

#[test]
fn operands() {
    let parsed = instructions(
        "ld.shared::cluster.v2.b32 {%r1, _}, [%rd1+-16];\n elect.sync _|p, -1; mov.b32 %f, 0f3F800000; // comment\n\
         cp.async.bulk.tensor.2d.shared::cluster.global [d], [%rd1, {%r1, 0x10}], [tilewright+8]; st.b32 [8], !q;",
    );
    let address =
        |base: &str, offset| Operand::Address { base: Some(base.into()), offset, coordinates: None };
    let mut map = address("%rd1", 0);
    if let Operand::Address { coordinates, .. } = &mut map {
        *coordinates = Some(vec![name("%r1"), Operand::Integer(16)]);
    }
    let nowhere = Operand::Address { base: None, offset: 8, coordinates: None };
    assert_eq!(
        parsed,
        [
            (
                "ld.shared::cluster.v2.b32".into(),
                vec![Operand::Vector(vec![name("%r1"), name("_")]), address("%rd1", -16)]
            ),
            ("elect.sync".into(), vec![Operand::Pair("_".into(), "p".into()), Operand::Integer(u64::MAX)]),
            ("mov.b32".into(), vec![name("%f"), Operand::Float(0x3f80_0000)]),
            (
                "cp.async.bulk.tensor.2d.shared::cluster.global".into(),
                vec![address("d", 0), map, address("tilewright", 8)]
            ),
            ("st.b32".into(), vec![nowhere, Operand::Not("q".into())]),
        ]
    );
}

#[test]
fn directives() {
    let text = format!(
        "{HEAD}.extern .shared .align 1024 .b8 dynamic[];\n.entry k(.param .align 64 .b8 a[896], .param .f32 b)\n\
         .reqntid 64, 2\n.reqnctapercluster 2\n{{ .reg .pred %p<4>; {{ .reg .b32 t, u; }} L: @!%p1 bra L; }}"
    );
    let module = parse(&text).unwrap();
    assert_eq!(
        (module.target.as_str(), module.variables[0].align, module.variables[0].bytes),
        ("sm_90a", 1024, 0)
    );
    let entry = &module.entries[0];
    assert_eq!(entry.parameters.iter().map(|p| (p.align, p.bytes)).collect::<Vec<_>>(), [(64, 896), (4, 4)]);
    assert_eq!((entry.threads, entry.cluster), (Some(([64, 2, 1], true)), Some([2, 1, 1])));
    assert_eq!(entry.body.len(), 7);
}

#[test]
fn errors_name_what_and_where() {
    let error = |body: &str| parse(&format!("{HEAD}.entry k() {{\n{body}\n}}")).unwrap_err().to_string();
    assert_eq!(error("mov.b32 %r1 %r2;"), "PTX line 5: expected `,`, found `%r2`");
    assert_eq!(error(".branchtargets a, b;"), "PTX line 5: directive `.branchtargets` is not emulated");
    assert_eq!(error("mov.b32 %r1, 0f12;"), "PTX line 5: `0f12` is no number");
    assert_eq!(
        parse(".func f() { ret; }").unwrap_err().to_string(),
        "PTX line 1: directive `.func` is not emulated"
    );
}
