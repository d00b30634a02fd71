//! The header of a table.

use std::borrow::Cow;

use anyhow::{Result, bail};

use super::{Delimiter, csv};
use crate::config::{Header, InputOptions, Selector, Separator};

/// What takes the header of the table that `input` is, if it has all the columns that `selectors` name.
pub(crate) fn header_taker(
    input: &InputOptions,
    selectors: Vec<Selector>,
) -> impl FnOnce(usize, &[u8]) -> Result<()> + use<> {
    let table = input.separator.as_ref().and_then(Separator::table).cloned();
    let delimiter = Delimiter::of(input);
    move |skipped, bytes| {
        let Some(table) = table else { return Ok(()) };
        if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = bytes {
            bail!("the table is in UTF-16: convert it with iconv -f UTF-16 -t UTF-8");
        }
        let fields = csv::texts(delimiter.trim(bytes), table.separator());
        let names = fields.map(Cow::into_owned).collect();
        let header = Header { skipped, bytes: bytes.to_vec(), names };
        selectors.iter().try_for_each(|selector| header.check(selector))?;
        table.set_header(header);
        Ok(())
    }
}
