//! Joins two tables by a column of text: which product does each order mean? Q-grams forgive typing errors.

use simjoin::{Text, Tokenizer};

struct Product {
    number: u32,
    name: &'static str,
}

pub(crate) fn main() -> simjoin::Result<()> {
    let products = [
        Product { number: 17, name: "running shoe red" },
        Product { number: 25, name: "straw hat" },
        Product { number: 31, name: "woollen scarf" },
    ];
    let orders = ["runing shoe, red", "wollen scarf", "umbrella"];
    let grams = Tokenizer::Qgrams(3);
    let left = Text::new(products.iter().map(|product| product.name)).tokens(grams);
    let right = Text::new(orders).tokens(grams);
    let mut pairs = simjoin::join(&left, &right).jaccard(0.6).collect()?;
    pairs.sort_by_key(|pair| pair.right);
    for pair in &pairs {
        let Product { number, name } = products[pair.left as usize];
        println!("{:<18} is product {number}, {name}", orders[pair.right as usize]);
    }
    assert_eq!(pairs.len(), 2);
    Ok(())
}
