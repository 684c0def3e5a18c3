//! `GET /admin/budgets`: the budgets that this gateway spends from.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::get,
};

use crate::spending::Spending;

pub(crate) fn router(spending: Arc<Spending>) -> Router {
    Router::new().route("/admin/budgets", get(list)).with_state(spending)
}

async fn list(State(spending): State<Arc<Spending>>) -> Response {
    Json(spending.view()).into_response()
}
