// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment found: tables, a plot, and what is seen in them.

use serde_json::{Map, Value, json};

/// A table's cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, of the column's unit.
    Number(f64),
    /// What was not measured.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Self::Number(number as f64)
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Empty, Self::Number)
    }
}

impl Cell {
    /// As a table shows it.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => figures(*number),
            Self::Empty => "–".into(),
        }
    }

    /// What a table shows so.
    fn of_text(text: &str) -> Self {
        match text.parse() {
            Ok(number) => Self::Number(number),
            Err(_) if text == "–" => Self::Empty,
            Err(_) => Self::Text(text.into()),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number(number) => json!(number),
            Self::Empty => Value::Null,
        }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// What its rows are of.
    pub title: String,
    /// The columns' names, with units.
    pub columns: Vec<String>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The place of the column of that name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The tables of a page that the text of a report, or a part of it, was copied to. The last line of words ahead of a
    /// table is its title.
    pub fn of_page(page: &str) -> Vec<Self> {
        let mut tables: Vec<Self> = Vec::new();
        let (mut title, mut inside) = ("", false);
        for line in page.lines().map(str::trim) {
            let cells = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
            let cells = cells.map(|line| line.split('|').map(str::trim));
            match (cells, tables.last_mut().filter(|_| inside)) {
                (None, _) if line.is_empty() => {}
                (None, _) => title = line,
                (Some(cells), Some(table)) => {
                    if !line.trim_matches(['|', '-', ':']).is_empty() {
                        table.rows.push(cells.map(Cell::of_text).collect());
                    }
                }
                (Some(names), None) => tables.push(Self {
                    title: title.into(),
                    columns: names.map(String::from).collect(),
                    rows: vec![],
                }),
            }
            inside = line.starts_with('|');
        }
        tables
    }
}

/// What an experiment found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The numbers.
    pub tables: Vec<Table>,
    /// What is seen in them and why, of these numbers, a line each.
    pub lines: Vec<String>,
}

impl Report {
    /// The tables and lines as JSON: of each table an object for each row, with the columns' names.
    pub fn to_json(&self) -> Value {
        let row = |table: &Table, row: &Vec<Cell>| -> Value {
            let cells = table.columns.iter().zip(row);
            let cells = cells.map(|(name, cell)| (name.clone(), cell.to_json()));
            cells.collect::<Map<_, _>>().into()
        };
        let table = |table: &Table| {
            let rows: Vec<Value> = table.rows.iter().map(|cells| row(table, cells)).collect();
            json!({ "title": table.title, "rows": rows })
        };
        let tables: Vec<Value> = self.tables.iter().map(table).collect();
        json!({ "tables": tables, "explanation": self.lines })
    }
}

/// The number with four significant digits at least; integers as they are, and what is smaller than a ten thousandth by a
/// power of ten.
pub fn figures(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e15 {
        return format!("{x}");
    }
    if x.abs() < 1e-4 {
        return format!("{x:.3e}");
    }
    let decimals = (3.0 - x.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{x:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let texts = [3812.34, 96.2817, 0.001_234_6, -2.5, 0.0, 1e8, 5.1234e-8].map(figures);
        assert_eq!(
            texts,
            ["3812", "96.28", "0.001235", "-2.500", "0", "100000000", "5.123e-8"]
        );
    }

    #[test]
    fn rows_are_objects() {
        let table = Table {
            title: "a table".into(),
            columns: ["step", "time, µs", "GB/s"].map(String::from).to_vec(),
            rows: vec![vec!["naive".into(), 2.5.into(), Cell::Empty]],
        };
        let report = Report {
            tables: vec![table],
            lines: vec!["slow".into()],
        };
        let wanted = json!({
            "tables": [{ "title": "a table", "rows": [{ "step": "naive", "time, µs": 2.5, "GB/s": null }] }],
            "explanation": ["slow"],
        });
        assert_eq!(report.to_json(), wanted);
    }

    #[test]
    fn tables_of_pages_are_read() {
        let page = "Measured.\n\nof steps\n\n| step  |  GB/s |\n|-------|-------|\n| naive | 415.4 |\n| none  |     – |\n\n\
                    of strides\n\n| stride |\n|--------|\n|      1 |\n\nIt is so.\n";
        let tables = Table::of_page(page);
        let [steps, strides] = &tables[..] else {
            panic!("{tables:?}");
        };
        assert_eq!((&*steps.title, &*strides.title), ("of steps", "of strides"));
        assert_eq!(steps.columns, ["step", "GB/s"]);
        assert_eq!(steps.rows[0], [Cell::from("naive"), Cell::Number(415.4)]);
        assert_eq!(steps.rows[1], [Cell::from("none"), Cell::Empty]);
        assert_eq!(strides.rows, [[Cell::Number(1.0)]]);
        assert_eq!((steps.column("GB/s"), strides.column("GB/s")), (Some(1), None));
    }
}
