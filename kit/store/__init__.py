"""The store of fetched inputs, by content address: `store` keeps, `fetch` and `vendor` fill it."""
