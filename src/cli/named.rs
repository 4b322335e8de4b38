//! What reports call files.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A file without its folder.
pub(super) fn short(file: &str) -> String {
    Path::new(file).file_name().map_or(file.to_owned(), |n| n.to_string_lossy().into_owned())
}

/// Each file with as few of its folders as tell it from the others.
pub(super) fn apart(files: &[String]) -> Vec<String> {
    let different: HashSet<&Path> = files.iter().map(Path::new).collect();
    let mut times: HashMap<&Path, usize> = HashMap::new();
    for end in different.into_iter().flat_map(ends) {
        *times.entry(end).or_default() += 1;
    }
    let name = |file: &String| {
        let own = ends(Path::new(file)).into_iter().find(|end| times.get(end) == Some(&1));
        own.map_or(file.clone(), |end| end.to_string_lossy().into_owned())
    };
    files.iter().map(name).collect()
}

/// The ends of a path, the shortest first.
fn ends(path: &Path) -> Vec<&Path> {
    let mut parts = path.components();
    let mut ends = Vec::new();
    while !parts.as_path().as_os_str().is_empty() {
        ends.push(parts.as_path());
        parts.next();
    }
    ends.reverse();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_folders_that_tell_it_from_the_others() {
        let names =
            |files: &[&str]| apart(&files.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["a/x.log", "/b/y.log", "-"]), ["x.log", "y.log", "-"]);
        assert_eq!(names(&["n1/1/x", "n1/2/x", "/y"]), ["1/x", "2/x", "y"]);
        assert_eq!(names(&["n1/out/x", "/r/n2/out/x"]), ["n1/out/x", "n2/out/x"]);
        assert_eq!(names(&["x", "a/x"]), ["x", "a/x"]);
        assert_eq!(names(&["a/x", "a/x"]), ["x", "x"]);
        assert_eq!(names(&[]), [""; 0]);
    }
}
