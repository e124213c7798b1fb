//! `#[kernel]`: from a function to a type that implements `Kernel`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, Error, FnArg, GenericParam, Generics, Ident, ItemFn, Pat, Result, ReturnType, Type};

use crate::instance::{Instance, Name};
use crate::options::Options;
use crate::signature;

/// The function, and beside it the kernel's type, its arguments' type, and their implementations.
pub fn expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options: Options = syn::parse2(options)?;
    let mut function: ItemFn = syn::parse2(item)
        .map_err(|error| Error::new(error.span(), format!("#[kernel] goes on a function: {error}")))?;
    check(&function)?;
    let parameters = parameters(&function)?;
    let arguments: Vec<_> = parameters.iter().filter(|(_, ty)| !is_cta(ty)).cloned().collect();

    let name = &function.sig.ident;
    let vis = &function.vis;
    let docs: Vec<&Attribute> = carried(&function, "doc");
    let allows: Vec<&Attribute> = carried(&function, "allow");
    let args_name = Ident::new(&camel(&name.to_string()), name.span());
    let field_generics: Vec<_> = (0..arguments.len()).map(|i| format_ident!("A{i}")).collect();
    let generics = &function.sig.generics;
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let bare = without_bounds(generics);
    let types = generics.type_params().map(|p| &p.ident);
    let phantom = quote!(::core::marker::PhantomData<fn() -> (#(#types,)*)>);

    let (fields, abis): (Vec<_>, Vec<_>) = arguments
        .iter()
        .map(|(ident, ty)| (ident, quote!(<#ty as ::tilewright_device::abi::KernelArg>::Abi)))
        .unzip();
    // A kernel's parameter has a size, and a name in the PTX, even where there is nothing to pass.
    let (pad_field, pad_value) =
        if fields.is_empty() { (quote!(_none: u32,), quote!(_none: 0,)) } else { (quote!(), quote!()) };

    let constants = constants(&options);
    let block = Ident::new("block", Span::mixed_site());
    let pass: Vec<_> = generics.params.iter().filter_map(passed).collect();
    let turbofish = if pass.is_empty() { quote!() } else { quote!(::<#(#pass),*>) };
    let passed = parameters
        .iter()
        .map(|(field, ty)| match (&options.program, is_cta(ty)) {
            (Some(program), true) => Ok(quote!(::tilewright_device::tile::Cta::<#program>::enter())),
            (None, true) => {
                Err(Error::new_spanned(ty, "a `Cta` runs on a schedule: say which, `#[kernel(program = …)]`"))
            }
            (_, false) => Ok(quote! {
                <#ty as ::tilewright_device::abi::KernelArg>::load_in(
                    &raw const (*#block).#field,
                    #block.cast(),
                )
            }),
        })
        .collect::<Result<Vec<_>>>()?;
    let call = quote! {
        // SAFETY: the caller passes initialised arguments in parameter space; the program runs this body once.
        unsafe { #name #turbofish (#(#passed),*) }
    };
    let body = match &options.program {
        // SAFETY of the expansion: `run`'s contract is the program's.
        Some(program) => quote! {
            unsafe {
                ::tilewright_device::arch::declare::computing_threads_are(
                    <#program as ::tilewright_device::kernel::Program>::COMPUTING,
                );
                <#program as ::tilewright_device::kernel::Program>::run(move || #call)
            }
        },
        None => quote! {
            // SAFETY: all of the kernel's threads run its body.
            unsafe {
                ::tilewright_device::arch::declare::computing_threads_are(
                    <Self as ::tilewright_device::kernel::Kernel>::THREADS,
                )
            }
            #call
        },
    };

    let entry = if generics.params.is_empty() {
        let ty: Type = syn::parse_quote!(#name);
        Instance {
            attributes: vec![],
            only: None,
            name: Name { text: name.to_string(), span: name.span() },
            ty,
        }
        .expand()
    } else {
        quote!()
    };
    let signature = signature::expand(&function, &options, &arguments, &args_name, &pad_value)?;
    let args_doc = format!("The arguments of [`{name}`](fn@{name}) as the host passes them.");
    let field_docs = fields.iter().map(|field| format!("`{field}`"));

    let items = quote! {
        #(#docs)*
        #(#allows)*
        #[allow(non_camel_case_types)]
        #vis struct #name #bare { _parameters: #phantom }

        #[doc = #args_doc]
        ///
        /// The kernels of one function whose arguments are of the same types share it.
        #[derive(Clone, Copy)]
        #[repr(C, align(16))]
        #vis struct #args_name<#(#field_generics),*> {
            #(#[doc = #field_docs] pub #fields: #field_generics,)*
            #pad_field
        }

        #(#allows)*
        impl #impl_generics ::tilewright_device::kernel::Kernel for #name #type_generics #where_clause {
            type Args = #args_name<#(#abis),*>;
            #constants

            #[inline(always)]
            unsafe fn run(#block: *const Self::Args) {
                #body
            }
        }

        #signature

        #entry
    };
    function.attrs.push(syn::parse_quote!(#[inline(always)]));
    function.attrs.push(syn::parse_quote!(#[allow(clippy::too_many_arguments)]));
    Ok(quote! { #function #items })
}

/// `Kernel`'s constants.
fn constants(options: &Options) -> TokenStream {
    let arch = quote!(::tilewright_device::kernel::Arch);
    let program = options.program.as_ref().map(|p| quote!(<#p as ::tilewright_device::kernel::Program>));
    let threads = match (&options.threads, &program) {
        (Some(threads), _) => quote!(#threads),
        (None, program) => quote!(#program::THREADS),
    };
    let sm = match (&options.arch, &program) {
        (Some(arch), _) => quote!(#arch),
        (None, Some(program)) => quote!(#program::ARCH),
        (None, None) => quote!(#arch::Sm80),
    };
    let or = |option: &Option<syn::Expr>, default: TokenStream| match option {
        Some(given) => quote!(#given),
        None => default,
    };
    let shared = or(&options.shared, quote!(0));
    let cluster = or(&options.cluster, quote!([1, 1, 1]));
    let min_ctas = or(&options.min_ctas, program.map_or(quote!(1), |program| quote!(#program::CTAS)));
    let local = or(&options.local, quote!(false));
    quote! {
        const ARCH: #arch = #sm;
        const THREADS: u32 = #threads;
        const MIN_CTAS: u32 = #min_ctas;
        const CLUSTER: [u32; 3] = #cluster;
        const SHARED_BYTES: u32 = #shared;
        const LOCAL: bool = #local;
    }
}

/// Refuses functions that cannot be kernels.
fn check(function: &ItemFn) -> Result<()> {
    let sig = &function.sig;
    if let Some(token) = &sig.asyncness {
        return Err(Error::new_spanned(token, "a kernel cannot be async"));
    }
    if let Some(token) = &sig.constness {
        return Err(Error::new_spanned(token, "a kernel cannot be const"));
    }
    if let Some(abi) = &sig.abi {
        return Err(Error::new_spanned(abi, "#[kernel] gives the entry point its ABI: leave `extern` out"));
    }
    if let Some(variadic) = &sig.variadic {
        return Err(Error::new_spanned(variadic, "a kernel's arguments are counted"));
    }
    if let ReturnType::Type(_, ty) = &sig.output {
        return Err(Error::new_spanned(
            ty,
            "a kernel returns nothing: it writes to its `GlobalMut` arguments",
        ));
    }
    if let Some(lifetime) = sig.generics.lifetimes().next() {
        return Err(Error::new_spanned(
            lifetime,
            "a kernel has no lifetime parameters: its arguments are plain data",
        ));
    }
    Ok(())
}

/// Whether this parameter is the CTA, which `run` makes and the host does not pass.
fn is_cta(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Cta"))
}

/// Names and types of the function's parameters; a `Cta` among them at most once.
fn parameters(function: &ItemFn) -> Result<Vec<(Ident, Type)>> {
    let argument = |input: &FnArg| match input {
        FnArg::Receiver(receiver) => Err(Error::new_spanned(receiver, "a kernel is a free function")),
        FnArg::Typed(typed) => {
            let Pat::Ident(pattern) = &*typed.pat else {
                return Err(Error::new_spanned(
                    &typed.pat,
                    "give the argument a name: the host passes it by that",
                ));
            };
            match &*typed.ty {
                Type::ImplTrait(ty) => Err(Error::new_spanned(
                    ty,
                    "a kernel's arguments have named types: use a generic parameter",
                )),
                Type::Reference(ty) => Err(Error::new_spanned(
                    ty,
                    "a kernel takes no references: pass tensors as `Global` or `GlobalMut`, scalars by value",
                )),
                ty => Ok((pattern.ident.clone(), ty.clone())),
            }
        }
    };
    let parameters = function.sig.inputs.iter().map(argument).collect::<Result<Vec<_>>>()?;
    match parameters.iter().filter(|(_, ty)| is_cta(ty)).nth(1) {
        Some((_, ty)) => Err(Error::new_spanned(ty, "a kernel's CTA is one: it hands out the shared memory")),
        None => Ok(parameters),
    }
}

/// `GemmArgs` of `gemm`.
fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    name.split('_').map(capital).chain(["Args".to_owned()]).collect()
}

/// The attributes of this name.
fn carried<'a>(function: &'a ItemFn, name: &str) -> Vec<&'a Attribute> {
    function.attrs.iter().filter(|attribute| attribute.path().is_ident(name)).collect()
}

/// The parameters alone: the kernel's type promises nothing about them, its implementations do.
fn without_bounds(generics: &Generics) -> Generics {
    let mut bare = generics.clone();
    bare.where_clause = None;
    for parameter in bare.type_params_mut() {
        parameter.bounds.clear();
        parameter.colon_token = None;
    }
    bare
}

/// The parameter as an argument.
fn passed(parameter: &GenericParam) -> Option<TokenStream> {
    match parameter {
        GenericParam::Type(ty) => {
            let ident = &ty.ident;
            Some(quote!(#ident))
        }
        GenericParam::Const(constant) => {
            let ident = &constant.ident;
            Some(quote!(#ident))
        }
        GenericParam::Lifetime(_) => None,
    }
}
