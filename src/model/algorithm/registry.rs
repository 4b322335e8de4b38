//! Finding algorithms by the names that users and libraries use.

use super::{Algorithm, FAMILIES, Library};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result, did_you_mean};
use crate::model::formula::{Form, Shape};

/// A set of algorithms: the built-in ones, and those that a program adds.
#[derive(Clone)]
pub struct Registry {
    algorithms: Vec<&'static dyn Algorithm>,
    /// The same by collective, in the order of [`Collective::ALL`].
    of: Vec<Vec<&'static dyn Algorithm>>,
}

/// An algorithm with the cost that a name such as `dbt(asymptotic)` selects.
#[derive(Clone, Copy)]
pub struct Named {
    /// The algorithm.
    pub algorithm: &'static dyn Algorithm,
    /// Which of its costs.
    pub form: Form,
}

impl Default for Registry {
    fn default() -> Self {
        Self::builtin()
    }
}

impl Registry {
    /// All built-in algorithms, in the order of their families.
    #[must_use]
    pub fn builtin() -> Self {
        let none = Self { algorithms: Vec::new(), of: vec![Vec::new(); Collective::ALL.len()] };
        FAMILIES.iter().flat_map(|f| f.iter().copied()).fold(none, Self::with)
    }

    /// The same registry with one more algorithm.
    #[must_use]
    pub fn with(mut self, algorithm: &'static dyn Algorithm) -> Self {
        self.algorithms.push(algorithm);
        for &collective in algorithm.meta().collectives {
            self.of[collective as usize].push(algorithm);
        }
        self
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &'static dyn Algorithm> + '_ {
        self.algorithms.iter().copied()
    }

    /// Those that implement `collective`.
    pub fn of(&self, collective: Collective) -> impl Iterator<Item = &'static dyn Algorithm> + '_ {
        self.of[collective as usize].iter().copied()
    }

    /// The algorithm of `collective` called `name`, or the reason why there is none.
    ///
    /// All printed names are accepted, in any case: libraries' names, with or without the protocol
    /// Simple (`NVLSTree`, `Ring/Simple`), and titles (`Ring (one per rail)`). With a library before
    /// it, `nccl:Ring` is a name of that library alone.
    ///
    /// A suffix selects a form: `(paper)` is the formula as its source prints it, `(asymptotic)`
    /// its limit for large vectors. `(fold)` is accepted and changes nothing: algorithms fold on
    /// their own where the number of ranks is not a power of two.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one; a known one of another collective.
    pub fn find(&self, collective: Collective, name: &str) -> Result<Named> {
        let (library, printed) = of_library(name);
        let (plain, form) = self.split_form(collective, printed)?;
        let printed = |a: &&'static dyn Algorithm| {
            let mut known = a.meta().known_as.iter();
            known.any(|(by, of, name)| {
                library.is_none_or(|library| library == *by)
                    && of.contains(&collective)
                    && name.eq_ignore_ascii_case(plain)
            })
        };
        let called = |a: &&'static dyn Algorithm| a.meta().is_called(plain);
        let titled = |a: &&'static dyn Algorithm| a.meta().title.eq_ignore_ascii_case(plain);
        // Only now in any case: `Ring` is NCCL's, not the textbook's `ring`.
        let in_any_case = |a: &&'static dyn Algorithm| {
            let mut names = std::iter::once(&a.meta().id).chain(a.meta().aliases);
            names.any(|name| name.eq_ignore_ascii_case(plain))
        };
        let of = || self.of(collective);
        let found = match library {
            Some(_) => of().find(printed),
            None => of()
                .find(called)
                .or_else(|| of().find(printed))
                .or_else(|| of().find(titled))
                .or_else(|| of().find(in_any_case)),
        };
        if let Some(algorithm) = found {
            return Ok(Named { algorithm, form });
        }
        Err(self.not_found(collective, if library.is_some() { name } else { plain }))
    }

    /// The same for a question: a name that a library prints means the algorithm it runs for such a
    /// shape.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_for(&self, shape: &Shape, name: &str) -> Result<Named> {
        let (library, printed) = of_library(name);
        let (plain, form) = self.split_form(shape.collective, printed)?;
        let runs = |same: fn(&str, &str) -> bool| {
            self.of(shape.collective).find(|a| {
                let is = |&(by, theirs): &(Library, &str)| {
                    library.is_none_or(|library| library == by) && same(theirs, plain)
                };
                a.shipped(shape).iter().any(is) && a.applies(shape).is_ok()
            })
        };
        let by_name = self.of(shape.collective).find(|a| a.meta().is_called(plain));
        let by_name = by_name.filter(|_| library.is_none());
        // In another case only then: NCCL's `Ring` is not Open MPI's `ring`.
        let by_library = || runs(|a, b| a == b).or_else(|| runs(str::eq_ignore_ascii_case));
        match by_name.or_else(by_library) {
            Some(algorithm) => Ok(Named { algorithm, form }),
            None => self.find(shape.collective, name),
        }
    }

    /// The name and the form that it selects; a title keeps its brackets.
    fn split_form<'n>(&self, collective: Collective, name: &'n str) -> Result<(&'n str, Form)> {
        let name = name.trim();
        match self.of(collective).any(|a| a.meta().title.eq_ignore_ascii_case(name)) {
            true => Ok((name, Form::Exact)),
            false => split_form(name),
        }
    }

    fn not_found(&self, collective: Collective, name: &str) -> Error {
        if let Some(other) = self.iter().find(|a| a.meta().is_called(name)) {
            let names: Vec<_> = other.meta().collectives.iter().map(|c| c.name()).collect();
            return Error::unsupported(format!(
                "`{name}` is not an algorithm for {}, only for {}",
                collective.name(),
                names.join(", ")
            ))
            .help(self.known(collective));
        }
        let lower = name.to_ascii_lowercase();
        let names = self
            .of(collective)
            .flat_map(|a| std::iter::once(a.meta().id).chain(a.meta().aliases.iter().copied()));
        Error::input(format!("`{name}` is not an algorithm for {}", collective.name()))
            .help(did_you_mean(&lower, names, || self.known(collective)))
    }

    /// The first of the collective's names; the main command lists them all.
    fn known(&self, collective: Collective) -> String {
        const SHOWN: usize = 8;
        let ids: Vec<_> = self.of(collective).map(|a| a.meta().id).collect();
        let rest = ids.len().saturating_sub(SHOWN);
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        format!("known algorithms: {}{more}", ids[..ids.len() - rest].join(", "))
    }
}

/// `nccl:Tree` is the `Tree` of that library.
fn of_library(name: &str) -> (Option<Library>, &str) {
    let named = |(id, printed): (&str, _)| {
        Some((Library::named(&id.trim().to_ascii_lowercase())?, printed))
    };
    match name.split_once(':').and_then(named) {
        Some((library, printed)) => (Some(library), printed),
        None => (None, name),
    }
}

/// Splits `dbt(asymptotic)` into name and form, and removes the default protocol from
/// `Ring/Simple`.
fn split_form(name: &str) -> Result<(&str, Form)> {
    let Some((plain, suffix)) = name.trim().strip_suffix(')').and_then(|n| n.split_once('('))
    else {
        return match name.trim().rsplit_once('/') {
            None => Ok((name.trim(), Form::Exact)),
            Some((plain, simple)) if simple.eq_ignore_ascii_case("simple") => {
                Ok((plain, Form::Exact))
            }
            Some((plain, protocol)) => {
                Err(Error::input(format!("`{name}` is an algorithm and a protocol"))
                    .help(format!("write {plain} and --protocol {protocol}")))
            }
        };
    };
    let form = match suffix {
        "paper" => Form::Paper,
        "asymptotic" => Form::Asymptotic,
        "fold" => Form::Exact,
        other => {
            return Err(Error::input(format!("`{name}` has an unknown form `{other}`"))
                .help("write (paper), (asymptotic) or (fold)"));
        }
    };
    Ok((plain.trim_end(), form))
}
