//! Formulas for readers: text, text with numbers inserted, LaTeX.

use std::fmt::{Display, Write};

use super::expr::{Expr, Function, Links, Node, Symbol};
use super::{Cost, Level, Number, Phase};
use crate::base::quantity::{Bandwidth, Bytes, Seconds, SecondsPerByte, Volume, without_zeros};

/// How a formula is written.
#[derive(Debug, Clone, Copy)]
pub enum Notation<'a> {
    /// `2·(N − 1)·α + 2·(N − 1)/N·M/BW`.
    Text,
    /// The same with numbers inserted: `2·(64 − 1)·5 µs + …`.
    Numbers(&'a Values),
    /// The same as LaTeX, without the dollar signs.
    Latex,
    /// A JavaScript expression over `N`, `P`, `G` … Functions that only the algorithm's page
    /// defines are looked up in tables `T`, as given by [`Expr::named_values`]: `T.U[[N]]`.
    JavaScript,
}

/// The numbers that [`Notation::Numbers`] inserts.
#[derive(Debug, Clone, Copy)]
pub struct Values {
    /// N.
    pub ranks: u32,
    /// P.
    pub segments: u32,
    /// G.
    pub group: u32,
    /// M.
    pub size: Volume,
    /// α over any link.
    pub alpha: Seconds,
    /// BW over any link.
    pub bandwidth: Bandwidth,
    /// α inside a domain.
    pub alpha_inner: Seconds,
    /// BW inside a domain.
    pub bandwidth_inner: Bandwidth,
    /// α between domains.
    pub alpha_outer: Seconds,
    /// BW between domains.
    pub bandwidth_outer: Bandwidth,
    /// γ.
    pub gamma: SecondsPerByte,
    /// α_sw.
    pub alpha_switch: Seconds,
    /// α_sw between domains.
    pub alpha_switch_outer: Seconds,
}

impl Level {
    /// The letters of its links, and of a hop through its switch.
    pub(crate) fn letters(self) -> (Links, Symbol) {
        match self {
            Self::Flat => (Links::Any, Symbol::AlphaSwitch),
            Self::Inner => (Links::Inner, Symbol::AlphaSwitch),
            Self::Outer => (Links::Outer, Symbol::AlphaSwitchOuter),
        }
    }
}

impl Cost<Expr> {
    /// The whole formula: Σ n_α·α + n_β·M/BW + n_γ·M·γ + n_sw·α_sw over the phases.
    ///
    /// `gamma`: whether the reduction is included.
    #[must_use]
    pub fn formula(&self, gamma: bool) -> Expr {
        let letter = Expr::symbol;
        let add = |sum: Expr, phase: &Phase<Expr>| {
            let (links, hop) = phase.level.letters();
            let sum = sum + phase.switch.clone() * letter(hop);
            let sum = sum + phase.alpha.clone() * letter(Symbol::Alpha(links));
            let transfer = letter(Symbol::M) / letter(Symbol::Bandwidth(links));
            sum + phase.beta.clone() * transfer
        };
        let reduced = |sum: Expr, phase: &Phase<Expr>| match gamma {
            true => sum + phase.gamma.clone() * letter(Symbol::M) * letter(Symbol::Gamma),
            false => sum,
        };
        let sum = self.in_turn().fold(Expr::int(0), |sum, phase| reduced(add(sum, phase), phase));
        // A rank adds while its ports work.
        let ports = self.beside().map(|phase| add(Expr::int(0), phase));
        let adds = self.beside().fold(Expr::int(0), reduced);
        sum + Expr::max(ports.chain([adds]))
    }
}

impl Expr {
    /// The formula in the given notation.
    #[must_use]
    pub fn write(&self, notation: Notation<'_>) -> String {
        let mut out = String::new();
        write_expr(&mut out, self, notation, Strength::Sum);
        out
    }
}

/// The binding strength of a position; a weaker expression there needs parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Sum,
    Product,
    Atom,
}

fn strength(expr: &Expr, notation: Notation<'_>) -> Strength {
    match expr.node() {
        Node::Add(..) | Node::Sub(..) => Strength::Sum,
        Node::Div(..) if matches!(notation, Notation::Latex) => Strength::Atom,
        Node::Mul(..) | Node::Div(..) => Strength::Product,
        // `100 GB/s` contains a slash.
        Node::Symbol(Symbol::Bandwidth(_) | Symbol::Gamma)
            if matches!(notation, Notation::Numbers(_)) =>
        {
            Strength::Product
        }
        _ => Strength::Atom,
    }
}

fn write_expr(out: &mut String, expr: &Expr, notation: Notation<'_>, place: Strength) {
    if strength(expr, notation) < place {
        let mut inner = String::new();
        write_expr(&mut inner, expr, notation, Strength::Sum);
        return fence(out, ("(", ")"), &inner);
    }
    let latex = matches!(notation, Notation::Latex);
    let script = matches!(notation, Notation::JavaScript);
    let mut binary = |a: &Expr, sign: &str, b: &Expr, left: Strength, right: Strength| {
        write_expr(out, a, notation, left);
        out.push_str(sign);
        write_expr(out, b, notation, right);
    };
    use Strength::{Atom, Product, Sum};
    match expr.node() {
        Node::Add(a, b) => binary(a, " + ", b, Sum, Sum),
        Node::Sub(a, b) => {
            binary(a, if latex || script { " - " } else { " − " }, b, Sum, Product);
        }
        Node::Mul(a, b) => {
            // A unit such as `450 GB/s` only appears after a division, where it is bracketed.
            let sign = match notation {
                Notation::Latex => " \\cdot ",
                Notation::JavaScript => "*",
                _ => "·",
            };
            binary(a, sign, b, Product, Product);
        }
        Node::Div(a, b) if latex => {
            out.push_str("\\frac{");
            write_expr(out, a, notation, Sum);
            out.push_str("}{");
            write_expr(out, b, notation, Sum);
            out.push('}');
        }
        Node::Div(a, b) => binary(a, "/", b, Product, Atom),
        Node::Int(value) => push(out, format_args!("{value}")),
        Node::Real(symbol, value) => match notation {
            Notation::Text => out.push_str(letter(*symbol)),
            Notation::Latex => out.push_str(latex_letter(*symbol)),
            Notation::Numbers(_) | Notation::JavaScript => push(out, format_args!("{value}")),
        },
        Node::Symbol(symbol) => match notation {
            Notation::Text => out.push_str(letter(*symbol)),
            Notation::JavaScript => out.push_str(name(*symbol)),
            Notation::Latex => out.push_str(latex_letter(*symbol)),
            Notation::Numbers(values) => write_value(out, *symbol, values),
        },
        Node::Call(function, arguments) => write_call(out, *function, arguments, notation),
    }
}

fn write_call(out: &mut String, function: Function, arguments: &[Expr], notation: Notation<'_>) {
    if let (Function::Named(..), Notation::Numbers(values)) = (function, notation) {
        // Readers cannot look up what the algorithm's page calls U(12).
        let arguments: Vec<f64> = arguments.iter().map(|a| a.evaluate(&counts(values))).collect();
        return push(out, format_args!("{}", function.value(&arguments)));
    }
    if matches!(notation, Notation::JavaScript) {
        return write_script_call(out, function, arguments);
    }
    let latex = matches!(notation, Notation::Latex);
    let ceil = if latex { ("\\lceil ", " \\rceil") } else { ("⌈", "⌉") };
    let floor = if latex { ("\\lfloor ", " \\rfloor") } else { ("⌊", "⌋") };
    let mut inner = String::new();
    // A logarithm takes an atom; brackets and argument lists take anything.
    let place = match function {
        Function::CeilLg | Function::FloorLg | Function::PowerBelow => {
            inner.push_str(if latex { "\\lg " } else { "lg " });
            Strength::Atom
        }
        _ => Strength::Sum,
    };
    for (i, argument) in arguments.iter().enumerate() {
        inner.push_str(if i > 0 { ", " } else { "" });
        write_expr(&mut inner, argument, notation, place);
    }
    match function {
        Function::Max => {
            out.push_str(if latex { "\\max" } else { "max" });
            fence(out, ("(", ")"), &inner);
        }
        Function::CeilLg | Function::Ceil => fence(out, ceil, &inner),
        Function::FloorLg | Function::Floor => fence(out, floor, &inner),
        Function::PowerBelow => {
            out.push_str(if latex { "2^{" } else { "2^" });
            fence(out, floor, &inner);
            out.push_str(if latex { "}" } else { "" });
        }
        Function::Named(named) => {
            if latex {
                push(out, format_args!("\\mathrm{{{}}}", named.name.replace('_', "\\_")));
            } else {
                out.push_str(named.name);
            }
            fence(out, ("(", ")"), &inner);
        }
    }
}

/// A function's call in JavaScript.
fn write_script_call(out: &mut String, function: Function, arguments: &[Expr]) {
    let listed: Vec<String> = arguments.iter().map(|a| a.write(Notation::JavaScript)).collect();
    let listed = listed.join(",");
    match function {
        Function::CeilLg => push(out, format_args!("ceilLg({listed})")),
        Function::FloorLg => push(out, format_args!("floorLg({listed})")),
        Function::PowerBelow => push(out, format_args!("powerBelow({listed})")),
        Function::Floor => push(out, format_args!("floor({listed})")),
        Function::Ceil => push(out, format_args!("ceil({listed})")),
        Function::Max => push(out, format_args!("max({listed})")),
        Function::Named(named) => push(out, format_args!("T.{}[[{listed}]]", named.name)),
    }
}

/// A symbol as an identifier in a program.
fn name(symbol: Symbol) -> &'static str {
    match symbol {
        Symbol::Alpha(Links::Any) => "alpha",
        Symbol::Alpha(Links::Inner) => "alpha1",
        Symbol::Alpha(Links::Outer) => "alpha2",
        Symbol::Bandwidth(Links::Any) => "bw",
        Symbol::Bandwidth(Links::Inner) => "bw1",
        Symbol::Bandwidth(Links::Outer) => "bw2",
        Symbol::Gamma => "gamma",
        Symbol::AlphaSwitch => "alphaSwitch",
        Symbol::AlphaSwitchOuter => "alphaSwitch2",
        plain => letter(plain),
    }
}

/// The integer symbols: functions take only these.
fn counts(values: &Values) -> impl Fn(Symbol) -> f64 {
    let (n, p, g) = (values.ranks, values.segments, values.group);
    move |symbol| match symbol {
        Symbol::N => n.into(),
        Symbol::P => p.into(),
        Symbol::G => g.into(),
        _ => f64::NAN,
    }
}

/// Puts `inner` in brackets; LaTeX makes them as tall as a fraction in them.
fn fence(out: &mut String, (open, close): (&str, &str), inner: &str) {
    let tall = inner.contains("\\frac");
    let (left, right) = if tall { ("\\left", "\\right") } else { ("", "") };
    for part in [left, open, inner, right, close] {
        out.push_str(part);
    }
}

fn letter(symbol: Symbol) -> &'static str {
    match symbol {
        Symbol::N => "N",
        Symbol::P => "P",
        Symbol::G => "G",
        Symbol::M => "M",
        Symbol::Alpha(Links::Any) => "α",
        Symbol::Alpha(Links::Inner) => "α₁",
        Symbol::Alpha(Links::Outer) => "α₂",
        Symbol::Bandwidth(Links::Any) => "BW",
        Symbol::Bandwidth(Links::Inner) => "BW₁",
        Symbol::Bandwidth(Links::Outer) => "BW₂",
        Symbol::Gamma => "γ",
        Symbol::AlphaSwitch => "α_sw",
        Symbol::AlphaSwitchOuter => "α_sw₂",
        Symbol::CReal => "c",
        Symbol::RootSpeedup => "r",
    }
}

fn latex_letter(symbol: Symbol) -> &'static str {
    match symbol {
        Symbol::Alpha(Links::Any) => "\\alpha",
        Symbol::Alpha(Links::Inner) => "\\alpha_1",
        Symbol::Alpha(Links::Outer) => "\\alpha_2",
        Symbol::Bandwidth(Links::Any) => "\\mathrm{BW}",
        Symbol::Bandwidth(Links::Inner) => "\\mathrm{BW}_1",
        Symbol::Bandwidth(Links::Outer) => "\\mathrm{BW}_2",
        Symbol::Gamma => "\\gamma",
        Symbol::AlphaSwitch => "\\alpha_\\mathrm{sw}",
        Symbol::AlphaSwitchOuter => "\\alpha_{\\mathrm{sw},2}",
        plain => letter(plain),
    }
}

fn write_value(out: &mut String, symbol: Symbol, values: &Values) {
    match symbol {
        Symbol::N => push(out, format_args!("{}", values.ranks)),
        Symbol::P => push(out, format_args!("{}", values.segments)),
        Symbol::G => push(out, format_args!("{}", values.group)),
        // Whole bytes in the unit that was probably intended.
        Symbol::M if values.size.0.fract() == 0.0 => {
            out.push_str(&six_digits(&Bytes(values.size.0 as u64)));
        }
        Symbol::M => out.push_str(&six_digits(&values.size)),
        Symbol::Alpha(Links::Outer) => out.push_str(&six_digits(&values.alpha_outer)),
        Symbol::Alpha(Links::Inner) => out.push_str(&six_digits(&values.alpha_inner)),
        Symbol::Alpha(Links::Any) => out.push_str(&six_digits(&values.alpha)),
        Symbol::Bandwidth(Links::Outer) => out.push_str(&six_digits(&values.bandwidth_outer)),
        Symbol::Bandwidth(Links::Inner) => out.push_str(&six_digits(&values.bandwidth_inner)),
        Symbol::Bandwidth(Links::Any) => out.push_str(&six_digits(&values.bandwidth)),
        Symbol::Gamma => out.push_str(&six_digits(&values.gamma)),
        Symbol::AlphaSwitch => out.push_str(&six_digits(&values.alpha_switch)),
        Symbol::AlphaSwitchOuter => out.push_str(&six_digits(&values.alpha_switch_outer)),
        Symbol::CReal | Symbol::RootSpeedup => out.push_str(letter(symbol)),
    }
}

/// A quantity with up to six digits, so that a calculator reproduces the price from the line.
fn six_digits(quantity: &impl Display) -> String {
    let exact = format!("{quantity:.15}");
    let Some((number, unit)) = exact.split_once(' ') else { return exact };
    let Ok(value) = number.parse::<f64>() else { return exact };
    // As many decimals as six digits after leading zeros need; digits before the point are kept.
    let decimals = (5.0 - value.abs().log10().floor()).clamp(0.0, 20.0) as usize;
    let number = format!("{value:.decimals$}");
    let number = without_zeros(&number);
    format!("{number} {unit}")
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::super::Named;
    use super::*;

    static PRODUCT: Named =
        Named { name: "U", means: "U(x, …) = x·…", rule: |of| of.iter().product() };

    /// Values for all symbols, none of them round.
    fn values(size: f64) -> Values {
        Values {
            ranks: 12,
            segments: 5,
            group: 4,
            size: Volume(size),
            alpha: Seconds(3.7e-6),
            bandwidth: Bandwidth(46.3e9),
            alpha_inner: Seconds(3.7e-6),
            bandwidth_inner: Bandwidth(46.3e9),
            alpha_outer: Seconds(11.9e-6),
            bandwidth_outer: Bandwidth(24_123_456_789.0),
            gamma: SecondsPerByte(23.125e-12),
            alpha_switch: Seconds(431.7e-9),
            alpha_switch_outer: Seconds(700e-9),
        }
    }

    #[test]
    fn quantities_have_six_digits_at_most() {
        let table = [
            (Bandwidth(450e9), "450 GB/s"),
            (Bandwidth(24_123_456_789.0), "24.1235 GB/s"),
            (Bandwidth(1.234_567_89e9), "1.23457 GB/s"),
            (Bandwidth(1_234.567_89), "0.00000123457 GB/s"),
            (Bandwidth(0.0), "0 GB/s"),
        ];
        for (quantity, text) in table {
            assert_eq!(six_digits(&quantity), text);
        }
        // Digits before the point are never cut.
        assert_eq!(six_digits(&Seconds(12_345_670.0)), "12345670 s");
    }

    #[test]
    fn whole_bytes_stand_in_the_unit_that_they_were_meant_in() {
        let text = |size| Expr::symbol(Symbol::M).write(Notation::Numbers(&values(size)));
        assert_eq!([4096.0, 5e6, 2.5].map(text), ["4 KiB", "5 MB", "2.5 B"]);
    }

    #[test]
    fn javascript_has_its_own_signs_and_looks_up_what_it_cannot_compute() {
        let product = Function::Named(&PRODUCT);
        let [n, p] = [Symbol::N, Symbol::P].map(Expr::symbol);
        let log = Expr::call(Function::CeilLg, &[&n], 0);
        let call = Expr::call(product, &[&n, &Expr::int(3)], 0);
        let formula = (n - Expr::int(1)) / p * log - call;
        assert_eq!(formula.write(Notation::JavaScript), "(N - 1)/P*ceilLg(N) - T.U[[N,3]]");
        let found = formula.named_values(&|_| 12.0);
        assert_eq!(found, [("U", "12,3".to_owned(), 36)]);
    }

    #[test]
    fn a_function_of_the_page_is_written_as_its_value() {
        let product = Function::Named(&PRODUCT);
        let [n, p, g] = [Symbol::N, Symbol::P, Symbol::G].map(Expr::symbol);
        let formula = Expr::call(product, &[&n, &p, &g], 0);
        assert_eq!(formula.write(Notation::Text), "U(N, P, G)");
        assert_eq!(formula.write(Notation::Latex), r"\mathrm{U}(N, P, G)");
        assert_eq!(formula.write(Notation::Numbers(&values(1.0))), "240");
    }

    #[test]
    fn a_logarithm_of_a_fraction_needs_brackets_in_text_only() {
        let [n, g] = [Symbol::N, Symbol::G].map(Expr::symbol);
        let formula = Expr::call(Function::CeilLg, &[&(n / g)], 0);
        assert_eq!(formula.write(Notation::Text), "⌈lg (N/G)⌉");
        assert_eq!(formula.write(Notation::Latex), r"\left\lceil \lg \frac{N}{G}\right \rceil");
    }
}
