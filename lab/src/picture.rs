// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of an experiment's tables its plot shows, whether they have just been measured or stand in a page.

use crate::plot::Plot;
use crate::report::{Cell, Table};

/// The first of these columns that a table has: rates on a GPU, counts on a simulated one.
pub(crate) type Columns = &'static [&'static str];

/// Which columns are drawn, and how.
pub(crate) enum Picture {
    /// A bar for each row of the first table.
    Bars {
        /// How many columns, from the first one on, say what the row is.
        labels: usize,
        /// How long it is.
        value: Columns,
    },
    /// Lines over a logarithmic axis.
    Lines {
        lines: Lines,
        x: &'static str,
        y: Columns,
        /// Whether the other axis is logarithmic too.
        log: bool,
    },
    /// A field for each pair of settings in the first table.
    HeatMap {
        x: &'static str,
        y: &'static str,
        value: Columns,
    },
}

/// What a line is.
pub(crate) enum Lines {
    /// Each of the first tables, by these names.
    Tables(&'static [&'static str]),
    /// Rows of the first table that have the same in this column, behind which stands what it counts.
    By(&'static str, &'static str),
}

impl Picture {
    pub(crate) fn plot(&self, tables: &[Table]) -> Plot {
        let first = &tables[0];
        match *self {
            Picture::Bars { labels, value } => Plot::Bars {
                unit: name(first, value),
                bars: bars(first, labels, value),
            },
            Picture::Lines { ref lines, x, y, log } => Plot::Lines {
                axes: [x.to_string(), name(first, y)],
                log,
                lines: match *lines {
                    Lines::Tables(names) => {
                        let line =
                            |(name, table): (&&str, &Table)| (name.to_string(), points(&table.rows, table, x, y));
                        names.iter().zip(tables).map(line).collect()
                    }
                    Lines::By(column, counted) => lines_by(first, column, counted, x, y),
                },
            },
            Picture::HeatMap { x, y, value } => heat_map(first, x, y, value),
        }
    }
}

/// The name of the column; if there is none, what it would be.
fn name(table: &Table, columns: Columns) -> String {
    let found = columns.iter().find(|name| table.column(name).is_some());
    found.unwrap_or(&columns[0]).to_string()
}

/// The number in the row's column.
fn number(row: &[Cell], column: Option<usize>) -> Option<f64> {
    match row[column?] {
        Cell::Number(number) => Some(number),
        _ => None,
    }
}

fn bars(table: &Table, labels: usize, value: Columns) -> Vec<(String, f64)> {
    let column = table.column(&name(table, value));
    let bar = |row: &Vec<Cell>| {
        let label: Vec<String> = row[..labels].iter().map(Cell::text).collect();
        Some((label.join(", "), number(row, column)?))
    };
    table.rows.iter().filter_map(bar).collect()
}

fn points<'a>(rows: impl IntoIterator<Item = &'a Vec<Cell>>, table: &Table, x: &str, y: Columns) -> Vec<(f64, f64)> {
    let (x, y) = (table.column(x), table.column(&name(table, y)));
    rows.into_iter()
        .filter_map(|row| Some((number(row, x)?, number(row, y)?)))
        .collect()
}

fn lines_by(table: &Table, column: &str, counted: &str, x: &str, y: Columns) -> Vec<(String, Vec<(f64, f64)>)> {
    let Some(column) = table.column(column) else {
        return vec![];
    };
    let line = |label: &Cell| {
        let rows = table.rows.iter().filter(|row| row[column] == *label);
        let text = format!("{} {counted}", label.text());
        (text.trim_end().to_string(), points(rows, table, x, y))
    };
    distinct(table, column).into_iter().map(line).collect()
}

/// Rows with other things than numbers in the columns of the settings have no place in the map.
fn heat_map(table: &Table, x: &'static str, y: &'static str, value: Columns) -> Plot {
    let (across, down) = (table.column(x), table.column(y));
    let settings = |column: Option<usize>| match column {
        Some(column) => distinct(table, column)
            .into_iter()
            .filter(|cell| matches!(cell, Cell::Number(_)))
            .collect(),
        None => vec![],
    };
    let (columns, rows): (Vec<&Cell>, Vec<&Cell>) = (settings(across), settings(down));
    let unit = name(table, value);
    let values = table.column(&unit);
    let field = |right: &Cell, below: &Cell| {
        let mut rows = table.rows.iter();
        let row =
            rows.find(|row| across.is_some_and(|at| row[at] == *right) && down.is_some_and(|at| row[at] == *below));
        row.and_then(|row| number(row, values)).unwrap_or(f64::NAN)
    };
    let row = |below: &&Cell| (below.text(), columns.iter().map(|right| field(right, below)).collect());
    Plot::HeatMap {
        axes: [x.to_string(), y.to_string()],
        columns: columns.iter().map(|cell| cell.text()).collect(),
        rows: rows.iter().map(row).collect(),
        unit,
    }
}

/// The different cells of a column, in the order in which they come.
fn distinct(table: &Table, column: usize) -> Vec<&Cell> {
    let mut cells: Vec<&Cell> = Vec::new();
    for row in &table.rows {
        if !cells.contains(&&row[column]) {
            cells.push(&row[column]);
        }
    }
    cells
}
