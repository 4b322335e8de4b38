//! MPICH's selection tree as JSON, whose objects keep their order.

use crate::library::mpich::rules::{Node, Tree};

/// The text of a file with this tree. The format has no comments.
#[must_use]
pub fn mpich_json(tree: &Tree) -> String {
    let named = tree.collectives.iter();
    let entries = named.map(|(name, node, _)| (format!("collective={name}"), Object::of(node)));
    let mut text = String::new();
    Object(entries.collect()).write(&mut text, 0);
    text.push('\n');
    text
}

/// Names in their order, each with the object after it.
struct Object(Vec<(String, Self)>);

impl Object {
    fn of(node: &Node) -> Self {
        Self(match node {
            Node::Tests(branches) => {
                branches.iter().map(|b| (b.test.key(), Self::of(&b.then))).collect()
            }
            Node::Runs(leaf) => {
                let parameters = leaf.parameters.iter().map(|p| (p.clone(), Self(Vec::new())));
                vec![(format!("algorithm={}", leaf.algorithm), Self(parameters.collect()))]
            }
        })
    }

    fn write(&self, text: &mut String, depth: usize) {
        if self.0.is_empty() {
            text.push_str("{}");
            return;
        }
        let mut before = "{\n";
        for (name, inside) in &self.0 {
            text.push_str(before);
            text.push_str(&"  ".repeat(depth + 1));
            // Names are letters, digits and signs that JSON needs no escapes for.
            text.push_str(&format!("\"{name}\": "));
            inside.write(text, depth + 1);
            before = ",\n";
        }
        text.push('\n');
        text.push_str(&"  ".repeat(depth));
        text.push('}');
    }
}
