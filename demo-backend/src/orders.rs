//! What the three order services share: records that belong to an order and can be undone once.

use crate::refusal::Refusal;
use crate::shelf::Shelf;

/// A record that one step of an order made.
pub trait OrderRecord {
    /// What it is, for messages.
    const KIND: &'static str;

    /// The order it belongs to.
    fn order_id(&self) -> &str;
}

/// Which records a caller means: one by its id, or all of an order.
#[derive(Debug, Clone, Copy)]
pub struct Which<'a> {
    /// The record's id.
    pub id: Option<&'a str>,
    /// The order's id.
    pub order_id: Option<&'a str>,
}

impl Which<'_> {
    /// The records that are meant. An order without records has none; an unknown id is refused.
    pub fn select<T: OrderRecord>(self, records: &mut Shelf<T>) -> Result<Vec<&mut T>, Refusal> {
        match (self.id, self.order_id) {
            (None, None) => {
                Err(Refusal::invalid(format!("name a {} by its id or by its orderId", T::KIND)))
            }
            (None, Some(order)) => {
                Ok(records.iter_mut().filter(|record| record.order_id() == order).collect())
            }
            (Some(id), order) => {
                let record = records.find_mut(id).ok_or_else(|| Refusal::not_found(T::KIND, id))?;
                match order {
                    Some(order) if order != record.order_id() => Err(Refusal::new(
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
        let mut shelf = Shelf::new("r");
        for order in ["a", "b", "a"] {
            shelf.add(|_| Record(order));
        }
        let which = Which { id, order_id };
        which.select(&mut shelf).map(|found| found.len()).map_err(|refusal| refusal.code)
    }

    #[test]
    fn selects_one_by_id_or_all_of_an_order() {
        assert_eq!(count(Some("r-1"), None), Ok(1));
        assert_eq!(count(None, Some("a")), Ok(2));
        assert_eq!(count(None, Some("nobody")), Ok(0));
    }

    #[test]
    fn refuses_what_names_nothing() {
        assert_eq!(count(None, None), Err("invalid_argument"));
        assert_eq!(count(Some("r-9"), None), Err("not_found"));
        assert_eq!(count(Some("r-2"), Some("a")), Err("order_mismatch"));
    }
}
