//! What the parser takes, and what it says of the rest.

use crate::ast::{Named, Operand, Statement};
use crate::lexer::{Lexer, Token};
use crate::parser::parse;

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
fn initial_values() {
    let module = parse(
        ".global .u32 a[2][3] = {{1, 2}, {-1}}; .const .align 8 .v2 .f32 b[] = {{0f3F800000, 2.0}, {-0.5}};\n\
         .global .u64 c = generic(a)+8; .global .u64 d[2] = {0, b}; .visible .global .u8 e[3] = {0xff(a), 0xff00(a+4)};",
    );
    let variables = module.unwrap().variables;
    let words = |i: usize| {
        let bytes: &[u8] = &variables[i].initial.bytes;
        bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect::<Vec<_>>()
    };
    assert_eq!(words(0), [1, 2, 0, u32::MAX, 0, 0]);
    assert_eq!(words(1), [1.0, 2.0, -0.5, 0.0].map(f32::to_bits));
    let names = |i: usize| {
        let named: &[Named] = &variables[i].initial.names;
        named.iter().map(|n| (n.at, n.bytes, n.name.clone(), n.offset, n.shift)).collect::<Vec<_>>()
    };
    assert_eq!(names(2), [(0, 8, "a".into(), 8, 0)]);
    assert_eq!(names(3), [(8, 8, "b".into(), 0, 0)]);
    assert_eq!(names(4), [(0, 1, "a".into(), 0, 0), (1, 1, "a".into(), 4, 8)]);
    assert_eq!(
        variables.iter().map(|v| (v.align, v.bytes)).collect::<Vec<_>>(),
        [(4, 24), (8, 16), (8, 8), (8, 16), (1, 3)]
    );
    let error = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(error(".global .u8 a = 256;"), "PTX line 1: 256 does not fit into 1 bytes");
    assert_eq!(error(".global .u32 a[1] = {1, 2};"), "PTX line 1: more than 1 initial values");
    assert!(error(".global .f32 a = 1;").contains("expected an initial value of the variable's type"));
}

#[test]
fn the_alignment_after_ptr_is_not_the_parameters() {
    let module = parse(".entry k(.param .u32 a, .param .u64 .ptr .global .align 1 b) { ret; }").unwrap();
    assert_eq!(module.entries[0].parameters[1].align, 8);
}

#[test]
fn functions() {
    let module = parse(
        ".extern .func (.param .b32 r) f(.param .b64 a, .param .align 8 .b8 b[16]);\n.visible .func g() .noreturn { ret; }\n\
         .entry k() { ts: .branchtargets A, B; p : .callprototype (.param .b32 _) _ (.param .b64 _);\n\
         call.uni (r0), f, (a0, a1); call g; brx.idx %r1, ts; A: B: ret; }",
    );
    let module = module.unwrap();
    assert_eq!(
        module
            .functions
            .iter()
            .map(|f| (f.results.len(), f.parameters.len(), f.body.is_some()))
            .collect::<Vec<_>>(),
        [(1, 2, false), (0, 0, true)]
    );
    let body = &module.entries[0].body;
    assert!(matches!(&body[0], Statement::Targets { name, labels, .. } if name == "ts" && labels.len() == 2));
    assert!(
        matches!(&body[1], Statement::Prototype { name, results, .. } if name == "p" && results.len() == 1)
    );
    let Statement::Instruction(call) = &body[2] else { panic!("{:?}", body[2]) };
    assert_eq!(call.operands[2], Operand::List(vec![name("a0"), name("a1")]));
}

#[test]
fn constant_expressions() {
    let value = |text: &str| match instructions(&format!("mov.b64 %d, {text};")).remove(0).1.remove(1) {
        Operand::Integer(value) => value as i64,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(value("1+2*3"), 7);
    assert_eq!(value("(1+2)*3"), 9);
    assert_eq!(value("10-4-3"), 3);
    assert_eq!(value("-(3)"), -3);
    assert_eq!(value("7 % 4 << 2"), 12);
    assert_eq!(value("1<<4|2^2"), 16);
    assert_eq!(value("~0"), -1);
    assert_eq!(value("!0 + !7"), 1);
    assert_eq!(value("WARP_SZ*2-1"), 63);
    assert_eq!(value("3 >= 3 && 2 != 2 || 1 == 1"), 1);
    assert_eq!(value("1 < 0 ? 5 : 2 > 1 ? 6 : 7"), 6);
    // Signed unless something is not.
    assert_eq!(value("-8/2"), -4);
    assert_eq!(value("-8/2U"), i64::MAX - 3);
    assert_eq!(value("-1 < 1"), 1);
    assert_eq!(value("(.u64)-1 < 1"), 0);
    assert_eq!(value("(.s64)0xffffffffffffffff < 1"), 1);
    assert_eq!(value("-16 >> 2"), -4);
    assert_eq!(value("-1 >> 64"), -1);
    assert_eq!(value("1 << 64"), 0);
    let offset = |text: &str| match instructions(&format!("ld.b32 %r, [{text}];")).remove(0).1.remove(1) {
        Operand::Address { offset, .. } => offset,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!((offset("a+4*(2+1)"), offset("a-4+1"), offset("(2+2)*2")), (12, -3, 8));
    let module =
        parse(".shared .b8 a[4*WARP_SZ]; .global .u32 b[2] = {1<<4, (2)}; .global .u8 c[] = {0xff(b)};");
    let variables = module.unwrap().variables;
    assert_eq!(variables[0].bytes, 128);
    assert_eq!(variables[1].initial.bytes, [16, 0, 0, 0, 2, 0, 0, 0]);
    let error = |text: &str| parse(&format!(".entry k() {{ mov.b64 %d, {text}; }}")).unwrap_err().to_string();
    assert_eq!(error("1/0"), "PTX line 1: a constant is divided by zero");
    assert_eq!(error("1+"), "PTX line 1: expected an operand, found `;`");
    for mark in ["(", "-", "!", "~", "(.s64)", "1?1:"] {
        assert_eq!(error(&mark.repeat(100_000)), "PTX line 1: operands are nested more than 64 deep");
    }
    assert_eq!(value(&["1"; 100_000].join("+")), 100_000);
}

#[test]
fn numbers() {
    let number = |text: &'static str| Lexer::new(text).next().unwrap().map(|placed| placed.token);
    assert_eq!(number("1.5e-3;"), Ok(Token::Double(1.5e-3f64.to_bits())));
    assert_eq!(number("1E3,"), Ok(Token::Double(1e3f64.to_bits())));
    assert_eq!(number(".5"), Ok(Token::Double(0.5f64.to_bits())));
    assert_eq!(number("0x1e+3"), Ok(Token::Integer(0x1e)));
    assert_eq!(number("0d3ff000000000000e-1"), Ok(Token::Double(0x3ff0_0000_0000_000e)));
    assert_eq!(number("017U"), Ok(Token::Unsigned(15)));
    assert_eq!(number("0b101"), Ok(Token::Integer(5)));
    assert!(number("1e").is_err() && number("08").is_err());
}

#[test]
fn errors_name_what_and_where() {
    let error = |body: &str| parse(&format!("{HEAD}.entry k() {{\n{body}\n}}")).unwrap_err().to_string();
    assert_eq!(error("mov.b32 %r1 %r2;"), "PTX line 5: expected `,`, found `%r2`");
    assert_eq!(error(".branchtargets a, b;"), "PTX line 5: directive `.branchtargets` is not known");
    assert_eq!(
        error(".local .u32 a = 1;"),
        "PTX line 5: only variables of `.global` and `.const` can have an initial value"
    );
    assert_eq!(
        error(".reg .v4 .f32 a;"),
        "PTX line 5: `.reg` of vectors is not known: declare their elements"
    );
    assert_eq!(
        error("ld.b32 %r, a[1];"),
        "PTX line 5: expected an operand, found a subscript: write `[a+BYTES]`"
    );
    assert_eq!(error("mov.b32 %r1, 0f12;"), "PTX line 5: `0f12` is no number");
    assert_eq!(parse(".texref t;").unwrap_err().to_string(), "PTX line 1: directive `.texref` is not known");
}

#[test]
fn tokens_know_where_they_are() {
    let text = "ld.b32 %r1, /* two\nlines */ [a+0x10]; // end\n\"b\"";
    let tokens: Vec<_> = Lexer::new(text).map(Result::unwrap).collect();
    let parts: Vec<_> = tokens.iter().map(|placed| (&text[placed.start..placed.end], placed.line)).collect();
    assert_eq!(
        parts,
        [
            ("ld.b32", 1),
            ("%r1", 1),
            (",", 1),
            ("/* two\nlines */", 1),
            ("[", 2),
            ("a", 2),
            ("+", 2),
            ("0x10", 2),
            ("]", 2),
            (";", 2),
            ("// end", 2),
            ("\"b\"", 3),
        ]
    );
    assert_eq!(tokens[7].token, Token::Integer(16));
    assert_eq!(tokens[10].token, Token::Comment("// end"));
    assert_eq!(tokens[11].token, Token::Text("b"));
    let errors = Lexer::new("a\n /*").collect::<Vec<_>>();
    assert!(matches!(&errors[..], [Ok(_), Err(error)] if error.line == 2), "{errors:?}");
}
