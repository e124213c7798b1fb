//! `kernels!`: from kernels' types to entry points in the PTX, and the table that the host chooses from.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{
    Attribute, Error, Ident, Result, Token, Type, Visibility, braced, bracketed, parenthesized, token,
};

use crate::instance::Instance;

/// The entry points and the table.
pub fn expand(input: TokenStream) -> Result<TokenStream> {
    let List { table, instances } = syn::parse2(input)?;
    let entries: TokenStream = instances.iter().map(Instance::expand).collect();
    let table = table.map(|table| table.expand(&instances));
    Ok(quote! { #entries #table })
}

/// `pub static NAME: DESCRIPTION;`, and the rows.
struct List {
    table: Option<Table>,
    instances: Vec<Instance>,
}

impl Parse for List {
    fn parse(input: ParseStream) -> Result<Self> {
        let table = if Table::begins(input) { Some(input.parse()?) } else { None };
        let mut instances = Vec::new();
        rows(input, &mut instances)?;
        Ok(Self { table, instances })
    }
}

/// What the host sees of the list.
struct Table {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    description: Type,
}

impl Table {
    fn begins(input: ParseStream) -> bool {
        let ahead = input.fork();
        ahead.call(Attribute::parse_outer).is_ok()
            && ahead.parse::<Visibility>().is_ok()
            && ahead.peek(Token![static])
    }

    fn expand(&self, instances: &[Instance]) -> TokenStream {
        let Self { attributes, visibility, name, description } = self;
        let listed = quote!(::tilewright_device::kernel::Listed);
        let rows = instances.iter().map(|Instance { attributes, ty, .. }| {
            let cfgs = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
            quote!(#(#cfgs)* #listed::of::<#ty>())
        });
        quote! {
            #(#attributes)*
            #visibility static #name: &[#listed<#description>] = &[#(#rows),*];
        }
    }
}

impl Parse for Table {
    fn parse(input: ParseStream) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        input.parse::<Token![static]>()?;
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        let description = input.parse()?;
        input.parse::<Token![;]>()?;
        Ok(Self { attributes, visibility, name, description })
    }
}

/// Rows, loops and named lists of values, to the end.
fn rows(input: ParseStream, instances: &mut Vec<Instance>) -> Result<()> {
    while !input.is_empty() {
        if input.peek(Token![let]) {
            let Named { name, values } = input.parse()?;
            let rest = substitute(input.parse()?, &[name], &[values]);
            return read(rest, instances);
        }
        if input.peek(Token![for]) {
            let Loops { variables, body } = input.parse()?;
            repeat(&variables, body, instances)?;
            continue;
        }
        instances.push(input.parse()?);
        if !input.is_empty() {
            input.parse::<Token![;]>()?;
        }
    }
    Ok(())
}

/// Reads rows from tokens that were made of others.
fn read(tokens: TokenStream, instances: &mut Vec<Instance>) -> Result<()> {
    (|input: ParseStream| rows(input, instances)).parse2(tokens)
}

/// `let NAME = [a, b];`
struct Named {
    name: Ident,
    values: TokenStream,
}

impl Parse for Named {
    fn parse(input: ParseStream) -> Result<Self> {
        input.parse::<Token![let]>()?;
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let list;
        bracketed!(list in input);
        let values: TokenStream = list.parse()?;
        input.parse::<Token![;]>()?;
        Ok(Self { name, values: quote!([#values]) })
    }
}

/// Reads `body` once for each combination of the loops' values, the last loop's the fastest.
fn repeat(loops: &[Loop], body: TokenStream, instances: &mut Vec<Instance>) -> Result<()> {
    let Some((first, rest)) = loops.split_first() else { return read(body, instances) };
    for values in &first.values {
        let replaced = |tokens| substitute(tokens, &first.variables, values);
        let rest: Vec<_> = rest.iter().map(|inner| inner.map(replaced)).collect();
        repeat(&rest, replaced(body.clone()), instances)?;
    }
    Ok(())
}

/// `for x in [a, b], (y, z) in [(c, d), (e, f)] { … }`
struct Loops {
    variables: Vec<Loop>,
    body: TokenStream,
}

impl Parse for Loops {
    fn parse(input: ParseStream) -> Result<Self> {
        input.parse::<Token![for]>()?;
        let mut variables = vec![input.parse()?];
        while input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
            variables.push(input.parse()?);
        }
        let body;
        braced!(body in input);
        Ok(Self { variables, body: body.parse()? })
    }
}

/// Variables, and their values in each turn.
struct Loop {
    variables: Vec<Ident>,
    values: Vec<Vec<TokenStream>>,
}

impl Loop {
    fn map(&self, f: impl Fn(TokenStream) -> TokenStream) -> Self {
        let values = self.values.iter().map(|turn| turn.iter().cloned().map(&f).collect()).collect();
        Self { variables: self.variables.clone(), values }
    }
}

impl Parse for Loop {
    fn parse(input: ParseStream) -> Result<Self> {
        let several = input.peek(token::Paren);
        let variables = if several {
            let names;
            parenthesized!(names in input);
            names.parse_terminated(Ident::parse, Token![,])?.into_iter().collect()
        } else {
            vec![input.parse()?]
        };
        input.parse::<Token![in]>()?;
        let list;
        let bracket = bracketed!(list in input);
        let mut values = Vec::new();
        for turn in split(list.parse()?) {
            values.push(if several { parts(turn, variables.len())? } else { vec![turn] });
        }
        if values.is_empty() {
            return Err(Error::new(bracket.span.join(), "a loop over nothing makes no kernel"));
        }
        Ok(Self { variables, values })
    }
}

/// The values of a turn with several variables.
fn parts(turn: TokenStream, count: usize) -> Result<Vec<TokenStream>> {
    let wrong = || {
        let message = format!("a turn of {count} variables is {count} values in parentheses");
        Error::new_spanned(&turn, message)
    };
    let mut tokens = turn.clone().into_iter();
    let (Some(TokenTree::Group(group)), None) = (tokens.next(), tokens.next()) else { return Err(wrong()) };
    let parts = split(group.stream());
    if group.delimiter() != Delimiter::Parenthesis || parts.len() != count {
        return Err(wrong());
    }
    Ok(parts)
}

/// The parts between commas that stand in no group and between no angle brackets; a comma at the end is none.
fn split(tokens: TokenStream) -> Vec<TokenStream> {
    let mut parts = vec![Vec::new()];
    let mut angles = 0_usize;
    for token in tokens {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == '<' => angles += 1,
            TokenTree::Punct(punct) if punct.as_char() == '>' => angles = angles.saturating_sub(1),
            TokenTree::Punct(punct) if punct.as_char() == ',' && angles == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(token);
        }
    }
    if parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    parts.into_iter().map(TokenStream::from_iter).collect()
}

/// The tokens with each variable replaced by its value.
fn substitute(tokens: TokenStream, variables: &[Ident], values: &[TokenStream]) -> TokenStream {
    let one = |token| match token {
        TokenTree::Ident(ident) => match variables.iter().position(|variable| *variable == ident) {
            Some(i) => values[i].clone(),
            None => TokenTree::from(ident).into(),
        },
        TokenTree::Group(group) => {
            let inside = substitute(group.stream(), variables, values);
            let mut replaced = Group::new(group.delimiter(), inside);
            replaced.set_span(group.span());
            TokenTree::from(replaced).into()
        }
        other => TokenStream::from(other),
    };
    tokens.into_iter().flat_map(one).collect()
}
