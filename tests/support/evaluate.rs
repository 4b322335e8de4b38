//! A reader of printed formulas: it knows the notation, and nothing of how it was made.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use collcost::model::formula::Rule;

/// What the letters and named functions of a formula mean.
#[derive(Default)]
pub struct Meaning {
    pub letters: BTreeMap<&'static str, f64>,
    pub functions: BTreeMap<&'static str, Rule>,
}

/// The value of a formula in the text notation.
pub fn text(formula: &str, meaning: &Meaning) -> Result<f64, String> {
    Reader { tokens: text_tokens(formula)?, next: 0, meaning }.all(formula)
}

/// The value of a formula in LaTeX.
pub fn latex(formula: &str, meaning: &Meaning) -> Result<f64, String> {
    Reader { tokens: latex_tokens(formula)?, next: 0, meaning }.all(formula)
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Sign(char),
    Fraction,
    Lg,
}

const UNITS: &[(&str, f64)] = &[
    ("TiB", 1_099_511_627_776.0),
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("TB", 1e12),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("KiB", 1024.0),
    ("B", 1.0),
    ("s", 1.0),
    ("ms", 1e-3),
    ("µs", 1e-6),
    ("ns", 1e-9),
    ("GB/s", 1e9),
    ("ps/B", 1e-12),
];

type Letters<'a> = Peekable<Chars<'a>>;

fn take(letters: &mut Letters<'_>, wanted: impl Fn(char) -> bool) -> String {
    std::iter::from_fn(|| letters.next_if(|&c| wanted(c))).collect()
}

fn number(letters: &mut Letters<'_>) -> Result<f64, String> {
    let digits = take(letters, |c| c.is_ascii_digit() || c == '.');
    digits.parse().map_err(|_| format!("`{digits}` is no number"))
}

fn text_tokens(formula: &str) -> Result<Vec<Token>, String> {
    let mut letters = formula.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(&c) = letters.peek() {
        tokens.push(match c {
            ' ' => {
                letters.next();
                continue;
            }
            '0'..='9' => Token::Number(number(&mut letters)? * unit(&mut letters)?),
            _ if c.is_alphabetic() => {
                match take(&mut letters, |c| c.is_alphanumeric() || matches!(c, '_' | '\'')) {
                    lg if lg == "lg" => Token::Lg,
                    name => Token::Name(name),
                }
            }
            '+' | '−' | '·' | '/' | '(' | ')' | ',' | '⌈' | '⌉' | '⌊' | '⌋' | '^' => {
                letters.next();
                Token::Sign(c)
            }
            _ => return Err(format!("`{c}` in `{formula}`")),
        });
    }
    Ok(tokens)
}

/// The unit behind a number and a blank, the longest that fits; 1 where there is none.
fn unit(letters: &mut Letters<'_>) -> Result<f64, String> {
    let rest: String = letters.clone().collect();
    let Some(rest) = rest.strip_prefix(' ').filter(|r| r.starts_with(char::is_alphabetic)) else {
        return Ok(1.0);
    };
    let fits = |name: &&(&str, f64)| {
        rest.strip_prefix(name.0).is_some_and(|after| !after.starts_with(char::is_alphabetic))
    };
    let (name, scale) = UNITS
        .iter()
        .filter(fits)
        .max_by_key(|(name, _)| name.len())
        .ok_or_else(|| format!("no unit starts `{rest}`"))?;
    letters.nth(name.chars().count());
    Ok(*scale)
}

fn latex_tokens(formula: &str) -> Result<Vec<Token>, String> {
    let mut letters = formula.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(&c) = letters.peek() {
        match c {
            ' ' => {
                letters.next();
            }
            '0'..='9' => tokens.push(Token::Number(number(&mut letters)?)),
            'A'..='Z' | 'a'..='z' => {
                letters.next();
                tokens.push(Token::Name(c.to_string()));
            }
            '\\' => {
                letters.next();
                let command = take(&mut letters, |c| c.is_ascii_alphabetic());
                tokens.push(match command.as_str() {
                    "alpha" => Token::Name("α".to_owned()),
                    "gamma" => Token::Name("γ".to_owned()),
                    "mathrm" => Token::Name(braced(&mut letters)?),
                    "cdot" => Token::Sign('·'),
                    "lceil" => Token::Sign('⌈'),
                    "rceil" => Token::Sign('⌉'),
                    "lfloor" => Token::Sign('⌊'),
                    "rfloor" => Token::Sign('⌋'),
                    "lg" => Token::Lg,
                    "max" => Token::Name("max".to_owned()),
                    "frac" => Token::Fraction,
                    "left" | "right" => continue,
                    _ => return Err(format!("`\\{command}` in `{formula}`")),
                });
            }
            '_' => {
                letters.next();
                let Some(Token::Name(name)) = tokens.last_mut() else {
                    return Err(format!("an index of nothing in `{formula}`"));
                };
                match letters.next() {
                    Some('1') => name.push('₁'),
                    Some('2') => name.push('₂'),
                    Some('\\') if take(&mut letters, char::is_alphabetic) == "mathrm" => {
                        name.push('_');
                        name.push_str(&braced(&mut letters)?);
                    }
                    // `_{\\mathrm{sw},2}`, of links between domains.
                    Some('{') if letters.next() == Some('\\') => {
                        take(&mut letters, char::is_alphabetic);
                        name.push('_');
                        name.push_str(&braced(&mut letters)?);
                        name.push('₂');
                        let rest: String = letters.by_ref().take(3).collect();
                        if rest != ",2}" {
                            return Err(format!("the index behind `{name}` in `{formula}`"));
                        }
                    }
                    other => return Err(format!("the index {other:?} in `{formula}`")),
                }
            }
            '+' | '(' | ')' | ',' | '^' | '{' | '}' => {
                letters.next();
                tokens.push(Token::Sign(c));
            }
            '-' => {
                letters.next();
                tokens.push(Token::Sign('−'));
            }
            _ => return Err(format!("`{c}` in `{formula}`")),
        }
    }
    Ok(tokens)
}

/// The name in `{name}`, where `\_` stands for an underscore.
fn braced(letters: &mut Letters<'_>) -> Result<String, String> {
    let open = letters.next();
    let name = take(letters, |c| c != '}').replace("\\_", "_");
    match (open, letters.next()) {
        (Some('{'), Some('}')) => Ok(name),
        _ => Err(format!("`{name}` is not braced")),
    }
}

struct Reader<'a> {
    tokens: Vec<Token>,
    next: usize,
    meaning: &'a Meaning,
}

impl Reader<'_> {
    fn all(mut self, formula: &str) -> Result<f64, String> {
        let value = self.sum().map_err(|why| format!("{why} in `{formula}`"))?;
        match self.peek() {
            None => Ok(value),
            Some(rest) => Err(format!("{rest:?} behind the end of `{formula}`")),
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn found(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.found(sign) { Ok(()) } else { Err(format!("{:?}, not `{sign}`", self.peek())) }
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut sum = self.product()?;
        loop {
            if self.found('+') {
                sum += self.product()?;
            } else if self.found('−') {
                sum -= self.product()?;
            } else {
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut product = self.power()?;
        loop {
            if self.found('·') {
                product *= self.power()?;
            } else if self.found('/') {
                product /= self.power()?;
            } else {
                return Ok(product);
            }
        }
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.atom()?;
        if self.found('^') { Ok(base.powf(self.power()?)) } else { Ok(base) }
    }

    fn atom(&mut self) -> Result<f64, String> {
        let token = self.peek().cloned().ok_or("the end")?;
        self.next += 1;
        match token {
            Token::Number(value) => Ok(value),
            Token::Name(name) if name == "max" => self.largest(),
            Token::Name(name) if self.meaning.functions.contains_key(name.as_str()) => {
                self.call(&name)
            }
            Token::Name(name) => {
                let value = self.meaning.letters.get(name.as_str());
                value.copied().ok_or_else(|| format!("the unknown letter `{name}`"))
            }
            Token::Fraction => Ok(self.atom()? / self.atom()?),
            Token::Lg => Ok(self.atom()?.log2()),
            Token::Sign('(') => self.until(')'),
            Token::Sign('{') => self.until('}'),
            // What is whole up to rounding stays.
            Token::Sign('⌈') => Ok((self.until('⌉')? - 1e-9).ceil()),
            Token::Sign('⌊') => Ok((self.until('⌋')? + 1e-9).floor()),
            Token::Sign('−') => Ok(-self.atom()?),
            Token::Sign(other) => Err(format!("`{other}` instead of a value")),
        }
    }

    fn until(&mut self, close: char) -> Result<f64, String> {
        let value = self.sum()?;
        self.expect(close)?;
        Ok(value)
    }

    fn largest(&mut self) -> Result<f64, String> {
        self.expect('(')?;
        let mut largest = self.sum()?;
        while self.found(',') {
            largest = largest.max(self.sum()?);
        }
        self.expect(')')?;
        Ok(largest)
    }

    fn call(&mut self, name: &str) -> Result<f64, String> {
        let rule = self.meaning.functions[name];
        let mut arguments = Vec::new();
        self.expect('(')?;
        loop {
            let value = self.sum()?;
            if (value - value.round()).abs() > 1e-9 {
                return Err(format!("{name} of {value}, which is not whole"));
            }
            arguments.push(value.round() as u64);
            if !self.found(',') {
                break;
            }
        }
        self.expect(')')?;
        Ok(rule(&arguments) as f64)
    }
}
