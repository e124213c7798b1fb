//! What `device_print!` and `device_assert!` expand to: a format of C's `printf`, made when compiling, and its arguments.
//!
//! All arguments are passed as 8 bytes, so that they lie one after the other without gaps.

use core::marker::PhantomData;

use half::{bf16, f16};

use crate::arch::print::{kernel_name, vprintf};
use crate::arch::special;
use crate::layout::Element;

/// A value that kernels can print.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot print `{Self}`",
    note = "it prints numbers, `bool` and pointers: f32, u32, …"
)]
pub trait Printed: Copy {
    /// Its conversion in a format, without `%`.
    const CONVERSION: &'static str;

    /// The 8 bytes that are passed.
    fn word(self) -> u64;

    /// Its own bytes and zeros, for hexadecimal digits.
    fn bits(self) -> u64 {
        self.word()
    }
}

macro_rules! printed {
    ($($T:ty, $conversion:literal, |$x:ident| $word:expr $(, $bits:expr)?;)*) => { $(
        impl Printed for $T {
            const CONVERSION: &'static str = $conversion;
            #[inline(always)]
            fn word(self) -> u64 {
                let $x = self;
                $word
            }
            $(
                #[inline(always)]
                fn bits(self) -> u64 {
                    let $x = self;
                    $bits
                }
            )?
        }
    )* };
}
printed! {
    u8, "llu", |x| x as u64;
    u16, "llu", |x| x as u64;
    u32, "llu", |x| x as u64;
    u64, "llu", |x| x;
    usize, "llu", |x| x as u64;
    i8, "lld", |x| x as i64 as u64, x as u8 as u64;
    i16, "lld", |x| x as i64 as u64, x as u16 as u64;
    i32, "lld", |x| x as i64 as u64, x as u32 as u64;
    i64, "lld", |x| x as u64;
    isize, "lld", |x| x as u64;
    bool, "llu", |x| x as u64;
    f64, "g", |x| x.to_bits();
    f32, "g", |x| (x as f64).to_bits(), x.to_bits() as u64;
    f16, "g", |x| (Element::to_f32(x) as f64).to_bits(), x.to_bits() as u64;
    bf16, "g", |x| (Element::to_f32(x) as f64).to_bits(), x.to_bits() as u64;
}

impl<T> Printed for *const T {
    const CONVERSION: &'static str = "p";
    #[inline(always)]
    fn word(self) -> u64 {
        self.addr() as u64
    }
}

impl<T> Printed for *mut T {
    const CONVERSION: &'static str = "p";
    #[inline(always)]
    fn word(self) -> u64 {
        self.addr() as u64
    }
}

impl<T: Printed> Printed for &T {
    const CONVERSION: &'static str = T::CONVERSION;
    #[inline(always)]
    fn word(self) -> u64 {
        (*self).word()
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        (*self).bits()
    }
}

/// A value of which the bits are printed.
#[derive(Clone, Copy)]
pub struct Bits<T>(pub T);

impl<T: Printed> Printed for Bits<T> {
    const CONVERSION: &'static str = "llu";
    #[inline(always)]
    fn word(self) -> u64 {
        self.0.bits()
    }
}

/// A part of a message.
#[derive(Clone, Copy)]
pub enum Piece {
    /// Text as it is.
    Text(&'static str),
    /// The next argument: flags, width and precision, and the conversion, if it is not the type's.
    Value(&'static str, &'static str),
}

/// A message that a macro's call makes.
pub trait Message {
    /// Where it stands: the author's own file.
    const FILE: &'static str;
    /// The line there.
    const LINE: u32;
    /// Its parts.
    const PIECES: &'static [Piece];
}

/// The arguments of a message: pairs of the first and the others, and nothing at the end.
pub trait Values: Copy {
    /// How many there are.
    const COUNT: usize;
    /// The conversion of each.
    const CONVERSIONS: Conversions;
    /// Writes them to the front of the buffer.
    fn write(self, words: &mut [u64; MOST]);
}

/// Conversions of a list.
#[derive(Clone, Copy)]
pub struct Conversions {
    first: &'static str,
    rest: Option<&'static Conversions>,
}

impl Values for () {
    const COUNT: usize = 0;
    const CONVERSIONS: Conversions = Conversions { first: "", rest: None };
    #[inline(always)]
    fn write(self, _: &mut [u64; MOST]) {}
}

impl<T: Printed, R: Values> Values for (T, R) {
    const COUNT: usize = R::COUNT + 1;
    const CONVERSIONS: Conversions = Conversions { first: T::CONVERSION, rest: Some(&R::CONVERSIONS) };
    #[inline(always)]
    fn write(self, words: &mut [u64; MOST]) {
        // From the last to the first: the position is known from how many follow.
        words[MOST - Self::COUNT] = self.0.word();
        self.1.write(words);
    }
}

/// What every message begins with: the kernel's name, the CTA, the thread.
const HEAD: usize = 5;
/// Words of a message at most: CUDA prints 32 arguments.
const MOST: usize = 32;
/// Bytes of a format at most.
const LONGEST: usize = 2048;

/// The format of a message with arguments of these types.
struct Format<M, V>(PhantomData<(M, V)>);

impl<M: Message, V: Values> Format<M, V> {
    const TEXT: Text = Text::of(M::FILE, M::LINE, M::PIECES, &V::CONVERSIONS);
    const BYTES: &'static [u8; LONGEST] = &Self::TEXT.bytes;
}

/// A format while it is written.
struct Text {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Text {
    const fn of(file: &str, line: u32, pieces: &[Piece], mut values: &'static Conversions) -> Self {
        let mut text = Self { bytes: [0; LONGEST], length: 0 };
        text.escaped(file);
        text.push(b':');
        text.number(line);
        text.plain(", kernel %s, CTA (%llu, %llu, %llu), thread %llu: ");
        let mut i = 0;
        while i < pieces.len() {
            match pieces[i] {
                Piece::Text(part) => text.escaped(part),
                Piece::Value(options, conversion) => {
                    assert!(values.rest.is_some(), "the text has more places than values");
                    let own = values.first.as_bytes();
                    if let [b'f' | b'e' | b'E', ..] = conversion.as_bytes() {
                        assert!(
                            matches!(own, [b'g']),
                            "a precision and an exponent are for f16, bf16, f32 and f64"
                        );
                    }
                    text.push(b'%');
                    text.number_of(options);
                    text.number_of(if conversion.is_empty() { values.first } else { conversion });
                    if let Some(rest) = values.rest {
                        values = rest;
                    }
                }
            }
            i += 1;
        }
        text.push(b'\n');
        text
    }

    const fn push(&mut self, byte: u8) {
        // The last stays zero: it ends the text.
        assert!(self.length < LONGEST - 1, "the message is too long to be printed");
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    const fn plain(&mut self, part: &str) {
        let mut i = 0;
        while i < part.len() {
            self.push(part.as_bytes()[i]);
            i += 1;
        }
    }

    /// A part of a conversion of 8 bytes or fewer, which are a number: no string is read, and no width of its own.
    const fn number_of(&mut self, part: &str) {
        let mut i = 0;
        while i < part.len() {
            let byte = part.as_bytes()[i];
            assert!(!matches!(byte, b's' | b'n' | b'*' | b'%'), "kernels print numbers");
            i += 1;
        }
        self.plain(part);
    }

    /// Text in which a percent sign is one.
    const fn escaped(&mut self, part: &str) {
        let mut i = 0;
        while i < part.len() {
            let byte = part.as_bytes()[i];
            if byte == b'%' {
                self.push(b'%');
            }
            self.push(byte);
            i += 1;
        }
    }

    const fn number(&mut self, number: u32) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.push(b'0' + (number % 10) as u8);
    }
}

/// Prints the message for the thread that calls it.
#[inline(never)]
pub fn print<M: Message, V: Values>(values: V) {
    const { assert!(V::COUNT + HEAD <= MOST, "a message has at most 27 arguments") }
    let mut words = [0; MOST];
    values.write(&mut words);
    let thread = special::thread_x();
    let head: [u64; HEAD] = [
        kernel_name().addr() as u64,
        special::block_x().into(),
        special::block_y().into(),
        special::block_z().into(),
        thread.into(),
    ];
    let first = MOST - V::COUNT - HEAD;
    words[first..first + HEAD].copy_from_slice(&head);
    // SAFETY: the text ends with a zero, and names the words from the first on.
    unsafe { vprintf(Format::<M, V>::BYTES.as_ptr(), words.as_ptr().add(first).cast()) };
}

/// The same, then stops the kernel.
#[inline(never)]
pub fn fail<M: Message, V: Values>(values: V) -> ! {
    print::<M, V>(values);
    special::trap()
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use super::*;

    struct Here;
    impl Message for Here {
        const FILE: &'static str = "src/a%b.rs";
        const LINE: u32 = 107;
        const PIECES: &'static [Piece] = &[
            Piece::Text("x = "),
            Piece::Value("8.3", "f"),
            Piece::Text(" of "),
            Piece::Value("", ""),
            Piece::Text(" 100%"),
        ];
    }

    fn text<M: Message, V: Values>() -> &'static str {
        let text = CStr::from_bytes_until_nul(Format::<M, V>::BYTES).expect("it ends");
        text.to_str().expect("it is UTF-8")
    }

    #[test]
    fn formats_are_of_the_types() {
        let expected =
            "src/a%%b.rs:107, kernel %s, CTA (%llu, %llu, %llu), thread %llu: x = %8.3f of %lld 100%%\n";
        assert_eq!(text::<Here, (f32, (i32, ()))>(), expected);
        let mut words = [7; MOST];
        (-1_i32, (0.5_f32, (Bits(-1_i16), ()))).write(&mut words);
        assert_eq!(words[MOST - 4..], [7, u64::MAX, 0.5_f64.to_bits(), 0xffff]);
    }
}
