//! Things side by side, each as near to where it wishes to be as the others let it.

/// A thing with a width and the place it wishes its middle to be at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) width: f64,
    pub(super) wish: f64,
}

/// The middles of the items, in order and without overlap, with the least sum of squared distances
/// from their wishes.
///
/// Source: pool adjacent violators (Ayer and others, 1955) on the wishes less the room that the
/// items before need.
pub(super) fn place_items(items: &[Item]) -> Vec<f64> {
    let mut offsets = Vec::with_capacity(items.len());
    let mut offset = 0.0;
    let mut before = 0.0;
    for item in items {
        offset += (before + item.width) / 2.0;
        before = item.width;
        offsets.push(offset);
    }
    // Each pool is a sum of wishes and how many there are.
    let mut pools: Vec<(f64, u32)> = Vec::new();
    for (item, offset) in items.iter().zip(&offsets) {
        pools.push((item.wish - offset, 1));
        while let [.., left, right] = pools.as_slice()
            && left.0 / f64::from(left.1) > right.0 / f64::from(right.1)
        {
            let merged = (left.0 + right.0, left.1 + right.1);
            pools.truncate(pools.len() - 2);
            pools.push(merged);
        }
    }
    let starts = pools
        .into_iter()
        .flat_map(|(sum, count)| std::iter::repeat_n(sum / f64::from(count), count as usize));
    starts.zip(offsets).map(|(start, offset)| start + offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(width: f64, wish: f64) -> Item {
        Item { width, wish }
    }

    #[test]
    fn those_that_do_not_touch_get_their_wish() {
        assert_eq!(place_items(&[item(10.0, 0.0), item(10.0, 50.0)]), [0.0, 50.0]);
        assert_eq!(place_items(&[]), [0.0; 0]);
    }

    #[test]
    fn those_that_would_overlap_share_the_way() {
        assert_eq!(place_items(&[item(10.0, 0.0), item(10.0, 0.0)]), [-5.0, 5.0]);
        let three = place_items(&[item(10.0, 20.0), item(20.0, 0.0), item(10.0, 100.0)]);
        assert_eq!(three, [2.5, 17.5, 100.0], "in their order, whatever they wish");
    }
}
