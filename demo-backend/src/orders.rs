//! Shared by the three order services: records that belong to an order and can be undone once.

use crate::records::Records;
use crate::tool_error::ToolError;

/// A record of one step of an order.
pub trait OrderRecord {
    /// The kind of record in messages.
    const KIND: &'static str;

    /// The id of the order.
    fn order_id(&self) -> &str;
}

/// Selects one record by id, or all records of an order.
#[derive(Debug, Clone, Copy)]
pub struct RecordSelector<'a> {
    /// The record's id.
    pub id: Option<&'a str>,
    /// The order's id.
    pub order_id: Option<&'a str>,
}

impl RecordSelector<'_> {
    /// The selected records. An order may have none; an unknown id is an error.
    pub fn select<T: OrderRecord>(
        self,
        records: &mut Records<T>,
    ) -> Result<Vec<&mut T>, ToolError> {
        match (self.id, self.order_id) {
            (None, None) => {
                Err(ToolError::invalid(format!("name a {} by its id or by its orderId", T::KIND)))
            }
            (None, Some(order)) => {
                Ok(records.iter_mut().filter(|record| record.order_id() == order).collect())
            }
            (Some(id), order) => {
                let record =
                    records.find_mut(id).ok_or_else(|| ToolError::not_found(T::KIND, id))?;
                match order {
                    Some(order) if order != record.order_id() => Err(ToolError::new(
                        "order_mismatch",
                        format!("{} {id:?} does not belong to order {order:?}", T::KIND),
                    )),
                    _ => Ok(vec![record]),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Record(&'static str);

    impl OrderRecord for Record {
        const KIND: &'static str = "record";

        fn order_id(&self) -> &str {
            self.0
        }
    }

    fn count(id: Option<&str>, order_id: Option<&str>) -> Result<usize, &'static str> {
        let mut records = Records::new("r");
        for order in ["a", "b", "a"] {
            records.add(|_| Record(order));
        }
        let selector = RecordSelector { id, order_id };
        selector.select(&mut records).map(|found| found.len()).map_err(|error| error.code)
    }

    #[test]
    fn shipments_are_selected_by_id_or_order() {
        assert_eq!(count(Some("r-1"), None), Ok(1));
        assert_eq!(count(None, Some("a")), Ok(2));
        assert_eq!(count(None, Some("unknown")), Ok(0));
    }

    #[test]
    fn selector_without_id_and_order_is_rejected() {
        assert_eq!(count(None, None), Err("invalid_argument"));
        assert_eq!(count(Some("r-9"), None), Err("not_found"));
        assert_eq!(count(Some("r-2"), Some("a")), Err("order_mismatch"));
    }
}
