//! Reads tables of an SQLite database page by page.
//!
//! A profiler's export has plain tables, so this only walks their trees: no indexes, no queries, no
//! journals. Each page is visited once; a tree that leads back to a visited page is damaged.
//!
//! Source: sqlite.org/fileformat2.html.

use std::io::SeekFrom;

use super::SeekRead;
use super::json::Fault;

/// The first bytes of a database.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
/// Longer rows are skipped.
const LONGEST: u64 = 1 << 24;

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Int(i64),
    Real(f64),
    Text(&'a str),
    /// Bytes, or invalid text.
    Blob,
}

impl<'a> Value<'a> {
    pub fn int(self) -> Option<i64> {
        match self {
            Self::Int(i) => Some(i),
            _ => None,
        }
    }

    pub fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A table: where its tree begins, and its columns in order.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub name: String,
    root: u32,
    columns: Vec<String>,
    /// The column that is the row's number, which is not stored.
    number: Option<usize>,
}

impl Table {
    /// The index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.eq_ignore_ascii_case(name))
    }
}

/// A row.
pub(super) struct Row<'a> {
    values: &'a [Value<'a>],
    table: &'a Table,
    number: i64,
}

impl<'a> Row<'a> {
    /// The value of a column; null if the table has no such column.
    pub fn get(&self, column: Option<usize>) -> Value<'a> {
        match column {
            Some(column) if self.table.number == Some(column) => Value::Int(self.number),
            Some(column) => self.values.get(column).copied().unwrap_or(Value::Null),
            None => Value::Null,
        }
    }
}

/// A database.
pub(super) struct Database<'a> {
    file: Box<dyn SeekRead + 'a>,
    at: u64,
    page: usize,
    usable: usize,
    pages: u32,
    pub tables: Vec<Table>,
}

fn damaged(what: &str) -> Fault {
    Fault::Refused(format!("the database is damaged: {what}"), "export the report again")
}

fn whole(bytes: &[u8], at: usize, count: usize) -> Result<usize, Fault> {
    let part = bytes.get(at..at + count).ok_or_else(|| damaged("a page ends too early"))?;
    Ok(part.iter().fold(0, |sum, b| sum << 8 | usize::from(*b)))
}

/// An integer of one to nine bytes, and its length.
fn varint(bytes: &[u8]) -> Result<(u64, usize), Fault> {
    let mut sum = 0_u64;
    for (i, &byte) in bytes.iter().take(9).enumerate() {
        if i == 8 {
            return Ok((sum << 8 | u64::from(byte), 9));
        }
        sum = sum << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Ok((sum, i + 1));
        }
    }
    Err(damaged("a number ends too early"))
}

impl<'a> Database<'a> {
    pub fn open(mut file: Box<dyn SeekRead + 'a>) -> Result<Self, Fault> {
        let length = file.seek(SeekFrom::End(0))?;
        let mut head = [0; 100];
        file.rewind()?;
        if length < 512 {
            return Err(damaged("it has no page"));
        }
        file.read_exact(&mut head)?;
        if !head.starts_with(MAGIC) {
            return Err(damaged("its header is wrong"));
        }
        let page = match whole(&head, 16, 2)? {
            1 => 65_536,
            size if size.is_power_of_two() && size >= 512 => size,
            _ => return Err(damaged("its page size is invalid")),
        };
        let usable = page - usize::from(head[20]);
        if usable < 480 {
            return Err(damaged("its pages have no usable space"));
        }
        if whole(&head, 56, 4)? > 1 {
            return Err(Fault::Refused(
                "the database's text is UTF-16".to_owned(),
                "export the report again with nsys",
            ));
        }
        let pages = u32::try_from(length / page as u64).unwrap_or(u32::MAX);
        let mut database = Self { file, at: 100, page, usable, pages, tables: Vec::new() };
        database.schema()?;
        Ok(database)
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<Table> {
        self.tables.iter().find(|t| t.name == name).cloned()
    }

    fn schema(&mut self) -> Result<(), Fault> {
        let columns = ["type", "name", "tbl_name", "rootpage", "sql"].map(str::to_owned).to_vec();
        let schema = Table { name: "sqlite_schema".to_owned(), root: 1, columns, number: None };
        let mut tables = Vec::new();
        self.rows(&schema, |row| {
            let text = |column| row.get(Some(column)).text();
            let root = row.get(Some(3)).int().and_then(|r| u32::try_from(r).ok());
            if let (Some("table"), Some(name), Some(root), Some(sql)) =
                (text(0), text(1), root, text(4))
            {
                // Such a table is a different kind of tree.
                if !sql.to_ascii_uppercase().contains("WITHOUT ROWID") {
                    let (columns, number) = columns_of(sql);
                    tables.push(Table { name: name.to_owned(), root, columns, number });
                }
            }
            Ok(())
        })?;
        self.tables = tables;
        Ok(())
    }

    fn read(&mut self, page: u32, into: &mut Vec<u8>) -> Result<(), Fault> {
        if page == 0 || page > self.pages {
            return Err(damaged("it refers to a page that is not there"));
        }
        let place = u64::from(page - 1) * self.page as u64;
        // The buffer is kept if the next page follows.
        self.file.seek_relative(place as i64 - self.at as i64)?;
        into.resize(self.page, 0);
        self.file.read_exact(into)?;
        self.at = place + self.page as u64;
        Ok(())
    }

    /// Calls `each` with every row of a table.
    pub fn rows(
        &mut self,
        table: &Table,
        mut each: impl FnMut(&Row) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut open = vec![table.root];
        let mut looked = 0_u32;
        let (mut page, mut payload) = (Vec::new(), Vec::new());
        while let Some(number) = open.pop() {
            looked += 1;
            if looked > self.pages || open.len() > self.pages as usize {
                return Err(damaged("a tree leads back to itself"));
            }
            self.read(number, &mut page)?;
            let head = if number == 1 { 100 } else { 0 };
            let cells = whole(&page, head + 3, 2)?;
            let inner = match page[head] {
                0x0d => false,
                0x05 => true,
                _ => return Err(damaged("a page of a table is invalid")),
            };
            let first = head + if inner { 12 } else { 8 };
            if inner {
                open.push(whole(&page, head + 8, 4)? as u32);
                for i in (0..cells).rev() {
                    let cell = whole(&page, first + 2 * i, 2)?;
                    open.push(whole(&page, cell, 4)? as u32);
                }
                continue;
            }
            for i in 0..cells {
                let cell = whole(&page, first + 2 * i, 2)?;
                let rest = page.get(cell..).ok_or_else(|| damaged("a row is outside its page"))?;
                let (length, a) = varint(rest)?;
                let (row, b) = varint(&rest[a..])?;
                if length > LONGEST {
                    continue;
                }
                self.payload(&rest[a + b..], length as usize, &mut payload)?;
                record(&payload, table, row as i64, &mut each)?;
            }
        }
        Ok(())
    }

    /// The bytes of a row; long rows continue in other pages.
    fn payload(&mut self, local: &[u8], length: usize, into: &mut Vec<u8>) -> Result<(), Fault> {
        into.clear();
        let most = self.usable - 35;
        let kept = if length <= most {
            length
        } else {
            let least = (self.usable - 12) * 32 / 255 - 23;
            let fitting = least + (length - least) % (self.usable - 4);
            if fitting <= most { fitting } else { least }
        };
        into.extend_from_slice(local.get(..kept).ok_or_else(|| damaged("a row is cut off"))?);
        let mut next = if kept < length { whole(local, kept, 4)? as u32 } else { 0 };
        let mut page = Vec::new();
        while into.len() < length {
            self.read(next, &mut page)?;
            next = whole(&page, 0, 4)? as u32;
            let part = (length - into.len()).min(self.usable - 4);
            into.extend_from_slice(&page[4..4 + part]);
        }
        Ok(())
    }
}

/// An export has no more columns.
const COLUMNS: usize = 64;

fn record(
    payload: &[u8],
    table: &Table,
    number: i64,
    each: &mut impl FnMut(&Row) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (length, mut at) = varint(payload)?;
    let head = usize::try_from(length).ok().filter(|&h| h <= payload.len());
    let head = head.ok_or_else(|| damaged("a row's header is longer than the row"))?;
    let (mut values, mut count, mut body) = ([Value::Null; COLUMNS], 0, head);
    while at < head && count < COLUMNS {
        let (kind, used) = varint(&payload[at..])?;
        at += used;
        let (value, length) = value(kind, payload.get(body..).unwrap_or_default())?;
        (values[count], count, body) = (value, count + 1, body + length);
    }
    each(&Row { values: &values[..count], table, number })
}

/// A value of a kind, and its number of bytes.
fn value(kind: u64, bytes: &[u8]) -> Result<(Value<'_>, usize), Fault> {
    let part = |count: usize| bytes.get(..count).ok_or_else(|| damaged("a value is cut off"));
    let int = |count: usize| -> Result<(Value<'_>, usize), Fault> {
        let sum = part(count)?.iter().fold(0_u64, |sum, b| sum << 8 | u64::from(*b));
        let shift = 64 - 8 * count as u32;
        Ok((Value::Int(((sum << shift) as i64) >> shift), count))
    };
    match kind {
        0 => Ok((Value::Null, 0)),
        1..=4 => int(kind as usize),
        5 => int(6),
        6 => int(8),
        7 => {
            let sum = part(8)?.iter().fold(0_u64, |sum, b| sum << 8 | u64::from(*b));
            Ok((Value::Real(f64::from_bits(sum)), 8))
        }
        8 => Ok((Value::Int(0), 0)),
        9 => Ok((Value::Int(1), 0)),
        10 | 11 => Err(damaged("a value has a reserved type")),
        _ => {
            let count =
                usize::try_from((kind - 12) / 2).map_err(|_| damaged("a value is cut off"))?;
            let text = std::str::from_utf8(part(count)?).ok().filter(|_| kind % 2 == 1);
            Ok((text.map_or(Value::Blob, Value::Text), count))
        }
    }
}

/// The columns of `CREATE TABLE`, and the one that is the row's number.
fn columns_of(sql: &str) -> (Vec<String>, Option<usize>) {
    let inside = sql.split_once('(').map_or("", |(_, rest)| rest);
    let (mut depth, mut parts, mut part) = (0, Vec::new(), String::new());
    for c in inside.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => break,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    parts.push(part);
    let (mut names, mut number) = (Vec::new(), None);
    for part in &parts {
        let upper = part.to_ascii_uppercase();
        let mut words = upper.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        if matches!(first, "PRIMARY" | "FOREIGN" | "UNIQUE" | "CHECK" | "CONSTRAINT") {
            continue;
        }
        if words.next() == Some("INTEGER") && upper.contains("PRIMARY KEY") {
            number = Some(names.len());
        }
        let name = part.split_ascii_whitespace().next().unwrap_or("");
        names.push(name.trim_matches(['"', '`', '[', ']']).to_owned());
    }
    (names, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_numbers_are_read() {
        let (names, number) = columns_of(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, \"end\" INT CHECK(x IN (1, 2)), FOREIGN KEY(a) REFERENCES b(c))",
        );
        assert_eq!((names.join(" "), number), ("id end".to_owned(), Some(0)));
        assert_eq!(varint(&[0x81, 0x00]).unwrap(), (128, 2));
        assert_eq!(varint(&[0xff; 9]).unwrap(), (u64::MAX, 9));
        assert!(varint(&[0xff; 3]).is_err());
        assert_eq!(value(2, &[0xff, 0xfe]).unwrap(), (Value::Int(-2), 2));
        assert_eq!(value(15, b"x").unwrap(), (Value::Text("x"), 1));
        assert!(value(17, b"x").is_err());
    }

    #[test]
    fn damage_is_refused() {
        let open = |bytes: Vec<u8>| match Database::open(Box::new(std::io::Cursor::new(bytes))) {
            Err(Fault::Refused(what, _)) => what,
            Err(other) => format!("{other:?}"),
            Ok(_) => "fine".to_owned(),
        };
        let mut file = vec![0_u8; 1024];
        file[..16].copy_from_slice(MAGIC);
        (file[16], file[17]) = (2, 0);
        assert!(open(file.clone()).contains("a page of a table is invalid"));
        // A tree whose only page is its own child.
        file[100] = 5;
        file[108..112].copy_from_slice(&1_u32.to_be_bytes());
        assert!(open(file.clone()).contains("leads back"));
        file[108..112].copy_from_slice(&99_u32.to_be_bytes());
        assert!(open(file.clone()).contains("not there"));
        assert!(open(file[..64].to_vec()).contains("no page"));
    }
}
