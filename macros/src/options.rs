//! The options of `#[kernel]`.

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, Result, Token, Type, parenthesized, token};

const KNOWN: &str = "program, threads, arch, shared, cluster, min_ctas, local, expects";

/// What stands in the parentheses of `#[kernel(…)]`.
#[derive(Default)]
pub struct Options {
    pub program: Option<Type>,
    pub threads: Option<Expr>,
    pub arch: Option<Expr>,
    pub shared: Option<Expr>,
    pub cluster: Option<Expr>,
    pub min_ctas: Option<Expr>,
    pub local: Option<Expr>,
    /// Conditions on the arguments.
    pub expects: Vec<Expr>,
}

impl Parse for Options {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            let known = name.to_string();
            if !KNOWN.split(", ").any(|k| k == known) {
                return Err(Error::new(name.span(), format!("`{name}` is not an option of kernel: {KNOWN}")));
            }
            if known == "expects" {
                options.expects(&name, input)?;
                continue;
            }
            if !input.peek(Token![=]) {
                return Err(Error::new(name.span(), format!("give the option a value: `{name} = …`")));
            }
            input.parse::<Token![=]>()?;
            let fresh = match known.as_str() {
                "program" => options.program.replace(input.parse()?).is_none(),
                "threads" => options.threads.replace(input.parse()?).is_none(),
                "arch" => options.arch.replace(input.parse()?).is_none(),
                "shared" => options.shared.replace(input.parse()?).is_none(),
                "cluster" => options.cluster.replace(input.parse()?).is_none(),
                "min_ctas" => options.min_ctas.replace(input.parse()?).is_none(),
                _ => options.local.replace(input.parse()?).is_none(),
            };
            if !fresh {
                return Err(Error::new(name.span(), format!("`{name}` is given twice")));
            }
            comma(input)?;
        }
        match (&options.program, &options.threads) {
            (None, None) => {
                Err(input
                    .error("say how many threads a CTA has: `threads = 128`, or `program = …`, which knows"))
            }
            (Some(_), Some(threads)) => Err(Error::new_spanned(
                threads,
                "the program says how many threads a CTA has: leave one of the two out",
            )),
            _ => Ok(options),
        }
    }
}

impl Options {
    /// `(CONDITION, …)` behind `expects`.
    fn expects(&mut self, name: &Ident, input: ParseStream) -> Result<()> {
        if !input.peek(token::Paren) {
            return Err(Error::new(name.span(), "give it conditions: `expects(x.cols() == y.rows(), …)`"));
        }
        let conditions;
        parenthesized!(conditions in input);
        self.expects.extend(Punctuated::<Expr, Token![,]>::parse_terminated(&conditions)?);
        comma(input)
    }
}

/// What stands between two options.
fn comma(input: ParseStream) -> Result<()> {
    if !input.is_empty() {
        input.parse::<Token![,]>()?;
    }
    Ok(())
}
